/**
 * How groups are counted and cut, over a real engine: what a source refuses, a row limit that was lowered, groups that
 * came meanwhile. Each stage is compared with the whole answer; requests at the running service are counted in `test/flow`.
 */
import { beforeEach, expect, it } from 'vitest';
import type { Engine } from '../../../src/engine/engine.ts';
import { probeJoined } from '../../../src/export/trades/probe.ts';
import type { ApiLimits } from '../../../src/state/limits.ts';
import { useDateSource } from '../../support/date-source.ts';
import {
  createEngineSource,
  type EngineSource,
  type EngineSourceOptions,
  fillTrades,
  insertTrades,
  tooBroad,
} from '../../support/engine-source.ts';
import { parseSqlJob } from '../../support/jobs.ts';
import { openSql } from '../../support/run.ts';
import { createTrades, DATE } from '../../support/trades.ts';

const ROWS = 3_000;
const NOW = Date.parse('2026-11-20T03:00:00Z');
/** One group for each size of each symbol. */
const BY_SIZE =
  "SELECT symbol, size, concat(substring(toString(time), 1, 10), ' 00:00:00') AS day, count() AS trades FROM RawOptionTrades WHERE {window} GROUP BY symbol, size, day";
const job = parseSqlJob(
  'sizes.yaml',
  `name: sizes\nsource:\n  api: historical\n  sql: "${BY_SIZE}"\n  grain: day\n  time: day\n  split: [symbol, size]\n  types: {trades: int64}\ndrop: {to: out, dataset: sizes}\n`,
);

const table = useDateSource(NOW);
let engine: Engine;
let limits: ApiLimits;

/** Sizes of one and two digits: their order as texts is not that of numbers. */
const change = (k: number) => ({ symbol: `S${k % 7}`, size: (k * 13) % 101 });

beforeEach(async () => {
  ({ engine, limits } = table);
  await fillTrades(engine, createTrades(ROWS, change));
});

const sourceOf = (options: Partial<EngineSourceOptions> = {}): EngineSource =>
  createEngineSource(engine, { rowLimit: 60, meta: true, nowMs: NOW, ...options });

async function countGroups(): Promise<number> {
  const [row] = await engine.rows<{ n: number }>(`SELECT count() AS n FROM (${BY_SIZE.replace('{window}', '1')})`);
  return Number(row?.n);
}

/** Completes the date and compares every group. @returns requests for pages beyond the fewest, and the others */
async function complete(source: EngineSource, limit: number): Promise<{ more: number; others: number }> {
  const stage = await table.complete(source, job);
  const read = async (from: string) =>
    await engine.rows(
      `SELECT arraySort(groupArray(toString((toString(symbol), toInt64(size), toInt64(trades))))) AS all FROM ${from}`,
    );
  expect(await read(stage.table)).toEqual(await read(`(${BY_SIZE.replace('{window}', '1')})`));
  const pages = source.pages().length;
  return { more: pages - Math.ceil((await countGroups()) / limit), others: source.asked.length - pages };
}

it.each([true, false])(
  'a grain with more groups than a page is cut by all split keys, numbers among them, into the fewest pages, meta %s',
  async (meta) => {
    expect(await countGroups()).toBe(707);
    if (!meta) limits.rowLimit = 60;
    // Beside the pages: rows, groups, the ends of pages and the recount.
    expect(await complete(sourceOf({ meta }), 60)).toEqual({ more: 0, others: 4 });
  },
);

it('groups that their split keys do not tell apart are cut between grains, and no page is too large', async () => {
  for (const minute of [1, 2, 3, 4]) {
    const of = (k: number) => ({ ...change(k), id: `${minute}-${k}`, time: `${DATE} 09:5${minute}:00` });
    await insertTrades(engine, createTrades(101 * 7, of));
  }
  const sql = BY_SIZE.replace("1, 10), ' 00:00:00'", "1, 16), ':00'");
  const head = `name: sizes\nsource:\n  api: historical\n  sql: "${sql}"\n  grain: minute\n  time: day`;
  const text = `${head}\n  split: [symbol]\n  types: {trades: int64}\ndrop: {to: out, dataset: sizes}\n`;
  const source = sourceOf({ rowLimit: 1_200 });
  limits.rowLimit = 1_200;
  const stage = await table.complete(source, parseSqlJob('sizes.yaml', text));
  expect(await stage.totals()).toMatchObject({ rows: 6 * 707 });
  // Two grains would not fit a page.
  expect(source.pages()).toHaveLength(6);
});

it('a row limit that is lowered midway costs the pages on their way, and no group', async () => {
  let pages = 0;
  const options = { rowLimit: 60, meta: true, nowMs: NOW };
  const source = createEngineSource(engine, {
    ...options,
    before: (sql) => {
      if (sql.startsWith('SELECT symbol,') && ++pages === 3) Object.assign(options, { rowLimit: 25 });
    },
    get rowLimit() {
      return options.rowLimit;
    },
  });
  const { more, others } = await complete(source, 25);
  expect(limits.rowLimit).toBe(25);
  expect(more).toBeLessThanOrEqual(4);
  expect(others).toBeLessThanOrEqual(5);
});

it('groups that came since they were counted are in the stage, too', async () => {
  let isLate = true;
  const source = sourceOf({
    before: async (sql) => {
      if (!sql.startsWith('SELECT symbol,') || !isLate) return;
      isLate = false;
      const of = (k: number) => ({ id: `late-${k}`, symbol: `S${k % 7}`, size: 200 + (k % 90) });
      await insertTrades(engine, createTrades(300, of));
    },
  });
  await complete(source, 60);
});

it('a source that refuses both in one request is not asked so again', async () => {
  const source = sourceOf({
    before: (sql) => {
      if (sql.includes('CROSS JOIN')) throw tooBroad();
    },
  });
  expect(await probeJoined(openSql(job, source, limits), [DATE])).toBeUndefined();
  expect(await probeJoined(openSql(job, source, limits), [DATE])).toBeUndefined();
  expect(source.asked).toHaveLength(1);
  expect(await complete(source, 60)).toMatchObject({ more: 0 });
});
