/** Turns a mail's HTML into a page that opens in a browser, for the outbox and for previews. Pure. */
import type { InlineImage } from './mailer.ts';

const CID_REFERENCE = /cid:([^"'\s)>&]+)/g;

/** Embeds the `cid:` images in the page, so that one file shows everything without a mail program. */
export function embedImages(html: string, images: readonly InlineImage[]): string {
  const byCid = new Map(images.map((image) => [image.cid, image]));
  return html.replace(CID_REFERENCE, (reference, cid: string) => {
    const image = byCid.get(cid);
    return image === undefined ? reference : `data:image/png;base64,${Buffer.from(image.png).toString('base64')}`;
  });
}
