import { beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../src/core/clock.ts';
import { openDates } from '../../../src/export/export.ts';
import { selectDates } from '../../../src/export/select-dates.ts';
import { probeGroups } from '../../../src/export/trades/probe.ts';
import type { SqlJob } from '../../../src/job/job.ts';
import { rememberRefusals } from '../../../src/source/historical.ts';
import { openStage, type Stage } from '../../../src/stage/stage.ts';
import { discardStages } from '../../../src/stage/stage-table.ts';
import { BY_MINUTE, createFlowJob, useDateSource } from '../../support/date-source.ts';
import {
  createEngineSource,
  type EngineSource,
  type EngineSourceOptions,
  fillTrades,
  insertTrades,
  isCount,
  unreachable,
} from '../../support/engine-source.ts';
import { parseSqlJob } from '../../support/jobs.ts';
import { openSql } from '../../support/run.ts';
import { createJob, createTrade, createTrades, DATE } from '../../support/trades.ts';

const ROWS = 3_000;
/** Of 200 rows at most, whose seconds have 30. */
const PAGES = Math.ceil(ROWS / 180);
const ALL_DATES = selectDates('all', {
  sealed: new Set(),
  degraded: new Set(),
  failed: new Set(),
  again: new Set(),
  unavailable: {},
});
const NOW = Date.parse('2026-11-20T03:00:00Z');
const job = createJob();
const table = await useDateSource(NOW);
const { engine, limits } = table;

beforeEach(async () => await fillTrades(engine, createTrades(ROWS)));

function sourceOf(options: Partial<EngineSourceOptions> = {}): EngineSource {
  return createEngineSource(engine, { rowLimit: 200, meta: true, nowMs: NOW, ...options });
}

const complete = (source: EngineSource, of: SqlJob = job): Promise<Stage> => table.complete(source, of);

async function expectWhole(stage: Stage, rows: number): Promise<void> {
  expect(await stage.totals()).toEqual({ rows, ids: rows });
  const [difference] = await engine.rows<{ n: number }>(
    `SELECT count() AS n FROM (SELECT id, time, premium FROM RawOptionTrades) AS a FULL OUTER JOIN (SELECT id, time, premium FROM ${stage.table}) AS b USING (id, time, premium) WHERE a.id = '' OR b.id = ''`,
  );
  expect(difference?.n).toBe(0);
}

describe('a date', () => {
  it('takes no request beside its pages, the count and the recount', async () => {
    const source = sourceOf();
    await expectWhole(await complete(source), ROWS);
    expect(source.pages()).toHaveLength(PAGES);
    expect(source.asked).toHaveLength(PAGES + 2);
  });

  it.each([true, false])('with a second that exceeds a page comes home whole, meta %s', async (meta) => {
    await expectWhole(await complete(sourceOf({ rowLimit: 23, meta })), ROWS);
  });

  it('without meta learns the limit after two pages that stop at the same count', async () => {
    const source = sourceOf({ meta: false });
    await expectWhole(await complete(source), ROWS);
    expect(limits.rowLimit).toBe(200);
    // Two pages that were cut short, at most, beside the fewest.
    expect(source.pages().length).toBeLessThanOrEqual(PAGES + 2);
  });

  it('without meta does not take one page that lost a row for the row limit', async () => {
    let lost = 0;
    const source = sourceOf({
      meta: false,
      rowLimit: 10_000,
      loses: (sql) => (sql.startsWith('SELECT id,') && lost++ === 0 ? ROWS - 3 : 0),
    });
    await expectWhole(await complete(source), ROWS);
    expect(limits.rowLimit).toBe(10_000);
  });

  it('without meta does not take two pages that lost rows alike for the row limit, when others had more', async () => {
    let pages = 0;
    limits.rowLimit = 200;
    const source = sourceOf({
      meta: false,
      rowLimit: 10_000,
      loses: (sql, rows) => {
        if (sql.startsWith('SELECT id,')) pages += 1;
        return sql.startsWith('SELECT id,') && (pages === 7 || pages === 8) ? rows - 150 : 0;
      },
    });
    await expectWhole(await complete(source), ROWS);
    expect(pages).toBeGreaterThan(8);
    expect(limits.rowLimit).toBe(200);
  });

  it.each([
    ['without meta is counted again where a page is full and had fewer rows when they were counted', false],
    ['with meta takes the word of the server for such a page', true],
  ] as const)('%s', async (_says, meta) => {
    await fillTrades(engine, createTrades(150));
    limits.rowLimit = 200;
    let isGrown = false;
    const source = sourceOf({
      meta,
      before: async (sql) => {
        if (isGrown || !sql.startsWith('SELECT id,')) return;
        isGrown = true;
        // Without a word the page would be the same if there were more of them.
        await insertTrades(engine, createTrades(200).slice(150));
      },
    });
    await expectWhole(await complete(source), 200);
    expect(source.pages()).toHaveLength(1);
    // Beside the page the count and the recount; the portal's window is counted once more.
    expect(source.asked).toHaveLength(meta ? 3 : 4);
  });

  it('whose counts came without their row is counted again', async () => {
    let lost = 0;
    const source = sourceOf({ loses: (sql) => (isCount(sql) && lost++ < 2 ? 1 : 0) });
    await expectWhole(await complete(source), ROWS);
    expect(lost).toBeGreaterThan(2);
  });

  it('whose rows were withdrawn before the run is staged without them', async () => {
    await complete(sourceOf());
    await engine.command(`DELETE FROM RawOptionTrades WHERE time > '${DATE} 09:31:00'`);
    const [left] = await engine.rows<{ n: number }>('SELECT count() AS n FROM RawOptionTrades');
    await expectWhole(await complete(sourceOf()), Number(left?.n));
  });

  it('whose server has died fails after a few windows, not after all of them', async () => {
    const source = sourceOf({
      before: (sql) => {
        if (sql.startsWith('SELECT id,')) throw unreachable();
      },
    });
    await expect(complete(source)).rejects.toMatchObject({ code: 'API_UNREACHABLE' });
    expect(source.pages().length).toBeLessThanOrEqual(6);
  });
});

describe('a changed job', () => {
  it('does not seal pages of its old query: the other stage is dropped', async () => {
    await complete(sourceOf());
    const changed = parseSqlJob(
      'j.yaml',
      'name: trades\nsource:\n  api: historical\n  where: "size > 25"\ndrop: {to: out, dataset: trades}\n',
    );
    const stage = await complete(sourceOf(), changed);
    const [wrong] = await engine.rows<{ n: number }>(`SELECT countIf(size <= 25) AS n FROM ${stage.table}`);
    expect(wrong?.n).toBe(0);
  });

  it('does not take pages of another source for its own', async () => {
    const first = await complete(sourceOf());
    const other = await openStage(engine, job, DATE, 'engine://elsewhere');
    expect(other.table).not.toBe(first.table);
    expect(await other.windows()).toEqual([]);
  });
});

describe('an aggregating job', () => {
  it('one grain of which has more groups than a page and no split key says so, and names the way out', async () => {
    await expect(complete(sourceOf(), createFlowJob({ isSplit: false }))).rejects.toMatchObject({
      code: 'WINDOW_TOO_BROAD',
      hint: expect.stringContaining('under `split`'),
    });
  });

  it('one symbol of which is too much for a count is counted between grains in it', async () => {
    const spy = (k: number) => ({ symbol: 'SPY', time: `${DATE} 09:3${k % 5}:${10 + (k % 50)}` });
    await fillTrades(engine, createTrades(2_000, spy), 'symbol');
    Object.assign(limits, { axis: 'symbol', dateRows: 2_000, passedRows: 900, refusedRows: 1_000 });
    const stage = await complete(sourceOf({ scanLimit: 1_000 }), createFlowJob());
    expect(limits.axis).toBe('symbol');
    const [ours] = await engine.rows<{ v: number }>(`SELECT sum(value) AS v FROM ${stage.table}`);
    expect((await stage.totals()).rows).toBe(5);
    expect(ours).toEqual((await engine.rows<{ v: number }>('SELECT sum(premium) AS v FROM RawOptionTrades'))[0]);
  });

  it('counts its groups in spans that end between grains, however narrow a probe may be', async () => {
    Object.assign(limits, { axis: 'time', dateRows: ROWS, passedRows: 1200, refusedRows: 2000 });
    const groups = await probeGroups(openSql(createFlowJob(), sourceOf(), limits), DATE);
    expect(new Set(groups.map(({ second }) => second)).size).toBe(groups.length);
    const [whole] = await engine.rows<{ n: number }>(
      `SELECT count() AS n FROM (${BY_MINUTE.replace('{window}', '1')})`,
    );
    expect(groups.reduce((sum, { rows }) => sum + rows, 0)).toBe(Number(whole?.n));
  });
});

describe.each(['time', 'symbol'] as const)('a table ordered by %s under a scan limit', (order) => {
  const LIMIT = 1_000;
  const createSpy = (count: number) => createTrades(ROWS + count, () => ({ symbol: 'SPY' })).slice(ROWS);
  beforeEach(async () => await fillTrades(engine, createTrades(ROWS), order));

  it('is counted in parts, and comes home whole', async () => {
    const source = sourceOf({ scanLimit: LIMIT });
    await expectWhole(await complete(source), ROWS);
    expect(limits.axis).toBe(order);
    expect(new Set(source.asked).size).toBe(source.asked.length);
  });

  it('whose one symbol alone is too much is counted by time in it, and never asked again what it refused', async () => {
    await insertTrades(engine, createSpy(1_500));
    let late = 0;
    const engineSource = sourceOf({
      scanLimit: LIMIT,
      before: async (sql) => {
        if (late > 1 || !isCount(sql) || engineSource.pages().length < ((ROWS + 1_500) / 200) * (late + 1)) return;
        late += 1;
        const row = { symbol: 'SPY', time: `${DATE} 09:30:1${late}`, id: `late-${late}` };
        await insertTrades(engine, [createTrade(ROWS + 9_000 + late, row)]);
      },
    });
    // As the client of the API does.
    const source = rememberRefusals(engineSource);
    await expectWhole(await complete({ ...engineSource, ...source }), ROWS + 1_500 + late);
    expect(late).toBeGreaterThan(0);
    expect(engineSource.refused.length).toBeGreaterThan(0);
    for (const sql of engineSource.refused) expect(engineSource.asked.filter((text) => text === sql)).toHaveLength(1);
    await discardStages(engine, DATE);
    const next = sourceOf({ scanLimit: LIMIT });
    await expectWhole(await complete(next), ROWS + 1_500 + late);
    expect(next.asked.filter((sql) => engineSource.refused.includes(sql))).toEqual([]);
    expect(next.refused).toEqual([]);
  });

  it('gets a late row with one page more', async () => {
    let late = false;
    const source = sourceOf({
      scanLimit: LIMIT,
      before: async (sql) => {
        if (late || source.pages().length < ROWS / 200 || sql.startsWith('SELECT id,')) return;
        late = true;
        await insertTrades(engine, [createTrade(ROWS + 1, { time: `${DATE} 09:30:10`, id: 'late' })]);
      },
    });
    await expectWhole(await complete(source), ROWS + 1);
    expect(source.pages().length).toBeLessThanOrEqual(PAGES + 3);
  });

  it('that changes its order between two runs is fetched along the other axis', async () => {
    await complete(sourceOf({ scanLimit: LIMIT }));
    const other = order === 'time' ? 'symbol' : 'time';
    Object.assign(limits, { axis: other });
    await fillTrades(engine, createTrades(ROWS), other);
    await expectWhole(await complete(sourceOf({ scanLimit: LIMIT })), ROWS);
  });
});

it.each([
  { when: 'later than every other row of its second', updated: "'9999999999999'" },
  // So the newest of the second tells nothing: another row of it was made later still.
  { when: 'earlier than another row of its second', updated: 'toString(toUInt64(updated_timestamp) + 1)' },
])(
  'a row that was corrected under its id after its page was staged by an earlier run, $when, is fetched again by the next',
  async ({ updated }) => {
    await complete(sourceOf());
    await engine.command(
      `ALTER TABLE RawOptionTrades UPDATE premium = 123456, updated_timestamp = ${updated} WHERE id = (SELECT argMin(id, updated_timestamp) FROM RawOptionTrades) SETTINGS mutations_sync = 2`,
    );
    const source = sourceOf();
    await expectWhole(await complete(source), ROWS);
    expect(source.pages().length).toBeLessThanOrEqual(3);
  },
);

describe('a plan', () => {
  const planOf = async (source: EngineSource) =>
    await openDates(openSql(job, source, limits, { clock: systemClock })).plan(ALL_DATES);

  it('has a date that the calendar knows no session of, when the source has rows of it', async () => {
    const saturday = '2026-11-14';
    await insertTrades(engine, [createTrade(0, { id: 'odd', date: saturday, time: `${saturday} 10:00:00` })]);
    const plan = await planOf(sourceOf());
    expect(plan.dates.map(({ date }) => date)).toEqual([saturday, DATE]);
  });

  it('leaves a date out whose last rows are younger than delay and margin', async () => {
    await insertTrades(engine, [createTrade(0, { id: 'curb', time: `${DATE} 16:59:59` })]);
    const at = (time: string) => planOf(sourceOf({ nowMs: Date.parse(time) }));
    expect((await at('2026-11-19T22:13:30Z')).dates).toEqual([]);
    expect((await at('2026-11-19T22:16:00Z')).dates.map(({ date }) => date)).toEqual([DATE]);
  });

  it('waits for a session that settles within the next seconds, as the clock of the source shows whole ones', async () => {
    // The rule of a job that is scheduled for 16:31:00: the source still shows 16:30:59.
    const quick = { ...job, settleSeconds: 60 };
    const settledMs = Date.parse('2026-11-19T21:31:00Z');
    const planAt = async (lateMs: number) => {
      let now = settledMs - lateMs;
      const slept: number[] = [];
      const sleep = async (ms: number) => {
        slept.push(ms);
        now += ms;
      };
      const source = { ...sourceOf({ nowMs: now }), serverNow: () => now };
      const opened = openSql(quick, source, limits, { clock: { now: () => now, sleep } });
      const plan = await openDates(opened).plan(ALL_DATES);
      return { slept, dates: plan.dates.map(({ date }) => date) };
    };
    expect(await planAt(800)).toEqual({ slept: [800], dates: [DATE] });
    expect(await planAt(0)).toEqual({ slept: [], dates: [DATE] });
    expect(await planAt(60_000)).toEqual({ slept: [], dates: [] });
  });
});
