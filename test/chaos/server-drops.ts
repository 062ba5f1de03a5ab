/**
 * Drops that a server writes, under faults drawn by a seed: the worker is killed, the server fails or is gone, connections
 * to the server and to the store break at a drawn byte. Whatever is sealed at any moment must equal the table, and after a
 * run without faults the date is sealed once, with nothing left beside it.
 */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { quoteString } from '../../src/engine/literal.ts';
import { dropKey, manifestKey, sealingPrefix } from '../../src/ledger/layout.ts';
import type { Manifest } from '../../src/ledger/manifest.ts';
import { openS3Store } from '../../src/store/s3.ts';
import type { Store } from '../../src/store/store.ts';
import { type ClickHouseFront, FRONT_DATABASE, startClickHouseFront } from '../support/clickhouse-front.ts';
import { MAIN, makeFolder } from '../support/flowdrop.ts';
import { createRandom } from '../support/random.ts';
import { type S3Server, s3Environment } from '../support/s3-server.ts';
import { fillServerTables, nameCollection, SERVER_DAY, SERVER_DAYS } from '../support/server-tables.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';

const WIDE_ROWS = 90_000;
const COLLECTION = 'drops';
const MOST_ATTEMPTS = 3;
/** A run sends about so many statements. */
const STATEMENTS = 20;
const ATTEMPT_MS = 60_000;
/** Errors of a server: time, network, memory, and a statement that somebody killed. */
const SERVER_CODES = [159, 210, 241, 394];
const FAULTS = ['kill', 'server-error', 'server-reset', 'server-gone', 'store-reset', 'stall'] as const;
type Fault = (typeof FAULTS)[number];
type Table = 'RawOptionTrades' | 'wide' | 'days';

export interface ServerDropResult {
  readonly seed: number;
  readonly table: Table;
  readonly faults: readonly Fault[];
  /** How the attempts ended: exit codes, or `killed`. */
  readonly ends: readonly (number | 'killed')[];
  readonly problems: readonly string[];
}

interface Bench {
  readonly front: ClickHouseFront;
  readonly store: Store;
  readonly toServer: TcpProxy;
  readonly toStore: TcpProxy;
  readonly folder: string;
  readonly location: string;
  readonly env: Readonly<Record<string, string>>;
}

/** @param note is told of each run as it ends */
export async function runServerDropChaos(
  s3: S3Server,
  { runs, seed }: { readonly runs: number; readonly seed: number },
  note: (result: ServerDropResult) => void = () => {},
): Promise<readonly ServerDropResult[]> {
  const folder = await makeFolder();
  const front = await startClickHouseFront();
  const prefix = `server-drop-chaos/${Date.now()}`;
  const store = await openS3Store({ ...s3, prefix });
  const proxyOf = async (url: string) => {
    const { hostname: host, port } = new URL(url);
    return await startTcpProxy({ host, port: Number(port) });
  };
  const [toServer, toStore] = [await proxyOf(front.url), await proxyOf(s3.endpoint)];
  const through = (url: string, { port }: TcpProxy) =>
    Object.assign(new URL(url), { port: String(port) }).href.replace(/\/$/, '');
  try {
    await fillServerTables(front, WIDE_ROWS);
    await nameCollection(front, COLLECTION, s3, prefix);
    const env = {
      ...s3Environment(s3),
      AWS_ENDPOINT_URL_S3: through(s3.endpoint, toStore),
      FLOWDROP_CLICKHOUSE_URL: through(front.url, toServer),
      FLOWDROP_CLICKHOUSE_COLLECTION: COLLECTION,
    };
    const location = `s3://${s3.bucket}/${prefix}`;
    const bench = { front, store, toServer, toStore, folder: folder.path, location, env };
    const results: ServerDropResult[] = [];
    for (let at = 0; at < runs; at += 1) {
      const result = await runOnce(bench, seed + at);
      results.push(result);
      note(result);
    }
    return results;
  } finally {
    for (const proxy of [toServer, toStore]) await proxy.close();
    for await (const { key } of store.list('')) await store.remove(key);
    await store.close();
    await front.close();
    await folder.remove();
  }
}

async function runOnce(bench: Bench, seed: number): Promise<ServerDropResult> {
  const random = createRandom(seed);
  const below = (limit: number) => Math.floor(random() * limit);
  const drawn = random();
  const table = drawn < 0.3 ? 'wide' : drawn < 0.6 ? 'days' : 'RawOptionTrades';
  const parallel = 1 + below(SERVER_DAYS.length);
  const dataset = `d${seed}`;
  const job = join(bench.folder, `${dataset}.yaml`);
  await writeFile(
    job,
    `name: ${dataset}\nsource:\n  api: clickhouse\n  table: ${FRONT_DATABASE}.${table}\ndrop:\n  to: ${bench.location}\n  dataset: ${dataset}\n  write: server\n  parallel: ${parallel}\n`,
  );
  const [faults, ends, problems]: [Fault[], (number | 'killed')[], string[]] = [[], [], []];
  const attempts = 1 + below(MOST_ATTEMPTS);
  for (let attempt = 0; attempt < attempts; attempt += 1) {
    const fault = FAULTS[below(FAULTS.length)] ?? 'kill';
    faults.push(fault);
    ends.push(await attemptWith(bench, job, fault, below));
    heal(bench);
    problems.push(...(await judge(bench, dataset, table, 'maybe')));
  }
  const last = await start(bench, job).ended;
  ends.push(last.code);
  if (last.code !== 0) problems.push(`the run without faults ended with ${last.code}: ${last.said.slice(-400)}`);
  problems.push(...(await judge(bench, dataset, table, 'sealed')));
  for await (const { key } of bench.store.list(sealingPrefix(dataset))) problems.push(`left behind: ${key}`);
  for await (const { key } of bench.store.list('')) if (key.includes(dataset)) await bench.store.remove(key);
  await rm(job);
  return { seed, table, faults, ends, problems };
}

/** One run of the job under one fault. */
async function attemptWith(
  bench: Bench,
  job: string,
  fault: Fault,
  below: (limit: number) => number,
): Promise<number | 'killed'> {
  const { front, toServer, toStore } = bench;
  const due = front.statements.length + below(STATEMENTS);
  const [afterBytes, afterMs] = [below(20_000), below(400)];
  const [code, isRequest] = [SERVER_CODES[below(SERVER_CODES.length)] ?? 0, below(2) === 0];
  const direction = isRequest ? 'request' : 'answer';
  const { child, ended } = start(bench, job);
  if (fault === 'server-error') front.onStatement = () => (front.statements.length > due ? code : undefined);
  if (fault === 'server-reset') toServer.breakWith({ direction, afterBytes, lasting: false, how: 'reset' });
  if (fault === 'server-gone') toServer.breakWith({ direction, afterBytes, lasting: true });
  if (fault === 'store-reset')
    toStore.breakWith({ direction, afterBytes: afterBytes * 4, lasting: false, how: 'reset' });
  if (fault === 'stall') toServer.breakWith({ direction, afterBytes, lasting: false, how: 'stall' });
  const isOver = new AbortController();
  const end = ended.then(({ code: exit }) => {
    isOver.abort();
    return exit;
  });
  if (fault === 'kill' || fault === 'stall') {
    while (!isOver.signal.aborted && front.statements.length <= due && (fault === 'kill' || toServer.faults === 0))
      await delay(5);
    await delay(afterMs);
    child.kill('SIGKILL');
  }
  const tooLong = delay(ATTEMPT_MS, undefined, { signal: isOver.signal }).then(
    () => child.kill('SIGKILL'),
    () => false,
  );
  const exit = await end;
  await tooLong;
  return exit;
}

function heal({ front, toServer, toStore }: Bench): void {
  front.onStatement = undefined;
  toServer.heal();
  toStore.heal();
}

function start({ folder, env }: Bench, job: string) {
  const child = spawn(
    process.execPath,
    [MAIN, 'backfill', job, '--from', SERVER_DAY, '--to', SERVER_DAYS.at(-1) ?? ''],
    {
      cwd: folder,
      env: { PATH: process.env['PATH'] ?? '', ...env },
      stdio: ['ignore', 'ignore', 'pipe'],
    },
  );
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (part: string) => {
    said += part;
  });
  const ended = once(child, 'close').then(([code]) => ({ code: (code ?? 'killed') as number | 'killed', said }));
  return { child, ended };
}

/** Compares what is sealed with the table; a date that is not sealed yet is right before the end. */
async function judge(
  bench: Bench,
  dataset: string,
  table: Table,
  expected: 'maybe' | 'sealed',
): Promise<readonly string[]> {
  const problems: string[] = [];
  for (const day of table === 'days' ? SERVER_DAYS : [SERVER_DAY]) {
    const found = await judgeDate(bench, { dataset, table, day }, expected);
    problems.push(...found.map((problem) => `${day}: ${problem}`));
  }
  return problems;
}

async function judgeDate(
  { front, store, folder }: Bench,
  { dataset, table, day }: { readonly dataset: string; readonly table: Table; readonly day: string },
  expected: 'maybe' | 'sealed',
): Promise<readonly string[]> {
  const bytes = await store.get(manifestKey(dataset, day));
  if (bytes === undefined) return expected === 'maybe' ? [] : ['the date is not sealed'];
  const manifest = JSON.parse(Buffer.from(bytes).toString('utf8')) as Manifest;
  const drop = await store.get(dropKey(dataset, day));
  if (drop === undefined) return ['the drop is gone'];
  const hash = `sha256:${createHash('sha256').update(drop).digest('hex')}`;
  const path = join(folder, `${dataset}.parquet`);
  await writeFile(path, drop);
  const sums = 'toUInt32(count()) AS n, toString(sum(cityHash64(id, symbol, size, toFloat64(premium)))) AS sum';
  const [its] = await front.engine.rows<{ n: number; sum: string }>(
    `SELECT ${sums} FROM file(${quoteString(path)}, Parquet)`,
  );
  const [own] = await front.engine.rows<{ n: number; sum: string }>(
    `SELECT ${sums} FROM ${table} WHERE date = ${quoteString(day)}`,
  );
  await rm(path);
  return [
    ...(manifest.files[0].hash === hash ? [] : ['the drop has not the hash of its manifest']),
    ...(manifest.rows === own?.n && its?.n === own.n
      ? []
      : [`${manifest.rows} rows sealed, ${its?.n} in the drop, ${own?.n} in the table`]),
    ...(its?.sum === own?.sum ? [] : ['the rows differ from those of the table']),
    ...(manifest.revision === 1 ? [] : [`revision ${manifest.revision} of rows that never changed`]),
  ];
}

/** A line a run; problems below it. */
export function describeServerDrop({ seed, table, faults, ends, problems }: ServerDropResult): string {
  const line = `seed ${seed}, ${table}: ${faults.map((fault, at) => `${fault} (${ends[at]})`).join(', ')}, ${ends.at(-1)}`;
  return [line, ...problems.map((problem) => `  ${problem}`)].join('\n');
}
