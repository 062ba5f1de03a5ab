/**
 * `trades_counted`: the rows that the mail of each date counts, against the report's rule in plain loops, over two days full
 * of cancel messages and late reports, one of them a half day, both with records of the night. That its sums are the mail's is
 * tested in `test/docs/recipes.slow.test.ts`.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { addDays } from '../../src/calendar/wall-clock.ts';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { ManifestDraft } from '../../src/ledger/manifest.ts';
import { openDirectoryStore } from '../../src/store/directory.ts';
import type { Trade } from '../report/drop-file.ts';
import { splitFates } from '../report/plain-loops.ts';
import { createRandomDay } from '../report/random-day.ts';
import { makeFolder } from '../support/flowdrop.ts';
import { openTestArchive, type TestArchive } from './open-archive.ts';
import { buildDay, publishBuilt, publishDay } from './publish-day.ts';

/** With the end of the report's hours. */
const DAYS = [
  ['2026-11-19', '16:15:00'],
  ['2026-11-27', '13:15:00'],
] as const;
const NIGHT = 20;

let folder: { readonly path: string; remove(): Promise<void> };
let typed: TestArchive;
let api: TestArchive;
let counted: readonly Trade[] = [];

beforeAll(async () => {
  folder = await makeFolder();
  const { path } = folder;
  const engine = await openEmbeddedEngine();
  const store = await openDirectoryStore(path);
  for (const [date, end] of DAYS) {
    // The same prints on both days: a cancel message must not take one of the other day.
    // In the minute after the end of a half day, it depends on the symbol.
    const isDrawn = ({ id, symbol, time }: Trade) =>
      id !== '' && /^\w+$/.test(symbol) && time.slice(11, 16) !== '13:15';
    const drawn = createRandomDay(5, { date, prints: 2_000 }).filter(isDrawn);
    const night = drawn.slice(0, NIGHT).map((trade, at) => {
      return { ...trade, id: `night-${at}`, time: `${date} 03:00:00`, size: 7_777 + at, option_activity_type: 'AUTO' };
    });
    const day = [...drawn, ...night];
    await publishDay(engine, store, { date, rows: day.length, change: (k) => day[k] ?? {} });
    const own = splitFates(day).counted.filter(({ time }) => time >= `${date} 07:30` && time < `${date} ${end}`);
    expect(own.length).toBeLessThan(drawn.length - 200);
    counted = [...counted, ...own];
  }
  await engine.close();
  typed = await openTestArchive(store, { kind: 'directory', path }, 'trades');
  api = await openTestArchive(store, { kind: 'directory', path }, 'trades', { types: 'api' });
});
afterAll(async () => {
  await typed?.stop();
  await api?.stop();
  await folder?.remove();
});

const listIds = (trades: readonly Trade[]) => trades.map(({ date, id }) => `${date} ${id}`).sort();

/** Their paths are longer than the engine's usual limit of a statement. */
const LONG = 'x'.repeat(110);
const LONG_DATES = Array.from({ length: 400 }, (_, at) => addDays('2025-01-01', at));

test('of years of dates are read, and of dates of which some lack a column', async () => {
  const engine = await openEmbeddedEngine();
  const { path, remove } = await makeFolder();
  const store = await openDirectoryStore(path);
  const built = await buildDay(engine, { date: '2025-01-01', rows: 3 }, path);
  const publish = async (change: Partial<ManifestDraft>) =>
    await publishBuilt(store, {
      ...built,
      draft: { ...built.draft, dataset: LONG, min_time: null, max_time: null, ...change },
    });
  for (const date of LONG_DATES) await publish({ date });
  const own = await openTestArchive(store, { kind: 'directory', path }, LONG);
  try {
    const sums = `SELECT count() AS n, uniqExact(date) AS dates FROM ${LONG}_counted`;
    expect((await own.rows(sums)).rows).toEqual([{ n: 3 * LONG_DATES.length, dates: LONG_DATES.length }]);
    const schema = built.draft.schema.filter(({ name }) => name !== 'option_activity_type');
    await publish({ date: '2026-11-19', schema, min_time: '2026-11-19 09:30:00.000000' });
    const before = (condition: string) => own.rows(`${sums} WHERE ${condition}`);
    expect((await before("date < '2025-01-11'")).rows).toEqual([{ n: 30, dates: 10 }]);
    expect((await before("time < '2026-01-01'")).rows).toEqual([
      { n: 3 * LONG_DATES.length, dates: LONG_DATES.length },
    ]);
    await expect(own.rows(`${sums} WHERE date > '2026-01-01'`)).rejects.toMatchObject({
      code: 'REPORT_COLUMNS_MISSING',
      message: expect.stringContaining('2026-11-19 has no column option_activity_type'),
      hint: expect.stringContaining('a literal condition on date'),
    });
    expect((await own.rows('SHOW TABLES')).rows.map(({ name }) => name)).toContain(`${LONG}_counted`);
  } finally {
    await own.stop();
    await engine.close();
    await remove();
  }
});

describe('the records that the mail counts', () => {
  test.each<readonly [string, (trade: Trade) => boolean]>([
    ['1', () => true],
    ["symbol = 'S0'", ({ symbol }) => symbol === 'S0'],
    ["date = '2026-11-27' AND premium > 1000", ({ date, premium }) => date === '2026-11-27' && premium > 1000],
    // What cancels a print of these comes later.
    ["time < '2026-11-19 10:00:00'", ({ time }) => time < '2026-11-19 10:00:00'],
    ["time >= '2026-11-27 11:00:00'", ({ time }) => time >= '2026-11-27 11:00:00'],
  ])('where %s are those of the rule, with every type of answer', async (condition, isIn) => {
    const expected = listIds(counted.filter(isIn));
    expect(expected.length).toBeGreaterThan(20);
    for (const archive of [typed, api]) {
      const { rows } = await archive.rows(
        `SELECT concat(toString(date), ' ', id) AS id FROM trades_counted WHERE ${condition}`,
      );
      expect(rows.map(({ id }) => String(id)).sort()).toEqual(expected);
    }
  });

  test('have the columns of the trades, by rows and in sums', async () => {
    const top = 'ORDER BY premium DESC, date, id LIMIT 5';
    const { rows, coverage } = await typed.rows(`SELECT * FROM trades_counted ${top}`);
    const same = await typed.rows(
      `SELECT * FROM trades WHERE (date, id) IN (SELECT date, id FROM trades_counted) ${top}`,
    );
    expect(rows).toEqual(same.rows);
    expect(coverage.dates).toEqual(DAYS.map(([date]) => date));
    const sums = await typed.rows('SELECT date, sum(premium) AS p FROM trades_counted GROUP BY date ORDER BY date');
    const ofDay = (day: string) =>
      counted.filter(({ date }) => date === day).reduce((sum, { premium }) => sum + premium, 0);
    expect(sums.rows).toEqual(DAYS.map(([date]) => ({ date, p: expect.closeTo(ofDay(date), 3) })));
  });
});
