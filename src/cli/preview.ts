/** A rendered report as files: one HTML page that opens in a browser with its pictures, and the text part. */
import { join, resolve } from 'node:path';
import { writeFileAtomic } from '../core/atomic-file.ts';
import { embedImages } from '../mail/page.ts';
import type { RenderedReport } from '../report/render.ts';

/** @returns the paths written */
export async function writePreview(
  cwd: string,
  folder: string,
  name: string,
  { html, text, subject, images }: RenderedReport,
): Promise<readonly string[]> {
  const path = join(resolve(cwd, folder), name);
  await writeFileAtomic(`${path}.html`, embedImages(html, images));
  await writeFileAtomic(`${path}.txt`, `Subject: ${subject}\n\n${text}`);
  return [`${path}.html`, `${path}.txt`];
}
