/**
 * The clients of option chain and market structure against a local HTTP server: what goes over the wire, what counts as an
 * answer, as a missing snapshot, and as a fault. Pace, retries and the clock are those of the historical client's tests.
 */
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { SnapshotApi } from '../../src/job/job.ts';
import { SNAPSHOT_COLUMNS } from '../../src/job/snapshot-columns.ts';
import { createSnapshotClient, type SnapshotClient } from '../../src/source/snapshot.ts';
import { createFakeClock, type FakeClock } from '../support/fake-clock.ts';
import { serveHttp } from '../support/http-server.ts';
import { createSilentLog } from '../support/log.ts';
import { createPacer } from '../support/pacer.ts';

const KEY = 'apikey_0123456789abcdef';
const DAY = '2026-11-19';
const MAX_TRIES = 5;

interface Seen {
  readonly method: string;
  readonly url: string;
  readonly authorization: string | undefined;
  readonly body: string;
}
interface Reply {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: unknown;
}

let server: Awaited<ReturnType<typeof serveHttp>>;
let seen: Seen[];
let replies: Reply[];
let clock: FakeClock;
let chain: SnapshotClient;
let structure: SnapshotClient;

beforeEach(async () => {
  seen = [];
  replies = [];
  server = await serveHttp(async (request, response) => {
    const { method = '', url = '', headers } = request;
    seen.push({ method, url, authorization: headers.authorization, body: await text(request) });
    // The last reply stays, for retries.
    const {
      status = 200,
      headers: extra = {},
      body,
    } = (replies.length > 1 ? replies.shift() : replies[0]) ?? { body: '' };
    response.writeHead(status, { ...extra });
    response.end(typeof body === 'string' ? body : JSON.stringify(body));
  });
  clock = createFakeClock({ startMs: Date.parse(`${DAY}T23:00:00Z`) });
  const url = `${server.url}/snapshots`;
  const deps = { clock, pacer: createPacer(clock, { requestsPerSecond: 1 }), log: createSilentLog() };
  const options = { url, apiKey: KEY, clockOffsetMs: 0 };
  const open = (api: SnapshotApi) => createSnapshotClient({ api, columns: SNAPSHOT_COLUMNS[api] }, options, deps);
  [chain, structure] = [open('chain'), open('market-structure')];
});
afterEach(() => server.close());

const askChain = (filter = {}) => chain.ask({ symbol: 'SPX', date: DAY, filter });
const askStructure = () => structure.ask({ symbol: 'SPX', date: DAY });

/** A snapshot with no more than what the specification requires. */
function snapshot(data: object = {}, meta: object = {}) {
  return {
    data: { symbol: 'SPX', symbol_meta: {}, flow: {}, intraday_gex: null, structure: {}, ...data },
    meta: {
      effective_date: DAY,
      structure_as_of: `${DAY}T21:15:00Z`,
      flow_as_of: `${DAY}T16:15:00-05:00`,
      intraday_gex_as_of: null,
      ...meta,
    },
  };
}

describe('the option chain client', () => {
  test('asks by POST with the key in the body, and with filters in dollars', async () => {
    replies = [{ body: { data: [], meta: {} } }];
    await askChain({ putCall: 'PUT', strikeMin: 4_500_001, strikeMax: 5_000_000 });
    expect(seen).toEqual([{ method: 'POST', url: '/snapshots', authorization: undefined, body: expect.anything() }]);
    expect(JSON.parse(seen[0]?.body ?? '')).toEqual({
      api_key: KEY,
      symbol: 'SPX',
      date: DAY,
      put_call: 'PUT',
      strike_min: 4500.001,
      strike_max: 5000,
    });
  });

  test('hands rows on as the bytes they came as, whatever their fields', async () => {
    const rows = '[{"strike":1.10,"x":[1,{"y":"]"}]}, {"z":123456789012345678901}]';
    replies = [{ body: `{"meta":{"anything":1},"data":${rows},"more":null}` }];
    const answer = await askChain();
    expect(answer).toMatchObject({ kind: 'rows', rows: 2 });
    if (answer.kind === 'rows') expect(Buffer.from(answer.data).toString()).toBe(rows);
  });

  test.each([
    ['of another date', { data: [], meta: { date: '2026-11-18' } }],
    ['of another symbol', { data: [], meta: { symbol: 'SPY' } }],
    ['whose rows are of another date', { data: [{ date: '2026-11-18' }], meta: {} }],
    ['without meta', { data: [] }],
    ['without data', { meta: {} }],
    ['that is cut short', '{"data":[{"strike":1},{"str'],
    ['that is no JSON', '<html>'],
  ])('takes an answer %s for a fault, tries again and then gives up with its head', async (_title, body) => {
    replies = [{ body }];
    await expect(askChain()).rejects.toMatchObject({ code: 'ANSWER_MALFORMED', action: 'fail', kind: 'failed' });
    expect(seen).toHaveLength(MAX_TRIES);
  });

  test('takes 422 for a chain that must be narrowed, and does not send it again', async () => {
    replies = [{ status: 422, body: { error: 'too large' } }];
    await expect(askChain()).rejects.toMatchObject({ code: 'REQUEST_TOO_BROAD', action: 'split', kind: 'failed' });
    expect(seen).toHaveLength(1);
  });
});

describe('the market-structure client', () => {
  test('asks by GET with the key in the Authorization header only', async () => {
    replies = [{ body: snapshot() }];
    await askStructure();
    expect(seen).toEqual([
      { method: 'GET', url: `/snapshots/SPX?date=${DAY}`, authorization: `Bearer ${KEY}`, body: '' },
    ]);
  });

  test('needs no more than what the specification requires, and keeps what it does not know', async () => {
    replies = [{ body: snapshot({ flow: { trades: 5, sentiment: 7, new: { a: 1 } }, extra: { b: 2 } }, { run: 'x' }) }];
    const answer = await askStructure();
    expect(answer).toMatchObject({
      kind: 'rows',
      rows: 1,
      firstRow: {
        symbol: 'SPX',
        date: DAY,
        spot: null,
        call_gex: null,
        intraday_gex: null,
        flow_trades: 5,
        // Not of the type of its column: it is in the JSON text.
        flow_sentiment: null,
        flow: '{"trades":5,"sentiment":7,"new":{"a":1}}',
        data_extra: { b: 2 },
        meta_run: 'x',
      },
    });
  });

  const gex = { spot: 6700.5, call_gex: 1e9, put_gex: -2e9 };

  test('has the intraday summary in columns of its own', async () => {
    replies = [{ body: snapshot({ intraday_gex: gex }, { intraday_gex_as_of: `${DAY}T21:15:00Z` }) }];
    expect(await askStructure()).toMatchObject({ firstRow: { ...gex, intraday_gex_as_of: `${DAY}T21:15:00Z` } });
  });

  test.each([
    ['a spot of 0', snapshot({ intraday_gex: { ...gex, spot: 0 } })],
    ['a negative call exposure', snapshot({ intraday_gex: { ...gex, call_gex: -1 } })],
    ['a positive put exposure', snapshot({ intraday_gex: { ...gex, put_gex: 1 } })],
    ['a summary without its spot', snapshot({ intraday_gex: { call_gex: 1, put_gex: -1 } })],
    ['no key intraday_gex', snapshot({ intraday_gex: undefined })],
    ['no structure', snapshot({ structure: undefined })],
    ['an instant that is none', snapshot({}, { flow_as_of: 'yesterday' })],
    ['another symbol', snapshot({ symbol: 'SPY' })],
    ['another date', snapshot({}, { effective_date: '2026-11-18' })],
  ])('takes an answer with %s for a fault, tries again and then gives up with its head', async (_title, body) => {
    replies = [{ body }];
    await expect(askStructure()).rejects.toMatchObject({
      code: 'ANSWER_MALFORMED',
      message: expect.stringContaining('{\\"data\\":{\\"symbol\\"'),
      action: 'fail',
    });
    expect(seen).toHaveLength(MAX_TRIES);
  });
});

describe.each([
  ['option chain', () => askChain(), { data: [], meta: {} }],
  ['market structure', () => askStructure(), snapshot()],
] as const)('a 404 of %s', (_endpoint, ask, good) => {
  test.each([
    [{ status: 'ERROR', errorCode: 'SNAPSHOT_NOT_FOUND', errorMsg: 'none' }, 'SNAPSHOT_NOT_FOUND'],
    [{ code: 'SYMBOL_NOT_FOUND' }, 'SYMBOL_NOT_FOUND'],
    [{ detail: 'Snapshot not found' }, 'SNAPSHOT_NOT_FOUND'],
  ])('that says %o is an answer: there is none', async (body, reason) => {
    replies = [{ status: 404, body }];
    expect(await ask()).toMatchObject({ kind: 'missing', reason });
    expect(seen).toHaveLength(1);
  });

  test.each(['<html>404 Not Found</html>', '', { detail: 'Not Found' }])(
    'that says only %o is of a wrong address',
    async (body) => {
      replies = [{ status: 404, body }];
      await expect(ask()).rejects.toMatchObject({
        action: 'denied',
        kind: 'usage',
        hint: expect.stringContaining('FLOWDROP_API_URL'),
      });
    },
  );

  test('that says nothing is an answer where there have been snapshots', async () => {
    replies = [{ body: good }, { status: 404, body: '' }];
    expect(await ask()).toMatchObject({ kind: 'rows' });
    expect(await ask()).toMatchObject({ kind: 'missing', reason: 'HTTP 404' });
  });
});

test.each([429, 503])('both wait as long as the Retry-After of a %i says', async (status) => {
  for (const [ask, good] of [
    [askChain, { data: [], meta: {} }],
    [askStructure, snapshot()],
  ] as const) {
    const began = clock.now();
    replies = [{ status, headers: { 'retry-after': '40' }, body: {} }, { body: good }];
    expect(await ask()).toMatchObject({ kind: 'rows' });
    expect(clock.now() - began).toBeGreaterThanOrEqual(40_000);
    expect(clock.now() - began).toBeLessThan(43_000);
  }
});

test('no error of a snapshot endpoint repeats the key', async () => {
  for (const status of [200, 400, 401, 403, 404, 500]) {
    replies = [{ status, body: `you sent ${KEY}` }];
    for (const ask of [askChain, askStructure]) {
      const error: unknown = await ask().catch((fault: unknown) => fault);
      expect(error).toBeInstanceOf(Error);
      expect(String((error as Error).message)).not.toContain(KEY);
    }
  }
});
