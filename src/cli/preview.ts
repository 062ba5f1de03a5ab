/** A rendered report as files that open in a browser: HTML with its pictures, and the text part. */
import { join, resolve } from 'node:path';
import { writeFileAtomic } from '../core/atomic-file.ts';
import type { RenderedReport } from '../report/render.ts';

/** @returns the paths written */
export async function writePreview(
  cwd: string,
  folder: string,
  name: string,
  preview: { readonly rendered: RenderedReport },
): Promise<readonly string[]> {
  const { rendered } = preview;
  const at = (file: string) => join(resolve(cwd, folder), file);
  const written: string[] = [];
  const write = async (file: string, content: string | Uint8Array) => {
    await writeFileAtomic(at(file), content);
    written.push(at(file));
  };
  let { html } = rendered;
  for (const image of rendered.images) {
    html = html.replaceAll(`cid:${image.cid}`, `${name}-${image.filename}`);
    await write(`${name}-${image.filename}`, image.png);
  }
  await write(`${name}.html`, html);
  await write(`${name}.txt`, `Subject: ${rendered.subject}\n\n${rendered.text}`);
  return written;
}
