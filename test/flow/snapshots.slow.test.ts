/**
 * The shipped snapshot jobs, run as a user runs them against the real service, through faults and kills: each drop is what
 * the service answers, row for row. What the clients make of single answers is tested in test/source.
 */

import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { RunResult } from '../../src/state/run-result.ts';
import { useCleanups } from '../support/cleanups.ts';
import { queryDuckDb } from '../support/drop.ts';
import type { Fault, FaultPlan, SeenRequest } from '../support/fault-plan.ts';
import { type FaultProxy, startFaultProxy } from '../support/fault-proxy.ts';
import {
  type Finished,
  flowdrop,
  listFiles,
  REPO,
  type RunOptions,
  readManifest,
  startService,
  type TestService,
} from '../support/flowdrop.ts';

const DAY = '2026-11-19';
const AS_OF = `${DAY}T23:00:00Z`;
/** Each symbol's chain of a generated session of this size has some dozens of contracts. */
const ROWS = '3000';
/** The service admits ten requests of a key at once, then one a second: each run, and each question, has a key of its own. */
const KEYS = Array.from({ length: 400 }, (_, at) => `cus_test_key_of_its_own_${at}`);
const newKey = () => KEYS.pop() ?? '';
/** For runs with more requests than a key has at once. */
const SLOWLY = { FLOWDROP_SNAPSHOTS_PER_SECOND: '3' };

type Row = Readonly<Record<string, unknown>>;
type Api = 'chain' | 'market-structure';

let service: TestService;
let narrow: TestService;
let cwd: string;
const { folder, keep } = useCleanups(afterEach);

beforeAll(async () => {
  const args = ['--generate', '2', '--generate-rows', ROWS, '--as-of', AS_OF, ...KEYS.flatMap((key) => ['--key', key])];
  [service, narrow] = await Promise.all([startService(args), startService([...args, '--chain-limit', '60'])]);
});
afterAll(async () => {
  await service?.stop();
  await narrow?.stop();
});
beforeEach(async () => {
  cwd = await folder();
});

/** Until the test ends. */
async function startProxy(url: string, plan: FaultPlan): Promise<FaultProxy> {
  const proxy = await keep(startFaultProxy(url, plan));
  return proxy;
}

async function writeSnapshotJob(api: Api, symbols: readonly string[]): Promise<string> {
  const path = join(cwd, `${api}.yaml`);
  await writeFile(
    path,
    `name: ${api}\nsource:\n  api: ${api}\n  symbols: [${symbols.join(', ')}]\ndrop:\n  to: out/drops\n  dataset: ${api}\n`,
  );
  return path;
}

interface Run extends Pick<RunOptions, 'env' | 'code' | 'onStart'> {
  readonly args?: readonly string[];
}

async function backfill(job: string, url: string, { args = [], env = {}, ...more }: Run = {}): Promise<Finished> {
  return await flowdrop(['--json', 'backfill', job, '--from', DAY, '--to', DAY, ...args], {
    cwd,
    env: { ...service.env, FLOWDROP_API_URL: url, FLOWDROP_API_KEY: newKey(), FLOWDROP_LOG_LEVEL: 'debug', ...env },
    ...more,
  });
}

const partition = (dataset: string) => join('out', 'drops', dataset, `session=${DAY}`);
const manifestOf = (dataset: string) => readManifest(join(cwd, 'out', 'drops'), DAY, dataset);
const readDrop = (dataset: string) =>
  queryDuckDb(
    `SELECT * FROM read_parquet('${join(cwd, partition(dataset), `${dataset}.parquet`)}', hive_partitioning = false)`,
  );

/** What the service answers when nobody is in between. */
async function ask(path: string, init: RequestInit): Promise<Row> {
  const response = await fetch(`${service.url}${path}`, init);
  return (await response.json()) as Row;
}

async function readChain(symbol: string): Promise<readonly Row[]> {
  const answer = await ask('/api/option-chain', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ api_key: newKey(), symbol, date: DAY }),
  });
  return (answer['data'] ?? []) as readonly Row[];
}

async function expectChains(dataset: string, symbols: readonly string[]): Promise<void> {
  const dropped = await readDrop(dataset);
  const wanted = (await Promise.all(symbols.map(readChain))).flat();
  expect(wanted.length).toBeGreaterThan(symbols.length);
  expect(dropped.length).toBe(wanted.length);
  const nameOf = (row: Row) =>
    [row['symbol'], row['expiration_date'], row['strike'], row['put_call'], row['option_symbol']].join(' ');
  const byName = new Map(dropped.map((row) => [nameOf(row), row]));
  expect(byName.size).toBe(wanted.length);
  for (const row of wanted) expect(byName.get(nameOf(row))).toEqual({ date: DAY, ...row });
}

async function expectStructures(dataset: string, symbols: readonly string[]): Promise<void> {
  const dropped = await readDrop(dataset);
  expect(dropped.map((row) => row['symbol']).sort()).toEqual([...symbols].sort());
  for (const row of dropped) {
    const answer = await ask(`/api/v1/market-structure/${String(row['symbol'])}?date=${DAY}`, {
      headers: { authorization: `Bearer ${newKey()}` },
    });
    const { data, meta } = answer as unknown as { data: Record<string, Row>; meta: Row };
    const { symbol_meta, flow, structure, intraday_gex } = data;
    expect(JSON.parse(String(row['flow']))).toEqual(flow);
    expect(JSON.parse(String(row['structure']))).toEqual(structure);
    expect(JSON.parse(String(row['symbol_meta']))).toEqual(symbol_meta);
    expect(row).toMatchObject({ date: DAY, effective_date: meta['effective_date'], ...intraday_gex });
    expect(Date.parse(`${String(row['structure_as_of']).replace(' ', 'T').replace(/\+00$/, '')}Z`)).toBe(
      Date.parse(String(meta['structure_as_of'])),
    );
    const members = Object.entries({ ...flow }).map(([name, value]) => [row[`flow_${name}`], value] as const);
    expect(members.length).toBeGreaterThan(15);
    // Integers of 64 bits are text in DuckDB's JSON.
    for (const [dropped, value] of members) expect(typeof value === 'number' ? Number(dropped) : dropped).toBe(value);
  }
}

it.each(['option-chain', 'market-structure'])(
  'the shipped job %s drops what the service answers, row for row',
  async (name) => {
    const job = join(cwd, `${name}.yaml`);
    await writeFile(job, await readFile(join(REPO, 'jobs', `${name}.yaml`)));
    await flowdrop(['check', '--live', job], { cwd, env: service.env, code: 0 });
    const plan = await flowdrop(['--json', 'plan', job], {
      cwd,
      env: { ...service.env, FLOWDROP_SNAPSHOTS_PER_SECOND: '1' },
    });
    const planned = JSON.parse(plan.stdout) as {
      dates: { date: string; rows: null; requests: number; seconds: number }[];
    };
    expect(planned.dates.at(-1)).toMatchObject({
      date: DAY,
      rows: null,
      requests: 12,
      seconds: expect.closeTo(12.12),
    });
    await backfill(job, service.url, { env: SLOWLY, code: 0 });
    const manifest = await manifestOf(name);
    expect(manifest).toMatchObject({ condition: 'available', source_rows: manifest.rows });
    expect(manifest.missing).toBeUndefined();
    const symbols = manifest.windows.map(({ window }) => window);
    expect(symbols).toHaveLength(12);
    if (name === 'option-chain') await expectChains(name, symbols);
    else await expectStructures(name, symbols);
    const again = await backfill(job, service.url);
    expect((JSON.parse(again.stdout) as RunResult).dates).toEqual([]);
    const verified = await flowdrop(['verify', job, '--deep'], { cwd, env: service.env });
    expect(verified).toMatchObject({ code: 0, stderr: expect.stringContaining('cannot be recounted') });
  },
);

const SYMBOLS = ['SPX', 'SPY', 'QQQ', 'NVDA'];

describe.each(['chain', 'market-structure'] as const)('a job of %s', (api) => {
  const expectWhole = api === 'chain' ? expectChains : expectStructures;

  it(`seals the same rows through 429, 5xx, cut, doubled and garbled answers of ${api}`, async () => {
    const faults: readonly Fault[] = [
      { kind: 'status', status: 429, body: 'api', retryAfter: { seconds: 1, as: 'number' } },
      { kind: 'status', status: 503, body: 'html' },
      { kind: 'truncate', how: 'length', share: 0.6 },
      { kind: 'truncate', how: 'consistent', share: 0.6 },
      { kind: 'duplicate' },
      { kind: 'garble', how: 'gzip' },
      { kind: 'reset', at: 'body' },
    ];
    const plan = faults.map((fault) => ({ on: isDated, times: 1, fault }));
    const proxy = await startProxy(service.url, plan);
    const result = await backfill(await writeSnapshotJob(api, SYMBOLS), proxy.url, { code: 0 });
    expect(proxy.injected).toHaveLength(plan.length);
    expect(result.stdout + result.stderr).not.toContain('cus_test_key');
    await expectWhole(api, SYMBOLS);
  });

  it(`never asks ${api} again for a symbol that was staged before a kill`, async () => {
    const seen: string[] = [];
    const note = (request: SeenRequest) => {
      seen.push(symbolOf(request));
      return undefined;
    };
    const proxy = await startProxy(service.url, (request) =>
      /NVDA/.test(request.body + request.path) ? { kind: 'stall' } : note(request),
    );
    const job = await writeSnapshotJob(api, SYMBOLS);
    const killed = await backfill(job, proxy.url, { onStart: (child) => killWhenStaged(child, 3) });
    expect(killed.code, killed.stderr).toBeNull();
    expect(await listFiles(join(cwd, 'out'))).toEqual(['drops/_flowdrop/store.json']);
    proxy.follow(note);
    seen.length = 0;
    await backfill(job, proxy.url, { code: 0 });
    expect(seen.filter((symbol) => symbol !== '')).toEqual(['NVDA']);
    await expectWhole(api, SYMBOLS);
  });

  it(`seals a date degraded when ${api} has nothing of a symbol, and says which`, async () => {
    const result = await backfill(await writeSnapshotJob(api, ['SPY', 'ZZZZ']), service.url, { code: 3 });
    const missing = [{ window: 'ZZZZ', reason: api === 'chain' ? 'SYMBOL_NOT_FOUND' : 'SNAPSHOT_NOT_FOUND' }];
    expect(JSON.parse(result.stdout)).toMatchObject({ dates: [{ status: 'sealed', missing }], gaps: [DAY] });
    expect(await manifestOf(api)).toMatchObject({ condition: 'degraded', missing });
  });

  it(`seals nothing and does not end well when ${api} has nothing of any symbol`, async () => {
    const result = await backfill(await writeSnapshotJob(api, ['ZZZY', 'ZZZZ']), service.url, { code: 3 });
    expect(JSON.parse(result.stdout)).toMatchObject({ dates: [{ status: 'missing', rows: 0 }] });
    expect(await listFiles(join(cwd, 'out'))).toEqual(['drops/_flowdrop/store.json']);
  });

  it(`does not end well when ${api} has nothing of the dates that were named, whatever is sealed of others`, async () => {
    const job = await writeSnapshotJob(api, ['SPY']);
    await backfill(job, service.url, { code: 0 });
    const named = ['2026-11-16', '2026-11-17'];
    const result = await backfill(job, service.url, { args: ['--from', '2026-11-14', '--to', '2026-11-17'], code: 3 });
    expect(JSON.parse(result.stdout)).toMatchObject({
      dates: named.map((date) => ({ date, status: 'missing' })),
      named: { no_rows: named, no_session: ['2026-11-14', '2026-11-15'], sealed: [], not_over: [] },
    });
    const future = await backfill(job, service.url, { args: ['--to', '2026-11-20'] });
    expect(future).toMatchObject({ code: 2, stderr: expect.stringContaining('DATE_FUTURE') });
  });

  it.each([
    [401, 'UNAUTHORIZED'],
    [403, 'SUBSCRIPTION_REQUIRED'],
  ])(`stops at once when ${api} answers %i`, async (status, code) => {
    const proxy = await startProxy(service.url, [{ on: /./, fault: { kind: 'status', status, body: 'api' } }]);
    const result = await backfill(await writeSnapshotJob(api, SYMBOLS), proxy.url);
    expect(result.code).toBe(2);
    expect(result.stderr).toContain(code);
    expect(proxy.requests).toBe(1);
  });
});

it('dates that the API has nothing of are asked for until nothing more is to come, then only by name or for a new symbol', async () => {
  const seen: string[] = [];
  const note = ({ body }: SeenRequest) => {
    const { symbol, date } = JSON.parse(body) as { symbol: string; date?: string };
    if (date !== undefined) seen.push(`${date} ${symbol}`);
    return undefined;
  };
  const proxy = await startProxy(service.url, note);
  const asked = async (...args: readonly string[]) => {
    seen.length = 0;
    const env = { ...service.env, ...SLOWLY, FLOWDROP_API_URL: proxy.url, FLOWDROP_API_KEY: newKey() };
    const { code, stderr } = await flowdrop(args, { cwd, env });
    expect([code, stderr]).toEqual([expect.toBeOneOf([0, 3]), expect.not.stringContaining('ENGINE')]);
    // The service may have asked for patience: then one comes twice.
    return [...new Set(seen)].sort();
  };
  const job = await writeSnapshotJob('chain', ['SPY']);
  // Of the lookback the service has generated the last two sessions.
  const old = ['2026-11-05', '2026-11-06', '2026-11-09', '2026-11-10', '2026-11-11', '2026-11-12', '2026-11-13'];
  const fresh = ['2026-11-16', '2026-11-17'];
  const all = [...old, ...fresh].map((date) => `${date} SPY`);
  expect(await asked('run', job)).toEqual([...all, '2026-11-18 SPY', '2026-11-19 SPY']);
  expect(await asked('run', job)).toEqual(fresh.map((date) => `${date} SPY`));
  const atProxy = { ...service.env, FLOWDROP_API_URL: proxy.url };
  const plan = await flowdrop(['--json', 'plan', job], { cwd, env: atProxy });
  expect(JSON.parse(plan.stdout)).toMatchObject({
    dates: fresh.map((date) => ({ date })),
    without_rows: old,
  });
  expect(await asked('backfill', job, '--from', '2026-11-10', '--to', '2026-11-10')).toEqual(['2026-11-10 SPY']);
  await writeSnapshotJob('chain', ['SPY', 'QQQ']);
  expect(await asked('run', job)).toEqual(all.flatMap((asked) => [asked.replace('SPY', 'QQQ'), asked]));
});

it('a chain that is too large for one answer is asked for in parts that lose and double nothing, and goes on with the parts after a kill', async () => {
  const seen: string[] = [];
  const note = (request: SeenRequest) => {
    const { date, put_call, strike_min, strike_max, expiration_date } = JSON.parse(request.body) as Row;
    // The contracts of one expiration are a sample of the strikes, not the chain.
    if (date !== undefined) seen.push(JSON.stringify([put_call, strike_min, strike_max, expiration_date]));
    return undefined;
  };
  const proxy = await startProxy(narrow.url, note);
  const job = await writeSnapshotJob('chain', ['SPX']);
  const killed = await backfill(job, proxy.url, {
    env: SLOWLY,
    onStart: (child) => killWhenStaged(child, 2),
  });
  expect(killed.code, killed.stderr).toBeNull();
  const before = staged(killed);
  expect(before.length).toBeGreaterThanOrEqual(2);
  seen.length = 0;
  const resumed = await backfill(job, proxy.url, { env: SLOWLY, code: 0 });
  expect(seen).not.toContain('[null,null,null,null]');
  await expectChains('chain', ['SPX']);
  const { windows, rows } = await manifestOf('chain');
  expect(windows.length).toBeGreaterThan(3);
  expect(windows.reduce((sum, window) => sum + window.rows, 0)).toBe(rows);
  for (const { window, rows } of windows) {
    expect(window).toMatch(/^SPX( |$)/);
    expect(rows).toBeLessThanOrEqual(60);
  }
  // Parts that were staged before the kill are in the drop and were not staged again.
  expect(windows.map(({ window }) => window)).toEqual(expect.arrayContaining([...before]));
  expect(staged(resumed).filter((window) => before.includes(window))).toEqual([]);
});

/** Not the greeting, which asks for no date. */
const isDated = (request: SeenRequest) => symbolOf(request) !== '';

/** The symbol of a request for a date; empty for others. */
function symbolOf({ method, path, body }: SeenRequest): string {
  if (method === 'POST') {
    const { symbol, date } = JSON.parse(body) as { symbol: string; date?: string };
    return date === undefined ? '' : symbol;
  }
  return /market-structure\/(\w+)\?date=/.exec(path)?.[1] ?? '';
}

/** Windows with rows that a run says to have staged. */
function staged({ stderr }: Finished): readonly string[] {
  return stderr.split('\n').flatMap((line) => {
    const event = parseLine(line);
    return event['event'] === 'page' && Number(event['rows']) > 0 ? [String(event['window'])] : [];
  });
}

function parseLine(line: string): Row {
  try {
    return JSON.parse(line) as Row;
  } catch {
    return {}; // The summary of a failure is no line of the log; a killed process may leave half a line.
  }
}

/** SIGKILL as soon as so many windows are in the stage. */
function killWhenStaged(
  child: { kill(signal: 'SIGKILL'): boolean; readonly stderr: NodeJS.ReadableStream | null },
  count: number,
): void {
  let said = '';
  child.stderr?.on('data', (chunk) => {
    said += String(chunk);
    if (staged({ code: null, stdout: '', stderr: said }).length >= count) child.kill('SIGKILL');
  });
}
