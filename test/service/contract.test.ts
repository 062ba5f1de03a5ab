/**
 * The HTTP contract of both historical SQL entry points, over real sockets: statuses, bodies, headers, limits. Which SQL
 * is refused is in `guard.test.ts`, which rows are visible in `visibility.test.ts`.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { TOO_BROAD_HINTS } from '../../src/api-contract/historical.ts';
import { DELAY_HEADER, HISTORICAL_PATH, PORTAL_PATH } from '../../src/api-contract/published-limits.ts';
import { TRADE_COLUMNS } from '../../src/api-contract/trade.ts';
import { EVENING, KEY, postForm, postJson, startTestService, type TestService } from './running-service.ts';

const ROWS = 20_000;
const ROW_LIMIT = 50;
const SCAN_LIMIT = 30_000;

let service: TestService;

beforeAll(async () => {
  service = await startTestService({
    generateSessions: 3,
    generateRows: ROWS,
    rowLimit: ROW_LIMIT,
    scanLimit: SCAN_LIMIT,
    seed: 11,
  });
});
afterAll(() => service.stop());

describe('main entry point', () => {
  test('a success has status, data and the meta of an active subscription', async () => {
    const reply = await service.ask("SELECT count() AS trades FROM RawOptionTrades WHERE date = '2026-11-19'");
    expect(reply.status).toBe(200);
    expect(reply.body).toEqual({
      status: 'SUCCESS',
      data: [{ trades: ROWS }],
      meta: {
        entitlement: 'active',
        row_limit: ROW_LIMIT,
        capped: false,
        truncated: false,
        lookback_days: 15,
        minimum_data_delay_minutes: 15,
      },
    });
    expect(reply.headers.get(DELAY_HEADER)).toBe('15');
    expect(reply.headers.get('content-type')).toContain('application/json');
  });

  test("a row has the record's columns in the specification's order and types", async () => {
    const { body } = await service.ask('SELECT * FROM RawOptionTradesMaxDateOnlyMV LIMIT 1');
    const [row] = body.data;
    expect(Object.keys(row)).toEqual(TRADE_COLUMNS.map(({ name }) => name));
    for (const { name, wire } of TRADE_COLUMNS) {
      expect(typeof row[name], name).toBe(wire === 'string' ? 'string' : 'number');
      if (wire === 'integer') expect(Number.isInteger(row[name]), name).toBe(true);
    }
  });

  test('the Date header tells the clock of the service', async () => {
    const { headers } = await service.ask('SELECT 1');
    const age = Date.parse(headers.get('date') ?? '') - Date.parse(EVENING);
    expect(age).toBeGreaterThan(-1_000);
    expect(age).toBeLessThan(600_000);
  });

  test('form-encoded bodies are read like JSON', async () => {
    const reply = await service.send(
      HISTORICAL_PATH,
      postForm({ api_key: KEY, sql: 'SELECT 1 AS one', test_mode: 'false' }),
    );
    expect(reply.body).toMatchObject({ status: 'SUCCESS', data: [{ one: 1 }] });
  });

  test('test_mode answers sample rows whatever the SQL is', async () => {
    const json = await service.send(HISTORICAL_PATH, postJson({ api_key: KEY, sql: 'nothing', test_mode: true }));
    const form = await service.send(HISTORICAL_PATH, postForm({ api_key: KEY, sql: 'nothing', test_mode: 'true' }));
    expect(json.status).toBe(200);
    expect(json.body.meta.truncated).toBe(false);
    expect(Object.keys(json.body.data[0])).toEqual(TRADE_COLUMNS.map(({ name }) => name));
    expect(form.body).toEqual(json.body);
  });

  test.each([
    ['no body', { method: 'POST' }],
    ['broken JSON', { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"sql":' }],
    ['an array', postJson([])],
    ['sql missing', postJson({ api_key: KEY })],
    ['sql empty', postJson({ api_key: KEY, sql: ' ' })],
    ['sql not a text', postJson({ api_key: KEY, sql: 1 })],
    ['test_mode not a boolean', postJson({ api_key: KEY, sql: 'SELECT 1', test_mode: 'yes' })],
    ['another content type', { method: 'POST', headers: { 'content-type': 'text/plain' }, body: 'SELECT 1' }],
    ['a body too long', postJson({ api_key: KEY, sql: 'x'.repeat(600_000) })],
  ])('an invalid body is 400 INVALID_REQUEST: %s', async (_title, init) => {
    const reply = await service.send(HISTORICAL_PATH, init);
    expect(reply.status).toBe(400);
    expect(reply.body).toEqual({ status: 'ERROR', errorCode: 'INVALID_REQUEST', errorMsg: expect.any(String) });
    expect(reply.headers.get('date')).toContain('2026');
  });

  test.each([
    ['missing', { sql: 'SELECT 1' }],
    ['empty', { api_key: '', sql: 'SELECT 1' }],
    ['wrong', { api_key: 'cus_wrong', sql: 'SELECT 1' }],
    ['wrong in test_mode', { api_key: 'cus_wrong', sql: 'SELECT 1', test_mode: true }],
  ])('a key that is %s is 401 UNAUTHORIZED', async (_title, body) => {
    const reply = await service.send(HISTORICAL_PATH, postJson(body));
    expect(reply.status).toBe(401);
    expect(reply.body).toEqual({ status: 'ERROR', errorCode: 'UNAUTHORIZED', errorMsg: expect.any(String) });
  });

  test.each(['GET', 'PUT', 'DELETE', 'PATCH'])('%s is 405 METHOD_NOT_ALLOWED', async (method) => {
    const reply = await service.send(HISTORICAL_PATH, { method });
    expect(reply.status).toBe(405);
    expect(reply.body.errorCode).toBe('METHOD_NOT_ALLOWED');
    expect(reply.headers.get('allow')).toBe('POST');
    expect(reply.headers.get('date')).toContain('19 Nov 2026');
  });

  test('a query that cannot be analysed is 422 INVALID_QUERY with its reason', async () => {
    const cases: Record<string, string> = {
      'SELECT nosuch FROM RawOptionTradesMaxDateOnlyMV': 'UNKNOWN_IDENTIFIER',
      'SELECT nosuch(1)': 'UNKNOWN_FUNCTION',
      'SELECT symbol + 1 FROM RawOptionTradesMaxDateOnlyMV': 'TYPE_MISMATCH',
      'SELECT toDecimal32(1e20, 2)': 'NUMERIC_OVERFLOW',
      'SELECT (1': 'SYNTAX_ERROR',
      'SELECT symbol, sum(size) FROM RawOptionTradesMaxDateOnlyMV': 'INVALID_AGGREGATION',
      "SELECT lower('a', 'b')": 'INVALID_ARGUMENTS',
      'SELECT size FROM RawOptionTradesMaxDateOnlyMV PREWHERE size > 1': 'INVALID_EXPRESSION',
    };
    for (const [sql, reason] of Object.entries(cases)) {
      const reply = await service.ask(sql);
      expect([reply.status, reply.body.errorCode, reply.body.reason], sql).toEqual([422, 'INVALID_QUERY', reason]);
    }
  });

  test("an engine's message never reaches the caller, but the caller's own name does", async () => {
    const unknown = await service.ask('SELECT nosuch FROM RawOptionTradesMaxDateOnlyMV');
    expect(unknown.body.errorMsg).toContain('nosuch');
    const value = await service.ask('SELECT toInt32(symbol) FROM RawOptionTradesMaxDateOnlyMV');
    expect(value.status).toBe(422);
    expect(value.text).not.toMatch(/SPY|DB::Exception|scope/);
  });

  test('an answer never begins with what a failed one has left', async () => {
    for (let round = 0; round < 5; round += 1) {
      const [failed, next] = await Promise.all([
        service.ask('SELECT toInt32(symbol) FROM RawOptionTradesMaxDateOnlyMV'),
        service.ask('SELECT 1 AS one'),
      ]);
      expect(failed?.status).toBe(422);
      expect(next?.body, JSON.stringify(next?.body)).toMatchObject({ data: [{ one: 1 }] });
    }
  });
});

describe('limits', () => {
  test('rows beyond the limit are dropped and told', async () => {
    const exact = await service.ask(`SELECT id FROM RawOptionTradesMaxDateOnlyMV ORDER BY id LIMIT ${ROW_LIMIT}`);
    expect([exact.body.data.length, exact.body.meta.truncated]).toEqual([ROW_LIMIT, false]);
    const more = await service.ask(`SELECT id FROM RawOptionTradesMaxDateOnlyMV ORDER BY id LIMIT ${ROW_LIMIT + 1}`);
    expect([more.body.data.length, more.body.meta.truncated]).toEqual([ROW_LIMIT, true]);
    expect(more.body.data).toEqual(exact.body.data);
    const all = await service.ask('SELECT * FROM RawOptionTradesMaxDateOnlyMV');
    expect([all.body.data.length, all.body.meta.truncated]).toEqual([ROW_LIMIT, true]);
  });

  test.each([
    ['no rows', 'SELECT id FROM RawOptionTradesMaxDateOnlyMV WHERE size < 0', 0, false],
    ['LIMIT BY', 'SELECT symbol FROM RawOptionTradesMaxDateOnlyMV LIMIT 2 BY symbol', ROW_LIMIT, true],
    ['WITH TIES', 'SELECT side FROM RawOptionTradesMaxDateOnlyMV ORDER BY side LIMIT 3 WITH TIES', ROW_LIMIT, true],
    ['OFFSET', 'SELECT id FROM RawOptionTradesMaxDateOnlyMV ORDER BY id LIMIT 10 OFFSET 5', 10, false],
    ['text with line ends', "SELECT concat(id, '\\n},\\n]') AS t FROM RawOptionTradesMaxDateOnlyMV", ROW_LIMIT, true],
  ])('truncation is told with %s', async (_title, sql, rows, truncated) => {
    const { body } = await service.ask(sql);
    expect([body.data.length, body.meta.truncated]).toEqual([rows, truncated]);
  });

  test('more rows to read than the scan limit is 422 QUERY_TOO_BROAD with hints', async () => {
    for (const sql of ['SELECT count() FROM RawOptionTrades', 'SELECT id FROM RawOptionTrades ORDER BY size LIMIT 1']) {
      const reply = await service.ask(sql);
      expect(reply.status, sql).toBe(422);
      expect(reply.body).toEqual({
        status: 'ERROR',
        errorCode: 'QUERY_TOO_BROAD',
        reason: 'SCAN_LIMIT_EXCEEDED',
        hints: TOO_BROAD_HINTS,
        errorMsg: expect.any(String),
      });
    }
  });

  test.each([
    "date = '2026-11-18'",
    "time >= '2026-11-18 12:00:00' AND time < '2026-11-18 12:30:00'",
    "time BETWEEN '2026-11-18 15:59:00' AND '2026-11-18 16:01:00' AND symbol = 'SPY'",
  ])('a narrow filter reads less than the scan limit: %s', async (filter) => {
    const reply = await service.ask(`SELECT count() AS trades FROM RawOptionTrades WHERE ${filter}`);
    expect(reply.status).toBe(200);
    expect(reply.body.data[0].trades).toBeGreaterThan(0);
  });

  test('answers that would not fit in memory are refused', async () => {
    const reply = await service.ask('SELECT length(groupArray(repeat(id, 50000))) FROM RawOptionTradesMaxDateOnlyMV');
    expect([reply.status, reply.body.errorCode]).toEqual([422, 'QUERY_TOO_BROAD']);
  });
});

describe('separate entry point', () => {
  test('a success has rows and no meta; rows beyond the limit go without a word', async () => {
    const reply = await service.askPortal('SELECT id FROM RawOptionTradesMaxDateOnlyMV');
    expect(reply.status).toBe(200);
    expect(Object.keys(reply.body)).toEqual(['status', 'data']);
    expect(reply.body.data).toHaveLength(ROW_LIMIT);
    expect(reply.headers.get(DELAY_HEADER)).toBeNull();
    expect(reply.headers.get('date')).toContain('19 Nov 2026');
  });

  test('form-encoded bodies are read there too', async () => {
    const reply = await service.sendPortal(PORTAL_PATH, postForm({ api_key: KEY, sql: 'SELECT 1 AS one' }));
    expect(reply.body).toEqual({ status: 'SUCCESS', data: [{ one: 1 }] });
  });

  test('its three 400 bodies are as specified', async () => {
    const noKey = await service.sendPortal(PORTAL_PATH, postJson({ sql: 'SELECT 1' }));
    expect([noKey.status, noKey.body]).toEqual([
      400,
      { status: 'ERROR', errorMsg: expect.stringMatching(/key.*required/i) },
    ]);
    const noSql = await service.sendPortal(PORTAL_PATH, postJson({ api_key: KEY }));
    expect([noSql.status, noSql.body]).toEqual([
      400,
      { status: 'ERROR', message: expect.stringMatching(/SQL query is required in the request body/i) },
    ]);
    for (const sql of ['DROP TABLE RawOptionTrades', 'UPDATE RawOptionTrades SET size = 1', 'EXEC anything']) {
      const refused = await service.askPortal(sql);
      expect([refused.status, refused.body]).toEqual([
        400,
        { status: 'ERROR', errorMsg: expect.stringMatching(/only SELECT queries are allowed/i) },
      ]);
    }
  });

  test('a wrong key is 401, a broad query 422, another method 405', async () => {
    const wrong = await service.sendPortal(PORTAL_PATH, postJson({ api_key: 'cus_wrong', sql: 'SELECT 1' }));
    expect([wrong.status, wrong.body.status]).toEqual([401, 'ERROR']);
    const broad = await service.askPortal('SELECT count() FROM RawOptionTrades');
    expect([broad.status, broad.body.errorCode]).toEqual([422, 'QUERY_TOO_BROAD']);
    expect((await service.sendPortal(PORTAL_PATH, { method: 'GET' })).status).toBe(405);
  });

  test("neither listener answers the other's path", async () => {
    expect((await service.send(PORTAL_PATH, postJson({ api_key: KEY, sql: 'SELECT 1' }))).status).toBe(404);
    expect((await service.sendPortal(HISTORICAL_PATH, postJson({ api_key: KEY, sql: 'SELECT 1' }))).status).toBe(404);
  });
});

describe('operation', () => {
  test('health tells rows and time, and needs no key', async () => {
    const reply = await service.send('/healthz', { method: 'GET' });
    expect(reply.body).toMatchObject({ status: 'ok', rows: 3 * ROWS, time: expect.stringContaining('2026-11-19') });
  });

  test('a long answer is compressed for whoever accepts it', async () => {
    const sql = 'SELECT * FROM RawOptionTradesMaxDateOnlyMV ORDER BY id';
    const zipped = await service.ask(sql);
    expect(zipped.headers.get('content-encoding')).toBe('gzip');
    const init = postJson({ api_key: KEY, sql });
    const plain = await service.send(HISTORICAL_PATH, {
      ...init,
      headers: { ...init.headers, 'accept-encoding': 'identity' },
    });
    expect(plain.headers.get('content-encoding')).toBeNull();
    expect(plain.body).toEqual(zipped.body);
  });

  test('each request is one line in the log, without the key', async () => {
    service.lines.length = 0;
    await service.ask('SELECT 1');
    await service.askPortal('SELECT 1 UNION ALL SELECT 2');
    const lines = service.lines.filter((line) => line['event'] === 'request');
    expect(lines).toMatchObject([
      { endpoint: 'historical', status: 200, rows: 1, durationMs: expect.any(Number) },
      { endpoint: 'portal', status: 400, rows: 0, errorCode: 'INVALID_SQL' },
    ]);
    expect(JSON.stringify(service.lines)).not.toContain(KEY);
  });
});
