/**
 * Trades into a server: all of a file or none, files that are refused, and generated sessions. The servers are Debian's,
 * which is real, and one of today (the embedded engine behind its HTTP interface). The embedded engine's own way is in
 * `load.slow.test.ts`.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { TRADE_COLUMNS } from '../../src/api-contract/trade.ts';
import { systemClock } from '../../src/core/clock.ts';
import type { EnginePool } from '../../src/engine/pool.ts';
import { openServerEngine, readCapabilities, type ServerEngine } from '../../src/engine/server.ts';
import { openWorkerPool } from '../../src/engine/worker-pool.ts';
import { loadServer } from '../../src/service/data/server-backend.ts';
import { SERVER_TABLES, setUpServer } from '../../src/service/data/server-setup.ts';
import { SERVICE_DEFAULTS, type ServiceOptions } from '../../src/service/options.ts';
import { startClickHouseFront } from '../support/clickhouse-front.ts';
import { startClickHouse } from '../support/clickhouse-server.ts';
import { WORKER_COMMAND } from '../support/engine-workers.ts';
import { createSilentLog } from '../support/log.ts';
import { createTrade, type TradeRow } from '../support/trades.ts';

const { server, reason } = await startClickHouse();

/** An old server skips the header, and does not know the SQL that generates a session. */
const ORDER = 'CSV columns in another order are taken by name';
const SESSION = 'a session is generated once';
/** Said aloud, as is what is missing. */
const OLD_SKIPS: readonly string[] = server?.version.startsWith('18.') ? [ORDER, SESSION] : [];
if (OLD_SKIPS.length > 0) console.warn(`SKIPPED on ClickHouse ${server?.version}: ${OLD_SKIPS.join('; ')}`);

const NAMES = TRADE_COLUMNS.map(({ name }) => name);
const { trades } = SERVER_TABLES;

const SERVERS = [
  {
    name: 'an old server',
    isMissing: server === undefined,
    skips: OLD_SKIPS,
    start: async () => {
      if (server === undefined) throw new Error(reason);
      return { url: server.adminUrl, stop: server.stop };
    },
  },
  {
    name: 'a server of today',
    isMissing: false,
    skips: [] as readonly string[],
    start: async () => {
      const { url, close: stop } = await startClickHouseFront();
      return { url, stop };
    },
  },
];

// Skipped only where no server can be had, which `support/clickhouse-server.ts` says aloud; CI never skips it.
describe.each(SERVERS)('loading into $name', ({ isMissing, skips, start }) => {
  if (isMissing) return test.skip('nothing');
  let admin: ServerEngine;
  let local: EnginePool;
  let stop: (() => Promise<void>) | undefined;
  let folder: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'flowdrop-server-load-'));
    const started = await start();
    stop = started.stop;
    admin = await openServerEngine({ url: started.url });
    local = await openWorkerPool({
      ...{ command: WORKER_COMMAND, folder: join(folder, 'local'), size: 1, maxWaiting: 1, maxResultBytes: 1e6 },
    });
    isExact = (await readCapabilities(admin)).settings.has('precise_float_parsing');
    await setUpServer(admin, { ...SERVICE_DEFAULTS, offsetSeconds: 0 });
  });

  beforeEach(async () => {
    await admin.command(`TRUNCATE TABLE ${trades}`);
  });

  afterAll(async () => {
    await local?.close();
    await admin?.close();
    await stop?.();
    if (folder) await rm(folder, { recursive: true, force: true });
  });

  const write = async (name: string, content: string | Uint8Array) => {
    const path = join(folder, name);
    await writeFile(path, content);
    return path;
  };
  const loadAs = (options: Partial<ServiceOptions>) =>
    loadServer({ ...SERVICE_DEFAULTS, ...options }, admin, local, { clock: systemClock, log: createSilentLog() });
  const load = (file: string) => loadAs({ data: [file] });
  let isExact = false;
  /** Servers without the setting read 7.94 as 7.9399999999999995. */
  const asRead = (value: unknown) => (typeof value === 'number' && !isExact ? Number(value.toPrecision(14)) : value);
  const loaded = async () =>
    (await stored()).map((row) =>
      Object.fromEntries(Object.entries(row).map(([name, value]) => [name, asRead(value)])),
    );
  const stored = async () =>
    await admin.rows<Record<string, unknown>>(`SELECT ${NAMES.join(', ')} FROM ${trades} ORDER BY id`);
  const count = async () => (await admin.rows<{ rows: number }>(`SELECT count() AS rows FROM ${trades}`))[0]?.rows;
  const incoming = () => admin.rows("SELECT name FROM system.tables WHERE name = 'incoming'");

  /** The record's columns in their order. */
  const record = (row: TradeRow): TradeRow => Object.fromEntries(NAMES.map((name) => [name, row[name]]));
  const rows = Array.from({ length: 50 }, (_, k) => record(createTrade(k)));
  const sorted = rows.toSorted((a, b) => (String(a['id']) < String(b['id']) ? -1 : 1));
  const ndjson = (list: readonly TradeRow[]) => list.map((row) => `${JSON.stringify(row)}\n`).join('');
  const csv = (list: readonly TradeRow[], names = NAMES) =>
    [names.join(','), ...list.map((row) => names.map((name) => JSON.stringify(row[name])).join(','))].join('\n');

  test.each([
    ['trades.ndjson', ndjson(rows)],
    ['trades.jsonl', ndjson(rows).trimEnd()],
    ['trades.ndjson.gz', gzipSync(ndjson(rows))],
    ['trades.csv', csv(rows)],
    ['trades.csv.gz', gzipSync(csv(rows))],
    ['with-columns-that-no-record-has.ndjson', ndjson(rows.map((row) => ({ further: { a: [1] }, ...row })))],
  ])('%s arrives row for row', async (name, content) => {
    await load(await write(name, content));
    expect(await loaded()).toEqual(sorted);
    expect(await incoming()).toEqual([]);
  });

  test('a long file arrives whole', async () => {
    const many = Array.from({ length: 60_000 }, (_, k) => JSON.stringify(createTrade(k))).join('\n');
    await load(await write('many.ndjson.gz', gzipSync(many, { level: 1 })));
    expect(await count()).toBe(60_000);
  });

  test('of a file with one bad row far behind nothing is loaded', async () => {
    const lines = Array.from({ length: 30_000 }, (_, k) => JSON.stringify(createTrade(k)));
    lines.push('{"id": broken');
    const file = await write('bad.ndjson', lines.join('\n'));
    await expect(load(file)).rejects.toMatchObject({
      code: 'DATA_UNREADABLE',
      kind: 'usage',
      message: expect.stringMatching(/bad\.ndjson: the rows cannot be read as JSONEachRow: .*pars/is),
    });
    expect(await count()).toBe(0);
    expect(await incoming()).toEqual([]);
  });

  test('a file that lacks a column is refused by its name', async () => {
    const { strike: _strike, ...without } = rows[0] ?? {};
    for (const [name, content] of [
      ['lacks.ndjson', ndjson([without])],
      [
        'lacks.csv',
        csv(
          rows,
          NAMES.filter((column) => column !== 'strike'),
        ),
      ],
    ] as const)
      await expect(load(await write(name, content))).rejects.toMatchObject({
        code: 'DATA_INVALID',
        message: expect.stringContaining('rows lack strike;'),
      });
    expect(await count()).toBe(0);
  });

  test.skipIf(skips.includes(ORDER))(ORDER, async () => {
    await load(await write('order.csv', csv(rows, NAMES.toReversed())));
    expect(await loaded()).toEqual(sorted);
  });

  test.skipIf(skips.includes(SESSION))(SESSION, async () => {
    for (const generateRows of [2_000, 3_000]) {
      await loadAs({ generateSessions: 1, generateRows });
      expect(await count()).toBe(2_000);
    }
    expect(await incoming()).toEqual([]);
  });

  test.each([
    ['no such file', 'missing.ndjson', undefined, 'DATA_UNREADABLE'],
    ['another format', 'trades.parquet', 'PAR1', 'DATA_INVALID'],
    ['no JSON', 'text.ndjson', 'id symbol\n', 'DATA_UNREADABLE'],
    ['an empty file', 'empty.ndjson', '', 'DATA_UNREADABLE'],
    ['a broken archive', 'broken.ndjson.gz', 'not gzip', 'DATA_UNREADABLE'],
    ['a cut archive', 'cut.ndjson.gz', gzipSync(ndjson(rows)).subarray(0, 900), 'DATA_UNREADABLE'],
  ])('%s is refused', async (_what, name, content, code) => {
    const file = content === undefined ? join(folder, name) : await write(name, content);
    await expect(load(file)).rejects.toMatchObject({ code, kind: 'usage', message: expect.stringContaining(name) });
    expect(await count()).toBe(0);
    expect(await incoming()).toEqual([]);
  });
});
