/**
 * `flowdrop query "SQL"`: SQL over the sealed drops of a store, the named one or the one that the jobs share. Invariant: a
 * file named by --out is complete or absent, and an existing one is replaced only with --force; binary data never reaches
 * a terminal.
 */
import { randomBytes } from 'node:crypto';
import { open, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { basename, dirname, extname, join, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import type { ArchiveAnswer } from '../../archive/archive.ts';
import { isBinary, MAX_TABLE_ROWS, type OutputFormat, type TableAnswer } from '../../archive/output-format.ts';
import { hasErrorCode, publishFile } from '../../core/atomic-file.ts';
import { describeError, type Fault } from '../../core/errors.ts';
import { countOf, formatBytes, formatCount, formatDuration, listFirst } from '../../core/units.ts';
import { type Call, type Cli, pipeOut, usage } from '../context.ts';
import { escapeText, formatTable, measureWidth, type TableColumn } from '../terminal/text.ts';
import { openAskedStore } from './asked-store.ts';
import { declareTimes } from './wall-clock.ts';

/** Most dates that are listed by name; the rest is counted. */
const MAX_NAMED = 20;

export async function query(cli: Cli, { argument, options }: Call<'query'>) {
  const { terminal, openers, signal } = cli;
  const output = await chooseOutput(cli, options);
  const sql = argument === '-' ? await text(terminal.stdin) : argument;
  if (sql.trim() === '') throw usage('the SQL is empty', 'Give one SELECT, or - and the SQL on stdin.', 'SQL_MISSING');
  const startedMs = openers.clock.now();
  const asked = await openAskedStore(cli, options);
  const path = output.file?.temporary ?? join(asked.folder, 'answer');
  try {
    const answer = await asked.query({ sql, format: output.format, path, signal });
    await declareTimes(output.format, path, answer.columns, signal);
    terminal.err(describeNotes(answer, openers.clock.now() - startedMs));
    await deliver(cli, output, path, answer);
    return undefined;
  } finally {
    await asked.close();
    await rm(path, { force: true });
  }
}

/** What the answer is based on, and what it lacks. @param ms time it took */
function describeNotes({ coverage, cost }: ArchiveAnswer, ms: number): string {
  const isOne = coverage.length === 1;
  const gaps = coverage.flatMap(({ dataset, missing, degraded, unsummarized, lacking }) => {
    const lists: readonly (readonly [what: string, dates: readonly string[]])[] = [
      ['missing, not in the answer', missing],
      ['degraded, known to be incomplete', degraded],
      ['without a summary, not in the answer', unsummarized],
      ...Array.from(lacking, ([name, dates]) => [`without the column ${name}, which is empty there`, dates] as const),
    ];
    const found = lists.filter(([, dates]) => dates.length > 0);
    return found.map(([what, dates]) => `${isOne ? '' : `${dataset}: `}${what}: ${listFirst(dates, MAX_NAMED)}`);
  });
  const read = [
    ...coverage.map(({ dataset, dates, sealed }) => {
      return `${formatCount(dates.length)} of ${countOf(sealed.length, 'sealed date')}${isOne ? '' : ` of ${dataset}`}`;
    }),
    cost === undefined
      ? 'read by the server'
      : `${formatCount(cost.rowGroups)} of ${countOf(cost.rowGroups + cost.prunedRowGroups, 'row group')} read`,
    ...(cost !== undefined && cost.s3Bytes > 0 ? [`${formatBytes(cost.s3Bytes)} from S3`] : []),
    formatDuration(ms),
  ];
  return `${[...gaps, read.join(', ')].join('\n')}\n`;
}

type Output = Awaited<ReturnType<typeof chooseOutput>>;

const BY_EXTENSION: Readonly<Record<string, OutputFormat>> = {
  '.json': 'json',
  '.csv': 'csv',
  '.arrow': 'arrow',
  '.feather': 'arrow',
  '.parquet': 'parquet',
  '.txt': 'table',
};

/** @throws Fault `USAGE`, `OUT_EXISTS`, `OUT_FOLDER_MISSING`, `OUT_FAILED` (all usage) */
async function chooseOutput(cli: Cli, options: Call<'query'>['options']) {
  const { out, force = false, vertical = false } = options;
  const asked = vertical ? 'table' : options.format;
  const outIsTerminal = cli.terminal.columns.out !== undefined;
  const { json = false } = cli.globals;
  if (out === undefined) {
    if (json && asked !== undefined && asked !== 'json')
      throw usage(`--json and the format ${asked} contradict each other`, 'Leave one of them out, or add --out.');
    const format = asked ?? (outIsTerminal && !json ? 'table' : 'json');
    if (outIsTerminal && isBinary(format))
      throw usage(`--format ${format} cannot be shown on a terminal`, 'Give --out FILE, or redirect stdout to a file.');
    return { format, vertical };
  }
  const path = resolve(cli.cwd, out);
  const format = asked ?? BY_EXTENSION[extname(path).toLowerCase()];
  if (format === undefined)
    throw usage(`the format of --out ${out} is unknown`, 'Give --format json, csv, arrow or parquet.');
  const temporary = join(dirname(path), `.${basename(path)}.${randomBytes(6).toString('hex')}.tmp`);
  await assertWritable(path, temporary, out, force);
  /** It is first written to the temporary file beside it. */
  return { format, vertical, file: { path, temporary, force } };
}

/** Tested now rather than after the query. */
async function assertWritable(path: string, temporary: string, out: string, force: boolean): Promise<void> {
  const found = await stat(path).catch(() => undefined);
  if (found?.isDirectory()) throw usage(`--out ${out} is a folder`, 'Name a file.');
  if (found && !force) throw exists(path);
  try {
    await (await open(temporary, 'wx')).close();
    await rm(temporary);
  } catch (error) {
    const hint = 'Choose a path in a folder that this user can write.';
    if (hasErrorCode(error, 'ENOENT', 'ENOTDIR'))
      throw usage(`there is no folder ${dirname(path)} for --out ${out}`, hint, 'OUT_FOLDER_MISSING');
    throw usage(`--out ${out} cannot be written: ${describeError(error)}`, hint, 'OUT_FAILED');
  }
}

function exists(path: string): Fault {
  return usage(`${path} already exists`, 'Name another file, or add --force to replace it.', 'OUT_EXISTS');
}

/** @param written path of the answer as the engine wrote it */
async function deliver(cli: Cli, output: Output, written: string, { coverage, cost }: ArchiveAnswer): Promise<void> {
  const { format, file, vertical } = output;
  const text = format === 'table' ? await readTableText(cli, written, vertical) : undefined;
  if (file === undefined) {
    if (text === undefined) await pipeOut(cli, written);
    else cli.terminal.out(text);
    return;
  }
  if (text !== undefined) await writeFile(written, text);
  const { size: bytes } = await stat(written);
  const { path, force } = file;
  if (!(await publishFile(written, path, !force))) throw exists(path);
  if (!cli.globals.json) return;
  cli.print(
    {
      ...{ out: path, format, bytes },
      datasets: coverage.map(({ dataset, dates, missing, degraded, unsummarized }) => {
        return { dataset, dates, missing, degraded, unsummarized };
      }),
      // A server does not say what it read.
      row_groups: cost?.rowGroups ?? null,
      row_groups_pruned: cost?.prunedRowGroups ?? null,
      bytes_from_s3: cost?.s3Bytes ?? null,
    },
    '',
  );
}

async function readTableText({ terminal }: Cli, path: string, vertical: boolean): Promise<string> {
  const { meta, data } = JSON.parse(await readFile(path, 'utf8')) as TableAnswer;
  const columns = meta.map(({ name, type }): TableColumn => {
    const isNumber = /^(Nullable\(|LowCardinality\()*(U?Int|Float|Decimal)/.test(type);
    return { title: escapeText(name), align: isNumber ? 'right' : 'left' };
  });
  const rows = data.slice(0, MAX_TABLE_ROWS).map((row) => row.map(formatCell));
  if (data.length > MAX_TABLE_ROWS) {
    terminal.err(
      `Only the first ${countOf(MAX_TABLE_ROWS, 'row')} are shown; --format json, csv, arrow or parquet gives all.\n`,
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
