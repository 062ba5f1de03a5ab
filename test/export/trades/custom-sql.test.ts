/**
 * Jobs with SQL of their own over a real engine: groups that are torn, rows whose ids are none, and how groups are counted
 * and cut. Requests at the running service are counted in `test/flow/own-sql.slow.test.ts`.
 */
import { beforeEach, describe, expect, it } from 'vitest';
import { DAY_START, formatWindow } from '../../../src/calendar/window.ts';
import { probeGroups, probeJoined, probeRows } from '../../../src/export/trades/probe.ts';
import type { SqlJob } from '../../../src/job/job.ts';
import { type DayCounts, dayCountsSchema } from '../../../src/plan/counts.ts';
import { buildPage } from '../../../src/plan/statement.ts';
import { openStage, type Stage } from '../../../src/stage/stage.ts';
import { findSplitKey } from '../../../src/stage/window-conflicts.ts';
import { StateFile } from '../../../src/state/job-state.ts';
import { createFlowJob, useDateSource } from '../../support/date-source.ts';
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
import { createPage, createTrades, DATE, windowAt } from '../../support/trades.ts';

const ROWS = 3_000;
const NOW = Date.parse('2026-11-20T03:00:00Z');
/** Groups of ten minutes, in a form that no text shows. */
const TEN_MINUTES =
  'SELECT symbol, toString(toDateTime(intDiv(toUnixTimestamp(toDateTime(time)), 600) * 600)) AS start, sum(premium) AS value FROM RawOptionTrades WHERE {window} GROUP BY symbol, start';

const flowJob = (grain: string) => createFlowJob({ sql: TEN_MINUTES, grain, time: 'start' });
const rowJob = (sql: string) =>
  parseSqlJob(
    'rows.yaml',
    `name: rows\nsource:\n  api: historical\n  sql: "${sql}"\n  types: {symbol: string}\ndrop: {to: out, dataset: rows}\n`,
  );

const table = await useDateSource(NOW);
const { engine, limits } = table;

beforeEach(async () => await fillTrades(engine, createTrades(ROWS)));

const sourceOf = (rowLimit: number, options: Partial<EngineSourceOptions> = {}) =>
  createEngineSource(engine, { rowLimit, meta: true, nowMs: NOW, ...options });

const complete = (of: SqlJob, rowLimit: number): Promise<Stage> => table.complete(sourceOf(rowLimit), of);

describe('groups that are longer than the grain', () => {
  it('and whose grain is cut by their key fail, with the group and its windows', async () => {
    await expect(complete(flowJob('minute'), 350)).rejects.toMatchObject({
      code: 'GROUP_TORN',
      message: expect.stringMatching(
        /^2026-11-19: the group with start "2026-11-19 09:30:00", symbol "SYM\d+" arrived in two windows, \S+ and \S+, so/,
      ),
    });
  });

  it('and have rows where no group was counted fail, with the group and the window', async () => {
    // An earlier run staged the only window that groups were counted in.
    const [job, source] = [flowJob('minute'), sourceOf(10_000)];
    await new StateFile<DayCounts>(table.countsPath, dayCountsSchema).write([
      ...(await probeRows(openSql(job, source, limits), DATE)),
    ]);
    const stage = await openStage(engine, job, DATE, source.url);
    const window = { date: DATE, from: DAY_START, to: { second: 34_260 } };
    await stage.put(window, await source.ask(buildPage(job, window, 'open')));
    await expect(table.complete(source, job)).rejects.toMatchObject({
      code: 'GROUP_TORN',
      message: expect.stringMatching(
        /^2026-11-19: the group with start "2026-11-19 09:30:00", symbol "SYM\d+" has rows in 09:31:00\.\.\S+, where no group was counted, so its numbers would be incomplete$/,
      ),
      hint: expect.stringContaining('choose a longer `grain`'),
    });
  });

  it('and were counted in two spans fail, with the place', async () => {
    const timeProfile = [34_200, 34_260].map((second) => ({ second, share: 0.5 }));
    Object.assign(limits, { axis: 'time', dateRows: ROWS, passedRows: 1600, refusedRows: 2000, timeProfile });
    await expect(probeGroups(openSql(flowJob('minute'), sourceOf(10_000), limits), DATE)).rejects.toMatchObject({
      code: 'GROUP_TORN',
      message: expect.stringContaining('groups whose "start" is in second 34200 of the day arrive in two windows'),
    });
  });

  it('are whole with a grain that holds them', async () => {
    const stage = await complete(flowJob('hour'), 350);
    const [ours] = await engine.rows(`SELECT count() AS n, sum(value) AS v FROM ${stage.table}`);
    const [whole] = await engine.rows(
      `SELECT count() AS n, sum(value) AS v FROM (${TEN_MINUTES.replace('{window}', '1')})`,
    );
    expect(ours).toEqual(whole);
  });
});

it('a torn group is found in whichever pass it is', async () => {
  const job = flowJob('minute');
  if (job.source.kind !== 'aggregate') throw new Error('not a job of groups');
  const stage = await openStage(engine, job, DATE, 'engine://trades');
  const groups = Array.from({ length: 50 }, (_, k) => ({ start: `${DATE} 09:30:00`, symbol: `S${k}`, value: k }));
  await stage.put(windowAt(0), createPage(groups));
  for (const passKeys of [1_000, 7]) expect(await findSplitKey(stage, passKeys)).toBeUndefined();
  await stage.put(windowAt(1), createPage(groups.slice(31, 32)));
  for (const passKeys of [1_000, 7]) {
    expect(await findSplitKey(stage, passKeys)).toMatchObject({
      key: { start: `${DATE} 09:30:00`, symbol: 'S31' },
      windows: [formatWindow(windowAt(0)), formatWindow(windowAt(1))],
    });
  }
});

describe('rows by SQL of ones own', () => {
  it('whose ids are none fail, for all but one of each would be dropped', async () => {
    const job = rowJob('SELECT symbol AS id, date, time, symbol FROM RawOptionTrades WHERE {window}');
    await expect(complete(job, 1_000)).rejects.toMatchObject({
      code: 'IDS_REPEATED',
      message: expect.stringMatching(
        /^2026-11-19: \d+ of 3000 rows repeat an id of the same answer; window \S.* has \d+ rows with \d+ ids\. For example: id "SYM\d+" has \d+ rows \(SYM.*\)$/,
      ),
      hint: expect.stringContaining('with `id` unchanged'),
    });
  });

  it('of a source that repeats a few ids are complete', async () => {
    await insertTrades(engine, createTrades(20));
    const stage = await complete(rowJob('SELECT id, date, time, symbol FROM RawOptionTrades WHERE {window}'), 1_000);
    expect(await stage.totals()).toEqual({ rows: ROWS + 20, ids: ROWS });
  });
});

/** One group for each size of each symbol. */
const BY_SIZE =
  "SELECT symbol, size, concat(substring(toString(time), 1, 10), ' 00:00:00') AS day, count() AS trades FROM RawOptionTrades WHERE {window} GROUP BY symbol, size, day";
const sizes = parseSqlJob(
  'sizes.yaml',
  `name: sizes\nsource:\n  api: historical\n  sql: "${BY_SIZE}"\n  grain: day\n  time: day\n  split: [symbol, size]\n  types: {trades: int64}\ndrop: {to: out, dataset: sizes}\n`,
);

/** Sizes of one and two digits: their order as texts is not that of numbers. */
const change = (k: number) => ({ symbol: `S${k % 7}`, size: (k * 13) % 101 });

async function countGroups(): Promise<number> {
  const [row] = await engine.rows<{ n: number }>(`SELECT count() AS n FROM (${BY_SIZE.replace('{window}', '1')})`);
  return Number(row?.n);
}

/** Completes the date and compares every group. @returns requests for pages beyond the fewest, and the others */
async function completeSizes(source: EngineSource, limit: number): Promise<{ more: number; others: number }> {
  const stage = await table.complete(source, sizes);
  const read = async (from: string) =>
    await engine.rows(
      `SELECT arraySort(groupArray(toString((toString(symbol), toInt64(size), toInt64(trades))))) AS all FROM ${from}`,
    );
  expect(await read(stage.table)).toEqual(await read(`(${BY_SIZE.replace('{window}', '1')})`));
  const pages = source.pages().length;
  return { more: pages - Math.ceil((await countGroups()) / limit), others: source.asked.length - pages };
}

describe('groups of which a grain has more than a page', () => {
  beforeEach(async () => await fillTrades(engine, createTrades(ROWS, change)));

  it.each([true, false])(
    'a grain with more groups than a page is cut by all split keys, numbers among them, into the fewest pages, meta %s',
    async (meta) => {
      expect(await countGroups()).toBe(707);
      if (!meta) limits.rowLimit = 60;
      // Beside the pages: rows, groups, the ends of pages and the recount.
      expect(await completeSizes(sourceOf(60, { meta }), 60)).toEqual({ more: 0, others: 4 });
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
    const source = sourceOf(1_200);
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
    const { more, others } = await completeSizes(source, 25);
    expect(limits.rowLimit).toBe(25);
    expect(more).toBeLessThanOrEqual(4);
    expect(others).toBeLessThanOrEqual(5);
  });

  it('groups that came since they were counted are in the stage, too', async () => {
    let isLate = true;
    const source = sourceOf(60, {
      before: async (sql) => {
        if (!sql.startsWith('SELECT symbol,') || !isLate) return;
        isLate = false;
        const of = (k: number) => ({ id: `late-${k}`, symbol: `S${k % 7}`, size: 200 + (k % 90) });
        await insertTrades(engine, createTrades(300, of));
      },
    });
    await completeSizes(source, 60);
  });

  it('a source that refuses both in one request is not asked so again', async () => {
    const source = sourceOf(60, {
      before: (sql) => {
        if (sql.includes('CROSS JOIN')) throw tooBroad();
      },
    });
    expect(await probeJoined(openSql(sizes, source, limits), [DATE])).toBeUndefined();
    expect(await probeJoined(openSql(sizes, source, limits), [DATE])).toBeUndefined();
    expect(source.asked).toHaveLength(1);
    expect(await completeSizes(source, 60)).toMatchObject({ more: 0 });
  });
});
