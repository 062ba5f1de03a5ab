/** A mail's HTML as a page that opens in a browser, for the outbox and for previews. Pure. */
import type { InlineImage } from './mailer.ts';

const CID_REFERENCE = /cid:([^"'\s)>&]+)/g;

/** The page with its `cid:` pictures written into it, so that one file shows everything without a mail program. */
export function embedImages(html: string, images: readonly InlineImage[]): string {
  const byCid = new Map(images.map((image) => [image.cid, image]));
  return html.replace(CID_REFERENCE, (reference, cid: string) => {
    const image = byCid.get(cid);
    return image === undefined ? reference : `data:image/png;base64,${Buffer.from(image.png).toString('base64')}`;
  });
}
