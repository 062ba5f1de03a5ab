/** A report as files: one HTML page that opens in a browser with its pictures, the text part, the message, its attachments. */
import { join, resolve } from 'node:path';
import { writeFileAtomic } from '../core/atomic-file.ts';
import type { Edition } from '../deliver/mailed-report.ts';
import { embedImages } from '../mail/page.ts';

/** @returns the paths written */
export async function writePreview(
  cwd: string,
  folder: string,
  name: string,
  { rendered, attachments, eml }: Edition & { readonly eml: Uint8Array },
): Promise<readonly string[]> {
  const path = join(resolve(cwd, folder), name);
  const { html, text, subject, images } = rendered;
  const files: readonly (readonly [string, string | Uint8Array])[] = [
    [`${path}.html`, embedImages(html, images)],
    [`${path}.txt`, `Subject: ${subject}\n\n${text}`],
    [`${path}.eml`, eml],
    ...attachments.map(({ filename, bytes }) => [`${path}-${filename}`, bytes] as const),
  ];
  for (const [file, content] of files) await writeFileAtomic(file, content);
  return files.map(([file]) => file);
}
