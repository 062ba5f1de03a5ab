/**
 * Rows that move while a date is fetched, at full size: the compiled worker against the compiled service, whose rows
 * appear, are withdrawn, or are replaced under other ids in the middle of the run; at both entry points, the table ordered
 * by time and by symbol. Beside each run stands the same without trouble. What was sealed is compared with the source as
 * it is in the end, value by value, by a reader that knows nothing of the product.
 */
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { formatTable, right } from '../src/cli/terminal/text.ts';
import { formatCount } from '../src/core/units.ts';
import { dropKey, manifestKey } from '../src/ledger/layout.ts';
import type { Manifest } from '../src/ledger/manifest.ts';
import { readServedRows } from '../test/chaos/source.ts';
import { openTruth } from '../test/chaos/truth.ts';
import { flowdrop, startService, type TestService } from '../test/support/flowdrop.ts';
import { writeJob } from '../test/support/jobs.ts';
import { createRandom } from '../test/support/random.ts';
import { PAGE_ROWS, type RunBench, say } from './support/bench.ts';
import type { Goal } from './support/goal.ts';
import { type Asked, type IsMoment, startMovingSource } from './support/moving-source.ts';
import { withFolder } from './support/product.ts';

type Order = 'time' | 'symbol';
type Api = 'historical' | 'portal';
type Row = Readonly<Record<string, unknown>>;

interface Case {
  readonly name: string;
  /** Rows of the session, those that come late included. */
  readonly rows: number;
  /** Rows that move. */
  readonly moved: number;
  readonly move: 'appear' | 'vanish' | 'replaced';
}

/** The sizes at which each of these once failed. */
const CASES: readonly Case[] = [
  { name: 'appear', rows: 60_000, moved: 300, move: 'appear' },
  { name: 'withdrawn', rows: 45_000, moved: 1, move: 'vanish' },
  { name: 'withdrawn', rows: 45_000, moved: 10, move: 'vanish' },
  { name: 'withdrawn', rows: 45_000, moved: 100, move: 'vanish' },
  { name: 'withdrawn, 2%', rows: 45_000, moved: 900, move: 'vanish' },
  { name: 'replaced', rows: 45_000, moved: 50, move: 'replaced' },
];
const ORDERS: readonly Order[] = ['time', 'symbol'];
/**
 * Only what may not be counted at once is fetched along the symbols: where the table is ordered by symbol so many of a
 * session's rows may be read by one query.
 */
const SCAN_SHARE = 2 / 7;
const APIS: readonly Api[] = ['historical', 'portal'];
/** Pages of a tenth of the API's limit: a session of this size then has as many windows as are worth moving rows in. */
const ROW_LIMITS = [1_000, 10_000];
/** At the API's one request a second this is 20 s into the fetch; where there are fewer pages it is half of them. */
const MOVED_AFTER_PAGES = 20;
/** Requests for each window that rows moved in: its page once more, and its count once more. */
const REQUESTS_A_WINDOW = 2;
const DATE = '2026-11-19';
/** The session has long closed, and nothing of it is too fresh to be shown. */
const AS_OF = `${DATE}T23:15:00Z`;
const SEED = 11;
/** Two requests in flight are served in turn; more engines would only take memory from each other. */
const SERVICE_OPTIONS = ['--as-of', AS_OF, '--concurrency', '2'];

interface Rows {
  readonly before: readonly Row[];
  readonly after: readonly Row[];
}

interface Outcome {
  readonly asked: readonly Asked[];
  readonly movedAt: number | undefined;
  readonly code: number | null;
  /** `undefined` when the date was not sealed. */
  readonly manifest: Manifest | undefined;
  /** What the drop has otherwise than the source. */
  readonly differences: readonly string[];
  readonly reason: string;
}

interface Line {
  readonly order: Order;
  readonly api: Api;
  readonly rowLimit: number;
  readonly of: Case;
  readonly quiet: Outcome;
  readonly troubled: Outcome;
  readonly atSource: number;
}

export const benchMoving: RunBench = async ({ note }) =>
  await withFolder(async (folder) => {
    const sessions = new Map<number, readonly Row[]>();
    for (const { rows } of CASES) if (!sessions.has(rows)) sessions.set(rows, await generateRows(rows));
    const lines: Line[] = [];
    for (const rowLimit of ROW_LIMITS)
      for (const order of ORDERS) lines.push(...(await measure(folder, sessions, order, rowLimit)));
    for (const line of lines) note(goalOf(line));
    return describe(lines);
  });

async function measure(
  folder: string,
  sessions: ReadonlyMap<number, readonly Row[]>,
  order: Order,
  rowLimit: number,
): Promise<readonly Line[]> {
  const lines: Line[] = [];
  const quiet = new Map<string, Outcome>();
  for (const of of CASES) {
    say(`moving: ${formatCount(of.moved)} of ${formatCount(of.rows)} rows ${of.name}, by ${order}, ${rowLimit} a page`);
    const rows = moveRows(sessions.get(of.rows) ?? [], of);
    const files = { before: join(folder, 'before.ndjson'), after: join(folder, 'after.ndjson') };
    await writeRows(files.before, rows.before);
    await writeRows(files.after, rows.after);
    const scanLimit = order === 'symbol' ? ['--scan-limit', String(Math.round(of.rows * SCAN_SHARE))] : [];
    const options = [...SERVICE_OPTIONS, '--order', order, '--row-limit', String(rowLimit), ...scanLimit];
    const before = await startService([...options, '--data', files.before]);
    const after = await startService([...options, '--data', files.after]);
    try {
      for (const api of APIS) {
        const key = `${api} ${of.rows}`;
        const own = quiet.get(key) ?? (await runOnce(before, before, api, files.before, () => false));
        quiet.set(key, own);
        const troubled = await runOnce(before, after, api, files.after, momentOf(of, rows.before.length, rowLimit));
        lines.push({ order, api, rowLimit, of, quiet: own, troubled, atSource: rows.after.length });
      }
    } finally {
      await before.stop();
      await after.stop();
    }
  }
  return lines;
}

/** Rows are replaced between the last page and the recount, the others move while pages are fetched. */
function momentOf({ move }: Case, rows: number, rowLimit: number): IsMoment {
  const pages = Math.ceil(rows / rowLimit);
  const fetched = move === 'replaced' ? pages : Math.min(MOVED_AFTER_PAGES, Math.floor(pages / 2));
  return (asked) =>
    (move !== 'replaced' || asked.at(-1)?.kind === 'count') &&
    asked.filter(({ kind }) => kind === 'page').length >= fetched;
}

/** One run with an empty state, and what came of it. @param truth file of the rows that the source has in the end */
async function runOnce(
  before: TestService,
  after: TestService,
  api: Api,
  truth: string,
  isMoment: IsMoment,
): Promise<Outcome> {
  const source = await startMovingSource(before, after, isMoment);
  try {
    return await withFolder(async (cwd) => {
      const job = await writeJob(cwd, { api, reports: '' });
      const env = { ...before.env, FLOWDROP_API_URL: source.url, FLOWDROP_PORTAL_URL: source.url };
      const { code, stderr } = await flowdrop(['backfill', job, '--from', DATE, '--to', DATE], { cwd, env });
      const path = join(cwd, 'drops', manifestKey('trades', DATE));
      const manifest = existsSync(path) ? (JSON.parse(await readFile(path, 'utf8')) as Manifest) : undefined;
      const differences =
        manifest === undefined ? [] : await compare(truth, join(cwd, 'drops', dropKey('trades', DATE)));
      const { asked, movedAt } = source;
      const reason = code === 0 ? '' : (/"reason":"([^"]*)"/.exec(stderr)?.[1] ?? stderr.slice(-200));
      return { asked, movedAt, code, manifest, differences, reason };
    });
  } finally {
    await source.close();
  }
}

async function compare(truthFile: string, drop: string): Promise<readonly string[]> {
  const truth = await openTruth(truthFile);
  try {
    return await truth.compare(drop);
  } finally {
    truth.close();
  }
}

/** The same rows every time: each chosen by chance, all over the session. */
function moveRows(all: readonly Row[], { moved, move }: Case): Rows {
  const random = createRandom(SEED + moved);
  const shuffled = all.map((row) => ({ row, at: random() })).sort((a, b) => a.at - b.at);
  const chosen = new Set(shuffled.slice(0, moved).map(({ row }) => row));
  const others = all.filter((row) => !chosen.has(row));
  switch (move) {
    case 'appear':
      return { before: others, after: all };
    case 'vanish':
      return { before: all, after: others };
    case 'replaced':
      return { before: all, after: [...others, ...[...chosen].map((row) => ({ ...row, id: `again-${row['id']}` }))] };
    default:
      return move satisfies never;
  }
}

/** A generated session, by id. */
async function generateRows(count: number): Promise<readonly Row[]> {
  say(`moving: generating ${formatCount(count)} rows ...`);
  const generated = ['--generate', '1', '--generate-rows', String(count), '--seed', String(SEED)];
  const service = await startService([...SERVICE_OPTIONS, ...generated]);
  try {
    return await readServedRows(service, DATE, PAGE_ROWS);
  } finally {
    await service.stop();
  }
}

async function writeRows(path: string, rows: readonly Row[]): Promise<void> {
  await writeFile(path, rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
}

/** Windows that rows can have moved in, at most. */
function touchedOf({ of, quiet }: Line): number {
  return Math.min(of.moved, quiet.manifest?.windows.length ?? 0);
}

/**
 * Requests beyond a quiet day's, without counts of the whole date: each round counts it once, a withdrawal once more, and
 * where not all of it may be read at once that takes several.
 */
function extraOf({ quiet, troubled }: Line): number {
  return countOthers(troubled) - countOthers(quiet);
}

function countOthers({ asked }: Outcome): number {
  return asked.filter(({ kind }) => kind !== 'count').length;
}

/** What is wrong with what was sealed, if anything is. */
function findFault({ troubled, atSource }: Line): string | undefined {
  const { code, manifest, differences, movedAt, reason } = troubled;
  if (code !== 0 || manifest === undefined) return `not sealed: ${reason}`;
  if (movedAt === undefined) return 'no row moved';
  if (manifest.condition !== 'available') return manifest.condition;
  if (manifest.rows !== atSource) return `${manifest.rows} rows of ${atSource}`;
  return differences.length === 0 ? undefined : differences.join('; ');
}

function goalOf(line: Line): Goal {
  const { order, api, of, rowLimit } = line;
  const most = REQUESTS_A_WINDOW * touchedOf(line);
  const size = `${formatCount(of.moved)} of ${formatCount(of.rows)}, ${formatCount(rowLimit)} a page`;
  const fault = findFault(line);
  return {
    what: `rows ${of.name} (${size}), by ${order}, ${api}: sealed right by one run, requests more`,
    reach: `<= ${most}`,
    measured: fault ?? String(extraOf(line)),
    holds: fault === undefined && extraOf(line) <= most,
  };
}

function describe(lines: readonly Line[]): string {
  const columns = ['rows that move', ...['windows', 'quiet day', 'with the trouble', 'more'].map(right)];
  const cells = lines.map((line) => [
    goalOf(line).what.replace(/: .*/, ''),
    formatCount(line.quiet.manifest?.windows.length ?? 0),
    formatCount(line.quiet.asked.length),
    formatCount(line.troubled.asked.length),
    formatCount(extraOf(line)),
  ]);
  return [
    'Rows that move while a date is fetched, an empty state each time',
    '',
    formatTable(columns, cells),
    '',
    'quiet day, with the trouble: all requests. more: the other requests beyond those of a quiet day, without counts of whole dates.',
    'Where the table is ordered by symbol, a query may read 2/7 of the rows, so that it is counted and fetched along the symbols.',
  ].join('\n');
}
