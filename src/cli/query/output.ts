/**
 * Where the answer of `flowdrop query` goes, and in which format. Invariant: a file named by --out is complete or
 * absent, and an existing one is replaced only with --force; binary data never reaches a terminal.
 */
import { randomBytes } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { link, open, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { basename, dirname, extname, join, resolve } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { isBinary, MAX_TABLE_ROWS, type OutputFormat } from '../../archive/output-format.ts';
import { hasErrorCode, syncFolder } from '../../core/atomic-file.ts';
import { describeError, Fault } from '../../core/errors.ts';
import { formatCount } from '../../core/units.ts';
import { usage } from '../arguments.ts';
import type { Call } from '../commands.ts';
import type { Cli } from '../context.ts';
import { formatTable, type TableColumn } from '../terminal/text-table.ts';
import { escapeText, measureWidth } from '../terminal/text-width.ts';

export interface Output {
  readonly format: OutputFormat;
  /** A table as one line per column. */
  readonly vertical: boolean;
  /** The file for the answer, and the one beside it that it is first written to; absent: stdout. */
  readonly file?: { readonly path: string; readonly temporary: string; readonly force: boolean };
}

const BY_EXTENSION: Readonly<Record<string, OutputFormat>> = {
  '.json': 'json',
  '.csv': 'csv',
  '.arrow': 'arrow',
  '.feather': 'arrow',
  '.parquet': 'parquet',
  '.txt': 'table',
};

/** @throws Fault `USAGE`, `OUT_EXISTS`, `OUT_FOLDER_MISSING`, `OUT_FAILED` (all usage) */
export async function chooseOutput(cli: Cli, options: Call<'query'>['options']): Promise<Output> {
  const { format: asked, out, force = false, vertical = false } = options;
  const { outIsTerminal } = cli.terminal;
  const { json = false } = cli.globals;
  if (vertical && (json || (asked !== undefined && asked !== 'table'))) {
    const other = json ? '--json' : `--format ${asked}`;
    throw usage(`--vertical and ${other} contradict each other`, 'Leave one of them out.');
  }
  if (out === undefined) {
    if (json && asked !== undefined && asked !== 'json')
      throw usage(`--json and --format ${asked} contradict each other`, 'Leave one of them out, or add --out.');
    const format = vertical ? 'table' : (asked ?? (outIsTerminal && !json ? 'table' : 'json'));
    if (outIsTerminal && isBinary(format))
      throw usage(`--format ${format} cannot be shown on a terminal`, 'Give --out FILE, or redirect stdout to a file.');
    return { format, vertical };
  }
  const path = resolve(cli.cwd, out);
  const format = vertical ? 'table' : (asked ?? BY_EXTENSION[extname(path).toLowerCase()]);
  if (format === undefined)
    throw usage(`the format of --out ${out} is unknown`, 'Give --format json, csv, arrow or parquet.');
  const temporary = join(dirname(path), `.${basename(path)}.${randomBytes(6).toString('hex')}.tmp`);
  await assertWritable(path, temporary, out, force);
  return { format, vertical, file: { path, temporary, force } };
}

/** Tested now rather than after the query. */
async function assertWritable(path: string, temporary: string, out: string, force: boolean): Promise<void> {
  const folder = await stat(dirname(path)).catch(() => undefined);
  if (!folder?.isDirectory()) {
    const message = `there is no folder ${dirname(path)} for --out ${out}`;
    throw usage(message, 'Create it, or name another file.', 'OUT_FOLDER_MISSING');
  }
  const found = await stat(path).catch(() => undefined);
  if (found?.isDirectory()) throw usage(`--out ${out} is a folder`, 'Name a file.');
  if (found && !force) throw exists(path);
  try {
    await (await open(temporary, 'wx')).close();
    await rm(temporary);
  } catch (error) {
    const message = `--out ${out} cannot be written: ${describeError(error)}`;
    throw usage(message, 'Choose a path that this user can write.', 'OUT_FAILED');
  }
}

function exists(path: string): Fault {
  return usage(`${path} already exists`, 'Name another file, or add --force to replace it.', 'OUT_EXISTS');
}

/** @param written path of the answer as the engine wrote it @param describe returns its document, for `--json` */
export async function deliver(cli: Cli, output: Output, written: string, describe: () => object): Promise<void> {
  const { format, file, vertical } = output;
  const text = format === 'table' ? await readTableText(cli, written, vertical) : undefined;
  if (file === undefined) {
    if (text === undefined) await pipeOut(cli, written);
    else cli.terminal.out(text);
    return;
  }
  if (text !== undefined) await writeFile(written, text);
  const handle = await open(written, 'r+');
  await handle.sync().finally(() => handle.close());
  const { size: bytes } = await stat(written);
  const { path, force } = file;
  if (force) await rename(written, path);
  else {
    // A link fails if the file exists; a rename would replace it.
    await link(written, path).catch((error: unknown) => {
      throw hasErrorCode(error, 'EEXIST') ? exists(path) : error;
    });
  }
  await syncFolder(dirname(path));
  if (cli.globals.json) cli.print({ out: path, format, bytes, ...describe() }, '');
}

async function pipeOut({ terminal, signal }: Cli, path: string): Promise<void> {
  try {
    await pipeline(createReadStream(path), terminal.stdout, { end: false, signal });
  } catch (error) {
    // A reader that has enough (`| head`) closes the pipe: not a failure, as in every other command.
    if (hasErrorCode(error, 'EPIPE')) return;
    if (!signal.aborted) throw error;
    throw new Fault('INTERRUPTED', 'stopped before the whole answer was read', {
      kind: 'interrupted',
      hint: 'The answer on stdout is incomplete; start the same command again.',
    });
  }
}

/** The shape of the engine's format for tables. */
interface JsonCompact {
  readonly meta: readonly { readonly name: string; readonly type: string }[];
  readonly data: readonly (readonly unknown[])[];
}

async function readTableText({ terminal }: Cli, path: string, vertical: boolean): Promise<string> {
  const { meta, data } = JSON.parse(await readFile(path, 'utf8')) as JsonCompact;
  const columns = meta.map(({ name, type }): TableColumn => {
    const isNumber = /^(Nullable\(|LowCardinality\()*(U?Int|Float|Decimal)/.test(type);
    return { title: escapeText(name), align: isNumber ? 'right' : 'left' };
  });
  const rows = data.slice(0, MAX_TABLE_ROWS).map((row) => row.map(formatCell));
  if (data.length > MAX_TABLE_ROWS) {
    terminal.err(
      `Only the first ${formatCount(MAX_TABLE_ROWS)} rows are shown; --format json, csv, arrow or parquet gives all.\n`,
    );
  }
  if (vertical) return `${formatVertical(columns, rows)}\n`;
  const width = terminal.columns.out;
  const text = formatTable(columns, rows, { width });
  // The rule below the titles is as long as the longest line can be.
  const [, rule = ''] = text.split('\n', 2);
  if (width === undefined || rule.length <= width) return `${text}\n`;
  terminal.err('Too wide for a table: one line per column. Select fewer columns for a table.\n');
  return `${formatVertical(columns, rows)}\n`;
}

/** A block a row, a line a column: for rows that are wider than the terminal. */
function formatVertical(columns: readonly TableColumn[], rows: readonly (readonly string[])[]): string {
  const width = Math.max(0, ...columns.map(({ title }) => measureWidth(title)));
  const titles = columns.map(({ title }) => `  ${title}${' '.repeat(width - measureWidth(title))}  `);
  const blocks = rows.map((row, index) => {
    return [`Row ${index + 1}`, ...row.map((cell, at) => `${titles[at] ?? ''}${cell}`.trimEnd())];
  });
  return blocks.flat().join('\n');
}

/** One line, without characters that act on a terminal. */
function formatCell(value: unknown): string {
  return escapeText(typeof value === 'string' ? value : value === null ? '' : JSON.stringify(value));
}
