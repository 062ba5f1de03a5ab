/**
 * The whole service over a real ClickHouse server, as its read-only user: guard, limits, views, snapshots and answers.
 * The answers' shapes are those of `contract.test.ts`; the server's own side is in `server-setup`, `-load`, `-sql`.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { HISTORICAL_PATH } from '../../src/api-contract/published-limits.ts';
import { startClickHouse } from '../support/clickhouse-server.ts';
import { KEY as COMMAND_KEY, flowdrop, startService } from '../support/flowdrop.ts';
import { createTrade, DATE } from '../support/trades.ts';
import { EVENING, KEY, postJson, startTestService, type TestService } from './running-service.ts';

const { server, reason } = await startClickHouse();

const ROWS = 30_000;
const ROW_LIMIT = 500;
/** For what a server does in a moment, unless it is in trouble. */
const WAIT = { timeout: 20_000, interval: 20 };

// Skipped only where no server can be had, which `support/clickhouse-server.ts` says aloud; CI never skips it.
describe.skipIf(server === undefined)('the service over a server', () => {
  let folder: string;
  let file: string;
  let service: TestService;

  const open = async (overrides = {}) => {
    if (server === undefined) throw new Error(reason);
    const { readerUrl: url, adminUrl } = server;
    return await startTestService(
      { asOf: EVENING, rowLimit: ROW_LIMIT, ...overrides },
      { clickhouse: { url, adminUrl } },
    );
  };

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'flowdrop-server-service-'));
    file = join(folder, 'trades.ndjson');
    const hidden = createTrade(ROWS, { id: 'hidden', date: '2026-11-01', time: '2026-11-01 10:00:00' });
    const trades = [...Array.from({ length: ROWS }, (_, k) => createTrade(k)), hidden];
    await writeFile(file, trades.map((trade) => JSON.stringify(trade)).join('\n'));
    service = await open({ data: [file] });
  });

  afterAll(async () => {
    await service?.stop();
    await server?.stop();
    if (folder) await rm(folder, { recursive: true, force: true });
  });

  test('rows come with the envelope, and those beyond the limit are dropped and told', async () => {
    const one = await service.ask('SELECT id, size, strike FROM rawoptiontrades ORDER BY time, id LIMIT 1');
    expect([one.status, one.body.data.length, one.body.meta.truncated]).toEqual([200, 1, false]);
    const whole = await service.ask('SELECT * FROM RawOptionTrades');
    expect([whole.status, whole.body.data.length, whole.body.meta.truncated]).toEqual([200, ROW_LIMIT, true]);
    const portal = await service.askPortal('SELECT * FROM RawOptionTrades');
    expect([portal.status, portal.body.data.length, portal.body.meta]).toEqual([200, ROW_LIMIT, undefined]);
  });

  test('the lookback hides rows whatever the query says', async () => {
    const sql =
      "SELECT count() AS n, countIf(id = 'hidden') AS h, min(date) AS first FROM RawOptionTrades WHERE 1 OR time < '2026-11-04'";
    const { status, body } = await service.ask(sql);
    expect([status, body.data]).toEqual([200, [{ n: ROWS, h: 0, first: DATE }]]);
  });

  test.each([
    ['SELECT * FROM flowdrop_data.trades', 400, 'INVALID_SQL', undefined],
    ['SELECT * FROM system.users', 400, 'INVALID_SQL', undefined],
    ["SELECT * FROM url('http://127.0.0.1', CSV, 'a String')", 400, 'INVALID_SQL', undefined],
    ['SELECT hostName()', 400, 'INVALID_SQL', undefined],
    ['SELECT nope FROM RawOptionTrades', 422, 'INVALID_QUERY', 'UNKNOWN_IDENTIFIER'],
    ['SELECT nope(id) FROM RawOptionTrades', 422, 'INVALID_QUERY', 'UNKNOWN_FUNCTION'],
    ['SELECT id FROM RawOptionTrades GROUP BY symbol', 422, 'INVALID_QUERY', 'INVALID_AGGREGATION'],
    ['SELECT id FROM', 422, 'INVALID_QUERY', 'SYNTAX_ERROR'],
  ])('%s is refused with %i %s', async (sql, status, errorCode, why) => {
    const reply = await service.ask(sql);
    expect([reply.status, reply.body.errorCode, reply.body.reason]).toEqual([status, errorCode, why]);
  });

  test('a query that reads more than the scan limit is too broad', async () => {
    const narrow = await open({ scanLimit: 1_000 });
    try {
      const reply = await narrow.ask('SELECT sum(premium) FROM RawOptionTrades');
      expect([reply.status, reply.body.errorCode]).toEqual([422, 'QUERY_TOO_BROAD']);
    } finally {
      await narrow.stop();
    }
  });

  test('a slow query blocks neither others nor health, and is gone with its caller', async () => {
    const readRunning = async () => {
      const metrics = await (await fetch(`${service.url}/metrics`)).text();
      return Number(/^flowdrop_service_engine_pool_running (\d+)$/m.exec(metrics)?.[1]);
    };
    const control = new AbortController();
    // 2.7e13 pairs of pairs: it does not end by itself while the test runs.
    const sql = `SELECT count() FROM (SELECT a.size AS s FROM RawOptionTrades AS a CROSS JOIN RawOptionTrades AS b) AS ab
      CROSS JOIN (SELECT size AS t FROM RawOptionTrades) AS c WHERE s + t > 0`;
    const init = { ...postJson({ api_key: KEY, sql }), signal: control.signal };
    const slow = service.send(HISTORICAL_PATH, init).then(({ text }) => text);
    const state = { isOver: false };
    const ended = slow.then(
      (text) => {
        state.isOver = true;
        return text;
      },
      (error: Error) => error.name,
    );
    await vi.waitFor(async () => expect(await readRunning()).toBe(1), WAIT);
    expect((await service.send('/healthz', { method: 'GET' })).status).toBe(200);
    expect((await service.ask('SELECT count() AS n FROM RawOptionTrades')).status).toBe(200);
    expect([state.isOver, await readRunning()]).toEqual([false, 1]);
    control.abort();
    expect(await ended).toBe('AbortError');
    await vi.waitFor(async () => expect(await readRunning()).toBe(0), WAIT);
  });

  test('a service that starts again doubles nothing; snapshots come from the views, and from a chain file', async () => {
    const chain = join(folder, 'chain.ndjson');
    const contract = { symbol: 'XYZ', date: DATE, as_of: `${DATE}T20:00:00Z`, spot: 50, expiration_date: '2026-12-18' };
    const contracts = [40, 50, 60].map((strike) => ({
      ...{ ...contract, option_symbol: `XYZ261218C000${strike}000`, put_call: 'CALL', strike },
      ...{ volume: 1, open_interest: 100, gamma: 0.02, iv: 0.3 },
    }));
    await writeFile(chain, contracts.map((row) => JSON.stringify(row)).join('\n'));
    const loaded = await open({ data: [file], chain: [chain] });
    try {
      expect((await loaded.ask('SELECT count() AS n FROM RawOptionTrades')).body.data).toEqual([{ n: ROWS }]);
      const asked = (body: object) => loaded.send('/api/option-chain', postJson({ api_key: KEY, ...body }));
      const traded = await asked({ symbol: createTrade(1)['symbol'] });
      expect([traded.status, traded.body.meta.source]).toEqual([200, 'trades']);
      expect(traded.body.data.length).toBeGreaterThan(0);
      const filed = await asked({ symbol: 'XYZ', strike_min: 45 });
      expect([filed.status, filed.body.meta.source, filed.body.data.length]).toEqual([200, 'file', 2]);
      const structure = await loaded.send('/api/v1/market-structure/XYZ', {
        headers: { authorization: `Bearer ${KEY}` },
      });
      // Three contracts of 0.02 x 100 x 100 x 50^2 x 0.01.
      expect([structure.status, structure.body.data.intraday_gex?.call_gex]).toEqual([200, 15_000]);
    } finally {
      await loaded.stop();
    }
  });

  test('`flowdrop serve` takes server and cluster from flags or settings, and shows no password', async () => {
    if (server === undefined) throw new Error(reason);
    const wrongUrl = server.readerUrl.replace('change-me', 'secret-4713');
    const env = { FLOWDROP_CLICKHOUSE_URL: wrongUrl, FLOWDROP_CLICKHOUSE_ADMIN_URL: server.adminUrl };
    const command = await startService(['--as-of', EVENING, '--data', file, '--clickhouse-url', server.readerUrl], env);
    const body = { api_key: COMMAND_KEY, sql: 'SELECT count() AS n FROM RawOptionTrades' };
    const answer = await fetch(`${command.url}${HISTORICAL_PATH}`, postJson(body))
      .then((response) => response.json())
      .finally(() => command.stop());
    expect([command.rows, answer]).toEqual([ROWS, expect.objectContaining({ data: [{ n: ROWS }] })]);
    expect(JSON.stringify(command.lines)).not.toContain('change-me');

    const serve = async (args: readonly string[], settings = {}) =>
      await flowdrop(['--debug', 'serve', '--port', '0', '--portal-port', '0', ...args], {
        cwd: folder,
        env: settings,
      });
    const wrong = await serve([], { FLOWDROP_CLICKHOUSE_URL: wrongUrl });
    expect([wrong.code, wrong.stderr]).toEqual([1, expect.stringMatching(/password/i)]);
    expect(wrong.stderr).not.toContain('secret-4713');
    const unknown = await serve(['--cluster', 'nowhere'], env);
    expect([unknown.code, unknown.stderr]).toEqual([2, expect.stringContaining('the server knows no cluster nowhere')]);
    const lonely = await serve(['--cluster', 'nowhere']);
    expect([lonely.code, lonely.stderr]).toEqual([2, expect.stringContaining('--cluster needs --clickhouse-url')]);
  });
});
