import { describe, expect, it } from 'vitest';
import { probeDates, probeRows } from '../../src/export/trades/probe.ts';
import type { SqlJob } from '../../src/job/job.ts';
import type { Stage } from '../../src/stage/stage.ts';
import { createFlowJob, expectSameGroups, useDateSource } from '../support/date-source.ts';
import { createEngineSource, type EngineSource, fillTrades, insertTrades } from '../support/engine-source.ts';
import { openSql } from '../support/run.ts';
import { createJob, createTrade, createTrades, DATE } from '../support/trades.ts';

const ROWS = 1_200;
const LIMIT = 100;
const NOW = Date.parse('2026-11-20T08:00:00Z');
const job = createJob();
/** Before, after, at the very ends of the date, and far away. */
const OUTSIDE = ['2026-11-18 23:59:59', '2026-11-18 14:00:00', '2026-11-20 00:00:00', '2026-11-21 09:30:00'];
const ENDS = [`${DATE} 00:00:00`, `${DATE} 23:59:59`];

const table = await useDateSource(NOW);
const { engine, limits } = table;

const sourceOf = (scanLimit = Number.MAX_SAFE_INTEGER): EngineSource =>
  createEngineSource(engine, { rowLimit: LIMIT, meta: true, nowMs: NOW, scanLimit });

/** A date with rows at its ends and outside of them, and rows of the dates beside it. */
async function createDate(order: 'time' | 'symbol' | 'clock', outside: readonly string[] = OUTSIDE): Promise<number> {
  const odd = [...outside, ...ENDS].flatMap((time, at) =>
    [0, 1, 2].map((k) => createTrade(k, { id: `odd-${at}-${k}`, time, symbol: k === 0 ? 'AAA' : 'SYM7' })),
  );
  const others = ['2026-11-18', '2026-11-20'].flatMap((date) =>
    createTrades(300, (k) => ({ id: `${date}-${k}`, date, time: `${date} 1${k % 6}:00:0${k % 10}` })),
  );
  await fillTrades(engine, [...createTrades(ROWS), ...odd, ...others], order);
  return ROWS + odd.length;
}

const complete = (source: EngineSource, of: SqlJob = job): Promise<Stage> => table.complete(source, of);

const idsOf = async (from: string) =>
  (await engine.rows<{ id: string }>(`SELECT id FROM ${from} ORDER BY id`)).map(({ id }) => id);
const ofDate = `RawOptionTrades WHERE date = '${DATE}'`;

describe('rows whose time is of another date than their date', () => {
  it.each([
    ['time', undefined],
    ['time', 500],
    ['symbol', undefined],
    ['symbol', 500],
  ] as const)('come home with a table ordered by %s, scan limit %s', async (order, scanLimit) => {
    const rows = await createDate(order);
    const source = sourceOf(scanLimit);
    const stage = await complete(source);
    expect(await stage.totals()).toEqual({ rows, ids: rows });
    expect(await idsOf(stage.table)).toEqual(await idsOf(ofDate));
    expect(limits.dayEdges).toBe('open');
  });

  it('cost no request: pages, and the count, the cuts and the recount that every date takes', async () => {
    const rows = await createDate('time');
    const source = sourceOf();
    await complete(source);
    expect(source.asked).toHaveLength(Math.ceil(rows / LIMIT) + 3);
  });

  it('are cut like others where they alone exceed a page', async () => {
    await createDate('time');
    for (const time of ['2026-11-18 20:00:00', '2026-11-20 04:00:00'])
      await insertTrades(
        engine,
        createTrades(250, (k) => ({ id: `${time}-${k}`, time })),
      );
    const stage = await complete(sourceOf());
    expect(await idsOf(stage.table)).toEqual(await idsOf(ofDate));
  });

  it('are counted alike when all dates are counted at once and one by one', async () => {
    await createDate('time');
    const api = openSql(job, sourceOf(), limits);
    const all = await probeDates(api, ['2026-11-18', DATE, '2026-11-20']);
    expect(all?.get(DATE)).toEqual(await probeRows(api, DATE));
  });

  it('are in the groups of an aggregating job', async () => {
    await createDate('time');
    const stage = await complete(sourceOf(), createFlowJob());
    await expectSameGroups(engine, stage, `date = '${DATE}'`);
  });

  it('are left out, and all others come home, where a server finds rows by nothing but their time', async () => {
    const rows = await createDate('clock');
    // More before and after the date than may be read at once.
    for (const date of ['2026-11-17', '2026-11-23']) {
      const beside = (k: number) => ({ id: `${date}-${k}`, date, time: `${date} 12:00:00` });
      await insertTrades(engine, createTrades(900, beside));
    }
    const stage = await complete(sourceOf(700));
    const inside = `${ofDate} AND startsWith(time, '${DATE}')`;
    expect(await idsOf(stage.table)).toEqual(await idsOf(inside));
    expect(rows - (await stage.totals()).rows).toBe(OUTSIDE.length * 3);
    expect(limits.dayEdges).toBe('closed');
  });
});

describe('times in another form', () => {
  const change = async (text: string) =>
    await engine.command(
      `INSERT INTO RawOptionTrades SELECT * REPLACE (concat('x', id) AS id, ${text} AS time) FROM ${ofDate}`,
    );

  it('with a fraction of a second lie in the window of their second', async () => {
    await createDate('time', []);
    await change("concat(time, '.', toString(cityHash64(id) % 1000))");
    const source = sourceOf();
    const stage = await complete(source);
    expect(await idsOf(stage.table)).toEqual(await idsOf(ofDate));
    // A second has 30 rows and as many with a fraction; a page has one second.
    expect(source.pages()).toHaveLength(ROWS / 30);
  });

  const FEW = ['T14:03:12-05:00', 'T09:31:00', ' 14:03', ' 9:31:00 AM', ' 25:31:00', ' 14:03:61', '\t10:00:00', ''];

  it.each(['time', 'symbol'] as const)('in a few rows cost no other row, with a table ordered by %s', async (order) => {
    await createDate(order, []);
    const good = await idsOf(ofDate);
    const texts = [...FEW.map((end) => `${DATE}${end}`), '', 'noon'];
    await insertTrades(
      engine,
      texts.flatMap((time, at) => [0, 1].map((k) => createTrade(at, { id: `bad-${at}-${k}`, time }))),
    );
    const stage = await complete(sourceOf());
    expect(await idsOf(stage.table)).toEqual(good);
    expect((await stage.quarantine()).rows).toBe(texts.length * 2);
  });

  it.each([
    { form: 'without seconds', text: 'substring(time, 1, 16)', came: `"${DATE} 23:59"` },
    { form: 'with a T', text: "replace(time, ' ', 'T')", came: `"${DATE}T23:59:59"` },
    { form: 'with no date', text: 'substring(time, 12)', came: '"23:59:59"' },
  ])('$form are refused at the first count, with what came', async ({ text, came }) => {
    await createDate('time', []);
    await change(text);
    const source = sourceOf();
    await expect(complete(source)).rejects.toMatchObject({
      code: 'TIME_UNREADABLE',
      message: expect.stringContaining(came),
      hint: expect.stringContaining('`time`'),
    });
    expect(source.asked).toHaveLength(1);
  });
});
