/** What the guard admitted is remembered: for every text the same as the guard itself would say, only sooner. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { type Guard, openGuard } from '../../src/guard/guard.ts';
import { rememberAdmitted } from '../../src/service/sql/admitted.ts';

const ASKER = { owner: 'somebody', signal: new AbortController().signal };

let engine: Engine;
let guard: Guard;
let asked: string[];
let remembering: Guard;

beforeAll(async () => {
  engine = await openEmbeddedEngine();
  guard = await openGuard({ use: (_asker, task) => task(engine) }, ['hidden']);
  asked = [];
  remembering = rememberAdmitted({
    admit: async (sql) => {
      asked.push(sql);
      return await guard.admit(sql, ASKER);
    },
  });
});
afterAll(() => engine.close());

async function outcome(by: Guard, sql: string): Promise<string> {
  return await by.admit(sql, ASKER).catch((error: unknown) => `refused: ${String(error)}`);
}

const page = (from: string, to: string) =>
  `select * from rawoptiontrades where date = '${from.slice(0, 10)}' and time >= '${from}' and (time > '${from}' or id >= '12') and time < '${to}' and symbol != 'SPY'`;

test('the pages of an export are parsed once', async () => {
  const windows = Array.from(
    { length: 20 },
    (_, k) => [`2026-11-19 10:${k + 10}:00`, `2026-11-19 10:${k + 11}:00`] as const,
  );
  for (const [from, to] of windows) {
    expect(await remembering.admit(page(from, to), ASKER)).toBe(await guard.admit(page(from, to), ASKER));
  }
  // Twice as it is, and once to learn where its literals are.
  expect(asked).toHaveLength(3);
});

/** Each pair differs only in literals of times; the second must not become a variant of the first by mistake. */
const PAIRS: readonly (readonly [string, string])[] = [
  [
    "SELECT position('12' IN time), '34' FROM RawOptionTrades",
    "SELECT position('34' IN time), '12' FROM RawOptionTrades",
  ],
  ["SELECT position('1' IN '1')", "SELECT position('1' IN '12')"],
  ["SELECT '1', '1' FROM RawOptionTrades", "SELECT '1', '2' FROM RawOptionTrades"],
  [
    "SELECT id FROM RawOptionTrades WHERE time BETWEEN '1' AND '2'",
    "SELECT id FROM RawOptionTrades WHERE time BETWEEN '2' AND '1'",
  ],
  ["SELECT CASE time WHEN '1' THEN '2' ELSE '3' END", "SELECT CASE time WHEN '3' THEN '1' ELSE '2' END"],
  [
    "SELECT DATE '2026-01-01', TIMESTAMP '2026-01-01 00:00:00'",
    "SELECT DATE '2026-01-02', TIMESTAMP '2026-01-03 00:00:00'",
  ],
  ["SELECT '5'::Int32, INTERVAL '5' DAY", "SELECT '6'::Int32, INTERVAL '7' DAY"],
  ["SELECT ['1', '2'], ('3', '4')", "SELECT ['2', '1'], ('4', '3')"],
  [
    "SELECT substring(time FROM 1 FOR 2), EXTRACT(YEAR FROM toDate('2026-01-01'))",
    "SELECT substring(time FROM 1 FOR 2), EXTRACT(YEAR FROM toDate('2025-01-01'))",
  ],
  [
    "SELECT dateDiff('day', toDate('2026-01-01'), toDate('2026-01-02'))",
    "SELECT dateDiff('day', toDate('2026-01-02'), toDate('2026-01-01'))",
  ],
  ["SELECT CAST('1', 'Int8')", "SELECT CAST('2', 'Int8')"],
  ["SELECT CAST('1', '2')", "SELECT CAST('2', '3')"],
  ["SELECT '1' AS a, toDateTime('2026-01-01', a)", "SELECT '2' AS a, toDateTime('2026-01-01', a)"],
  ["SELECT * FROM system.tables WHERE name = '1'", "SELECT * FROM system.tables WHERE name = '2'"],
];

test.each(PAIRS)('%s', async (first, second) => {
  for (const sql of [first, first, second, first])
    expect(await outcome(remembering, sql)).toBe(await outcome(guard, sql));
});

/** Texts in which a literal is not what it seems. */
const TRICKS: readonly string[] = [
  "SELECT id FROM RawOptionTrades WHERE time > '1' -- AND time < '2'",
  "SELECT id FROM RawOptionTrades WHERE time > '1' /* ' */ AND time < '2'",
  "SELECT id FROM RawOptionTrades WHERE time > '1''2'",
  "SELECT id FROM RawOptionTrades WHERE time > '1\\' OR 1 = 1 OR '2'",
  'SELECT id FROM RawOptionTrades WHERE "1" > \'2\'',
  "SELECT id FROM RawOptionTrades WHERE time > $$'1'$$",
  "SELECT id FROM RawOptionTrades WHERE time > '1' UNION ALL SELECT '2'",
  "SELECT id FROM RawOptionTrades WHERE time > '1'; SELECT '2'",
  "SELECT id FROM RawOptionTrades WHERE time > '1' # '2'",
  "SELECT id FROM RawOptionTrades WHERE time > '1' // '2'",
  "SELECT id FROM RawOptionTrades WHERE time > '1' SETTINGS max_threads = '2'",
];

test.each(TRICKS)('remembers nothing that would let %s through', async (sql) => {
  const plain = "SELECT id FROM RawOptionTrades WHERE time > '1' AND time < '2'";
  for (let time = 0; time < 2; time += 1) await outcome(remembering, plain);
  expect(await outcome(remembering, sql)).toBe(await outcome(guard, sql));
});

test('what was refused is asked again', async () => {
  const sql = "SELECT * FROM OtherTable WHERE time = '2026-01-01'";
  const before = asked.length;
  for (let time = 0; time < 2; time += 1) expect(await outcome(remembering, sql)).toMatch(/^refused/);
  expect(asked.length).toBe(before + 2);
});
