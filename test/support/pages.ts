/**
 * The pages that people read, README.md and docs/*.md, taken apart: fenced blocks with their info strings, tables, and
 * the command lines in them. A block's info string is its language (for GitHub), then what a test does with it: `run`,
 * `check` or nothing (`illustration`). Parsing only; what is done with a block is in `test/docs/`.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { REPO } from './flowdrop.ts';

export interface Block {
  /** Path in the repository. */
  readonly page: string;
  readonly line: number;
  /** The heading that it is below, without its marks. */
  readonly heading: string;
  readonly info: string;
  readonly text: string;
}

export const PAGES: readonly string[] = [
  'README.md',
  ...readdirSync(join(REPO, 'docs'))
    .filter((name) => name.endsWith('.md'))
    .sort()
    .map((name) => `docs/${name}`),
];

export function readPage(page: string): string {
  return readFileSync(join(REPO, page), 'utf8');
}

/** @throws when a fence is not closed */
export function listBlocks(page: string): readonly Block[] {
  const blocks: Block[] = [];
  let open: { readonly line: number; readonly info: string; readonly text: string[] } | undefined;
  let heading = '';
  for (const [index, text] of readPage(page).split('\n').entries()) {
    const fence = /^\s*(?:```|~~~)(.*)$/.exec(text);
    if (!fence) {
      open?.text.push(text);
      if (!open) heading = /^#+ (.*)$/.exec(text)?.[1] ?? heading;
      continue;
    }
    if (open) blocks.push({ page, line: open.line, heading, info: open.info, text: `${open.text.join('\n')}\n` });
    open = open ? undefined : { line: index + 1, info: (fence[1] ?? '').trim(), text: [] };
  }
  if (open) throw new Error(`${page}:${open.line}: a block that does not end`);
  return blocks;
}

/** Blocks of all pages with an info string, by page and line. */
export function findSnippets(info: string): readonly (readonly [where: string, text: string])[] {
  const found = PAGES.flatMap(listBlocks).filter((block) => block.info === info);
  return found.map(({ page, line, text }) => [`${page}:${line}`, text]);
}

/** The statements of a block of SQL, without comments. */
export function splitStatements(text: string): readonly string[] {
  const bare = text.replaceAll(/--.*$/gm, '');
  return bare.split(/;\s*(?:\n|$)/).filter((statement) => statement.trim() !== '');
}

/** Section below a heading of the second level, up to the next one. @throws when there is none */
export function readSection(page: string, heading: string): string {
  const section = readPage(page).split(`\n## ${heading}\n`)[1];
  if (section === undefined) throw new Error(`${page} has no section "${heading}"`);
  return section.split('\n## ')[0] ?? '';
}

/** Cells of every row of the tables in a text whose first cell begins with a code mark. */
export function listRows(text: string): readonly (readonly string[])[] {
  const rows = text.split('\n').filter((line) => line.startsWith('| `'));
  // A bar inside a cell is written `\|`.
  return rows.map((row) =>
    row
      .split(/(?<!\\)\|/)
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
}

/** Items of lists that begin with a code mark and a colon, `- \`name\`: text`, or with marks between: the code and the rest. */
export function listItems(text: string): readonly (readonly [code: string, text: string])[] {
  return [...text.matchAll(/^- `([^`]+)`((?: \(|:).*)$/gm)].map(([, code = '', rest = '']) => [code, rest]);
}

/** What is in code marks in a cell. */
export function listCodes(cell: string): readonly string[] {
  return [...cell.matchAll(/`([^`]+)`/g)].map(([, code = '']) => code);
}

/** The arguments of each `flowdrop ...` in shell text; comments, quotes, pipes, redirections and leading assignments are understood. */
export function listCommands(text: string): readonly (readonly string[])[] {
  return text
    .replaceAll('\\\n', ' ')
    .split('\n')
    .flatMap((line) => splitCommands(line))
    .flatMap((words) => {
      const at = words.findIndex((word) => !/^([A-Z_]+=.*|npx|sudo|exec)$/.test(word));
      return words[at] === 'flowdrop' ? [words.slice(at + 1)] : [];
    });
}

function splitCommands(line: string): readonly (readonly string[])[] {
  const commands: string[][] = [[]];
  for (const [word] of line.matchAll(/(?:"[^"]*"|'[^']*'|[^\s"'])+/g)) {
    if (word.startsWith('#') || /^\d?[<>]/.test(word.replace(/^<\(/, ''))) break;
    if (/^(&&|\|\|?|;)$/.test(word)) commands.push([]);
    else commands.at(-1)?.push(word.replace(/^<\(|\)$/g, '').replaceAll(/["']/g, ''));
  }
  return commands;
}
