/**
 * What SQL of a job may look like: texts that pass, and texts that are refused, each with the place and the advice that
 * it is told. That texts which pass give in windows what they give whole is in `sql-split.test.ts`.
 */
import { describe, expect, test } from 'vitest';
import { isFault } from '../../src/core/errors.ts';
import { readGroupSql, readRowSql } from '../../src/job/sql-shape.ts';

const TABLE = 'RawOptionTrades';
const KEYS = { table: TABLE, grain: 'hour', timeColumn: 'time', split: ['symbol'] } as const;
const HOUR = "formatDateTime(toStartOfHour(toDateTime(time)), '%Y-%m-%d %H:%i:%S') AS time";

function faultOf(read: () => string): string {
  try {
    read();
  } catch (error) {
    if (!isFault(error) || error.code !== 'JOB_INVALID') throw error;
    return error.message;
  }
  return 'the SQL was accepted';
}

const rowFault = (sql: string) => faultOf(() => readRowSql(sql, TABLE));
const groupFault = (sql: string, changes: Partial<Parameters<typeof readGroupSql>[1]> = {}) =>
  faultOf(() => readGroupSql(sql, { ...KEYS, ...changes }));
/** Groups by hour and symbol with more columns, and what follows WHERE. */
const groups = (columns: string, rest = 'WHERE {window} GROUP BY time, symbol') =>
  `SELECT ${HOUR}, symbol, ${columns} FROM ${TABLE} ${rest}`;
const rows = (rest: string, price = 'price') => `SELECT id, date, time, symbol, ${price} FROM ${TABLE} ${rest}`;

describe('SQL of single trades passes', () => {
  test.each([
    ['with the window alone', rows('WHERE {window}')],
    ['with the window in parentheses', rows('WHERE (({window}))')],
    ['with the window last', rows("WHERE symbol = 'SPY' AND price > 1 AND {window}")],
    ['with OR in parentheses', rows("WHERE {window} AND (symbol = 'SPY' OR symbol = 'QQQ')")],
    ['with BETWEEN before the window', rows('WHERE size BETWEEN 1 AND 5 AND {window} AND price NOT BETWEEN 1 AND 2')],
    ['with NOT of something else', rows("WHERE NOT symbol = 'SPY' AND {window}")],
    ['with CASE in parentheses', rows('WHERE {window} AND (CASE WHEN size > 1 THEN 1 ELSE 0 END) = 1')],
    ['with CASE in the SELECT', rows('WHERE {window}', 'CASE WHEN size > 1 OR size = 0 THEN 1 ELSE 0 END AS price')],
    ['with FINAL, and a name for the table', `SELECT t.id, t.price FROM ${TABLE} AS t FINAL WHERE {window}`],
    ['of a table in back quotes', `SELECT id FROM \`${TABLE}\` t WHERE {window}`],
    [
      'with keywords in texts',
      rows("WHERE {window} AND exchange != 'GROUP BY limit; -- OR \\' \\\\' AND side != 'it''s'"),
    ],
    ['with keywords in comments', `/* LIMIT */ ${rows('WHERE -- OR\n {window} # LIMIT 1\n AND 1')}`],
    ['with keywords in a heredoc', rows("WHERE {window} AND exchange != $x$ OR ' LIMIT $x$")],
    ['with keywords in quotes', rows('WHERE {window} AND `limit` = 1 AND "format" = 2')],
    ['with keywords behind a dot', rows('WHERE {window}', 't.limit AS price')],
    [
      'with a subquery that has LIMIT, JOIN and no window',
      rows(`WHERE {window} AND symbol IN (SELECT a.s FROM a JOIN b USING (s) LIMIT 5)`),
    ],
    ['with a sum of a subquery', rows('WHERE {window}', `price / (SELECT max(price) FROM ${TABLE}) AS price`)],
    [
      'with a common table expression',
      `WITH big AS (SELECT symbol FROM ${TABLE} GROUP BY symbol), 5 AS five ${rows('WHERE {window} AND symbol IN (SELECT symbol FROM big)')}`,
    ],
    ['with columns left out', `SELECT * EXCEPT (gamma) FROM ${TABLE} WHERE {window}`],
    [
      'with format, the function',
      rows('WHERE {window}', "format('{} {}', symbol, side) AS price").replaceAll("'{} {}'", "'{0}'"),
    ],
    ['with a number of every kind', rows('WHERE {window} AND price > 1.5e-3 AND size < 0xFF AND iv > .5')],
  ])('%s', (_title, sql) => {
    expect(rowFault(sql)).toBe('the SQL was accepted');
  });

  test('without the semicolon and the comment at its end, which would swallow what is written behind', () => {
    expect(readRowSql(`${rows('WHERE {window}')} ; -- all of it`, TABLE)).toBe(rows('WHERE {window}'));
    expect(readRowSql(`${rows('WHERE {window}')} -- all of it`, TABLE)).toBe(rows('WHERE {window}'));
  });
});

describe('SQL of single trades is refused', () => {
  test.each([
    [
      'with the window twice (r1)',
      rows('WHERE {window}', `price / (SELECT max(price) FROM ${TABLE} WHERE {window}) AS price`),
      ['in SELECT, at "{window}) AS price', 'a second time', 'leave it out'],
    ],
    [
      'with OR beside the window (r2)',
      rows("WHERE symbol = 'SPY' OR {window}"),
      ['in WHERE, at "OR {window}"', 'WHERE {window} AND (... OR ...)'],
    ],
    ['with OR in a BETWEEN', rows('WHERE {window} AND size BETWEEN 1 AND 2 OR price > 1'), ['at "OR price > 1"']],
    [
      'with ARRAY JOIN (r3)',
      rows('ARRAY JOIN [1,2] AS z WHERE {window}'),
      ['in FROM, at "ARRAY JOIN [1,2] AS z', 'ARRAY JOIN is not allowed', 'only one table', 'symbol IN (SELECT'],
    ],
    ['with LEFT ARRAY JOIN', rows('LEFT ARRAY JOIN [1,2] AS z WHERE {window}'), ['in FROM, at "ARRAY JOIN']],
    [
      'with arrayJoin',
      rows('WHERE {window}', 'arrayJoin([price, bid]) AS price'),
      ['in SELECT, at "arrayJoin([price', 'several rows of one', 'arraySum'],
    ],
    [
      'with arrayJoin in back quotes',
      rows('WHERE {window}', '`arrayJoin`([price, bid]) AS price'),
      ['arrayJoin', 'several rows'],
    ],
    [
      'with arrayJoin in a subquery of WHERE',
      rows('WHERE {window} AND size IN (SELECT arrayJoin([1, 2]))'),
      ['in WHERE, at "arrayJoin'],
    ],
    [
      'with APPLY of a neighbour',
      `SELECT * APPLY (neighbor) FROM ${TABLE} WHERE {window}`,
      ['in SELECT, at "neighbor)', 'other rows'],
    ],
    [
      'with runningDifference (r4)',
      rows('WHERE {window}', 'runningDifference(price) AS price'),
      ['in SELECT, at "runningDifference(price)', 'looks at other rows', 'in what reads the drop'],
    ],
    [
      'with rowNumberInAllBlocks',
      rows('WHERE {window} AND rowNumberInAllBlocks ( ) > 5'),
      ['in WHERE, at "rowNumberInAllBlocks'],
    ],
    [
      'with NOT before the window (r5)',
      rows('WHERE NOT {window}'),
      ['in WHERE, at "NOT {window}"', 'rows of all others'],
    ],
    [
      'with not() of the window',
      rows('WHERE not({window})'),
      ['in WHERE, at "not({window})"', 'WHERE {window} AND (...)'],
    ],
    [
      'with a function of the window',
      rows('WHERE size > 1 AND ignore({window}) = 0'),
      ['at "ignore({window}) = 0"', 'a part of another condition'],
    ],
    ['with a value of the window', rows('WHERE {window} = 0'), ['at "{window} = 0"', 'a part of another condition']],
    [
      'with the window as an end of BETWEEN',
      rows('WHERE size BETWEEN 0 AND {window}'),
      ['at "size BETWEEN 0 AND {window}"'],
    ],
    [
      'with the window in a CASE',
      rows('WHERE CASE WHEN 1 AND {window} AND 2 THEN 1 ELSE 1 END'),
      ['at "CASE WHEN', 'parentheses'],
    ],
    ['with the window behind a question mark', rows('WHERE size > 1 ? 1 : 0 AND {window}'), ['at "? 1', 'parentheses']],
    ['with XOR beside the window', rows('WHERE 1 XOR size AND {window}'), ['at "XOR size', 'parentheses']],
    ['with the window beside more in parentheses', rows('WHERE ({window} AND size > 5)'), ['a condition of its own']],
    [
      'with the window in the SELECT',
      rows('WHERE price > 1', '{window} AS price'),
      ['in SELECT, at "{window} AS price', 'must stand in WHERE'],
    ],
    [
      'with the window in a common table expression',
      `WITH x AS (SELECT id FROM ${TABLE} WHERE {window}) ${rows('WHERE id IN x')}`,
      ['in WITH', 'must stand in WHERE'],
    ],
    [
      'with the window in a subquery of FROM',
      `SELECT id FROM (SELECT id FROM ${TABLE} WHERE {window}) WHERE 1`,
      ['in FROM, at "(SELECT id', 'a subquery', 'allowed is FROM RawOptionTrades'],
    ],
    [
      'with the window in a text',
      rows("WHERE {window} AND side != '{window}'"),
      [`at "'{window}'"`, 'is a text', 'take it out'],
    ],
    ['with the window in a comment', rows('WHERE 1 -- {window}'), ['at "-- {window}"', 'is a comment']],
    [
      'with the window in another spelling',
      rows('WHERE { window }'),
      ['at "{ window }"', 'braces are for {window} only'],
    ],
    [
      'with a named window (r6)',
      rows('WHERE {window} WINDOW w AS (PARTITION BY symbol)', 'avg(price) OVER w AS price'),
      ['in SELECT, at "OVER w AS price', 'a window function'],
    ],
    [
      'with OVER behind a comment',
      rows('WHERE {window}', 'sum(price) OVER/**/(ORDER BY id) AS price'),
      ['in SELECT, at "OVER/**/(ORDER BY id)'],
    ],
    [
      'with JOIN',
      `SELECT id FROM ${TABLE} AS a INNER JOIN b USING (id) WHERE {window}`,
      ['in FROM, at "JOIN b', 'only one table'],
    ],
    ['with a second table', `SELECT id FROM ${TABLE}, b WHERE {window}`, ['in FROM, at ", b', 'a second table']],
    [
      'with a table function',
      "SELECT id FROM remote('a', b) WHERE {window}",
      ["in FROM, at \"('a', b)", 'table function'],
    ],
    [
      'of another table',
      'SELECT id FROM RawOptionTradesMaxDateOnlyMV WHERE {window}',
      ['in FROM, at "RawOptionTradesMaxDateOnlyMV', 'source.table'],
    ],
    [
      'of a table with its database',
      `SELECT id FROM other.${TABLE} WHERE {window}`,
      ['in FROM, at "other.RawOptionTrades', 'without its database'],
    ],
    [
      'with the time under the name of something else',
      `WITH expiration_date AS time SELECT id FROM ${TABLE} WHERE {window}`,
      ['in WITH, at "time SELECT', 'by which windows are cut', 'another name'],
    ],
    [
      'of a common table expression of the same name',
      `WITH ${TABLE} AS (SELECT 1) SELECT id FROM ${TABLE} WHERE {window}`,
      ['in WITH', 'another name'],
    ],
    [
      'with DISTINCT',
      `SELECT DISTINCT id FROM ${TABLE} WHERE {window}`,
      ['in SELECT, at "DISTINCT id', 'the whole answer'],
    ],
    ['with TOP', `SELECT TOP 5 id FROM ${TABLE} WHERE {window}`, ['in SELECT, at "TOP 5', 'the whole answer']],
    ['with LIMIT', rows('WHERE {window} LIMIT 5'), ['in WHERE, at "LIMIT 5"', 'the whole answer', 'back quotes']],
    ['with LIMIT BY', rows('WHERE {window} LIMIT 1 BY symbol'), ['in WHERE, at "LIMIT 1 BY symbol"']],
    ['with LIMIT behind a comment', rows('WHERE {window} /* * */LIMIT 5'), ['at "LIMIT 5"']],
    ['with OFFSET', rows('WHERE {window} OFFSET 5 ROWS FETCH FIRST 2 ROWS ONLY'), ['at "OFFSET 5']],
    ['with FETCH', rows('WHERE {window} FETCH FIRST 2 ROWS ONLY'), ['at "FETCH FIRST']],
    ['with QUALIFY', rows('WHERE {window} QUALIFY 1'), ['at "QUALIFY 1"']],
    ['with WINDOW', rows('WHERE {window} WINDOW w AS ()'), ['at "WINDOW w AS ()"']],
    ['with SAMPLE', rows('SAMPLE 0.1 WHERE {window}'), ['in FROM, at "SAMPLE 0.1', 'which rows are read']],
    ['with PREWHERE', rows('PREWHERE price > 1 WHERE {window}'), ['in FROM, at "PREWHERE price']],
    ['with FORMAT', rows('WHERE {window} FORMAT CSV'), ['at "FORMAT CSV"', 'flowdrop chooses']],
    ['with SETTINGS', rows('WHERE {window} SETTINGS limit = 5'), ['at "SETTINGS limit']],
    ['with INTO OUTFILE', rows("WHERE {window} INTO OUTFILE 'x'"), ['at "INTO OUTFILE']],
    [
      'with UNION',
      rows('WHERE {window} UNION ALL SELECT 1'),
      ['at "UNION ALL SELECT 1"', 'only one SELECT', 'two jobs'],
    ],
    ['with INTERSECT', rows('WHERE {window} INTERSECT SELECT 1'), ['at "INTERSECT SELECT 1"']],
    ['with EXCEPT', rows('WHERE {window} EXCEPT SELECT 1'), ['at "EXCEPT SELECT 1"']],
    [
      'with EXCEPT before FROM',
      `SELECT 1 EXCEPT SELECT id FROM ${TABLE} WHERE {window}`,
      ['in SELECT, at "EXCEPT SELECT id'],
    ],
    [
      'with two statements',
      `${rows('WHERE {window}')}; DROP TABLE x`,
      ['behind ";"', 'at "DROP TABLE x"', 'only one statement'],
    ],
    ['with GROUP BY', rows('WHERE {window} GROUP BY symbol'), ['has GROUP BY: SQL without `grain`', 'give a `grain`']],
    ['with HAVING', rows('WHERE {window} HAVING price > 1'), ['has HAVING: SQL without']],
    ['with ORDER BY', rows('WHERE {window} order by time'), ['has ORDER BY: SQL without', 'drop.sort']],
    [
      'with an aggregate',
      rows('WHERE {window}', 'sumIf(price, 1) AS price'),
      ['in SELECT, at "sumIf(price', 'many rows', '`grain`'],
    ],
    ['with FROM before SELECT', `FROM ${TABLE} SELECT id WHERE {window}`, ['in FROM, at "SELECT id', 'out of order']],
    ['with WHERE twice', rows('WHERE {window} WHERE 1'), ['in WHERE, at "WHERE 1"', 'twice']],
    ['without WHERE', `SELECT {window} FROM ${TABLE}`, ['has no WHERE']],
    ['in parentheses', `(${rows('WHERE {window}')})`, ['in the beginning', 'must begin with SELECT']],
    [
      'of another kind',
      'ALTER TABLE x DELETE WHERE {window}',
      ['in the beginning, at "ALTER', 'must begin with SELECT'],
    ],
    ['with a bracket left open', rows('WHERE ({window}'), ['at "({window}"', 'never closed']],
    ['with a bracket too many', rows('WHERE {window})'), ['at ")"', 'closes no "("']],
    ['with a text left open', rows("WHERE {window} AND side = 'x"), [`at "'x"`, 'never closed']],
    ['with a comment left open', rows('WHERE {window} /* x'), ['at "/* x"', 'never closed']],
    ['with a comment in a comment', rows('WHERE {window} /* /* */ LIMIT 5 */'), ['comment has another in it']],
    ['with curly quotes', rows('WHERE {window} AND side = ‘x’'), ['at "‘x’"', 'not allowed outside of texts']],
    ['with bytes in hex', rows("WHERE {window} AND side = x'41'"), [`at "x'41'"`, 'unhex']],
    ['with a number of letters', rows('WHERE {window} AND 1LIMIT'), ['at "1LIMIT"', 'neither a number nor a name']],
    ['with a backslash in a name', rows('WHERE {window}', '`neighbo\\x72`(price) AS price'), ['has a backslash']],
  ])('%s', (_title, sql, says) => {
    const message = rowFault(sql);
    for (const part of says) expect(message).toContain(part);
  });
});

describe('SQL of groups passes', () => {
  test.each([
    [
      'with a text that says GROUP BY, and a constant key (d)',
      groups('count() AS n', "WHERE symbol != 'GROUP BY time' AND {window} GROUP BY time, symbol, 'x'"),
    ],
    [
      'with HAVING and ORDER BY',
      groups('count() AS n', 'WHERE {window} GROUP BY time, symbol HAVING n > 1 ORDER BY n DESC'),
    ],
    ['with a count of distinct values', groups('count(DISTINCT option_symbol) AS n')],
    ['with the places of its keys', groups('count() AS n', 'WHERE {window} GROUP BY 1, 2')],
    [
      'with the expression of the time for a key',
      `SELECT substring(toString(time), 1, 13) AS time, symbol FROM ${TABLE} WHERE {window} GROUP BY substring( toString(\`time\`), 1, 13), symbol`,
    ],
    [
      'with an alias without AS',
      `SELECT toStartOfHour(toDateTime(time)) time, symbol FROM ${TABLE} WHERE {window} GROUP BY time, symbol`,
    ],
    ['with a share of a whole that has no window', groups(`sum(premium) / (SELECT sum(premium) FROM ${TABLE}) AS p`)],
  ])('%s', (_title, sql) => {
    expect(groupFault(sql)).toBe('the SQL was accepted');
  });
});

describe('SQL of groups is refused', () => {
  test.each([
    [
      'with a window function over groups (w)',
      groups('sum(sum(premium)) OVER (PARTITION BY symbol ORDER BY time) AS p'),
      ['in SELECT, at "OVER (PARTITION BY', 'a window function', 'in what reads the drop'],
    ],
    [
      'with the window twice (x)',
      groups(`sum(premium) / (SELECT sum(premium) FROM ${TABLE} WHERE {window}) AS p`),
      ['in SELECT, at "{window}) AS p', 'a second time'],
    ],
    [
      'with WITH ROLLUP (b)',
      groups('count() AS n', 'WHERE {window} GROUP BY time, symbol WITH ROLLUP'),
      ['in GROUP BY, at "WITH ROLLUP"', 'leave it out'],
    ],
    [
      'with WITH TOTALS',
      groups('count() AS n', 'WHERE {window} GROUP BY time, symbol WITH TOTALS'),
      ['in GROUP BY, at "WITH TOTALS"'],
    ],
    [
      'with CUBE',
      groups('count() AS n', 'WHERE {window} GROUP BY CUBE(time, symbol)'),
      ['in GROUP BY, at "CUBE(time', 'sums over several groups'],
    ],
    [
      'with GROUPING SETS',
      groups('count() AS n', 'WHERE {window} GROUP BY GROUPING SETS ((time), (symbol))'),
      ['in GROUP BY, at "GROUPING SETS'],
    ],
    [
      'with LIMIT (c)',
      groups('count() AS n', 'WHERE {window} GROUP BY time, symbol ORDER BY n DESC LIMIT 5'),
      ['in ORDER BY, at "LIMIT 5"', 'the whole answer'],
    ],
    [
      'with rows filled in',
      groups('count() AS n', 'WHERE {window} GROUP BY time, symbol ORDER BY time WITH FILL'),
      ['in ORDER BY, at "WITH FILL"'],
    ],
    [
      'with OR beside the window (e)',
      groups('count() AS n', "WHERE symbol = 'SPY' OR {window} GROUP BY time, symbol"),
      ['in WHERE, at "OR {window}'],
    ],
    ['without GROUP BY', groups('1 AS n', 'WHERE {window}'), ['has no GROUP BY']],
    [
      'with GROUP BY ALL',
      groups('count() AS n', 'WHERE {window} GROUP BY ALL'),
      ['in GROUP BY, at "ALL"', 'GROUP BY time, symbol'],
    ],
    [
      'with its keys in one',
      groups('count() AS n', 'WHERE {window} GROUP BY (time, symbol)'),
      ['does not group by "time"', 'GROUP BY has "(time, symbol)"', 'a key of its own'],
    ],
    [
      'with a key inside a function',
      groups('count() AS n', 'WHERE {window} GROUP BY time, lower(symbol)'),
      ['does not group by "symbol"', 'torn apart'],
    ],
    [
      'with the place of another column',
      groups('count() AS n', 'WHERE {window} GROUP BY 1, 3'),
      ['does not group by "symbol"'],
    ],
    [
      'with keys of HAVING only',
      groups('count() AS n', "WHERE {window} GROUP BY time HAVING symbol != ''"),
      ['does not group by "symbol"', 'GROUP BY has "time"'],
    ],
  ])('%s', (_title, sql, says) => {
    const message = groupFault(sql);
    for (const part of says) expect(message).toContain(part);
  });
});

test.each([
  ['toString(toDateTime(intDiv(toUnixTimestamp(toDateTime(time)), 600) * 600))', 'GROUP BY time, symbol HAVING'],
  ["toStartOfHour(toDateTime(time), 'Asia/Kolkata')", 'GROUP BY time, symbol HAVING'],
])('HAVING over groups by %s is refused, for it would hide what is torn', (expression, rest) => {
  const sql = `SELECT ${expression} AS time, symbol, count() AS n FROM ${TABLE} WHERE {window} ${rest} n > 5`;
  const message = groupFault(sql);
  expect(message).toContain('in HAVING, at "n > 5": HAVING hides parts of a group');
  expect(message).toContain('toStartOfHour(toDateTime(time))');
  expect(groupFault(sql.replace(/ HAVING.*/, ''))).toBe('the SQL was accepted');
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
  ])('%s is refused by the minute, where it is longer than one, and passes by the hour', (expression, seconds) => {
    const message = groupFault(timed(expression), keys('minute'));
    expect(message).toContain(`groups of ${seconds} seconds do not divide \`grain: minute\``);
    expect(message).toContain('`grain: hour`');
    expect(groupFault(timed(expression), keys('hour'))).toBe('the SQL was accepted');
    expect(groupFault(timed(expression), keys('day'))).toBe('the SQL was accepted');
  });

  test.each([
    ['toDate(time)', 'day'],
    ['toStartOfDay(toDateTime(time))', 'day'],
    ['toStartOfInterval(time, INTERVAL 3 HOUR)', 'day'],
    ['toStartOfInterval(time, INTERVAL 90 MINUTE)', 'day'],
  ])('%s needs the grain %s', (expression, grain) => {
    expect(groupFault(timed(expression), keys('hour'))).toContain(`\`grain: ${grain}\``);
    expect(groupFault(timed(expression), keys('day'))).toBe('the SQL was accepted');
  });

  test.each(['toMonday(time)', "date_trunc('month', time)", 'toStartOfInterval(time, INTERVAL 7 MINUTE)'])(
    '%s fits no grain',
    (expression) => {
      expect(groupFault(timed(expression), keys('day'))).toContain('no grain is cut so');
    },
  );

  test('is seen through the names of other columns, without going round in circles', () => {
    const sql = (hour: string) => `SELECT ${hour} AS h, toString(h) AS t FROM ${TABLE} WHERE {window} GROUP BY h, t`;
    expect(groupFault(sql('toStartOfHour(time)'), keys('minute'))).toContain('groups of 3600 seconds');
    expect(groupFault(sql('toStartOfHour(toDateTime(t))'), keys('minute'))).toBe('the SQL was accepted');
  });

  test('of a column that is called time is not that of the time', () => {
    const sql = `SELECT expiration_date AS time, toStartOfHour(time) AS t FROM ${TABLE} WHERE {window} GROUP BY t, time`;
    expect(groupFault(sql, keys('minute'))).toBe('the SQL was accepted');
    expect(groupFault(`${sql} HAVING count() > 1`, keys('hour'))).toContain('HAVING hides');
  });

  test.each([
    'toStartOfMinute(time)',
    'time',
    'substring(time, 1, 16)',
    'intDiv(toUnixTimestamp(time), 3600)',
    'addHours(toStartOfHour(time), 1)',
  ])('%s is not longer than a minute, or left to the run', (expression) => {
    expect(groupFault(timed(expression), keys('minute'))).toBe('the SQL was accepted');
  });
});
