/**
 * Historical SQL over an archive: what a client of the API sees there, and that drops which are sealed, restated and
 * removed meanwhile appear. That a date restated all the time is never mixed is in `live-suite.ts`, that the answers are
 * the service's in `differential.slow.test.ts`, the contract in `test/contract`.
 */
import { mkdtemp, rm, truncate } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { HISTORICAL_PATH, PORTAL_PATH } from '../../src/api-contract/published-limits.ts';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { dropKey, manifestKey } from '../../src/ledger/layout.ts';
import type { Manifest } from '../../src/ledger/manifest.ts';
import { openDirectoryStore } from '../../src/store/directory.ts';
import type { Store } from '../../src/store/store.ts';
import { KEY, postJson, type TestService } from '../service/running-service.ts';
import { watchEngines } from '../support/engine-workers.ts';
import { ATTACK_GROUPS, listAttacks } from '../support/sql-lists.ts';
import { startArchiveService } from './archive-service.ts';
import { publishDay } from './publish-day.ts';

/** Long before the provider's first date, and before the lookback. */
const OLD = '2019-03-15';
const DATES = [OLD, '2026-11-17', '2026-11-18'];
const ROWS = 120;
const ROW_LIMIT = 50;

let path: string;
let store: Store;
let engine: Engine;
let service: TestService;
const engines = watchEngines();
const manifests = new Map<string, Manifest>();

beforeAll(async () => {
  path = await mkdtemp(join(tmpdir(), 'flowdrop-live-'));
  store = await openDirectoryStore(path);
  engine = await openEmbeddedEngine();
  for (const date of DATES) manifests.set(date, await publishDay(engine, store, { date, rows: ROWS }));
  service = await startArchiveService(
    { open: () => openDirectoryStore(path), access: { kind: 'directory', path } },
    'trades',
    { rowLimit: ROW_LIMIT },
  );
});
afterAll(async () => {
  engines.stop();
  await service?.stop();
  await engine?.close();
  await rm(path, { recursive: true, force: true });
});

async function read(sql: string): Promise<readonly Readonly<Record<string, unknown>>[]> {
  const { status, body, text } = await service.ask(sql);
  expect(status, text.slice(0, 300)).toBe(200);
  return body.data;
}

/** Waits until `check` passes: engines of a busy machine start slowly. */
const eventually = (check: () => Promise<void>) => vi.waitFor(check, { timeout: 30_000, interval: 50 });
const count = (where: string) => read(`SELECT count() AS trades FROM RawOptionTrades WHERE ${where}`);

describe('the API over an archive', () => {
  test('has every sealed date, however old, without a lookback', async () => {
    const { body } = await service.ask(
      'SELECT date, count() AS trades FROM RawOptionTrades GROUP BY date ORDER BY date',
    );
    expect(body.data).toEqual(DATES.map((date) => ({ date, trades: ROWS })));
    expect(body.meta).toEqual({
      entitlement: 'active',
      row_limit: ROW_LIMIT,
      capped: false,
      truncated: false,
      minimum_data_delay_minutes: 15,
    });
    expect(await read('SELECT DISTINCT date FROM RawOptionTradesMaxDateOnlyMV')).toEqual([{ date: '2026-11-18' }]);
  });

  test('has no option chain and no market structure, and describes only what it has', async () => {
    const chain = await service.send('/api/option-chain', postJson({ api_key: KEY, symbol: 'SPY' }));
    expect(chain.status).toBe(404);
    const bearer = { headers: { authorization: `Bearer ${KEY}` } };
    expect((await service.send('/api/v1/market-structure/SPY', bearer)).status).toBe(404);
    const { body, text } = await service.send('/openapi.json', {});
    expect(Object.keys(body.paths).sort()).toEqual([
      PORTAL_PATH,
      HISTORICAL_PATH,
      '/api/session',
      '/healthz',
      '/metrics',
      '/openapi.json',
    ]);
    expect(text).not.toMatch(/Chain|market structure|last 15 days|"lookback_days":15/i);
  });

  test('gives attacks nothing, one of each kind', async () => {
    const canary = join(path, 'canary');
    const failures: unknown[] = [];
    for (const group of ATTACK_GROUPS) {
      const [attack] = listAttacks(group);
      if (attack === undefined) continue;
      const sql = attack.sql.replaceAll('{canary_folder}', canary);
      const { status, text } = await service.ask(sql);
      if (![400, 422].includes(status) || text.includes(path)) failures.push({ sql, status, text });
    }
    expect(failures).toEqual([]);
    expect(ATTACK_GROUPS.length).toBeGreaterThan(10);
  });
});

describe('an archive that changes while it is served', () => {
  test('shows a drop that is sealed, restated and removed, without a restart', async () => {
    const date = '2026-11-19';
    const latest = () => read('SELECT max(date) AS date, max(premium) AS premium FROM RawOptionTradesMaxDateOnlyMV');
    const sealed = await publishDay(engine, store, { date, rows: ROWS, change: () => ({ premium: 1 }) });
    await eventually(async () => expect(await latest()).toEqual([{ date, premium: 1 }]));
    await publishDay(engine, store, { date, rows: ROWS, change: () => ({ premium: 2 }) }, sealed);
    await eventually(async () => expect(await latest()).toEqual([{ date, premium: 2 }]));
    await store.remove(manifestKey('trades', date));
    await store.remove(dropKey('trades', date));
    await eventually(async () => expect(await count(`date = '${date}'`)).toEqual([{ trades: 0 }]));
    expect(await count(`date = '${OLD}'`)).toEqual([{ trades: ROWS }]);
  });

  test('answers other dates while one is damaged, and that one when it is whole again', async () => {
    const date = '2026-11-17';
    await truncate(join(path, dropKey('trades', date)), 1_000);
    await eventually(async () => expect((await service.ask(`SELECT max(id) FROM RawOptionTrades`)).status).toBe(500));
    expect((await service.ask(`SELECT count() FROM RawOptionTrades WHERE date = '${date}'`)).body.errorCode).toBe(
      'INTERNAL_ERROR',
    );
    expect(JSON.stringify(service.lines)).toContain(`${date}: trades.parquet has 1000 bytes`);
    expect(await count(`date = '${OLD}'`)).toEqual([{ trades: ROWS }]);
    await publishDay(engine, store, { date, rows: ROWS }, manifests.get(date));
    await eventually(async () => expect(await count(`date = '${date}'`)).toEqual([{ trades: ROWS }]));
  });

  test('survives the death of all its engines', async () => {
    const before = engines.list();
    expect(before).toHaveLength(3);
    for (const child of before) child.kill('SIGKILL');
    await eventually(async () => expect(await count(`date = '${OLD}'`)).toEqual([{ trades: ROWS }]));
    expect(engines.list().filter((child) => before.includes(child))).toEqual([]);
  });
});
