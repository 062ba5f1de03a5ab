/**
 * What SQL of a job may look like: texts that pass, and texts that are refused, each with the advice that comes with it.
 * That texts which pass give in windows what they give whole is in `windowed-sql-property.slow.test.ts`.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { Refusal } from '../../src/guard/refusal.ts';
import { readCondition, readWindowedSql } from '../../src/guard/windowed-sql.ts';

const TABLE = 'RawOptionTrades';
const GRAINS = { minute: 60, hour: 3600, day: 86_400 } as const;
const KEYS = { grain: 'hour', timeColumn: 'time', split: ['symbol'] } as const;
const HOUR = "formatDateTime(toStartOfHour(toDateTime(time)), '%Y-%m-%d %H:%i:%S') AS time";

let engine: Engine;
beforeAll(async () => {
  engine = await openEmbeddedEngine();
});
afterAll(async () => {
  await engine.close();
});

async function faultOf(reading: Promise<unknown>): Promise<string> {
  try {
    await reading;
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return error.message;
  }
  return 'the SQL was accepted';
}

const readRows = async (sql: string) =>
  (await readWindowedSql(engine, { sql, table: TABLE, groups: undefined, columns: [] })).sql;
const readNames = async (sql: string) =>
  (await readWindowedSql(engine, { sql, table: TABLE, groups: undefined, columns: [] })).selected;
const rowFault = (sql: string) => faultOf(readRows(sql));
function groupFault(sql: string, changes: { readonly [Key in keyof typeof KEYS]?: unknown } = {}) {
  const { grain, timeColumn, split } = { ...KEYS, ...changes } as typeof KEYS; // Of the same types.
  const groups = { grainSeconds: GRAINS[grain], timeColumn, groupKeys: [timeColumn, ...split] };
  return faultOf(readWindowedSql(engine, { sql, table: TABLE, groups, columns: [] }));
}
/** Groups by hour and symbol with more columns, and what follows WHERE. */
const groups = (columns: string, rest = 'WHERE {window} GROUP BY time, symbol') =>
  `SELECT ${HOUR}, symbol, ${columns} FROM ${TABLE} ${rest}`;
const rows = (rest: string, price = 'price') => `SELECT id, date, time, symbol, ${price} FROM ${TABLE} ${rest}`;

describe('SQL of single trades passes', () => {
  test.each([
    rows('WHERE {window}'),
    rows("WHERE {window} AND (symbol = 'SPY' OR symbol = 'QQQ')"),
    rows('WHERE size BETWEEN 1 AND 5 AND {window} AND price NOT BETWEEN 1 AND 2'),
    rows('WHERE {window}', 'CASE WHEN size > 1 OR size = 0 THEN 1 ELSE 0 END AS price'),
    `SELECT t.id, t.price FROM ${TABLE} AS t FINAL WHERE {window}`,
    `SELECT id FROM \`${TABLE}\` t WHERE {window}`,
    rows("WHERE {window} AND exchange != 'GROUP BY limit; -- OR \\' \\\\' AND side != 'it''s'"),
    `/* LIMIT */ ${rows('WHERE -- OR\n {window} # LIMIT 1\n AND 1')}`,
    rows("WHERE {window} AND exchange != $x$ OR ' LIMIT $x$"),
    rows('WHERE {window} AND `limit` = 1 AND "format" = 2'),
    rows(`WHERE {window} AND symbol IN (SELECT a.s FROM a JOIN b USING (s) LIMIT 5)`),
    rows('WHERE {window}', `price / (SELECT max(price) FROM ${TABLE}) AS price`),
    `WITH big AS (SELECT symbol FROM ${TABLE} GROUP BY symbol), 5 AS five ${rows('WHERE {window} AND symbol IN (SELECT symbol FROM big)')}`,
    `SELECT * EXCEPT (gamma) FROM ${TABLE} WHERE {window}`,
    rows('WHERE {window}', "format('{} {}', symbol, side) AS price").replaceAll("'{} {}'", "'{0}'"),
    `(${rows('WHERE {window}')})`,
    rows("WHERE {window} AND side = ‘x’ AND side != x'41'"),
    `WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 3) ${rows('WHERE {window} AND size IN (SELECT n FROM r)')}`,
  ])('%s', async (sql) => {
    expect(await rowFault(sql)).toBe('the SQL was accepted');
  });

  test('and comes out as the engine formats it, without semicolon and comments', async () => {
    const formatted = rows('WHERE ({window}) AND (size > 5)');
    expect(await readRows(`${rows('WHERE {window} AND size>5')} ; -- all of it`)).toBe(formatted);
    expect(await readRows(`${rows('WHERE {window} /* LIMIT */ AND size>5')} -- all of it`)).toBe(formatted);
    const quoted = rows("WHERE {window} AND symbol = 'it''s' OR 0").replace(' OR 0', '');
    expect(await readRows(quoted)).toContain(String.raw`(symbol = 'it\'s')`);
  });
});

describe('SQL of single trades is refused', () => {
  test.each([
    [
      rows('WHERE {window}', `price / (SELECT max(price) FROM ${TABLE} WHERE {window}) AS price`),
      'appears twice … leave it out',
    ],
    [
      rows("WHERE symbol = 'SPY' OR {window}"),
      'in WHERE: OR beside {window} lets the rows of every window into each window … WHERE {window} AND (... OR ...)',
    ],
    [rows('ARRAY JOIN [1,2] AS z WHERE {window}'), 'ARRAY JOIN is not allowed … only one table … symbol IN (SELECT'],
    [
      rows('WHERE {window}', 'arrayJoin([price, bid]) AS price'),
      'arrayJoin is not allowed … several rows from one … arraySum',
    ],
    [rows('WHERE {window} AND size IN (SELECT arrayJoin([1, 2]))'), 'arrayJoin is not allowed'],
    [`SELECT * APPLY (neighbor) FROM ${TABLE} WHERE {window}`, 'neighbor is not allowed … other rows'],
    [
      rows('WHERE {window}', 'runningDifference(price) AS price'),
      'runningDifference is not allowed … uses other rows … when you read the drop',
    ],
    [rows('WHERE NOT {window}'), 'rows of all others'],
    [rows('WHERE size > 1 AND ignore({window}) = 0'), 'a part of another condition'],
    [rows('WHERE size BETWEEN 0 AND {window}'), 'a part of another condition (lessOrEquals)'],
    [rows('WHERE CASE WHEN 1 AND {window} AND 2 THEN 1 ELSE 1 END'), 'a part of another condition (multiIf)'],
    [rows('WHERE price > 1', '{window} AS price'), 'must be in WHERE'],
    [`WITH x AS (SELECT id FROM ${TABLE} WHERE {window}) ${rows('WHERE id IN x')}`, 'must be in WHERE'],
    [`SELECT id FROM (SELECT id FROM ${TABLE} WHERE {window}) WHERE 1`, 'a subquery … allowed is FROM RawOptionTrades'],
    [rows("WHERE {window} AND side != '{window}'"), '{window} appears twice in the SQL'],
    [rows('WHERE 1 -- {window}'), '{window} must be in WHERE of the outermost SELECT'],
    [rows('WHERE { window }'), 'must contain {window}: write it as a separate condition'],
    [rows('WHERE {window}', 'sum(price) OVER/**/(ORDER BY id) AS price'), 'OVER is not allowed, at sum'],
    [
      `SELECT id FROM ${TABLE} AS a INNER JOIN b USING (id) WHERE {window}`,
      'in FROM: JOIN is not allowed … only one table',
    ],
    ["SELECT id FROM remote('a', b) WHERE {window}", 'in FROM: TABLE FUNCTION is not allowed'],
    [
      'SELECT id FROM RawOptionTradesMaxDateOnlyMV WHERE {window}',
      'in FROM: RawOptionTradesMaxDateOnlyMV is not the table … source.table',
    ],
    [
      `SELECT id FROM other.${TABLE} WHERE {window}`,
      'in FROM: other.RawOptionTrades is not the table … without its database',
    ],
    [`WITH expiration_date AS time SELECT id FROM ${TABLE} WHERE {window}`, 'that windows are split by … another name'],
    [
      `WITH ${TABLE} AS (SELECT 1) SELECT id FROM ${TABLE} WHERE {window}`,
      '"RawOptionTrades" would hide the table … another name',
    ],
    [`SELECT DISTINCT id FROM ${TABLE} WHERE {window}`, 'DISTINCT is not allowed … the whole answer'],
    [rows('WHERE {window} LIMIT 5'), 'LIMIT is not allowed … the whole answer'],
    [rows('WHERE {window} /* * */LIMIT 5'), 'LIMIT is not allowed'],
    [rows('WHERE {window} OFFSET 5 ROWS FETCH FIRST 2 ROWS ONLY'), 'An expression is not valid here.'],
    [rows('WHERE {window} QUALIFY 1'), 'QUALIFY is not allowed'],
    [rows('SAMPLE 0.1 WHERE {window}'), 'SAMPLE is not allowed … which rows are read'],
    [rows('PREWHERE price > 1 WHERE {window}'), 'PREWHERE is not allowed'],
    [rows('WHERE {window} FORMAT CSV'), 'Only one SELECT query is allowed'],
    [rows('WHERE {window} SETTINGS max_threads = 1'), 'SETTINGS is not allowed'],
    [`SELECT a FROM ${TABLE} AS t (a, b) WHERE {window}`, 'names for its columns'],
    [rows('WHERE (({window}) AS w) AND price > w'), 'must be in WHERE without a name'],
    [rows('WHERE {window}', 'length(expiration_date AS time) AS price'), '"time" would hide'],
    [`WITH sum(price) AS s ${rows('WHERE {window}', 's')}`, 'sum makes one'],
    [`SELECT * APPLY (max) FROM ${TABLE} WHERE {window}`, 'max makes one value'],
    [rows('WHERE {window}', 'price AS `a, alias: time`'), 'has a comma'],
    [rows('WHERE {window}', "COLUMNS('a\\n  WHERE')"), 'has a line break'],
    [rows('WHERE {window} UNION ALL SELECT 1'), 'only one SELECT … two jobs'],
    [rows('WHERE {window} EXCEPT SELECT 1'), 'must be one SELECT ... FROM table WHERE {window} ...: Only SELECT'],
    [`${rows('WHERE {window}')}; DROP TABLE x`, 'Only one statement is allowed.'],
    [rows('WHERE {window} GROUP BY symbol'), 'has GROUP BY: SQL without `grain` … give a `grain`'],
    [rows('WHERE {window} order by time'), 'has ORDER BY: SQL without … drop.sort'],
    [rows('WHERE {window}', 'sumIf(price, 1) AS price'), 'many rows … `grain`'],
    [`SELECT {window} FROM ${TABLE}`, 'has no WHERE'],
    ['ALTER TABLE x DELETE WHERE {window}', 'Only SELECT queries are allowed.'],
    [rows('WHERE ({window}'), 'at "({window}"'],
    [rows('WHERE {window}', '`neighbo\\x72`(price) AS price'), 'neighbor is not allowed'],
  ])('%s: %s', async (sql, says) => {
    const message = await rowFault(sql);
    for (const part of says.split(' … ')) expect(message).toContain(part);
  });
});

describe('SQL of groups passes', () => {
  test.each([
    groups('count() AS n', "WHERE symbol != 'GROUP BY time' AND {window} GROUP BY time, symbol, 'x'"),
    groups('count() AS n', 'WHERE {window} GROUP BY time, symbol HAVING n > 1 ORDER BY n DESC'),
    groups('count(DISTINCT option_symbol) AS n'),
    groups('count() AS n', 'WHERE {window} GROUP BY 1, 2'),
    `SELECT substring(toString(time), 1, 13) AS time, symbol FROM ${TABLE} WHERE {window} GROUP BY substring( toString(\`time\`), 1, 13), symbol`,
    `SELECT toStartOfHour(toDateTime(time)) time, symbol FROM ${TABLE} WHERE {window} GROUP BY time, symbol`,
    groups(`sum(premium) / (SELECT sum(premium) FROM ${TABLE}) AS p`),
  ])('%s', async (sql) => {
    expect(await groupFault(sql)).toBe('the SQL was accepted');
  });
});

describe('SQL of groups is refused', () => {
  test.each([
    [
      groups('sum(sum(premium)) OVER (PARTITION BY symbol ORDER BY time) AS p'),
      'OVER is not allowed, at sum … a window function … when you read the drop',
    ],
    [
      groups('count() AS n', 'WHERE {window} GROUP BY time, symbol WITH ROLLUP'),
      'ROLLUP, CUBE or GROUPING SETS is not allowed',
    ],
    [
      groups('count() AS n', 'WHERE {window} GROUP BY GROUPING SETS ((time), (symbol))'),
      'ROLLUP, CUBE or GROUPING SETS is not allowed',
    ],
    [
      groups('count() AS n', 'WHERE {window} GROUP BY time, symbol ORDER BY n DESC LIMIT 5'),
      'LIMIT is not allowed … the whole answer',
    ],
    [
      groups('count() AS n', 'WHERE {window} GROUP BY time, symbol ORDER BY time WITH FILL'),
      'WITH FILL is not allowed',
    ],
    [groups('1 AS n', 'WHERE {window}'), 'has no GROUP BY'],
    [groups('count() AS n', 'WHERE {window} GROUP BY ALL'), 'GROUP BY ALL does not name the keys'],
    [groups('count() AS n', 'WHERE {window} GROUP BY (time, symbol)'), 'does not group by "time" … as a separate key'],
    [
      groups('count() AS n', 'WHERE {window} GROUP BY time, lower(symbol)'),
      'does not group by "symbol" … split between two windows',
    ],
    [groups('count() AS n', 'WHERE {window} GROUP BY 1, 3'), 'does not group by "symbol"'],
  ])('%s: %s', async (sql, says) => {
    const message = await groupFault(sql);
    for (const part of says.split(' … ')) expect(message).toContain(part);
  });
});

test.each([
  ['toString(toDateTime(intDiv(toUnixTimestamp(toDateTime(time)), 600) * 600))', 'GROUP BY time, symbol HAVING'],
  ["toStartOfHour(toDateTime(time), 'Asia/Kolkata')", 'GROUP BY time, symbol HAVING'],
])('HAVING over groups by %s is refused, for it would hide what is torn', async (expression, rest) => {
  const sql = `SELECT ${expression} AS time, symbol, count() AS n FROM ${TABLE} WHERE {window} ${rest} n > 5`;
  const message = await groupFault(sql);
  expect(message).toContain('HAVING hides parts of a group');
  expect(message).toContain('toStartOfHour(toDateTime(time))');
  expect(await groupFault(sql.replace(/ HAVING.*/, ''))).toBe('the SQL was accepted');
});

test('HAVING over groups by the date of the trades is allowed with `grain: day`', async () => {
  const sql = `SELECT date, symbol, count() AS n FROM ${TABLE} WHERE {window} GROUP BY date, symbol HAVING n > 5`;
  expect(await groupFault(sql, { grain: 'day', timeColumn: 'date' })).toBe('the SQL was accepted');
  const hourly = await groupFault(sql, { grain: 'hour', timeColumn: 'date' });
  expect(hourly).toContain('groups of 86400 seconds do not divide `grain: hour`');
});

test('a column of `types` that the SQL lacks is refused, unless a star may have it', async () => {
  const check = (sql: string) =>
    faultOf(readWindowedSql(engine, { sql, table: TABLE, groups: undefined, columns: ['id', 'cost'] }));
  expect(await check(rows('WHERE {window}'))).toContain(
    'has no column "cost"; its columns are id, date, time, symbol, price. Name it with AS',
  );
  expect(await check(rows('WHERE {window}', 'price AS cost'))).toBe('the SQL was accepted');
  expect(await check(`SELECT * FROM ${TABLE} WHERE {window}`)).toBe('the SQL was accepted');
});

test('the columns of the answer are known, except of a star', async () => {
  expect(await readNames(rows('WHERE {window}', 'price AS cost, size * 2'))).toEqual([
    ...['id', 'date', 'time', 'symbol', 'cost', ''],
  ]);
  expect(await readNames(`SELECT *, size AS contracts FROM ${TABLE} WHERE {window}`)).toBeUndefined();
});

describe('the time of a group', () => {
  const timed = (expression: string) =>
    `SELECT ${expression} AS t, count() AS n FROM ${TABLE} WHERE {window} GROUP BY t`;
  const keys = (grain: 'minute' | 'hour' | 'day') => ({ grain, timeColumn: 't', split: [] });

  test.each([
    ['toStartOfHour(toDateTime(time))', 3600],
    ["formatDateTime(toStartOfHour(toDateTime(time)), '%Y-%m-%d %H:%i:%S')", 3600],
    ["formatDateTime(toDateTime(time), '%Y-%m-%d %H:00:00')", 3600],
    ['toStartOfFiveMinutes(parseDateTimeBestEffort(time))', 300],
    ['toStartOfTenMinutes(time)', 600],
    ['toString(toStartOfFifteenMinutes((time)))', 900],
    ['toStartOfInterval(time, INTERVAL 20 MINUTE)', 1200],
    ["toStartOfInterval(time, INTERVAL '2 minutes')", 120],
    ['toStartOfInterval(toDateTime64(time, 3), toIntervalMinute(30))', 1800],
    ["date_trunc('hour', toDateTime(time))", 3600],
    ["dateTrunc('HOUR', time)", 3600],
    ["substring(toString(time), 1, 13) || ':00'", 3600],
    ["concat(left(time, 13), ':00')", 3600],
    ["concat(substring(time, 1, 15), '0')", 600],
  ])(
    '%s is refused by the minute, where it is longer than one, and passes by the hour',
    async (expression, seconds) => {
      const message = await groupFault(timed(expression), keys('minute'));
      expect(message).toContain(`groups of ${seconds} seconds do not divide \`grain: minute\``);
      expect(message).toContain('`grain: hour`');
      expect(await groupFault(timed(expression), keys('hour'))).toBe('the SQL was accepted');
      expect(await groupFault(timed(expression), keys('day'))).toBe('the SQL was accepted');
    },
  );

  test.each([
    ['toDate(time)', 'day'],
    ['toStartOfDay(toDateTime(time))', 'day'],
    ['toStartOfInterval(time, INTERVAL 3 HOUR)', 'day'],
    ['toStartOfInterval(time, INTERVAL 90 MINUTE)', 'day'],
  ])('%s needs the grain %s', async (expression, grain) => {
    expect(await groupFault(timed(expression), keys('hour'))).toContain(`\`grain: ${grain}\``);
    expect(await groupFault(timed(expression), keys('day'))).toBe('the SQL was accepted');
  });

  test.each(['toMonday(time)', "date_trunc('month', time)", 'toStartOfInterval(time, INTERVAL 7 MINUTE)'])(
    '%s fits no grain',
    async (expression) => {
      expect(await groupFault(timed(expression), keys('day'))).toContain('no grain has this length');
    },
  );

  test('is seen through the names of other columns, without going round in circles', async () => {
    const sql = (hour: string) => `SELECT ${hour} AS h, toString(h) AS t FROM ${TABLE} WHERE {window} GROUP BY h, t`;
    expect(await groupFault(sql('toStartOfHour(time)'), keys('minute'))).toContain('groups of 3600 seconds');
    expect(await groupFault(sql('toStartOfHour(toDateTime(t))'), keys('minute'))).toBe('the SQL was accepted');
  });

  test('of a column that is called time is not that of the time', async () => {
    const sql = `SELECT expiration_date AS time, toStartOfHour(time) AS t FROM ${TABLE} WHERE {window} GROUP BY t, time`;
    expect(await groupFault(sql, keys('minute'))).toBe('the SQL was accepted');
    expect(await groupFault(`${sql} HAVING count() > 1`, keys('hour'))).toContain('HAVING hides');
  });

  test.each([
    'toStartOfMinute(time)',
    'time',
    'substring(time, 1, 16)',
    'intDiv(toUnixTimestamp(time), 3600)',
    'addHours(toStartOfHour(time), 1)',
  ])('%s is not longer than a minute, or left to the run', async (expression) => {
    expect(await groupFault(timed(expression), keys('minute'))).toBe('the SQL was accepted');
  });
});

describe('a condition', () => {
  test.each([
    ['premium > 1000', 'premium > 1000'],
    ["symbol IN ('SPY', 'QQQ') OR size >= 10", "((symbol IN ('SPY', 'QQQ')) OR (size >= 10))"],
    ["description = 'a;b -- {c'", "description = 'a;b -- {c'"],
    ['(price - 1) * 2 > 3 AND NOT is_cancelled', '(price - 1) * 2 > 3 AND NOT is_cancelled'],
    ['premium > 1000 -- large ones', 'premium > 1000'],
    ['premium > 1000 /* large */\n', 'premium > 1000'],
  ])('%s is taken', async (where, means) => {
    expect(await readCondition(engine, where)).toBe(await readCondition(engine, means));
  });

  test('of a subquery is taken', async () => {
    const where = 'symbol IN (SELECT symbol FROM RawOptionTrades WHERE premium > 1e6)';
    expect(await faultOf(readCondition(engine, where))).toBe('the SQL was accepted');
  });

  test.each([
    ['1) OR (1', 'must be one expression'],
    ['1) AND (1', 'must be one expression'],
    ['1) GROUP BY (1', 'must be one expression'],
    ['(premium > 1', 'cannot be read'],
    ["symbol = 'SPY", 'cannot be read'],
    ['premium > 1; SELECT 1', 'cannot be read at "; SELECT 1'],
    ['{window} AND premium > 1', 'is added to the condition; leave it out'],
    ['arrayJoin([1, 2]) > 1', 'it makes several rows from one'],
    ['rowNumberInAllBlocks() = 0', 'it uses other rows'],
    ['premium > /* 1', 'cannot be read'],
    ['-- nothing', 'must be one expression'],
    ['premium > 1, size > 2', 'must be one expression'],
  ])('%s is refused', async (where, reason) => {
    expect(await faultOf(readCondition(engine, where))).toContain(reason);
  });
});
