/**
 * Where the answer of `flowdrop query` goes, and in which format. Invariant: a file named by --out is complete or
 * absent, and an existing one is replaced only with --force; binary data never reaches a terminal.
 */
import { randomBytes } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { link, open, readFile, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, extname, join, resolve } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { isBinary, MAX_TABLE_ROWS, type OutputFormat } from '../../archive/output-format.ts';
import { hasErrorCode, syncFolder } from '../../core/atomic-file.ts';
import { describeError, Fault } from '../../core/errors.ts';
import { formatCount } from '../../core/units.ts';
import type { Call } from '../commands.ts';
import type { CliContext } from '../context.ts';
import { formatTable, type TableColumn } from '../terminal/text-table.ts';
import { measureWidth } from '../terminal/text-width.ts';

export interface Output {
  readonly format: OutputFormat;
  /** Where the answer must be written before delivery; `undefined`: anywhere. */
  readonly temporary: string | undefined;
  /** @param path of the written answer @param describe returns its document, for `--json` */
  deliver(path: string, describe: () => object): Promise<void>;
}

type OutputCli = Pick<CliContext, 'cwd' | 'signal' | 'terminal'>;

const BY_EXTENSION: Readonly<Record<string, OutputFormat>> = {
  '.json': 'json',
  '.csv': 'csv',
  '.arrow': 'arrow',
  '.feather': 'arrow',
  '.parquet': 'parquet',
  '.txt': 'table',
};

/** @throws Fault `USAGE`, `OUT_EXISTS`, `OUT_FOLDER_MISSING`, `OUT_FAILED` (all usage) */
export async function chooseOutput(
  cli: OutputCli,
  { format: asked, out, force = false, vertical = false }: Call<'query'>['options'],
  json: boolean,
): Promise<Output> {
  if (vertical && asked !== undefined && asked !== 'table')
    throw usage(`--vertical and --format ${asked} contradict each other`, 'Leave one of them out.');
  const format = vertical ? 'table' : asked;
  if (vertical && json) throw usage('--vertical and --json contradict each other', 'Leave one of them out.');
  const layOut = vertical ? formatVertical : formatTable;
  if (out !== undefined) {
    const path = resolve(cli.cwd, out);
    const chosen = format ?? BY_EXTENSION[extname(path).toLowerCase()];
    if (chosen === undefined)
      throw usage(`the format of --out ${out} is unknown`, 'Give --format json, csv, arrow or parquet.');
    await assertFree(path, out, force);
    const temporary = join(dirname(path), `.${basename(path)}.${randomBytes(6).toString('hex')}.tmp`);
    await assertWritable(temporary, out);
    return {
      format: chosen,
      temporary,
      deliver: async (written, describe) => {
        const bytes = await deliverFile(cli, chosen, written, path, force, layOut);
        if (json)
          cli.terminal.out(`${JSON.stringify({ out: path, format: chosen, bytes, ...describe() }, undefined, 2)}\n`);
      },
    };
  }
  if (json && format !== undefined && format !== 'json')
    throw usage(`--json and --format ${format} contradict each other`, 'Leave one of them out, or add --out.');
  const chosen = json ? 'json' : (format ?? (cli.terminal.outIsTerminal ? 'table' : 'json'));
  if (cli.terminal.outIsTerminal && isBinary(chosen))
    throw usage(`--format ${chosen} cannot be shown on a terminal`, 'Give --out FILE, or redirect stdout to a file.');
  return { format: chosen, temporary: undefined, deliver: (written) => deliverStdout(cli, chosen, written, layOut) };
}

type LayOut = (
  columns: readonly TableColumn[],
  rows: readonly (readonly string[])[],
  options?: { readonly width?: number | undefined },
) => string;

async function deliverStdout(cli: OutputCli, format: OutputFormat, path: string, layOut: LayOut): Promise<void> {
  if (format === 'table') {
    cli.terminal.out(await readTableText(cli, path, layOut));
    return;
  }
  try {
    await pipeline(createReadStream(path), cli.terminal.stdout, { end: false, signal: cli.signal });
  } catch (error) {
    // A reader that has enough (`| head`) closes the pipe: not a failure, as in every other command.
    if (hasErrorCode(error, 'EPIPE')) return;
    if (!cli.signal.aborted) throw error;
    throw new Fault('INTERRUPTED', 'stopped before the whole answer was read', {
      kind: 'interrupted',
      hint: 'The answer on stdout is incomplete; start the same command again.',
    });
  }
}

/** @returns size of the file, bytes */
async function deliverFile(
  cli: OutputCli,
  format: OutputFormat,
  written: string,
  path: string,
  force: boolean,
  layOut: LayOut,
): Promise<number> {
  const file = await open(written, 'r+');
  try {
    if (format === 'table') {
      const text = await readTableText(cli, written, layOut);
      await file.truncate();
      await file.write(text, 0);
    }
    await file.sync();
  } finally {
    await file.close();
  }
  const { size } = await stat(written);
  if (force) await rename(written, path);
  else await linkNew(written, path);
  await syncFolder(dirname(path));
  return size;
}

/** A link fails if the file exists; a rename would replace it. */
async function linkNew(written: string, path: string): Promise<void> {
  try {
    await link(written, path);
  } catch (error) {
    if (hasErrorCode(error, 'EEXIST')) throw exists(path);
    throw error;
  }
}

interface JsonCompact {
  readonly meta: readonly { readonly name: string; readonly type: string }[];
  readonly data: readonly (readonly unknown[])[];
}

async function readTableText(cli: OutputCli, path: string, layOut: LayOut): Promise<string> {
  const { meta, data } = JSON.parse(await readFile(path, 'utf8')) as JsonCompact; // The shape of this format.
  const columns = meta.map(({ name, type }) => ({
    title: formatCell(name),
    align: /^(Nullable\(|LowCardinality\()*(U?Int|Float|Decimal)/.test(type) ? ('right' as const) : ('left' as const),
  }));
  const rows = data.slice(0, MAX_TABLE_ROWS).map((row) => row.map(formatCell));
  if (data.length > MAX_TABLE_ROWS) {
    cli.terminal.err(
      `Only the first ${formatCount(MAX_TABLE_ROWS)} rows are shown; --format json, csv, arrow or parquet gives all.\n`,
    );
  }
  const width = cli.terminal.columns.out;
  const text = layOut(columns, rows, { width });
  // The rule below the titles is as long as the longest line can be.
  const [, rule = ''] = text.split('\n', 2);
  if (layOut !== formatTable || width === undefined || rule.length <= width) return `${text}\n`;
  cli.terminal.err(`Too wide for a table: one line per column. Select fewer columns for a table.\n`);
  return `${formatVertical(columns, rows)}\n`;
}

/** A block a row, a line a column: for rows that are wider than the terminal. */
const formatVertical: LayOut = (columns, rows) => {
  const width = Math.max(0, ...columns.map(({ title }) => measureWidth(title)));
  const titles = columns.map(({ title }) => `  ${title}${' '.repeat(width - measureWidth(title))}  `);
  return rows
    .map((row, index) =>
      [`Row ${index + 1}`, ...row.map((cell, at) => `${titles[at] ?? ''}${cell}`.trimEnd())].join('\n'),
    )
    .join('\n');
};

/** One line, without characters that move a terminal's cursor. */
function formatCell(value: unknown): string {
  const text = typeof value === 'string' ? value : value === null ? '' : JSON.stringify(value);
  return text.replace(/\p{Cc}/gu, (character) => JSON.stringify(character).slice(1, -1));
}

async function assertFree(path: string, out: string, force: boolean): Promise<void> {
  const folder = await stat(dirname(path)).catch(() => undefined);
  if (!folder?.isDirectory())
    throw new Fault('OUT_FOLDER_MISSING', `there is no folder ${dirname(path)} for --out ${out}`, {
      kind: 'usage',
      hint: 'Create it, or name another file.',
    });
  const found = await stat(path).catch(() => undefined);
  if (found?.isDirectory()) throw usage(`--out ${out} is a folder`, 'Name a file.');
  if (found && !force) throw exists(path);
}

/** Tested now rather than after the query. */
async function assertWritable(temporary: string, out: string): Promise<void> {
  try {
    await (await open(temporary, 'wx')).close();
    await rm(temporary);
  } catch (cause) {
    throw new Fault('OUT_FAILED', `--out ${out} cannot be written: ${describeError(cause)}`, {
      kind: 'usage',
      cause,
      hint: 'Choose a path that this user can write.',
    });
  }
}

function exists(path: string): Fault {
  return new Fault('OUT_EXISTS', `${path} already exists`, {
    kind: 'usage',
    hint: 'Name another file, or add --force to replace it.',
  });
}

function usage(message: string, hint: string): Fault {
  return new Fault('USAGE', message, { kind: 'usage', hint });
}
