/**
 * The guardrails against a running service: what is refused, what runs, and that what runs means the same. Every hostile
 * statement here did something on the bare engine, or is of a kind that did.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startTestService, type TestService } from '../service/running-service.ts';

const SELECTS: readonly string[] = [
  'SELECT count() FROM RawOptionTrades',
  'select max(time), min(time) from RawOptionTrades',
  'SELECT id FROM rawoptiontrades LIMIT 1',
  'SELECT id FROM `RAWOPTIONTRADES` LIMIT 1',
  'SELECT id FROM "rawOptionTradesMaxDateOnlyMV" LIMIT 1',
  'SELECT rawOptionTrades.id FROM RAWoptionTRADES LIMIT 1',
  'SELECT id -- a comment\nFROM RawOptionTrades /* another */ LIMIT 1;',
  '-- first a comment\nSELECT id FROM RawOptionTrades LIMIT 1',
  '/* SELECT */ SELECT id FROM RawOptionTrades LIMIT 1',
  '(SELECT count() FROM RawOptionTrades)',
  "WITH calls AS (SELECT * FROM RawOptionTrades WHERE put_call = 'CALL') SELECT count() FROM calls",
  'WITH 100 AS least_size SELECT count() FROM RawOptionTrades WHERE size >= least_size',
  "SELECT 'DROP TABLE x; UNION; /* -- */' AS text, count() FROM RawOptionTrades",
  "SELECT 'it''s', 'a\\'b', '`RawOptionTrades`' AS quoted FROM RawOptionTrades LIMIT 1",
  'SELECT a.id FROM RawOptionTrades AS a JOIN RawOptionTrades AS b ON a.id = b.id LIMIT 1',
  'SELECT count() FROM RawOptionTrades WHERE id IN (SELECT id FROM RawOptionTrades WHERE size > 100)',
  'SELECT symbol, quantile(0.5)(price), sumIf(premium, size > 10) FROM RawOptionTrades GROUP BY symbol HAVING count() > 1',
  "SELECT sum(premium) FILTER (WHERE side = 'ASK'), countIf(sentiment = 'BULLISH'), uniqExact(option_symbol) FROM RawOptionTrades",
  'SELECT toStartOfMinute(toDateTime(time)) AS minute, sum(size) FROM RawOptionTrades GROUP BY minute ORDER BY minute LIMIT 3',
  'SELECT id, row_number() OVER (PARTITION BY option_symbol ORDER BY time) AS n FROM RawOptionTrades QUALIFY n = 1 LIMIT 2',
  'SELECT sum(size) OVER running FROM RawOptionTrades WINDOW running AS (ORDER BY time ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) LIMIT 2',
  'SELECT * EXCEPT (iv, delta) FROM RawOptionTrades LIMIT 1',
  'SELECT * REPLACE (size * 2 AS size) FROM RawOptionTrades LIMIT 1',
  "SELECT COLUMNS('^bid') FROM RawOptionTrades LIMIT 1",
  "SELECT CASE WHEN put_call = 'CALL' THEN 1 ELSE 0 END AS c, CAST(size AS Float64), size::String FROM RawOptionTrades LIMIT 1",
  "SELECT DISTINCT symbol FROM RawOptionTrades WHERE date BETWEEN '2026-11-01' AND '2026-11-30' ORDER BY symbol",
  'SELECT option_symbol, sum(size) FROM RawOptionTrades GROUP BY option_symbol WITH TOTALS LIMIT 1',
  'SELECT symbol, put_call, sum(size) FROM RawOptionTrades GROUP BY GROUPING SETS ((symbol), (put_call)) LIMIT 2',
  "SELECT countIf(symbol ILIKE 'sp%'), match(any(symbol), '^S') FROM RawOptionTrades",
  "SELECT JSONExtractInt('{\"a\":1}', 'a'), cityHash64(symbol), lower(hex(MD5(symbol))) FROM RawOptionTrades LIMIT 1",
  'SELECT arrayJoin(groupArray(3)(id)) FROM RawOptionTrades',
  'SELECT x.1 FROM (SELECT (symbol, size) AS x FROM RawOptionTrades) LIMIT 1',
  'SELECT date, round(sum(gamma * oi * 100 * pow(underlying_price, 2) * 0.01) / 1e9, 2) FROM RawOptionTrades GROUP BY ALL',
  'SELECT count() AS `Total (all)` FROM RawOptionTrades',
];

/** 400 INVALID_SQL each. */
const REFUSED: readonly string[] = [
  '1',
  'INSERT INTO RawOptionTrades VALUES (1)',
  'UPDATE RawOptionTrades SET size = 1 WHERE 1',
  'DELETE FROM RawOptionTrades WHERE 1',
  'ALTER TABLE RawOptionTrades DELETE WHERE 1',
  'DROP TABLE RawOptionTrades',
  'DROP VIEW RawOptionTrades',
  'CREATE TABLE x (a Int32) ENGINE = Memory',
  'TRUNCATE TABLE RawOptionTrades',
  'EXEC something',
  'CALL something()',
  'SET max_rows_to_read = 0',
  'USE default',
  'SHOW TABLES',
  'DESCRIBE TABLE RawOptionTrades',
  'EXPLAIN SELECT 1',
  'SYSTEM SHUTDOWN',
  'KILL QUERY WHERE 1',
  'GRANT ALL ON *.* TO x',
  'SELECT 1; DROP TABLE RawOptionTrades',
  'SELECT 1 UNION ALL SELECT 2',
  '(SELECT 1) UNION DISTINCT (SELECT 2)',
  'SELECT * FROM (SELECT 1 UNION ALL SELECT 2)',
  'SELECT 1 INTERSECT SELECT 1',
  'WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT * FROM r',
  'SELECT * FROM RawOptionTrades FORMAT CSV',
  "SELECT 1 INTO OUTFILE 'stolen.csv'",
  'SELECT * FROM RawOptionTrades SETTINGS max_rows_to_read = 0',
  'SELECT * FROM (SELECT * FROM RawOptionTrades SETTINGS additional_table_filters = {})',
  'SELECT * FROM OtherTable',
  'SELECT * FROM default.RawOptionTrades',
  'SELECT * FROM system.tables',
  'SELECT * FROM `system.tables`',
  'SELECT (SELECT count() FROM system.tables)',
  'SELECT 1 IN system.one',
  'SELECT in(1, system.one)',
  'WITH system.one AS t SELECT 1 IN t',
  'SELECT * FROM `/etc/hostname`',
  "SELECT * FROM '/etc/hostname'",
  "SELECT * FROM file('/etc/hostname')",
  "SELECT file('/etc/hostname')",
  "SELECT * FROM url('http://localhost/')",
  "SELECT * FROM merge('', '.*')",
  "SELECT * FROM remote('127.0.0.1', system.one)",
  'SELECT * FROM view(SELECT 1)',
  'SELECT * FROM numbers(10)',
  'SELECT sleep(1)',
  'SELECT `SLEEP`(1)',
  'SELECT arrayMap(x -> sleep(1), [1])',
  'SELECT * APPLY(sleep) FROM RawOptionTrades',
  "SELECT getSetting('max_threads')",
  'SELECT hostName()',
  'SELECT currentDatabase()',
  'SELECT DATABASE()',
  'SELECT version()',
  "SELECT dictGet('a', 'b', 1)",
  "SELECT joinGet('a', 'b', 1)",
  'SELECT throwIf(1)',
  "SELECT jaroSimilarity('a', 'b')",
  'SELECT sumState(size) FROM RawOptionTrades',
  "SELECT arrayReduce('sumState', [1])",
  "SELECT CAST('' AS AggregateFunction(sum, Int32))",
  "SELECT CAST(1, concat('Int', '32'))",
  'SELECT 1 \0 DROP TABLE x',
  '\u200bSELECT 1',
  `SELECT '${'x'.repeat(70_000)}'`,
  'SELECT `a\nTableIdentifier RawOptionTrades` FROM RawOptionTrades',
  'FROM RawOptionTrades SELECT id',
];

const UNPARSABLE: readonly string[] = [
  'selec 1',
  'SELECT (1',
  'SELECT 1 FROM',
  "SELECT 'open",
  `SELECT ${'('.repeat(3_000)}1`,
];

let service: TestService;

beforeAll(async () => {
  service = await startTestService({ generateSessions: 1, generateRows: 2_000 });
});
afterAll(() => service.stop());

describe('guardrails', () => {
  test.each(SELECTS)('runs %j', async (sql) => {
    const reply = await service.ask(sql);
    expect(reply.text.slice(0, 300)).toContain('SUCCESS');
    expect(reply.body.data.length).toBeGreaterThan(0);
  });

  test.each(REFUSED.map((sql) => [sql.slice(0, 90), sql]))('refuses %j', async (_title, sql) => {
    const reply = await service.ask(sql);
    expect([reply.status, reply.body.errorCode]).toEqual([400, 'INVALID_SQL']);
    expect(Object.keys(reply.body)).toEqual(['status', 'errorCode', 'errorMsg']);
  });

  test.each(UNPARSABLE.map((sql) => [sql.slice(0, 40), sql]))('cannot parse %j', async (_title, sql) => {
    const reply = await service.ask(sql);
    expect([reply.status, reply.body.errorCode, reply.body.reason]).toEqual([422, 'INVALID_QUERY', 'SYNTAX_ERROR']);
  });

  test('a query whose subqueries multiply the reads of tables is too broad', async () => {
    const many = (table: string) => Array.from({ length: 11 }, () => table).join(', ');
    const reply = await service.ask(
      `WITH a AS (SELECT 1 FROM ${many('RawOptionTrades')}), b AS (SELECT 1 FROM ${many('a')}) SELECT count() FROM b`,
    );
    expect([reply.status, reply.body.errorCode]).toEqual([422, 'QUERY_TOO_BROAD']);
  });

  test('after all that the service answers, and its table is whole', async () => {
    const reply = await service.ask('SELECT count() AS trades FROM RawOptionTrades');
    expect(reply.body.data).toEqual([{ trades: 2_000 }]);
  });

  test('a function redefined by the query does not change what is visible', async () => {
    const lambda = '(a, b) -> 1';
    for (const name of ['lessOrEquals', 'greaterOrEquals', 'and']) {
      const reply = await service.ask(`WITH ${lambda} AS ${name} SELECT count() AS trades FROM RawOptionTrades`);
      expect([reply.status, reply.body.data], name).toEqual([200, [{ trades: 2_000 }]]);
    }
  });

  test('a name of a subquery is a table only where it is in scope', async () => {
    const reply = await service.ask('WITH hostname AS (SELECT 1) SELECT * FROM (SELECT 1) AS a JOIN hostname ON 1');
    expect(reply.status).toBe(200);
    const outside = await service.ask('SELECT (WITH x AS (SELECT 1) SELECT count() FROM x) AS n, * FROM x');
    expect([outside.status, outside.body.reason]).toEqual([422, 'UNKNOWN_IDENTIFIER']);
  });
});
