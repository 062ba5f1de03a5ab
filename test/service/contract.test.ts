/**
 * What both historical SQL entry points keep to beyond the rows of the specification, which are in `contract/api.test.ts`.
 * Which SQL is refused is in `lists.test.ts`, which rows are visible in `visibility.test.ts`.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { HISTORICAL_PATH, PORTAL_PATH } from '../../src/api-contract/published-limits.ts';
import { TRADE_COLUMNS } from '../../src/api-contract/trade.ts';
import { askAnew, gatherCrowd } from '../support/crowd.ts';
import { findSnippets } from '../support/pages.ts';
import { EVENING, KEY, postJson, startTestService, type TestService } from './running-service.ts';

const ROWS = 20_000;
const ROW_LIMIT = 50;
const SCAN_LIMIT = 30_000;
/** The service closes a connection that sends half a head after 10 s; health must not wait for that. */
const SOONER_THAN_SLOW_HEADS_MS = 5_000;

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
  test("a row has the record's columns in the specification's order", async () => {
    const { body } = await service.ask('SELECT * FROM RawOptionTradesMaxDateOnlyMV LIMIT 1');
    expect(Object.keys(body.data[0])).toEqual(TRADE_COLUMNS.map(({ name }) => name));
  });

  test('the Date header tells the clock of the service', async () => {
    const { headers } = await service.ask('SELECT 1');
    const age = Date.parse(headers.get('date') ?? '') - Date.parse(EVENING);
    expect(age).toBeGreaterThan(-1_000);
    expect(age).toBeLessThan(600_000);
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
  test('a success has rows and no meta; rows beyond the limit go without a word, a broad query is refused', async () => {
    const reply = await service.askPortal('SELECT id FROM RawOptionTradesMaxDateOnlyMV');
    expect([reply.status, Object.keys(reply.body)]).toEqual([200, ['status', 'data']]);
    expect(reply.body.data).toHaveLength(ROW_LIMIT);
    const broad = await service.askPortal('SELECT count() FROM RawOptionTrades');
    expect([broad.status, broad.body.errorCode]).toEqual([422, 'QUERY_TOO_BROAD']);
  });

  test("neither listener answers the other's path", async () => {
    expect((await service.send(PORTAL_PATH, postJson({ api_key: KEY, sql: 'SELECT 1' }))).status).toBe(404);
    expect((await service.sendPortal(HISTORICAL_PATH, postJson({ api_key: KEY, sql: 'SELECT 1' }))).status).toBe(404);
  });
});

test('the `sh request run` of docs/service.md is answered', async () => {
  const [[, text] = ['', '']] = findSnippets('sh request run');
  const [, path = '', body = ''] =
    /:8100(\S+) [^']*'Content-Type: application\/json'[^']*--data '([^']+)'/.exec(text) ?? [];
  const reply = await service.send(path, postJson({ ...(JSON.parse(body) as object), api_key: KEY }));
  expect(reply.body.data).toHaveLength(5);
  expect(reply.body.data[0]).toEqual({ symbol: expect.any(String), premium: expect.any(Number) });
});

describe('operation', () => {
  test('health tells rows and time, and needs no key', async () => {
    const reply = await service.send('/healthz', { method: 'GET' });
    expect(reply.body).toMatchObject({ status: 'ok', rows: 3 * ROWS, time: expect.stringContaining('2026-11-19') });
  });

  test.each([
    ['half a head', 'GET /healthz HTTP/1.1\r\nHost: x\r\nX-Half: '],
    ['a body that never comes', 'POST /api/historical/sql HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n'],
  ])('health is told past 1,000 connections with %s', async (_title, text) => {
    const crowd = await gatherCrowd(service.url, 1_000, text);
    try {
      expect(await askAnew(`${service.url}/healthz`, SOONER_THAN_SLOW_HEADS_MS)).toBe(200);
      // A connection that is answered is not closed for the crowd.
      expect(await askAnew(`${service.url}/openapi.json`, SOONER_THAN_SLOW_HEADS_MS)).toBe(200);
    } finally {
      crowd.close();
    }
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
