/** Counting a date at the source once more, over a real engine: the whole date, and in parts under a scan limit. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openEmbeddedEngine } from '../../../src/engine/embedded.ts';
import type { Engine } from '../../../src/engine/engine.ts';
import { recountDate } from '../../../src/export/recount-date.ts';
import { ApiLimits } from '../../../src/state/limits.ts';
import {
  createEngineSource,
  createTradesTable,
  insertTrades,
  tooBroad,
  unreachable,
} from '../../support/engine-source.ts';
import { parseSqlJob } from '../../support/jobs.ts';
import { openSql } from '../../support/run.ts';
import { createJob, createTrade, DATE } from '../../support/trades.ts';

const ROWS = 3_000;
const NOW = Date.parse('2026-11-20T03:00:00Z');
let engine: Engine;

beforeAll(async () => {
  engine = await openEmbeddedEngine();
  await createTradesTable(engine);
  const rows = Array.from({ length: ROWS }, (_, k) => createTrade(k));
  // The same ids once more, in other seconds; and a row of another date.
  const repeated = rows.slice(0, 10).map((row) => ({ ...row, time: `${DATE} 15:00:00` }));
  await insertTrades(engine, [...rows, ...repeated, createTrade(ROWS, { date: '2026-11-18' })]);
});
afterAll(async () => await engine.close());

const limitsOf = () => new ApiLimits('none.json', 'engine://trades', NOW).load();

const sourceOf = (before?: (sql: string) => void) =>
  createEngineSource(engine, { rowLimit: 10, meta: true, nowMs: NOW, ...(before ? { before } : {}) });

describe('a recount', () => {
  it('takes one request, and counts an id that comes in two seconds once', async () => {
    const source = sourceOf();
    expect(await recountDate(openSql(createJob(), source, await limitsOf()), DATE, ROWS + 10)).toMatchObject({
      rows: ROWS + 10,
      ids: ROWS,
    });
    expect(source.asked).toHaveLength(1);
  });

  it('of what is too broad at once is made in parts, which give the rows alone', async () => {
    const source = createEngineSource(engine, { rowLimit: 10, meta: true, nowMs: NOW, scanLimit: 1_000 });
    expect(await recountDate(openSql(createJob(), source, await limitsOf()), DATE, ROWS + 10)).toMatchObject({
      rows: ROWS + 10,
      ids: undefined,
    });
    expect(source.asked.length).toBeGreaterThan(2);
  });

  it('does not ask for the whole date where so many rows are known to be too much', async () => {
    const limits = await limitsOf();
    const first = createEngineSource(engine, { rowLimit: 10, meta: true, nowMs: NOW, scanLimit: 1_000 });
    await recountDate(openSql(createJob(), first, limits), DATE, ROWS + 10);
    expect(first.refused).toContain(first.asked[0]);
    const again = createEngineSource(engine, { rowLimit: 10, meta: true, nowMs: NOW, scanLimit: 1_000 });
    expect((await recountDate(openSql(createJob(), again, limits), DATE, ROWS + 10)).rows).toBe(ROWS + 10);
    expect(again.refused).toEqual([]);
  });

  it('counts what the job’s condition and the job’s own SQL select', async () => {
    const [some] = await engine.rows<{ n: number }>(
      `SELECT count() AS n FROM RawOptionTrades WHERE date = '${DATE}' AND size > 25`,
    );
    const where = parseSqlJob(
      'a.yaml',
      'name: a\nsource: {api: historical, where: "size > 25 OR 1 = 0"}\ndrop: {to: out, dataset: a}\n',
    );
    expect((await recountDate(openSql(where, sourceOf(), await limitsOf()), DATE, ROWS)).rows).toBe(some?.n);
    const sql = parseSqlJob(
      'b.yaml',
      'name: b\nsource: {api: historical, sql: "SELECT id, symbol, date, time FROM RawOptionTrades WHERE {window} AND size > 25"}\ndrop: {to: out, dataset: b}\n',
    );
    expect((await recountDate(openSql(sql, sourceOf(), await limitsOf()), DATE, ROWS)).rows).toBe(some?.n);
  });

  it('ends where not even a second may be counted, and with an API that is down', async () => {
    const never = sourceOf(() => {
      throw tooBroad();
    });
    await expect(recountDate(openSql(createJob(), never, await limitsOf()), DATE, ROWS + 10)).rejects.toMatchObject({
      code: 'SCAN_TOO_BROAD',
    });
    expect(new Set(never.asked).size).toBe(never.asked.length);
    expect(never.asked.length).toBeLessThan(40);
    const down = sourceOf(() => {
      throw unreachable();
    });
    await expect(recountDate(openSql(createJob(), down, await limitsOf()), DATE, ROWS + 10)).rejects.toMatchObject({
      code: 'API_UNREACHABLE',
    });
  });
});
