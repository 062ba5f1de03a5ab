/**
 * Random SQL out of a small grammar, sound and unsound: what passes gives in windows, cut at random places, the rows that
 * it gives whole, by the engine's own answer. What is refused is asked too, to show that the cuts would have told.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Bound, DAY_END, DAY_START, wholeDay } from '../../src/calendar/window.ts';
import { isFault } from '../../src/core/errors.ts';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Engine } from '../../src/engine/engine.ts';
import type { SqlJob } from '../../src/job/job.ts';
import { parseJob } from '../../src/job/parse.ts';
import { buildPage } from '../../src/plan/statement.ts';
import { readSourceSql } from '../../src/run/job-sql.ts';
import { createTradesTable, insertTrades } from '../support/engine-source.ts';
import { assertSqlJob } from '../support/jobs.ts';
import { chooseSeed, chooseSize } from '../support/nightly.ts';
import { createRandom } from '../support/random.ts';
import { createTrade, DATE } from '../support/trades.ts';

const TEXTS = chooseSize(100, 1_500);
const ROWS = 400;
const SEED = chooseSeed(20_261_122);

let engine: Engine;
beforeAll(async () => {
  engine = await openEmbeddedEngine();
  await createTradesTable(engine);
  await insertTrades(
    engine,
    Array.from({ length: ROWS }, (_, k) => createTrade(k, placeOf(k))),
  );
});
afterAll(async () => {
  await engine.close();
});

/** Three symbols, from half past nine on, one row a minute on average: several of some seconds. */
function placeOf(k: number) {
  const second = 34_200 + Math.floor(k / 4) * 240;
  return { symbol: `SYM${k % 3}`, time: `${DATE} ${new Date(second * 1000).toISOString().slice(11, 19)}` };
}

type Choose = <Item>(items: readonly Item[]) => Item;
/** Of three texts two are made of sound parts only. */
function chooser(random: () => number): {
  choose: Choose;
  sound: (parts: readonly string[], others: readonly string[]) => string;
} {
  const choose: Choose = (items) => items[Math.floor(random() * items.length)] ?? (items[0] as (typeof items)[number]); // Never empty.
  return {
    choose,
    sound: (parts, others) => choose(random() < 0.88 ? parts : others),
  };
}

const CONDITIONS = [
  '{window}',
  '({window})',
  '{window} AND size > 25',
  "symbol != 'SYM0' AND {window}",
  "{window} AND (size > 40 OR symbol = 'SYM1')",
  'size BETWEEN 5 AND 45 AND {window}',
  '{window} /* OR */ AND NOT size = 7',
  'symbol IN (SELECT symbol FROM RawOptionTrades ORDER BY premium DESC LIMIT 9) AND {window}',
] as const;
const BAD_CONDITIONS = [
  "{window} OR symbol = 'SYM1'",
  'NOT {window}',
  '{window} = 0',
  'size BETWEEN 0 AND {window}',
  'CASE WHEN size > 20 AND {window} AND 1 THEN 1 ELSE size > 30 END',
  'size > 30 ? 1 : 0 AND {window}',
] as const;
const VALUES = [
  'price',
  'premium / underlying_price',
  "if(put_call = 'CALL', 1, -1)",
  'premium / (SELECT max(premium) FROM RawOptionTrades)',
  "length('OVER (x)')",
] as const;
const BAD_VALUES = [
  'runningDifference(price)',
  'avg(price) OVER (PARTITION BY symbol)',
  'arrayJoin([1, 2])',
  'price / (SELECT max(price) FROM RawOptionTrades WHERE {window})',
  'rowNumberInAllBlocks()',
] as const;
const SUMS = [
  'count()',
  'sum(premium)',
  "sumIf(size, put_call = 'CALL')",
  'uniqExact(option_symbol)',
  'max(price) - min(price)',
  'count(DISTINCT put_call)',
  'arraySort(groupArray(id))[1]',
  'sum(premium) / (SELECT sum(premium) FROM RawOptionTrades)',
] as const;
const BAD_SUMS = [
  'sum(sum(premium)) OVER (PARTITION BY symbol ORDER BY t)',
  'sum(premium) / (SELECT sum(premium) FROM RawOptionTrades WHERE {window})',
  'runningAccumulate(sumState(premium))',
] as const;
const TIMES = [
  'toStartOfHour(toDateTime(time))',
  "formatDateTime(toStartOfFiveMinutes(toDateTime(time)), '%Y-%m-%d %H:%i:%S')",
  'substring(time, 1, 16)',
  "concat(substring(time, 1, 13), ':00')",
  "date_trunc('minute', toDateTime(time))",
  'toStartOfInterval(toDateTime(time), INTERVAL 90 MINUTE)',
  'toDate(time)',
] as const;
const AFTER = [
  '',
  '',
  ' HAVING count() > 1',
  ' ORDER BY count()',
  ' HAVING sum(size) > 9 ORDER BY symbol DESC',
] as const;
const BAD_AFTER = [
  ' LIMIT 3',
  ' LIMIT 1 BY symbol',
  ' WITH ROLLUP',
  ' WITH TOTALS',
  ' ORDER BY count() LIMIT 2',
  ' ORDER BY t OFFSET 1',
] as const;

interface Text {
  readonly grain: 'minute' | 'hour' | 'day' | undefined;
  readonly sql: string;
}

function writeText(random: () => number): Text {
  const { choose, sound } = chooser(random);
  const table = sound(
    ['RawOptionTrades', 'RawOptionTrades AS o', '`RawOptionTrades` o'],
    ['RawOptionTrades ARRAY JOIN [1, 2] AS z'],
  );
  const where = sound(CONDITIONS, BAD_CONDITIONS);
  if (random() < 0.4) {
    const after = sound([''], [' LIMIT 5', ' ORDER BY id LIMIT 5', ' LIMIT 2 BY symbol']);
    return {
      grain: undefined,
      sql: `SELECT id, date, time, symbol, ${sound(VALUES, BAD_VALUES)} AS v FROM ${table} WHERE ${where}${after}`,
    };
  }
  const keys = sound(['t, symbol', 'symbol, t', '1, 2', 'symbol, t, put_call'], ['t', 'symbol']);
  return {
    grain: choose(['minute', 'hour', 'day'] as const),
    sql: `SELECT ${choose(TIMES)} AS t, symbol, ${sound(SUMS, BAD_SUMS)} AS v FROM ${table} WHERE ${where} GROUP BY ${keys}${sound(AFTER, BAD_AFTER)}`,
  };
}

function jobText({ grain, sql }: Text): string {
  const groups = grain ? `  grain: ${grain}\n  time: t\n  split: [symbol]\n` : '';
  return `name: x\nsource:\n  api: historical\n  sql: ${JSON.stringify(sql)}\n${groups}  types: {symbol: string, v: double}\ndrop: {to: out, dataset: x, sort: [symbol]}\n`;
}

/** The job, and whether it passes; of one that does not, what it would be. */
async function readJob(text: Text): Promise<{ readonly job: SqlJob; readonly passes: boolean }> {
  const job = parseJob('x.yaml', jobText(text));
  assertSqlJob(job);
  try {
    const { source } = await readSourceSql({ openEngine: async () => engine }, job, engine);
    const read = { ...job, source };
    assertSqlJob(read);
    return { job: read, passes: true };
  } catch (error) {
    if (!isFault(error) || error.code !== 'JOB_INVALID') throw error;
    return { job, passes: false };
  }
}

/** Places in the day, ascending: between cells, or at a key inside of one. */
function cutDay(random: () => number, { source }: SqlJob): readonly Bound[] {
  const grain = source.kind === 'aggregate' ? source.grainSeconds : 1;
  // Along the other axis; within a symbol windows end between grains too.
  if (random() < 0.3) {
    const second = Math.floor((34_200 + random() * 24_000) / grain) * grain;
    return [
      { symbol: 'SYM1', second: 0 },
      { symbol: 'SYM1', second },
      { symbol: 'SYM2', second: 0 },
    ];
  }
  const keys = source.kind === 'aggregate' ? ['SYM1', 'SYM2'] : ['4', '8', 'c'];
  const seconds = Array.from({ length: 4 }, () => Math.floor((34_200 + random() * 24_000) / 240) * 240);
  const cells = [...new Set(seconds.map((second) => Math.floor(second / grain) * grain))].sort((a, b) => a - b);
  return cells.map((second) => {
    const id = keys[Math.floor(random() * 2 * keys.length)];
    return id === undefined ? { second } : { second, id };
  });
}

/** Rows in any order, as text. */
async function ask(job: SqlJob, bounds: readonly Bound[]): Promise<readonly string[]> {
  const ends = [DAY_START, ...bounds, DAY_END];
  const found: string[] = [];
  for (const [index, to] of ends.entries()) {
    const from = ends[index - 1];
    if (from === undefined) continue;
    const window = bounds.length === 0 ? wholeDay(DATE) : { date: DATE, from, to };
    const rows = await engine.rows<Record<string, unknown>>(buildPage(job, window, 'open'));
    found.push(...rows.map((row) => JSON.stringify(row)));
  }
  return found.sort();
}

describe('SQL of jobs', () => {
  test(`that passes gives in windows what it gives whole, and much of what does not pass would not (seed ${SEED})`, async () => {
    const random = createRandom(SEED);
    const told = { passed: 0, refused: 0, differing: 0 };
    for (let text = 0; text < TEXTS; text += 1) {
      const written = writeText(random);
      const { job, passes } = await readJob(written);
      const bounds = cutDay(random, job);
      if (passes) {
        told.passed += 1;
        expect({ ...written, rows: await ask(job, bounds) }).toEqual({ ...written, rows: await ask(job, []) });
        continue;
      }
      told.refused += 1;
      // Some of it no server would take either.
      const [whole, parts] = await Promise.allSettled([ask(job, []), ask(job, bounds)]);
      const isTaken = whole.status === 'fulfilled' && parts.status === 'fulfilled';
      if (isTaken && JSON.stringify(whole.value) !== JSON.stringify(parts.value)) told.differing += 1;
    }
    expect(told.passed).toBeGreaterThan(TEXTS / 4);
    expect(told.differing).toBeGreaterThan(told.refused / 4);
  });
});
