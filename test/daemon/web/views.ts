/** What a daemon may show, for the tests of its web part: a good day, a bad one, and one with texts that mean harm. */
import { once } from 'node:events';
import { type IncomingHttpHeaders, request } from 'node:http';
import { Readable } from 'node:stream';
import { afterEach } from 'vitest';
import { listSessions, NO_OVERRIDE } from '../../../src/calendar/session.ts';
import { Fault } from '../../../src/core/errors.ts';
import type { HttpListener } from '../../../src/core/http-listener.ts';
import type { DaemonView } from '../../../src/daemon/daemon.ts';
import { type JobView, type StatusDocument, statusSchema } from '../../../src/daemon/shapes.ts';
import type { WebOptions } from '../../../src/daemon/web/routes.ts';
import { startWeb } from '../../../src/daemon/web/site.ts';
import type { DropDocument } from '../../../src/state/documents.ts';
import type { RunRecord } from '../../../src/state/run-record.ts';
import { createSilentLog } from '../../support/log.ts';

/** A Monday afternoon in the week of Thanksgiving; New York has 13:30. */
export const NOW = Date.parse('2026-11-23T18:30:00Z');
/** What the commands print that the web part starts. */
interface Says {
  readonly drop: (job: string, date: string) => unknown;
  readonly query: (sql: string, job: string) => unknown;
  readonly report: (job: string, date: string, report: string, revision: number) => Promise<string | undefined>;
  readonly backfill: (job: string, options: readonly string[]) => unknown;
  readonly gap: (job: string, date: string, options: readonly string[]) => unknown;
  readonly stream: () => Readable;
}

export function makeCommands(says: Partial<Says> = {}): WebOptions['commands'] {
  const answer = async (verb: string, args: readonly string[]): Promise<unknown> => {
    const [first = '', second = '', third = '', , report = '', , revision = ''] = args;
    switch (verb) {
      case 'drop':
        return says.drop ? await says.drop(first, second) : makeDrop(first, second);
      case 'query':
        return says.query ? await says.query(first, third) : [{ symbol: 'SPY', premium: 436, earning_date: null }];
      case 'report': {
        const html = await says.report?.(first, third, report, Number(revision));
        if (html === undefined) throw new Fault('REPORT_NOT_ARCHIVED', 'there is none');
        return { html };
      }
      case 'backfill':
        return await says.backfill?.(first, args.slice(1, -1));
      default:
        return await says.gap?.(second, third, args.slice(3));
    }
  };
  return {
    read: async <T>([verb, ...args]: readonly [string, ...string[]]) => (await answer(verb, args)) as T,
    stream: says.stream ?? (() => Readable.from(['PAR1'])),
  };
}

/** What a backfill of these dates would cost. */
export function makePrice(...dates: readonly { readonly date: string; readonly rows: number }[]) {
  const cost = { estimated: false, requests: 2, seconds: 2, bytes: 0, done_at: '2026-11-23T18:31:00.000Z' };
  const late = { expires: null, share_of_budget: null, expires_before_turn: true };
  const sum = { dates: dates.length, requests: 2 * dates.length, seconds: 2 * dates.length, too_late: dates.length };
  const rows = dates.reduce((total, date) => total + date.rows, 0);
  return {
    dates: dates.map((date) => ({ ...date, ...cost, ...late })),
    total: { ...cost, ...sum, rows, share_of_budget: null },
  };
}

export interface Got {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** A daemon that does nothing. */
const IDLE: WebOptions['daemon'] = {
  view: makeGoodDay,
  look: async () => undefined,
  ask: () => ({ outcome: 'refused', text: 'This daemon does nothing.' }),
  reload: async () => undefined,
  pathOf: (job) => job,
  countRuns: () => undefined,
};

export type PageOptions = Partial<WebOptions & WebOptions['daemon']>;

/** The page of a daemon that does nothing, on a machine that remembers no run, but for the changes. */
export async function startPage(changes: PageOptions = {}): Promise<HttpListener> {
  return await startWeb({
    address: { host: '127.0.0.1', port: 0 },
    token: undefined,
    daemon: { ...IDLE, ...changes },
    mayAct: true,
    commands: makeCommands(),
    stateDir: '/nonexistent',
    calendar: NO_OVERRIDE,
    log: createSilentLog(),
    clock: { now: () => NOW, sleep: async () => {} },
    ...changes,
  });
}

/** Pages of the tests of a file, which are closed after each test. To be called outside of any test. */
export function usePage() {
  const opened: HttpListener[] = [];
  afterEach(async () => {
    for (const web of opened.splice(0)) await web.close();
  });
  const url = () => opened.at(-1)?.url ?? '';
  async function start(changes: PageOptions = {}): Promise<HttpListener> {
    const web = await startPage(changes);
    opened.push(web);
    return web;
  }
  /** What the newest answers, by a connection of its own, at an address as it is written: `fetch` would resolve dots. */
  async function call(path: string, headers: Record<string, string> = {}, method = 'GET', text = ''): Promise<Got> {
    const sent = request(url(), { path, method, headers, agent: false });
    sent.on('error', () => undefined);
    sent.end(text);
    const [response] = await once(sent, 'response');
    let body = '';
    for await (const chunk of response.setEncoding('utf8')) body += chunk;
    return { status: response.statusCode, headers: response.headers, body };
  }
  return { url, start, call };
}

export const TOKEN = 'a-token-of-24-characters';
export const HOSTILE = '<script>alert(1)</script>"\'><img src=x onerror=alert(2)>';

const HOUR_MS = 3_600_000;
export const ago = (ms: number) => new Date(NOW - ms).toISOString();
const LAST_SESSION = '2026-11-20';

/** A run that this machine remembers. */
export function makeRun(job: string, hoursAgo: number, changes: Partial<RunRecord> = {}): RunRecord {
  const started_at = new Date(NOW - hoursAgo * HOUR_MS).toISOString();
  const run_id = `${started_at.replace(/[-:]|\.\d+/g, '')}-1f3a9c`;
  return {
    ...{ id: run_id, run_id, job, command: 'run', args: ['run', job], reason: 'scheduled', started_at },
    process: { pid: 4711, started: '1' },
    updated_at: new Date(Date.parse(started_at) + 2_530_000).toISOString(),
    finished_at: new Date(Date.parse(started_at) + 2_530_000).toISOString(),
    outcome: 'done',
    error: null,
    progress: null,
    ...{ planned_pages: 465, pages: 467, rows: 8_412_907, requests: 480, retries: 6, rate_limited: 3, splits: 11 },
    bytes: 912_000_000,
    dates: [{ date: LAST_SESSION, status: 'sealed', rows: 8_412_907, requests: 471, revision: 1 }],
    has_open: false,
    reports: [{ report: 'flow', date: LAST_SESSION, sent: 2, written: 0, unsent: 0 }],
    ...changes,
  };
}

export function makeDrop(job: string, date: string, changes: Partial<DropDocument> = {}): DropDocument {
  const revision = { rows: 8_412_907, condition: 'available', sealed_at: '2026-11-20T23:41:00.000Z' } as const;
  return {
    ...{ job, dataset: 'trades', date, store: 's3://quant-drops/options', condition: 'available', damage: null },
    accepted: null,
    audit: { audited_at: '2026-11-21T23:00:00.000Z', revision: 2, result: 'equal', rule: 'repair', counts: 'x' },
    location: `s3://quant-drops/options/trades/session=${date}/trades.parquet`,
    manifest: {
      ...{ revision: 2, condition: 'available', rows: 8_412_907, source_rows: 8_412_907, duplicates: 3 },
      ...{ min_time: `${date} 09:30:00`, max_time: `${date} 16:15:00`, sort: ['symbol', 'time', 'id'] },
      ...{ compression: 'ZSTD', row_groups: 172, requests: 471, started_at: '2026-11-20T23:00:00.000Z' },
      ...{ sealed_at: '2026-11-20T23:41:00.000Z', flowdrop_version: '0.1.0', proved: 'ids and values' },
      ...{ quarantined: 0, kept: 0, doubts: [], has_summary: true, windows_total: 467 },
      checks: [{ check: 'min_rows', column: null, passed: true, on_failure: 'fail', found: 8_412_907, allowed: 1_000 }],
      files: [{ filename: 'trades.parquet', size: 4, hash: `sha256:${'a'.repeat(64)}` }],
      columns: [{ name: 'id', type: 'STRING', nullable: false }],
      query: { sql: 'SELECT id FROM RawOptionTrades', entry_point: 'historical' },
      windows: [{ window: '09:30:00..09:30:12', rows: 9_800 }],
    },
    revisions: [
      { revision: 2, ...revision, changes: { added: 3, removed: 1, altered: 2 }, lost: null },
      { revision: 1, ...revision, changes: null, lost: null },
    ],
    ...changes,
  };
}

type DateStatus = StatusDocument['dates'][number];

/** A sealed date, but for the changes. */
export function makeDate(date: string, changes: Partial<DateStatus> = {}): DateStatus {
  const sealed = { condition: 'available', rows: 7, revision: 0, begins_to_expire: null } as const;
  return { date, ...sealed, damage: null, accepted: null, ...changes };
}

/** Sealed sessions since September, but for the changes. */
export function makeDates(changes: Readonly<Record<string, Partial<DateStatus>>> = {}): readonly DateStatus[] {
  return listSessions('2026-09-08', LAST_SESSION).map((date, index) =>
    makeDate(date, { rows: 7_900_000 + ((index * 137_911) % 900_000), ...changes[date] }),
  );
}

export function makeStatus(job: string, changes: Partial<StatusDocument> = {}): StatusDocument {
  return statusSchema.parse({
    job,
    dataset: 'trades',
    store: 's3://quant-drops/options',
    dates: [...makeDates()],
    last_success: '2026-11-19T23:40:02.000Z',
    next_run: '2026-11-23T23:00:00.000Z',
    staged: null,
    late: null,
    next_deadline: '2026-11-23T22:30:00.000Z',
    owed_events: null,
    reports: listSessions('2026-10-12', LAST_SESSION)
      .toReversed()
      .map((date, index) => ({ date, report: 'flow', revision: index === 3 ? 1 : 0 })),
    fault: null,
    ...changes,
  });
}

export function makeJob(name: string, changes: Partial<JobView> = {}): JobView {
  return {
    name,
    file: `jobs/${name}.yaml`,
    schedule: { cron: '0 18 * * 1-5', timezone: 'America/New_York', distributed: false },
    settle_seconds: 900,
    next_run: '2026-11-23T23:00:00.000Z',
    retry_at: null,
    waiting_since: null,
    running: null,
    active: null,
    runs: [makeRun(name, 67.5), makeRun(name, 91.5), makeRun(name, 115.5)],
    fault: null,
    status: makeStatus(name),
    status_read_at: ago(40_000),
    status_fault: null,
    ...changes,
  };
}

export function makeView(jobs: readonly JobView[], changes: Partial<DaemonView> = {}): DaemonView {
  const times = { startedAtMs: NOW - 9 * 24 * HOUR_MS, beatAtMs: NOW - 10_000 };
  return { version: '0.1.0', id: 'worker-1', ...times, isStopping: false, jobs, ...changes };
}

/** A run that goes on, with so many of its rows fetched. */
export function makeActive(job: string, rows: number, text = ''): RunRecord {
  return makeRun(job, 20 / 60, {
    ...{ id: 'run-now', run_id: 'run-now', reason: 'catch-up', started_at: '2026-11-23T18:10:00.000Z' },
    updated_at: '2026-11-23T18:29:59.000Z',
    ...{ finished_at: null, outcome: null, dates: [], reports: [] },
    progress: {
      date: text || '2026-11-19',
      phase: 'fetching',
      window: text || '11:42:00..11:43:30',
      total_rows: 8_400_000,
      dates_done: 1,
      dates_total: 3,
      pages_left: 150,
      rows_per_second: 3_180,
      seconds_left: 1_020,
    },
    ...{ rows, pages: 260, requests: 1_150, retries: 4, rate_limited: 2, splits: 9 },
  });
}

/** A day on which nothing is wrong. */
export function makeGoodDay(): DaemonView {
  return makeView([makeJob('nightly-trades'), makeJob('spx-chain')]);
}

/** Last night's, of the bad day. */
export const FAILED_RUN: RunRecord = makeRun('nightly-trades', 19.5, {
  ...{ outcome: 'failed', reason: 'retry', finished_at: new Date(NOW - 19.4 * HOUR_MS).toISOString() },
  error: {
    code: 'API_UNREACHABLE',
    message: 'https://api.example.com/api/v1/historical/sql cannot be reached: connect ECONNREFUSED 192.0.2.7:443',
    hint: 'See whether the address is right and the network allows it; the next run goes on from what is staged.',
  },
  ...{ planned_pages: 471, pages: 212, rows: 1_904_000, requests: 219 },
  dates: [{ date: '2026-11-20', status: 'failed', rows: 1_904_000, requests: 219 }],
  reports: [],
});

/** A run goes on, dates are missing, one run failed, one job file is broken, one status cannot be read. */
export function makeBadDay(rows = 5_100_000): DaemonView {
  const dates = makeDates({
    '2026-11-06': { condition: 'expired', rows: null, revision: null },
    '2026-11-10': { condition: 'pending', rows: null, revision: null, begins_to_expire: '2026-11-25T05:00:00.000Z' },
    '2026-11-13': { condition: 'degraded', rows: 7_212_400, revision: 2 },
    '2026-11-18': { condition: 'missing', rows: null, revision: null, begins_to_expire: '2026-12-03T05:00:00.000Z' },
    '2026-11-19': { condition: 'pending', rows: null, revision: null, begins_to_expire: '2026-12-04T05:00:00.000Z' },
    '2026-11-20': { condition: 'pending', rows: null, revision: null, begins_to_expire: '2026-12-05T05:00:00.000Z' },
  });
  return makeView([
    makeJob('nightly-trades', {
      running: { id: 'run-now', reason: 'catch-up', started_at: ago(20 * 60_000) },
      active: makeActive('nightly-trades', rows),
      status: makeStatus('nightly-trades', { dates: [...dates] }),
      status_read_at: ago(3_000),
      runs: [
        FAILED_RUN,
        makeRun('nightly-trades', 67.5, { outcome: 'incomplete' }),
        makeRun('nightly-trades', 91.5),
        makeRun('nightly-trades', 115.5, { outcome: 'died' }),
      ],
    }),
    makeJob('spx-chain', {
      waiting_since: ago(4 * 60_000),
      fault: {
        message: 'jobs/spx-chain.yaml:14: query.symbols: "SPX," is no symbol; allowed are 1 to 6 letters',
        since: ago(26 * 60_000),
      },
    }),
    makeJob('zero-dte', {
      retry_at: ago(-9 * 60_000),
      status_fault: 'STORE_UNREACHABLE: s3://quant-drops/options does not answer',
      status: null,
      status_read_at: null,
      runs: [],
    }),
  ]);
}

/** Every text that comes from outside means harm. */
export function makeHostileDay(): DaemonView {
  const status = makeStatus(HOSTILE, {
    dataset: HOSTILE,
    store: HOSTILE,
    fault: HOSTILE,
    reports: [{ date: '2026-11-20', report: HOSTILE, revision: 0 }],
  });
  return makeView(
    [
      makeJob(HOSTILE, {
        file: HOSTILE,
        schedule: { cron: HOSTILE, timezone: HOSTILE, distributed: true },
        running: { id: HOSTILE, reason: 'scheduled', started_at: ago(0) },
        active: makeActive(HOSTILE, 1, HOSTILE),
        fault: { message: HOSTILE, since: ago(0) },
        status,
        runs: [makeRun(HOSTILE, 1, { outcome: 'failed', error: { code: HOSTILE, message: HOSTILE, hint: HOSTILE } })],
      }),
    ],
    { id: HOSTILE, version: HOSTILE },
  );
}
