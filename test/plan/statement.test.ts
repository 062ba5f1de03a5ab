/** The SQL of probes, cuts and pages, asked of a real engine with random rows, whatever types the server has. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { wholeDay } from '../../src/calendar/window.ts';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { quoteString } from '../../src/engine/literal.ts';
import { parseJob } from '../../src/job/parse.ts';
import type { DayCounts } from '../../src/plan/counts.ts';
import { packToTheRow, planPacking } from '../../src/plan/pack.ts';
import { buildCut, buildGroupProbe, buildMiddle, buildPage, buildProbe } from '../../src/plan/statement.ts';
import { createRandom } from '../support/random.ts';

const SEED = 42;
const DATE = '2026-11-19';
const LIMIT = 100;
const SPAN = { from: '2026-11-18', to: DATE, fromSecond: 0, toSecond: 86_400 };
const job = parseJob(
  'x',
  'name: t\nsource: {api: historical, columns: [id, date, time, symbol]}\ndrop: {to: o, dataset: t}\n',
);
const spy = parseJob(
  'x',
  `name: t\nsource: {api: historical, columns: [id, date, time, symbol], where: "symbol = 'SPY' OR 1 = 0"}\ndrop: {to: o, dataset: t}\n`,
);
const flow = parseJob(
  'x',
  `name: f
source:
  api: historical
  sql: SELECT symbol, substring(toString(time), 1, 16) AS minute, count() AS n FROM RawOptionTrades WHERE {window} GROUP BY symbol, minute
  grain: minute
  time: minute
  split: [symbol]
  types: {n: int64}
drop: {to: o, dataset: f}
`,
);

let engine: Engine;
let rows: readonly { id: string; date: string; time: string; symbol: string }[];

/** The counts of one date out of a probe's one row. */
async function readProbe(sql: string, date: string): Promise<DayCounts> {
  const found = await engine.rows<{ dates: string[]; seconds: number[][]; counts: number[][]; ids: number[][] }>(sql);
  expect(found).toHaveLength(1);
  const at = found[0]?.dates.indexOf(date) ?? -1;
  const [seconds = [], counts = [], ids = []] = [found[0]?.seconds[at], found[0]?.counts[at], found[0]?.ids[at]];
  return seconds.map((second, i) => ({ second, rows: Number(counts[i]), ids: Number(ids[i]) }));
}

const secondOf = (time: string) =>
  Number(time.slice(11, 13)) * 3600 + Number(time.slice(14, 16)) * 60 + Number(time.slice(17));

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
    const counts = await readProbe(buildProbe(job, SPAN), DATE);
    const expected = new Map<number, number>();
    for (const { date, time } of rows)
      if (date === DATE) expected.set(secondOf(time), (expected.get(secondOf(time)) ?? 0) + 1);
    expect(counts).toEqual([...expected].sort(([a], [b]) => a - b).map(([second, n]) => ({ second, rows: n, ids: n })));
    const part = await readProbe(buildProbe(job, { from: DATE, to: DATE, fromSecond: 34_201, toSecond: 34_210 }), DATE);
    expect(part).toEqual(counts.filter(({ second }) => second >= 34_201 && second < 34_210));
  });

  test.each([
    ['all rows', job],
    ['some rows', spy],
  ])('gives %s exactly once in exactly full pages', async (_title, of) => {
    const wanted = rows
      .filter(({ date, symbol }) => date === DATE && (of === job || symbol === 'SPY'))
      .map(({ id }) => id);
    const counts = await readProbe(buildProbe(of, SPAN), DATE);
    const { cuts } = planPacking(DATE, counts, [], LIMIT);
    const [found] = await engine.rows<{ seconds: number[]; ids: string[][] }>(buildCut(of, DATE, cuts, LIMIT));
    const ids = new Map(found?.seconds.map((second, i) => [second, found.ids[i] ?? []]));
    expect([...ids].map(([second, list]) => [second, list.length])).toEqual(
      cuts.map(({ second, ranks }) => [second, ranks.length]),
    );
    const windows = packToTheRow(DATE, counts, [], LIMIT, ids);
    expect(windows).toHaveLength(Math.ceil(wanted.length / LIMIT));
    const pages: string[][] = [];
    for (const window of windows) pages.push(await idsOf(buildPage(of, window)));
    expect(pages.map(({ length }) => length)).toEqual(windows.map((window) => window.rows));
    expect(pages.flat().sort()).toEqual([...wanted].sort());
  });

  test('is cut in the middle of a second by the id in the middle', async () => {
    const window = { date: DATE, from: { second: 34_200 }, to: { second: 34_201 } };
    const inside = rows.filter((row) => row.date === DATE && secondOf(row.time) === 34_200);
    const [found] = await engine.rows<{ rows: number; middle: string }>(buildMiddle(job, window));
    expect(Number(found?.rows)).toBe(inside.length);
    const at = { second: 34_200, id: found?.middle ?? '' };
    const left = await idsOf(buildPage(job, { ...window, to: at }));
    const right = await idsOf(buildPage(job, { ...window, from: at }));
    expect(left).toHaveLength(Math.floor(inside.length / 2));
    expect([...left, ...right].sort()).toEqual(inside.map(({ id }) => id).sort());
  });

  test('has as many groups by grain as the job of groups returns', async () => {
    const counts = await readProbe(buildGroupProbe(flow, { ...SPAN, from: DATE }), DATE);
    const groups = await engine.rows<{ minute: string }>(buildPage(flow, wholeDay(DATE)));
    expect(counts.reduce((sum, count) => sum + count.rows, 0)).toBe(groups.length);
    expect(counts.map(({ second }) => second)).toEqual(
      [...new Set(groups.map(({ minute }) => secondOf(`${minute}:00`)))].sort((a, b) => a - b),
    );
  });
});
