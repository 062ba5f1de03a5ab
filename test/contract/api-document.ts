/**
 * The specification's rows, read from its Markdown: each row of a table, each numbered rule, each point of a list, and each
 * paragraph that leaves something open ("not shown"), by the headings above it. It is not part of the repository. Pure but for reading the file.
 */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { REPO } from '../support/flowdrop.ts';

const FILE = join(REPO, '..', 'shared', 'api', 'options-data-api.md');
export const hasDocument = existsSync(FILE);
if (!hasDocument) console.warn(`\n*** THE ROWS ARE NOT COMPARED WITH THE SPECIFICATION: there is no ${FILE}\n`);

export interface DocumentRow {
  /** Headings of the second and third level, joined by ` > `. */
  readonly section: string;
  /** A table row's cells, joined by ` | `, or the line of a rule or point. */
  readonly row: string;
}

export function readDocument(): readonly DocumentRow[] {
  const lines = readFileSync(FILE, 'utf8').split('\n');
  const rows: DocumentRow[] = [];
  let headings: readonly string[] = [];
  for (const [index, line] of lines.entries()) {
    const heading = /^(##|###) (.*)$/.exec(line);
    if (heading) headings = heading[1] === '##' ? [heading[2] ?? ''] : [headings[0] ?? '', heading[2] ?? ''];
    const row = readRow(line, lines[index + 1] ?? '');
    if (row !== undefined) rows.push({ section: headings.join(' > '), row });
  }
  return rows;
}

function readRow(line: string, next: string): string | undefined {
  if (/^(\d+\.|-) /.test(line)) return line.trim();
  if (!line.startsWith('|') && line.includes('not shown')) return line.trim();
  // A line of dashes is below the names of the columns; neither says anything of the interface.
  if (!line.startsWith('|') || isDashes(line) || isDashes(next)) return undefined;
  const cells = line.trim().slice(1, -1).split('|');
  return cells.map((cell) => cell.trim()).join(' | ');
}

function isDashes(line: string): boolean {
  return /^\|[\s|:-]+\|\s*$/.test(line) && line.includes('-');
}
