/**
 * The API's SQL on a real, old server, as the service's user, beside the embedded engine: same rows, same views, same
 * answers. What the old dialect cannot say is a list with reasons. What the service makes of answers is tested with the
 * embedded engine, in `contract.test.ts`.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { quoteString } from '../../src/engine/literal.ts';
import { openServerEngine, openServerPool, type ServerEngine, type ServerPool } from '../../src/engine/server.ts';
import { SERVER_TABLES, type ServerPlan, setUpServer } from '../../src/service/data/server-setup.ts';
import { announceServerSkips, startClickHouse } from '../support/clickhouse-server.ts';

const { server, reason } = await startClickHouse();

const PLAN: ServerPlan = { offsetSeconds: 0, order: 'time', scanLimit: 10_000_000 };

const QUERIES: Readonly<Record<string, string>> = {
  'whole records': 'SELECT * FROM RawOptionTrades ORDER BY id LIMIT 3',
  'a count': 'SELECT count(*) FROM RawOptionTrades',
  'aggregates by symbol':
    'select symbol, SUM(premium) AS total, COUNT(*) AS trades, AVG(size) AS mean from RawOptionTrades group by symbol order by total desc limit 10',
  'a window of time':
    "SELECT id FROM RawOptionTrades WHERE symbol IN ('SPY', 'QQQ') AND time >= '2025-03-01 09:30:00' AND time < '2999-01-01' ORDER BY time, id",
  'the latest date': 'SELECT date, count() AS trades FROM RawOptionTradesMaxDateOnlyMV GROUP BY date',
  'an aggregate with a condition, by minute':
    "SELECT substring(time, 1, 16) AS minute, sumIf(premium, put_call = 'CALL') AS calls FROM RawOptionTrades GROUP BY minute HAVING calls > 0 ORDER BY minute",
  'a case':
    "SELECT CASE WHEN put_call = 'CALL' THEN 1 ELSE 0 END AS c, count() AS n FROM RawOptionTrades GROUP BY c ORDER BY c",
  'a join with a subquery':
    'SELECT a.symbol, count() AS n FROM RawOptionTrades AS a INNER JOIN (SELECT symbol, max(premium) AS m FROM RawOptionTrades GROUP BY symbol) AS b ON a.symbol = b.symbol GROUP BY a.symbol ORDER BY a.symbol',
  'patterns and ranges':
    "SELECT id FROM RawOptionTrades WHERE symbol LIKE 'S%' AND premium BETWEEN 1 AND 100 AND NOT (sentiment = 'X') ORDER BY id",
  dates:
    'SELECT toDate(date) >= today() - INTERVAL 30 DAY AS recent, count() AS n FROM RawOptionTrades GROUP BY recent',
  'distinct values': 'SELECT DISTINCT symbol FROM RawOptionTrades ORDER BY symbol',
  'exact counts, extremes and rounding':
    'SELECT uniqExact(id) AS ids, argMax(symbol, premium) AS top, round(avg(premium), 2) AS mean, -1 AS neg FROM RawOptionTrades',
  'an offset': 'SELECT id FROM RawOptionTrades ORDER BY premium DESC NULLS LAST LIMIT 1 OFFSET 2',
  'a common table expression':
    'WITH t AS (SELECT symbol, premium FROM RawOptionTrades) SELECT symbol, max(premium) AS m FROM t GROUP BY symbol ORDER BY symbol',
  'a window function':
    'SELECT id, sum(premium) OVER (PARTITION BY symbol ORDER BY id) AS running FROM RawOptionTrades ORDER BY id LIMIT 3',
};

/** Failures, by the number that the service maps. */
const FAILURES: readonly (readonly [string, string, number])[] = [
  ['an unknown column', 'SELECT nope FROM RawOptionTrades', 47],
  ['an unknown function', 'SELECT nope(id) FROM RawOptionTrades', 46],
  ['a text that is no number', 'SELECT toInt32(symbol) FROM RawOptionTrades', 6],
  ['types that do not compare', 'SELECT countIf(time > now()) FROM RawOptionTrades', 386],
  ['an aggregate in WHERE', 'SELECT id FROM RawOptionTrades WHERE sum(size) > 1', 184],
];

const skips = announceServerSkips(server, {
  'a common table expression': 'its WITH names expressions only',
  'a window function': 'it has no window functions',
});

// Skipped only where no server can be had, which `support/clickhouse-server.ts` says aloud; CI never skips it.
describe.skipIf(server === undefined)('the API’s SQL on a server', () => {
  let admin: ServerEngine;
  let embedded: Engine;
  let pool: ServerPool;

  beforeAll(async () => {
    if (server === undefined) throw new Error(reason);
    admin = await openServerEngine({ url: server.adminUrl });
    embedded = await openEmbeddedEngine();
    const rows = Array.from({ length: 500 }, (_, k) => {
      const pair = k % 2 ? ['SPY', 'CALL'] : ['QQQ', 'PUT'];
      return `('${1_000 + k}', '${pair[0]}', '${pair[1]}', ${(k * 37) % 501}, ${k % 7}, ${3_600 + k * 60})`;
    });
    const [present] = await admin.rows<{ text: string }>("SELECT toString(now(), 'America/New_York') AS text");
    for (const engine of [admin, embedded]) {
      await setUpServer(engine, PLAN);
      await engine.command(
        'CREATE TABLE flowdrop_data.given (id String, symbol String, put_call String, premium Float64, size Int32, age Int32) ENGINE = Memory',
      );
      await engine.command(`INSERT INTO flowdrop_data.given VALUES ${rows.join(', ')}`);
      // The same wall clock on both, so that every answer can be compared.
      const at = `toString(toDateTime('${present?.text}', 'UTC') - age, 'UTC')`;
      await engine.command(
        `INSERT INTO ${SERVER_TABLES.trades} (id, symbol, put_call, premium, size, date, time)
         SELECT id, symbol, put_call, premium, size, substring(at, 1, 10), at
         FROM (SELECT *, ${at} AS at FROM flowdrop_data.given)`,
      );
    }
    await embedded.command('USE flowdrop');
    pool = await openServerPool({ url: server.readerUrl, size: 2, maxWaiting: 5 });
  });

  afterAll(async () => {
    await pool?.close();
    await embedded?.close();
    await admin?.close();
    await server?.stop();
  });

  /** As the guard sends it: in the present parser's spelling, with the service's limits after it. */
  async function ask(sql: string): Promise<readonly object[]> {
    const [row] = await embedded.rows<{ text: string }>(`SELECT formatQuerySingleLine(${quoteString(sql)}) AS text`);
    const statement = `${row?.text} SETTINGS max_rows_to_read = 10000000, max_execution_time = 30`;
    return await pool.use({ owner: 'a', signal: new AbortController().signal }, (engine) => engine.rows(statement));
  }

  for (const [title, sql] of Object.entries(QUERIES)) {
    test.skipIf(title in skips)(`${title}: same answer as the embedded engine`, async () => {
      const answer = await ask(sql);
      expect(answer.length).toBeGreaterThan(0);
      expect(answer).toEqual(await embedded.rows(sql));
    });
  }

  test.each(FAILURES)('%s has the number that the embedded engine has', async (_title, sql, clickhouseCode) => {
    await expect(ask(sql)).rejects.toMatchObject({ clickhouseCode });
    await expect(embedded.rows(sql)).rejects.toMatchObject({ clickhouseCode });
  });
});
