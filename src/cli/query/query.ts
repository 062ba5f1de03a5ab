/**
 * `flowdrop query "SQL"`: SQL over the sealed drops of a store, the named one or the one that the jobs share. Invariant: a
 * file named by --out is complete or absent, and an existing one is replaced only with --force; binary data never reaches
 * a terminal.
 */
import { randomBytes } from 'node:crypto';
import { mkdtemp, open, readFile, realpath, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, extname, join, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { type Families, KNOWN_FAMILIES } from '../../api-contract/family.ts';
import { type ArchiveAnswer, describeWorkers, openArchive } from '../../archive/archive.ts';
import { isBinary, MAX_TABLE_ROWS, type OutputFormat } from '../../archive/output-format.ts';
import { previousSessions } from '../../calendar/session.ts';
import { hasErrorCode, publishFile } from '../../core/atomic-file.ts';
import { describeError, Fault } from '../../core/errors.ts';
import { planWorkerMemory, readMemoryBytes } from '../../core/machine.ts';
import { findNearest } from '../../core/nearest.ts';
import { countOf, formatBytes, formatCount, formatDuration, listFirst } from '../../core/units.ts';
import { listJobFiles, readJob } from '../../job/job-folder.ts';
import { listDatasets } from '../../ledger/ledger.ts';
import { computeLookback } from '../../plan/dates.ts';
import type { Store } from '../../store/store.ts';
import { assertDirectory, type Call, type Cli, pipeOut, usage, workerCommand } from '../context.ts';
import { escapeText, formatTable, measureWidth, type TableColumn } from '../terminal/text.ts';
import { declareTimes } from './wall-clock.ts';

/** Most dates that are listed by name; the rest is counted. */
const MAX_NAMED = 20;

export async function query(cli: Cli, { argument, options }: Call<'query'>) {
  const { terminal, openers, signal, self } = cli;
  const { apiTypes, engine } = options;
  const output = await chooseOutput(cli, options);
  const sql = argument === '-' ? await text(terminal.stdin) : argument;
  if (sql.trim() === '') throw usage('the SQL is empty', 'Give one SELECT, or - and the SQL on stdin.', 'SQL_MISSING');
  const place = await findDataset(cli, options);
  const startedMs = openers.clock.now();
  const server = await openers.openQueryServer(engine);
  const folder = await realpath(await mkdtemp(join(tmpdir(), 'flowdrop-query-')));
  const path = output.file?.temporary ?? join(folder, 'answer');
  // The engine's process starts while the store is opened and listed.
  const workers = openers.openWorkers({ ...describeWorkers(folder), command: workerCommand(self) });
  workers.catch(() => {}); // The query reports it, unless something else failed before.
  try {
    const store = await openers.openStore(place.to);
    try {
      const calendar = await openers.readCalendar();
      const { lastSettled, firstWhole } = computeLookback(openers.clock.now(), calendar);
      const archive = await openArchive({
        store,
        readAccess: () => openers.readAccess(place.to),
        datasets: await listReadable(store, place),
        trades: place.trades,
        types: apiTypes ? 'api' : 'typed',
        // The API has no such column.
        families: apiTypes ? undefined : place.families,
        calendar,
        folder,
        server,
      });
      const answer = await archive.query(await workers, {
        sql,
        format: output.format,
        path,
        lastSession: lastSettled ?? previousSessions(firstWhole, 1, calendar)[0] ?? firstWhole,
        maxMemoryBytes: planWorkerMemory(readMemoryBytes()),
        signal,
      });
      await declareTimes(output.format, path, answer.columns, signal);
      terminal.err(describeNotes(answer, openers.clock.now() - startedMs));
      await deliver(cli, output, path, answer);
      return undefined;
    } finally {
      await store.close();
    }
  } finally {
    await workers.then(
      (pool) => pool.close(),
      () => {},
    );
    await rm(path, { force: true });
    await rm(folder, { recursive: true, force: true, maxRetries: 3 });
    await server?.engine.close();
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

/** The engine's format for tables. */
type JsonCompact = Readonly<{ meta: readonly { name: string; type: string }[]; data: readonly (readonly unknown[])[] }>;

async function readTableText({ terminal }: Cli, path: string, vertical: boolean): Promise<string> {
  const { meta, data } = JSON.parse(await readFile(path, 'utf8')) as JsonCompact;
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

interface DatasetPlace {
  /** `s3://...` or a directory, as in a job file. */
  readonly to: string;
  /** The dataset of the API's tables; `undefined`: the only one of single trades. */
  readonly trades: string | undefined;
  /** Datasets of jobs that drop there; some may have nothing sealed yet. */
  readonly datasets: readonly string[];
  readonly families: Families;
}

/** @throws Fault `USAGE`, `STORE_UNCLEAR`, `JOB_UNKNOWN`, `JOB_INVALID` (all usage), `STORE_MISSING` */
async function findDataset({ cwd, globals }: Cli, { job, fromStore, dataset }: Call<'query'>['options']) {
  if (fromStore === undefined && dataset !== undefined)
    throw usage('--dataset chooses a dataset of --from-store LOCATION, which is missing', 'flowdrop query --help');
  const named = { to: fromStore ?? '', trades: dataset, datasets: [], families: KNOWN_FAMILIES };
  const place: DatasetPlace = fromStore === undefined ? await readPlace(job, globals.jobs) : named;
  await assertDirectory(cwd, place.to, 'Run the job first, or name the store with --from-store LOCATION.');
  return place;
}

/** All datasets of the store that can be read. @throws Fault `DATASET_UNKNOWN`, `ARCHIVE_EMPTY` */
export async function listReadable(store: Store, { trades, datasets }: Omit<DatasetPlace, 'families'>) {
  const all = [...new Set([...(await listDatasets(store)), ...datasets])].sort();
  if (all.length === 0) {
    throw new Fault('ARCHIVE_EMPTY', `nothing is sealed in ${store.url}`, {
      hint: 'Run a job first, or check the location; `flowdrop status` shows what is sealed.',
    });
  }
  if (trades === undefined || all.includes(trades)) return all;
  const nearest = findNearest(trades, all);
  throw usage(
    `${store.url} has no dataset ${JSON.stringify(trades)}; it has ${all.join(', ')}`,
    nearest === undefined ? 'Name one of these with --dataset.' : `Did you mean --dataset ${nearest}?`,
    'DATASET_UNKNOWN',
  );
}

/** The store that all jobs share, or all jobs of single trades. @throws Fault `STORE_UNCLEAR` (usage) */
async function readPlace(reference: string | undefined, folder: string): Promise<DatasetPlace> {
  const files = reference === undefined ? await listJobFiles(folder) : [reference];
  const jobs = await Promise.all(files.map((file) => readJob(file, folder)));
  const ofTrades = jobs.filter(({ source: { kind } }) => kind === 'rows' || kind === 'table');
  const stores = [jobs, ofTrades].map((some) => [...new Set(some.map(({ drop }) => drop.to))]);
  const [to] = stores.find(({ length }) => length === 1) ?? [];
  if (to === undefined) {
    const choices = jobs.map(({ name, drop }) => `--job ${name} (${drop.to}/${drop.dataset})`).join(', ');
    throw usage(
      jobs.length === 0 ? `${folder} has no job` : `the jobs of ${folder} write to ${stores[0]?.length} stores`,
      choices ? `Choose one: ${choices}.` : 'Name a store: --from-store LOCATION.',
      'STORE_UNCLEAR',
    );
  }
  const there = jobs.filter(({ drop }) => drop.to === to);
  const [trades, ...others] = new Set(ofTrades.flatMap(({ drop }) => (drop.to === to ? drop.dataset : [])));
  return {
    to,
    trades: others.length === 0 ? trades : undefined,
    datasets: there.map(({ drop }) => drop.dataset),
    families: Object.assign({}, ...there.map(({ families }) => families)) as Families,
  };
}
