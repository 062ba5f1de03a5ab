/** The SQL of probes, cuts and pages, asked of a real engine with random rows, whatever types the server has. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parseSecond } from '../../src/calendar/wall-clock.ts';
import { axisOfStretch, DAY_END, DAY_START, type Window, wholeDay } from '../../src/calendar/window.ts';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { quoteString } from '../../src/engine/literal.ts';
import { readCounts } from '../../src/export/trades/probe.ts';
import type { SqlJob } from '../../src/job/job.ts';
import type { DayCounts } from '../../src/plan/counts.ts';
import { packWindows } from '../../src/plan/pack.ts';
import { buildCuts, buildPage, buildProbe, type ProbeSpan, readCut } from '../../src/plan/statement.ts';
import { parseSqlJob } from '../support/jobs.ts';
import { createRandom } from '../support/random.ts';

const SEED = 42;
const DATE = '2026-11-19';
const LIMIT = 100;
const SPAN: ProbeSpan = {
  fromDate: '2026-11-18',
  toDate: DATE,
  from: DAY_START,
  to: DAY_END,
  axis: 'time',
  edges: 'open',
};
const BY_SYMBOL: ProbeSpan = { ...SPAN, fromDate: DATE, axis: 'symbol' };
const jobOf = (source: string) =>
  parseSqlJob('x', `name: t\nsource: {api: historical, ${source}}\ndrop: {to: o, dataset: t}\n`);
const job = jobOf('columns: [id, date, time, symbol]');
const spy = jobOf(`columns: [id, date, time, symbol], where: "symbol = 'SPY' OR 1 = 0"`);
const own = jobOf(
  `sql: "SELECT id, date, time, symbol, length(id) AS size_of_id FROM RawOptionTrades WHERE symbol = 'SPY' AND {window}",
   types: {id: string, symbol: string, size_of_id: int64}`,
);
const flow = jobOf(
  `sql: "SELECT symbol, substring(toString(time), 1, 16) AS minute, count() AS n FROM RawOptionTrades WHERE {window} GROUP BY symbol, minute",
   grain: minute, time: minute, split: [symbol], types: {n: int64}`,
);

let engine: Engine;
let rows: readonly { id: string; date: string; time: string; symbol: string }[];

/** The counts of the date out of a probe's one row. */
async function readProbe(of: SqlJob, span: ProbeSpan, what?: 'groups'): Promise<DayCounts> {
  const [firstRow, ...others] = await engine.rows<Record<string, unknown>>(buildProbe(of, span, what));
  expect(others).toEqual([]);
  return readCounts({ data: Buffer.of(), rows: 1, firstRow, meta: undefined }, span).get(DATE) ?? [];
}

/** The parts of a window as the source says where to cut it. */
async function cut(of: SqlJob, window: Window, count: number) {
  const axis = axisOfStretch(window) ?? 'symbol';
  const [found] = await engine.rows<{ rows: number; cuts: unknown[] }>(buildCuts(of, window, axis, count, 'open'));
  const cuts = (found?.cuts ?? []).map((place) => readCut(of, window, axis, place) ?? window.from);
  const bounds = [window.from, ...cuts, window.to];
  const parts = bounds.slice(1).map((to, at): Window => ({ date: DATE, from: bounds[at] ?? to, to }));
  return { rows: Number(found?.rows), parts };
}

const secondOf = (time: string) => parseSecond(time.slice(11));

beforeAll(async () => {
  engine = await openEmbeddedEngine();
  const random = createRandom(SEED);
  const pick = <T>(list: readonly T[]) => list[Math.floor(random() * list.length)] as T;
  const strange = ["'", '\\', '%', '+', '..', 'ü', '🚀', '"', ' ', '--', '/*'];
  rows = Array.from({ length: 6000 }, (_, k) => {
    const date = random() < 0.1 ? '2026-11-18' : DATE;
    // A third of the rows in one second; some at the very ends of the day.
    const second = random() < 0.33 ? 34_200 : pick([0, 86_399, 34_201 + Math.floor(random() * 100)]);
    const time = new Date(Date.parse(`${date}T00:00:00Z`) + second * 1000).toISOString().slice(0, 19).replace('T', ' ');
    return {
      id: `${pick(strange)}${Math.floor(random() * 1e9)}-${k}`,
      date,
      time,
      symbol: pick(['SPY', 'QQQ', "O'X"]),
    };
  });
});

afterAll(async () => {
  await engine.close();
});

describe.each([
  ['String', 'String'],
  ['Date', 'DateTime'],
  ['Date32', "DateTime('America/New_York')"],
  ['LowCardinality(String)', 'String'],
])('a table with date %s and time %s', (dateType, timeType) => {
  beforeAll(async () => {
    await engine.command('DROP TABLE IF EXISTS RawOptionTrades');
    await engine.command(
      `CREATE TABLE RawOptionTrades (id String, date ${dateType}, time ${timeType}, symbol String) ENGINE = MergeTree ORDER BY id`,
    );
    const values = rows.map((row) => `(${[row.id, row.date, row.time, row.symbol].map(quoteString).join(', ')})`);
    await engine.command(`INSERT INTO RawOptionTrades VALUES ${values.join(', ')}`);
  });

  const idsOf = async (sql: string) => (await engine.rows<{ id: string }>(sql)).map(({ id }) => id);

  test('is counted by second in one answer row', async () => {
    const counts = await readProbe(job, SPAN);
    const expected = new Map<number, number>();
    for (const { date, time } of rows)
      if (date === DATE) expected.set(secondOf(time), (expected.get(secondOf(time)) ?? 0) + 1);
    expect(counts).toEqual(
      [...expected].sort(([a], [b]) => a - b).map(([second, n]) => ({ second, rows: n, ids: n, mark: '' })),
    );
    const part = await readProbe(job, { ...SPAN, fromDate: DATE, from: { second: 34_201 }, to: { second: 34_210 } });
    expect(part).toEqual(counts.filter(({ second }) => second >= 34_201 && second < 34_210));
  });

  test.each([
    ['all rows by time', job, SPAN],
    ['some rows by time', spy, SPAN],
    ['all rows by symbol', job, BY_SYMBOL],
    ['some rows by symbol', spy, BY_SYMBOL],
    ['rows of SQL of its own', own, SPAN],
    ['rows of SQL of its own by symbol', own, BY_SYMBOL],
  ])('gives %s exactly once in pages that have as many rows as they were counted', async (_title, of, span) => {
    const wanted = rows
      .filter(({ date, symbol }) => date === DATE && (of === job || symbol === 'SPY'))
      .map(({ id }) => id);
    const windows = packWindows(DATE, await readProbe(of, span), [], LIMIT);
    const pages: string[][] = [];
    for (const window of windows) pages.push(await idsOf(buildPage(of, window, 'open')));
    expect(pages.map(({ length }) => length)).toEqual(windows.map((window) => window.rows));
    expect(pages.flat().sort()).toEqual([...wanted].sort());
  });

  test.each([
    ['a second by its ids', job, { from: { second: 34_200 }, to: { second: 34_201 } }],
    ['a stretch of time', job, { from: { second: 34_199 }, to: { second: 34_260 } }],
    ['symbols', job, { from: { symbol: "O'X", second: 34_200 }, to: { symbol: 'SPY', second: 34_200 } }],
    ['a whole day along the symbols', job, { from: DAY_START, to: DAY_END }],
    ['one symbol', job, { from: { symbol: 'QQQ', second: 0 }, to: { symbol: 'QQQ', second: 86_400 } }],
    ['rows of SQL of its own', own, { from: { second: 34_200 }, to: { second: 34_201 } }],
  ])('is cut in %s into parts of equal size', async (_title, of, stretch) => {
    const window: Window = { date: DATE, ...stretch };
    const all = await idsOf(buildPage(of, window, 'open'));
    const { parts, rows: counted } = await cut(of, window, 4);
    expect(counted).toBe(all.length);
    const pages: string[][] = [];
    for (const part of parts) pages.push(await idsOf(buildPage(of, part, 'open')));
    const size = all.length / 4;
    for (const { length } of pages) expect(Math.abs(length - size)).toBeLessThanOrEqual(1);
    expect(pages).toHaveLength(4);
    expect(pages.flat().sort()).toEqual([...all].sort());
  });

  test('gives every group once when a grain is cut by its split key', async () => {
    const window: Window = { date: DATE, from: { second: 34_200 }, to: { second: 34_260 } };
    const { parts, rows: counted } = await cut(flow, window, 3);
    expect(counted).toBe(3);
    const read = (of: Window) => engine.rows<{ symbol: string; n: number }>(buildPage(flow, of, 'open'));
    const pages: { symbol: string; n: number }[][] = [];
    for (const part of parts) pages.push([...(await read(part))]);
    const sorted = (list: readonly { symbol: string; n: number }[]) =>
      list.map(({ symbol, n }) => `${symbol} ${n}`).sort();
    expect(pages.map(({ length }) => length)).toEqual([1, 1, 1]);
    expect(sorted(pages.flat())).toEqual(sorted(await read(window)));
  });

  test('has as many groups by grain as the job of groups returns', async () => {
    const counts = await readProbe(flow, { ...SPAN, fromDate: DATE }, 'groups');
    const groups = await engine.rows<{ minute: string }>(buildPage(flow, wholeDay(DATE), 'open'));
    expect(counts.reduce((sum, count) => sum + count.rows, 0)).toBe(groups.length);
    expect(counts.map(({ second }) => second)).toEqual(
      [...new Set(groups.map(({ minute }) => secondOf(`${minute}:00`)))].sort((a, b) => a - b),
    );
  });
});
