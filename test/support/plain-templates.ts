/** The shipped templates, but for the HTML of mails, which is a line: most of a mail's cost is layout and charts. */
import { cp, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const SHIPPED = fileURLToPath(new URL('../../templates', import.meta.url));
const PLAIN =
  '<mjml><mj-body><mj-section><mj-column><mj-text>plain</mj-text></mj-column></mj-section></mj-body></mjml>';

/** For tests in which it counts who gets which mail when. @returns the folder */
export async function makePlainTemplates(folder: string): Promise<string> {
  await cp(SHIPPED, folder, { recursive: true });
  for (const name of ['flow', 'digest', 'weekly', 'alert']) await writeFile(join(folder, `${name}.mjml`), PLAIN);
  return folder;
}
