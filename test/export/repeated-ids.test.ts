/**
 * Rows that share an id, from the source to the drop: what is a version of a trade and what is another trade, and where a
 * date fails. Of a ClickHouse server's own table: `test/flow/clickhouse-table.slow.test.ts`.
 */
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import { openDates, runExport } from '../../src/export/export.ts';
import { dropKey } from '../../src/ledger/layout.ts';
import { Ledger } from '../../src/ledger/ledger.ts';
import { auditDrop } from '../../src/seal/audit.ts';
import { discardStages } from '../../src/stage/stage-table.ts';
import type { RunResult } from '../../src/state/run-result.ts';
import { openDirectoryStore } from '../../src/store/directory.ts';
import type { Store } from '../../src/store/store.ts';
import { useCleanups } from '../support/cleanups.ts';
import { queryDuckDb } from '../support/drop.ts';
import { createEngineSource, fillTrades } from '../support/engine-source.ts';
import { parseSqlJob } from '../support/jobs.ts';
import { createKeptLog, type KeptLog } from '../support/log.ts';
import { createRun } from '../support/run.ts';
import { createTrade, createTrades, DATE, type TradeRow } from '../support/trades.ts';

const ROWS = 600;
const NOW = Date.parse('2026-11-20T03:00:00Z');
const DAY = createTrades(ROWS);
const idOf = (k: number) => String(createTrade(k)['id']);
const job = parseSqlJob(
  'job.yaml',
  'name: trades\nsource: {api: historical}\ndrop: {to: out, dataset: trades}\nchecks: [{check: unique-id, on_failure: warn}]\n',
);

const { folder: makeFolder, keep } = useCleanups();
const engine = await keep(openEmbeddedEngine());
let folder: string;
let store: Store;
const ledger = () => new Ledger(store, 'trades');
let kept: KeptLog;

beforeEach(async () => {
  folder = await makeFolder();
  store = await openDirectoryStore(join(folder, 'store'));
  await discardStages(engine, DATE);
});
afterEach(async () => await store.close());

async function run(rows: readonly TradeRow[]): Promise<RunResult> {
  await fillTrades(engine, rows);
  const source = createEngineSource(engine, { rowLimit: 200, meta: true, nowMs: NOW });
  kept = createKeptLog();
  const context = await createRun({ job, engine, store, source, folder, log: kept.log });
  return (await runExport(context)).result;
}

const read = async (what: string) =>
  await queryDuckDb(`SELECT ${what} FROM '${join(folder, 'store', dropKey('trades', DATE))}'`);

/** What `verify --deep` says. */
async function verifyDeep(): Promise<readonly string[]> {
  const deps = { ledger: ledger(), engine, folder: join(folder, 'verify') };
  const { findings, manifest } = await auditDrop(deps, DATE);
  if (manifest === undefined) return findings;
  const source = createEngineSource(engine, { rowLimit: 200, meta: true, nowMs: NOW });
  const deep = await openDates(await createRun({ job, engine, store, source, folder })).compare?.(manifest, deps);
  return [...findings, ...(deep ?? [])];
}

describe('a day whose rows', () => {
  it.each([
    ['all have an empty id', () => ''],
    ['have their symbol for an id', (row: TradeRow) => String(row['symbol'])],
    ['have one id for every ten of them', (_: TradeRow, k: number) => `order-${Math.floor(k / 10)}`],
  ])('%s fails with examples, and nothing of it is sealed', async (_, id) => {
    const { dates } = await run(DAY.map((row, k) => ({ ...row, id: id(row, k) })));
    expect(dates).toEqual([
      expect.objectContaining({
        ...{ date: DATE, status: 'failed' },
        error: {
          code: 'IDS_REPEATED',
          message: expect.stringMatching(
            /^2026-11-19: \d+ of 600 rows (repeat an id of the same answer; window .*|have the id of another trade, or none)\. For example: id ".*" has \d+ rows \(SYM\d+ 2026-11-19 09:30:\d\d SYM\d+261218C00100000 .*\)/,
          ),
          hint: expect.stringContaining('Ask the provider'),
        },
      }),
    ]);
    expect(await ledger().manifest(DATE)).toBeUndefined();
  });

  it('share a few ids with other trades of one stamp keeps all of those, and of versions of a trade the newest', async () => {
    const stamp = (k: number) => ({ id: idOf(k), updated_timestamp: createTrade(k)['updated_timestamp'] });
    const shared = [
      createTrade(601, { ...stamp(1), symbol: 'OTHER' }),
      createTrade(602, { ...stamp(2), time: `${DATE} 15:00:00`, symbol: DAY[2]?.['symbol'] }),
      createTrade(3, { option_symbol: 'SYM261218P00100000' }),
    ];
    const withoutId = [createTrade(604, { id: '' }), createTrade(605, { id: '' }), createTrade(605, { id: '' })];
    // A correction of the id that two trades share belongs to the one whose contract it has.
    const ofShared = createTrade(3, { updated_timestamp: '1799000000000' });
    const newer = { updated_timestamp: '1799000000000', price: 777 };
    const corrected = [
      createTrade(7, newer),
      createTrade(8, { ...newer, time: `${DATE} 15:00:00` }),
      createTrade(9, { ...newer, option_symbol: 'SYM261218P00100000' }),
      createTrade(10, { ...newer, symbol: 'OTHER' }),
    ];
    const { dates } = await run([...DAY, ...shared, ...withoutId, ofShared, ...corrected]);
    expect(dates).toEqual([expect.objectContaining({ status: 'sealed', rows: ROWS + 6 })]);
    expect(await ledger().manifest(DATE)).toMatchObject({
      ...{ rows: ROWS + 6, source_rows: ROWS + 11, duplicates: 5, ids: ROWS + 1 },
    });
    expect(await read("count(*) FILTER (id = '') AS n")).toEqual([{ n: '3' }]);
    for (const k of [1, 2, 3]) {
      const where = `count(*) FILTER (id = '${idOf(k)}') AS n`;
      expect([k, await read(where)]).toEqual([k, [{ n: '2' }]]);
    }
    for (const k of [7, 8, 9, 10]) {
      const where = `list(price) FILTER (id = '${idOf(k)}') AS prices`;
      expect([k, await read(where)]).toEqual([k, [{ prices: [777] }]]);
    }
    // The check sees them in the file: an audit, which has the file alone, agrees.
    expect((await ledger().manifest(DATE))?.checks).toMatchObject([{ check: 'unique-id', found: 5 }]);
    expect(kept.records).toContainEqual(expect.objectContaining({ event: 'ids-shared', level: 40, rows: 5 }));
    expect(await verifyDeep()).toEqual([]);
  });

  it('fails where many ids have a later row of another trade: no trade is dropped as a version of another', async () => {
    const reused = DAY.slice(0, 40).map((_, k) =>
      createTrade(k + 700, { id: idOf(k), updated_timestamp: '1799000000000' }),
    );
    const { dates } = await run([...DAY, ...reused]);
    expect(dates).toEqual([expect.objectContaining({ status: 'failed' })]);
    expect(JSON.stringify(dates)).toContain('40 of 640 rows have the id of another trade, or none');
  });

  it('have no contract symbol are told apart by side, strike and expiration', async () => {
    const plain = { option_symbol: '', put_call: 'CALL', strike: 100, expiration_date: '2026-12-18' };
    const others = [{ put_call: 'PUT' }, { strike: 101 }, { expiration_date: '2026-12-24' }, { price: 1234 }];
    const same = others.map((other) => createTrade(5, { ...plain, ...other }));
    await run([...DAY.filter((_, k) => k !== 5), createTrade(5, plain), ...same]);
    // But for the price, each is another contract.
    expect(await ledger().manifest(DATE)).toMatchObject({ rows: ROWS + 3, duplicates: 1, ids: ROWS });
    expect(await verifyDeep()).toEqual([]);
  });

  it('come twice, every column of them, are sealed once', async () => {
    await run([...DAY, ...DAY]);
    const manifest = await ledger().manifest(DATE);
    expect(manifest).toMatchObject({ rows: ROWS, source_rows: 2 * ROWS, duplicates: ROWS });
    expect(manifest?.ids).toBeUndefined();
    expect(await verifyDeep()).toEqual([]);
  });
});
