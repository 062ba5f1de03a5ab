/**
 * The specification of the options data API, section by section, against running services; or, where
 * `FLOWDROP_CONTRACT_URL`, `FLOWDROP_CONTRACT_PORTAL_URL` and `FLOWDROP_CONTRACT_KEY` are given, against a real address,
 * but for the skips of `api-skips.ts`. Titles are rows of the document where they can be; `api-rows.ts` says which test
 * covers which row. What the service chose where the document is silent is tested in `test/service/`.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, type RunnerTask, test, vi } from 'vitest';
import { ERROR_CODES, REASONS, TOO_BROAD_HINTS } from '../../src/api-contract/historical.ts';
import { HISTORICAL_PATH, PORTAL_PATH } from '../../src/api-contract/published-limits.ts';
import { addDays, formatWallClock } from '../../src/calendar/wall-clock.ts';
import { KEY, postForm, postJson, type Reply } from '../service/running-service.ts';
import { REPO } from '../support/flowdrop.ts';
import { COLUMN_CHECKS, FURTHER_COLUMNS, findFault } from './api-checks.ts';
import { hasDocument, readDocument } from './api-document.ts';
import { API_ROWS, listTitles, NOTES } from './api-rows.ts';
import { ARCHIVE_SKIPS, announceAddressSkips, REAL_ADDRESS_SKIPS, REALTIME_SKIPS } from './api-skips.ts';
import {
  CHAIN_LIMIT,
  KEYS,
  openLocalTarget,
  openRealTarget,
  ROW_LIMIT,
  type Services,
  startServices,
  TRIAL_ROW_LIMIT,
} from './api-target.ts';
import { exceedRate, failEngine, failIdleEngine, moveTo, sendBurst, timeOut, waitInVain } from './api-trouble.ts';

const CHAIN_PATH = '/api/option-chain';
const MARKET_PATH = '/api/v1/market-structure';
const VIEW = 'RawOptionTradesMaxDateOnlyMV';
const SYMBOL = 'SPY';
/** Without trades anywhere. */
const SUNDAY = '2025-03-02';
const WRONG_KEY = 'cus_wrong_key_of_the_contract_suite';
const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;
/** A test of a real address may be many requests, a second each. */
const REAL_TIMEOUT_MS = 180_000;
/** Over an archive, the trades are exported first. */
const START_TIMEOUT_MS = 300_000;

let services: Services;
const real = openRealTarget();
const target = real ?? openLocalTarget(() => services);
const { key } = target;
const skips = await announceAddressSkips(target);
/** Sections of the option chain and of market structure; skipped at an address whose key has no realtime product. */
const describeRealtime = describe.skipIf(!skips.hasRealtime);

if (real) vi.setConfig({ testTimeout: REAL_TIMEOUT_MS });
beforeAll(async () => {
  if (!real) services = await startServices();
}, START_TIMEOUT_MS);
afterAll(() => services?.stop());

/** One statement of the document, skipped where it cannot be asked. */
function fact(title: string, run: () => Promise<void>): void {
  // Skipped at a real address only, each with its reason in `api-skips.ts`, which are printed.
  test.skipIf(title in skips.titles)(title, run);
}

/** The row of the section that begins with `first` and is a test of its own. */
function rowOf(section: string, first: string): string {
  const rows = Object.entries(API_ROWS[section] ?? {}).filter(
    ([row, coverage]) => row.startsWith(`${first} |`) && listTitles(row, coverage).includes(row),
  );
  if (rows.length !== 1) throw new Error(`${section} has ${rows.length} rows that begin with ${first}`);
  return rows[0]?.[0] ?? '';
}

const post = (body: object) => target.send(HISTORICAL_PATH, postJson(body));
const ask = (sql: string) => post({ api_key: key, sql });
const askPortal = (sql: string) => target.sendPortal(PORTAL_PATH, postJson({ api_key: key, sql }));
const askChain = (fields: object = {}) =>
  target.send(CHAIN_PATH, postJson({ api_key: key, symbol: SYMBOL, ...fields }));
const bearer = (apiKey: string) => ({ headers: { authorization: `Bearer ${apiKey}` } });
/** Filtered, because the chain is too large there. */
const askStrictChain = (filter: object = { strike: 0.01 }) =>
  services.strict.send(CHAIN_PATH, postJson({ api_key: KEY, symbol: SYMBOL, ...filter }));
const askStrictMarket = () => services.strict.send(`${MARKET_PATH}/${SYMBOL}`, bearer(KEY));
const askMarket = (rest: string = SYMBOL) => target.send(`${MARKET_PATH}/${rest}`, bearer(key));

/** A reply that several tests look at. */
function keep<T>(read: () => Promise<T>): () => Promise<T> {
  let kept: Promise<T> | undefined;
  return () => (kept ??= read());
}

async function rowsOf(reply: Promise<Reply>): Promise<readonly Readonly<Record<string, unknown>>[]> {
  const { status, body, text } = await reply;
  expect(status, text.slice(0, 300)).toBe(200);
  return body.data;
}

const readTrades = keep(() => ask(`SELECT * FROM ${VIEW} LIMIT 50`));
const readSample = keep(() => post({ api_key: key, sql: 'SELECT 1', test_mode: true }));
const readLatestDate = keep(async () => {
  const [row] = await rowsOf(ask(`SELECT max(date) AS last FROM ${VIEW}`));
  return String(row?.['last']);
});
const readChain = keep(() => askChain());
const readMarket = keep(() => askMarket());
const readTrial = keep(() => post({ api_key: KEYS.trial, sql: `SELECT id FROM ${VIEW}` }));

/** Opens a session; its mechanism is the service's own. */
const openSession = keep(async () => {
  const { headers } = await target.send('/api/session', postJson({ api_key: key }));
  return headers.get('set-cookie')?.split(';')[0] ?? '';
});
async function withSession(body: object): Promise<RequestInit> {
  const init = postJson(body);
  return { ...init, headers: { ...init.headers, cookie: await openSession() } };
}

const RECORD = 'Resources and their fields > Option trade record (row of the historical SQL tables)';
describe(RECORD, () => {
  fact(rowOf(RECORD, 'RawOptionTrades'), async () => {
    const latest = await readLatestDate();
    // Four days before any session there is another one.
    const [row] = await rowsOf(
      ask(
        `SELECT count() AS trades FROM RawOptionTrades WHERE date >= '${addDays(latest, -4)}' AND date < '${latest}' AND symbol = '${SYMBOL}'`,
      ),
    );
    expect(row?.['trades']).toBeGreaterThan(0);
  });

  fact(rowOf(RECORD, VIEW), async () => {
    const [view] = await rowsOf(
      ask(`SELECT min(date) AS first, max(date) AS last, count() AS trades FROM ${VIEW} WHERE symbol = '${SYMBOL}'`),
    );
    const [table] = await rowsOf(
      ask(`SELECT count() AS trades FROM RawOptionTrades WHERE date = '${view?.['last']}' AND symbol = '${SYMBOL}'`),
    );
    expect(view?.['first']).toBe(view?.['last']);
    // More may have come in between.
    expect(table?.['trades']).toBeGreaterThanOrEqual(Number(view?.['trades']));
  });

  fact('names are case-insensitive', async () => {
    for (const name of [VIEW.toLowerCase(), VIEW.toUpperCase()]) await rowsOf(ask(`SELECT id FROM ${name} LIMIT 1`));
  });

  fact('any other table name is an error', async () => {
    for (const name of ['OptionTrades', 'system.tables', 'system.one', 'RawOptionTrades2']) {
      const { status, body } = await ask(`SELECT * FROM ${name} LIMIT 1`);
      expect([status, body.errorCode], name).toEqual([400, 'INVALID_SQL']);
    }
  });

  for (const column of Object.keys(COLUMN_CHECKS)) {
    fact(rowOf(RECORD, column), async () => {
      const rows = await rowsOf(readTrades());
      expect(rows.length).toBeGreaterThan(1);
      expect(rows.flatMap((row) => findFault(column, row) ?? [])).toEqual([]);
      if (column === 'id') expect(new Set(rows.map((row) => row['id'])).size).toBe(rows.length);
      const sample = await rowsOf(readSample());
      expect(sample.flatMap((row) => findFault(column, row) ?? [])).toEqual([]);
    });
  }

  fact('rows also carry the fields side, moneyness, gamma, dex and dei', async () => {
    for (const row of [...(await rowsOf(readTrades())), ...(await rowsOf(readSample()))]) {
      for (const [name, type] of Object.entries(FURTHER_COLUMNS)) {
        if (row[name] === null && type === 'number') continue; // Not computed.
        expect(typeof row[name], name).toBe(type);
      }
    }
  });
});

const SNAPSHOT = 'Resources and their fields > Market-structure snapshot';
describeRealtime(SNAPSHOT, () => {
  const isObject = (value: unknown) => typeof value === 'object' && value !== null && !Array.isArray(value);
  const isInstant = (value: unknown) =>
    /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$/.test(String(value)) &&
    !Number.isNaN(Date.parse(String(value)));
  const checks: Readonly<Record<string, (value: unknown) => boolean>> = {
    'data.symbol': (value) => value === SYMBOL,
    'data.symbol_meta': isObject,
    'data.flow': isObject,
    'data.intraday_gex': (value) => value === null || isObject(value),
    'data.structure': isObject,
    'meta.effective_date': (value) => /^\d{4}-\d{2}-\d{2}$/.test(String(value)),
    'meta.structure_as_of': isInstant,
    'meta.flow_as_of': isInstant,
    'meta.intraday_gex_as_of': (value) => value === null || isInstant(value),
  };
  for (const [path, accepts] of Object.entries(checks)) {
    fact(rowOf(SNAPSHOT, path), async () => {
      const { body } = await readMarket();
      const [part = '', member = ''] = path.split('.');
      expect(Object.keys(body[part])).toContain(member);
      expect(body[part][member]).toSatisfy(accepts);
    });
  }

  const sums: Readonly<Record<string, (value: number) => boolean>> = {
    spot: (value) => value > 0,
    call_gex: (value) => value >= 0,
    put_gex: (value) => value <= 0,
  };
  for (const [member, accepts] of Object.entries(sums)) {
    fact(rowOf(SNAPSHOT, member), async () => {
      const { intraday_gex } = (await readMarket()).body.data;
      expect(typeof intraday_gex[member]).toBe('number');
      expect(intraday_gex[member]).toSatisfy(accepts);
    });
  }
});

const HISTORICAL = 'Endpoints > 1. Historical SQL (main address)';
describe(HISTORICAL, () => {
  const readAnswer = keep(() => ask(`SELECT id, symbol FROM ${VIEW} LIMIT 2`));

  fact('POST {base_url}/api/historical/sql answers', async () => {
    const { status, headers } = await readAnswer();
    expect(status).toBe(200);
    expect(headers.get('content-type')).toMatch(/^application\/json/);
  });

  fact('the body may be application/x-www-form-urlencoded', async () => {
    const form = { api_key: key, sql: "SELECT 'a+b & c' AS text" };
    expect(await rowsOf(target.send(HISTORICAL_PATH, postForm(form)))).toEqual([{ text: 'a+b & c' }]);
  });

  fact('api_key is required without session authentication', async () => {
    for (const body of [{ sql: 'SELECT 1' }, { api_key: '', sql: 'SELECT 1' }]) {
      expect((await post(body)).status).toBe(401);
    }
  });

  fact('a session stands for api_key at the historical endpoint', async () => {
    const reply = await target.send(HISTORICAL_PATH, await withSession({ sql: 'SELECT 1 AS one' }));
    expect(reply.body).toMatchObject({ status: 'SUCCESS', data: [{ one: 1 }] });
    const wrong = await withSession({ api_key: WRONG_KEY, sql: 'SELECT 1' });
    expect((await target.send(HISTORICAL_PATH, wrong)).status).toBe(401);
  });

  fact('a key begins with cus_ or apikey_', async () => {
    for (const [apiKey, status] of [
      [KEYS.trial, 200],
      [KEYS.historicalOnly, 200],
      ['sk_other', 401],
    ] as const) {
      expect((await post({ api_key: apiKey, sql: 'SELECT 1' })).status, apiKey).toBe(status);
    }
  });

  fact('sql is required', async () => {
    const { status, body } = await post({ api_key: key });
    expect([status, body.errorCode]).toEqual([400, 'INVALID_REQUEST']);
  });

  fact(rowOf(HISTORICAL, 'sql'), async () => {
    await rowsOf(ask(`SELECT id FROM ${VIEW} LIMIT 1`));
    const { status, body } = await ask('SHOW TABLES');
    expect([status, body.errorCode]).toEqual([400, 'INVALID_SQL']);
  });

  fact('when test_mode is true, sample rows are returned and the database is not queried', async () => {
    const bodies = [
      postJson({ api_key: key, sql: 'not a query at all', test_mode: true }),
      postForm({ api_key: key, sql: 'not a query at all', test_mode: 'true' }),
    ];
    for (const init of bodies) {
      const { status, body, headers } = await target.send(HISTORICAL_PATH, init);
      expect([status, body.status]).toEqual([200, 'SUCCESS']);
      expect(body.data.length).toBeGreaterThan(0);
      expect(body.meta).toMatchObject({ minimum_data_delay_minutes: 15, truncated: false });
      expect(headers.get('x-service-historical-sql-minimum-data-delay-minutes')).toBe('15');
    }
  });

  fact('test_mode may be false, in a form as well', async () => {
    const query = { api_key: key, sql: 'SELECT 1 AS one' };
    for (const init of [postJson({ ...query, test_mode: false }), postForm({ ...query, test_mode: 'false' })]) {
      expect(await rowsOf(target.send(HISTORICAL_PATH, init))).toEqual([{ one: 1 }]);
    }
  });

  const members: Readonly<Record<string, (value: unknown) => boolean>> = {
    'meta.entitlement': (value) => value === 'active' || value === 'trialing',
    'meta.row_limit': (value) => Number.isInteger(value) && Number(value) > 0,
    'meta.capped': (value) => typeof value === 'boolean',
    'meta.truncated': (value) => value === false,
    'meta.minimum_data_delay_minutes': (value) => value === 15,
  };

  fact(rowOf(HISTORICAL, 'status'), async () => {
    expect((await readAnswer()).body.status).toBe('SUCCESS');
  });

  fact(rowOf(HISTORICAL, 'data'), async () => {
    expect((await readAnswer()).body.data).toEqual([
      { id: expect.any(String), symbol: expect.any(String) },
      { id: expect.any(String), symbol: expect.any(String) },
    ]);
  });

  for (const [path, accepts] of Object.entries(members)) {
    fact(rowOf(HISTORICAL, path), async () => {
      const { meta } = (await readAnswer()).body;
      expect(meta[path.replace('meta.', '')]).toSatisfy(accepts);
      expect(meta.capped).toBe(meta.entitlement === 'trialing');
    });
  }

  fact(rowOf(HISTORICAL, 'meta.lookback_days'), async () => {
    const { meta } = (await readAnswer()).body;
    if (!real) expect(meta.entitlement).toBe('active');
    expect(meta.lookback_days).toBe(meta.entitlement === 'active' ? 15 : undefined);
    expect(Object.keys(meta).includes('lookback_days')).toBe(meta.entitlement === 'active');
  });

  fact('lookback_days is absent for a trialing caller, in test_mode as well', async () => {
    const sample = await post({ api_key: KEYS.trial, sql: 'SELECT 1', test_mode: true });
    for (const { body } of [await readTrial(), sample]) {
      expect(Object.keys(body.meta)).not.toContain('lookback_days');
      expect(body.meta).toMatchObject({ entitlement: 'trialing', capped: true });
    }
  });

  fact(
    'the 200 response has the header X-Service-Historical-Sql-Minimum-Data-Delay-Minutes with value 15',
    async () => {
      for (const { headers } of [await readAnswer(), await readSample()]) {
        expect(headers.get('X-Service-Historical-Sql-Minimum-Data-Delay-Minutes')).toBe('15');
      }
    },
  );

  const allowed: Readonly<Record<string, readonly string[]>> = {
    'allowed: SELECT statements': ['SELECT 1', `SELECT id FROM (SELECT id FROM ${VIEW} LIMIT 3) LIMIT 1`],
    'allowed: standard functions (COUNT, SUM, AVG, ...)': [
      `SELECT COUNT(*), SUM(size), AVG(price), MIN(price), MAX(price), round(AVG(iv), 2) FROM ${VIEW} WHERE symbol = '${SYMBOL}'`,
    ],
    'allowed: WHERE, GROUP BY, ORDER BY, LIMIT': [
      `SELECT exchange, COUNT(*) AS trades FROM ${VIEW} WHERE symbol = '${SYMBOL}' GROUP BY exchange ORDER BY trades DESC LIMIT 3`,
    ],
  };
  for (const [title, statements] of Object.entries(allowed)) {
    fact(title, async () => {
      for (const sql of statements) expect((await rowsOf(ask(sql))).length, sql).toBeGreaterThan(0);
    });
  }

  const forbidden: Readonly<Record<string, readonly string[]>> = {
    'forbidden: INSERT, UPDATE, DELETE': [
      "INSERT INTO RawOptionTrades (id) VALUES ('1')",
      'UPDATE RawOptionTrades SET size = 1',
      'DELETE FROM RawOptionTrades WHERE 1 = 1',
    ],
    'forbidden: DROP, CREATE, ALTER': [
      'DROP TABLE RawOptionTrades',
      'CREATE TABLE contract_suite (id String) ENGINE = Memory',
      'ALTER TABLE RawOptionTrades DROP COLUMN size',
    ],
    'forbidden: UNION': ['SELECT 1 UNION ALL SELECT 2', 'SELECT 1 UNION DISTINCT SELECT 2'],
    'forbidden: stored procedures (EXEC, CALL)': ['EXEC sp_tables', 'CALL anything()'],
  };
  for (const [title, statements] of Object.entries(forbidden)) {
    fact(title, async () => {
      for (const sql of statements) {
        const { status, body } = await ask(sql);
        expect([status, body.status, body.errorCode], sql).toEqual([400, 'ERROR', 'INVALID_SQL']);
        const portal = await askPortal(sql);
        expect([portal.status, portal.body.status], sql).toEqual([400, 'ERROR']);
      }
    });
  }

  fact('comments are stripped automatically', async () => {
    for (const sql of ['SELECT 1 AS one -- the first', 'SELECT /* all of */ 1 AS one', '/* first */ SELECT 1 AS one']) {
      expect(await rowsOf(ask(sql)), sql).toEqual([{ one: 1 }]);
      expect(await rowsOf(askPortal(sql)), sql).toEqual([{ one: 1 }]);
    }
  });
});

describe('Endpoints > 2. Historical SQL (separate address)', () => {
  const fields = () => ({ api_key: key, sql: `SELECT * FROM ${VIEW} LIMIT 2` });

  fact('the separate address takes form-encoded bodies with the same fields', async () => {
    expect(await rowsOf(target.sendPortal(PORTAL_PATH, postForm(fields())))).toHaveLength(2);
  });

  for (const name of ['api_key', 'sql'] as const) {
    fact(`${name} (string, required)`, async () => {
      const { [name]: _left, ...rest } = fields();
      expect((await target.sendPortal(PORTAL_PATH, postJson(rest))).status).toBe(400);
      expect((await target.sendPortal(PORTAL_PATH, postJson({ ...rest, [name]: 7 }))).status).toBe(400);
    });
  }

  fact('an object with status SUCCESS and data, an array of option trade records', async () => {
    const { status, body } = await target.sendPortal(PORTAL_PATH, postJson(fields()));
    expect([status, body.status]).toEqual([200, 'SUCCESS']);
    for (const column of Object.keys(COLUMN_CHECKS)) {
      expect(body.data.flatMap((row: object) => findFault(column, row as never) ?? [])).toEqual([]);
    }
  });
});

const CHAIN = 'Endpoints > 3. Option chain';
describeRealtime(CHAIN, () => {
  /** A contract in the middle of the chain, to filter by. */
  const readContract = keep(async () => {
    const rows = await rowsOf(readChain());
    const row = rows[Math.floor(rows.length / 2)];
    return { strike: Number(row?.['strike']), expiration_date: String(row?.['expiration_date']) };
  });

  fact('POST {base_url}/api/option-chain answers', async () => {
    const { status, headers, body } = await readChain();
    expect(status).toBe(200);
    expect(headers.get('content-type')).toMatch(/^application\/json/);
    expect(Array.isArray(body.data)).toBe(true);
    expect(body.data.length).toBeGreaterThan(0);
    for (const row of [...body.data, body.meta]) expect(row).toEqual(expect.objectContaining({}));
    expect(Array.isArray(body.meta)).toBe(false);
  });

  fact('the chain takes application/json and application/x-www-form-urlencoded', async () => {
    const { strike } = await readContract();
    const form = await target.send(CHAIN_PATH, postForm({ api_key: key, symbol: SYMBOL, strike: String(strike) }));
    expect(form.status).toBe(200);
    expect(form.body.data).toEqual((await askChain({ strike })).body.data);
  });

  fact('api_key is required at the chain without a session', async () => {
    expect((await target.send(CHAIN_PATH, postJson({ symbol: SYMBOL }))).status).toBe(401);
  });

  fact('a session stands for api_key at the option chain', async () => {
    expect((await target.send(CHAIN_PATH, await withSession({ symbol: SYMBOL }))).status).toBe(200);
  });

  fact(rowOf(CHAIN, 'symbol'), async () => {
    const { status } = await target.send(CHAIN_PATH, postJson({ api_key: key }));
    expect(status).toBe(400);
  });

  fact(rowOf(CHAIN, 'date'), async () => {
    const [latest, { body }] = [await readLatestDate(), await readChain()];
    const dated = await askChain({ date: latest });
    expect(dated.status).toBe(200);
    expect(dated.body.data.length).toBe(body.data.length);
  });

  fact('the date may be of an earlier session', async () => {
    const { body } = await askChain({ date: '2026-11-18' });
    expect(body.meta.date).toBe('2026-11-18');
    expect(body.data).not.toEqual((await readChain()).body.data);
  });

  const filters: Readonly<Record<string, (row: Readonly<Record<string, unknown>>, value: never) => boolean>> = {
    expiration_date: (row, value) => row['expiration_date'] === value,
    put_call: (row, value) => row['put_call'] === value,
    strike: (row, value) => row['strike'] === value,
    strike_min: (row, value) => Number(row['strike']) >= value,
    strike_max: (row, value) => Number(row['strike']) <= value,
  };
  for (const [name, accepts] of Object.entries(filters)) {
    fact(rowOf(CHAIN, name), async () => {
      const { strike, expiration_date } = await readContract();
      const all = await rowsOf(readChain());
      for (const value of name === 'put_call'
        ? ['CALL', 'PUT']
        : [name === 'expiration_date' ? expiration_date : strike]) {
        const rows = await rowsOf(askChain({ [name]: value }));
        const expected = all.filter((row) => accepts(row, value as never)); // Of the kind that the filter takes.
        expect(rows.length).toBeGreaterThan(0);
        expect(rows).toHaveLength(expected.length);
        expect(rows.every((row) => accepts(row, value as never))).toBe(true);
      }
    });
  }

  fact('a filter that matches no contract returns 200 with empty data', async () => {
    const { status, body } = await askChain({ strike: 0.01 });
    expect([status, body.data]).toEqual([200, []]);
    expect(typeof body.meta).toBe('object');
  });

  fact('access is included with a realtime entitlement', async () => {
    const asked = postJson({ api_key: KEYS.realtimeOnly, symbol: SYMBOL });
    expect((await target.send(CHAIN_PATH, asked)).status).toBe(200);
  });
});

const MARKET = 'Endpoints > 4. Market structure';
describeRealtime(MARKET, () => {
  fact('GET {base_url}/api/v1/market-structure/{symbol} answers', async () => {
    const { status, headers } = await readMarket();
    expect(status).toBe(200);
    expect(headers.get('content-type')).toMatch(/^application\/json/);
  });

  fact(rowOf(MARKET, 'symbol'), async () => {
    for (const symbol of [SYMBOL, 'QQQ']) expect((await askMarket(symbol)).body.data.symbol).toBe(symbol);
  });

  fact(rowOf(MARKET, 'date'), async () => {
    const { effective_date } = (await readMarket()).body.meta;
    const { status, body } = await askMarket(`${SYMBOL}?date=${effective_date}`);
    expect([status, body.meta.effective_date]).toEqual([200, effective_date]);
  });

  fact('the date may be of a retained snapshot', async () => {
    const { body } = await askMarket(`${SYMBOL}?date=2026-11-18`);
    expect(body.meta.effective_date).toBe('2026-11-18');
  });
});

describe('Authentication', () => {
  fact('Authorization: Bearer <API_KEY> is required for market structure', async () => {
    for (const headers of [
      {},
      { authorization: key },
      { authorization: `Basic ${key}` },
      { cookie: await openSession() },
    ]) {
      expect((await target.send(`${MARKET_PATH}/${SYMBOL}`, { headers })).status).toBe(401);
    }
    expect((await askMarket()).status).toBe(200);
  });

  fact('the SQL and option chain endpoints take api_key in the request body', async () => {
    for (const [path, body] of [
      [HISTORICAL_PATH, { sql: 'SELECT 1' }],
      [CHAIN_PATH, { symbol: SYMBOL }],
    ] as const) {
      const init = postJson(body);
      const inHeader = { ...init, headers: { ...init.headers, ...bearer(key).headers } };
      expect((await target.send(path, inHeader)).status, path).toBe(401);
      expect((await target.send(path, postJson({ api_key: key, ...body }))).status, path).toBe(200);
    }
  });

  fact('the separate entry point takes its key in the body, and no session', async () => {
    const { status, body } = await target.sendPortal(PORTAL_PATH, await withSession({ sql: 'SELECT 1' }));
    expect([status, body.errorMsg]).toEqual([400, expect.stringMatching(/key/i)]);
    await rowsOf(askPortal('SELECT 1'));
  });

  fact('failed authentication gives HTTP 401 (UNAUTHORIZED) at every endpoint', async () => {
    for (const reply of [
      await post({ api_key: WRONG_KEY, sql: 'SELECT 1' }),
      await target.sendPortal(PORTAL_PATH, postJson({ api_key: WRONG_KEY, sql: 'SELECT 1' })),
      await target.send(CHAIN_PATH, postJson({ api_key: WRONG_KEY, symbol: SYMBOL })),
      await target.send(`${MARKET_PATH}/${SYMBOL}`, bearer(WRONG_KEY)),
    ]) {
      expect([reply.status, reply.body.errorCode]).toEqual([401, 'UNAUTHORIZED']);
    }
  });

  fact(
    'a caller without the required entitlement gets HTTP 403 (SUBSCRIPTION_REQUIRED) at every endpoint',
    async () => {
      for (const reply of [
        await post({ api_key: KEYS.realtimeOnly, sql: 'SELECT 1' }),
        await post({ api_key: KEYS.realtimeOnly, sql: 'SELECT 1', test_mode: true }),
        await target.sendPortal(PORTAL_PATH, postJson({ api_key: KEYS.realtimeOnly, sql: 'SELECT 1' })),
        await target.send(CHAIN_PATH, postJson({ api_key: KEYS.historicalOnly, symbol: SYMBOL })),
        await target.send(`${MARKET_PATH}/${SYMBOL}`, bearer(KEYS.historicalOnly)),
      ]) {
        expect([reply.status, reply.body.errorCode]).toEqual([403, 'SUBSCRIPTION_REQUIRED']);
      }
    },
  );
});

const ERROR_BODY = 'Errors > Historical SQL error body';
describe(ERROR_BODY, () => {
  const tooBroad = keep(() => ask('SELECT sum(size) FROM RawOptionTrades'));
  const failures: Readonly<Record<string, readonly [number, () => Promise<Reply>]>> = {
    INVALID_REQUEST: [400, () => post({ api_key: key })],
    INVALID_SQL: [400, () => ask('SELECT * FROM nosuch')],
    UNAUTHORIZED: [401, () => post({ api_key: WRONG_KEY, sql: 'SELECT 1' })],
    SUBSCRIPTION_REQUIRED: [403, () => post({ api_key: KEYS.realtimeOnly, sql: 'SELECT 1' })],
    METHOD_NOT_ALLOWED: [405, () => target.send(HISTORICAL_PATH, { method: 'GET' })],
    INVALID_QUERY: [422, () => ask(`SELECT nosuch FROM ${VIEW} LIMIT 1`)],
    QUERY_TOO_BROAD: [422, tooBroad],
    RATE_LIMITED: [429, () => exceedRate(services.strict)],
    QUERY_TIMEOUT: [504, () => timeOut(services.frail)],
    INTERNAL_ERROR: [500, () => failEngine(services.frail, services.findFrailEngine)],
  };
  for (const code of ERROR_CODES) {
    const [status, read] = failures[code] ?? [0, () => Promise.reject(new Error(`${code} has no request`))];
    fact(`errorCode ${code} with HTTP ${status}`, async () => {
      const reply = await read();
      expect([reply.status, reply.body.status, reply.body.errorCode]).toEqual([status, 'ERROR', code]);
      expect(reply.body.errorMsg).toMatch(/[a-z]+ [a-z]+/i);
      expect(reply.headers.get('content-type')).toMatch(/^application\/json/);
      const documented = ['status', 'errorCode', 'reason', 'hints', 'errorMsg'];
      expect(Object.keys(reply.body).filter((member) => !documented.includes(member))).toEqual([]);
      if (code !== 'INVALID_QUERY' && code !== 'QUERY_TOO_BROAD') expect(reply.body.reason).toBeUndefined();
    });
  }

  const queries: Readonly<Record<string, string>> = {
    UNKNOWN_IDENTIFIER: `SELECT nosuch FROM ${VIEW} LIMIT 1`,
    UNKNOWN_FUNCTION: `SELECT nosuch(size) FROM ${VIEW} LIMIT 1`,
    TYPE_MISMATCH: `SELECT symbol + 1 FROM ${VIEW} LIMIT 1`,
    NUMERIC_OVERFLOW: 'SELECT toDecimal32(1e20, 2)',
    SYNTAX_ERROR: `SELECT (size FROM ${VIEW}`,
    INVALID_AGGREGATION: `SELECT symbol, sum(size) FROM ${VIEW}`,
    INVALID_ARGUMENTS: "SELECT lower('a', 'b')",
    INVALID_EXPRESSION: `SELECT size FROM ${VIEW} PREWHERE size > 1`,
  };
  for (const reason of REASONS) {
    fact(`reason ${reason}`, async () => {
      const sql = queries[reason];
      const { status, body } = sql === undefined ? await tooBroad() : await ask(sql);
      const code = sql === undefined ? 'QUERY_TOO_BROAD' : 'INVALID_QUERY';
      expect([status, body.errorCode, body.reason]).toEqual([422, code, reason]);
      if (sql !== undefined) expect(Object.keys(body)).not.toContain('hints');
    });
  }

  fact('hints are the recovery guidance of QUERY_TOO_BROAD', async () => {
    const { body } = await tooBroad();
    expect(body.hints).toEqual(TOO_BROAD_HINTS);
    // The document's own words, in its order.
    const rule = Object.keys(API_ROWS[ERROR_BODY] ?? {}).find((row) => row.startsWith('7. ')) ?? '';
    expect(rule).toContain(`hints: ${body.hints.join('; ')}.`);
  });

  const json = (body: string) => ({ method: 'POST', headers: { 'content-type': 'application/json' }, body });
  const invalid: Readonly<Record<string, RequestInit>> = {
    'no body': { method: 'POST' },
    'an empty body': json(''),
    'invalid JSON': json('{"sql": '),
    'an array': json('[]'),
    'a text': json('"SELECT 1"'),
    null: json('null'),
    'a number for the key': postJson({ api_key: 7, sql: 'SELECT 1' }),
    'a number for the SQL': postJson({ api_key: key, sql: 7 }),
    'empty SQL': postJson({ api_key: key, sql: '' }),
    'a text for test_mode': postJson({ api_key: key, sql: 'SELECT 1', test_mode: 'true' }),
    'another content type': { method: 'POST', headers: { 'content-type': 'text/plain' }, body: 'SELECT 1' },
  };
  fact('an invalid body is refused whatever is wrong with it', async () => {
    for (const [what, init] of Object.entries(invalid)) {
      const { status, body } = await target.send(HISTORICAL_PATH, init);
      expect([status, body?.status, body?.errorCode], what).toEqual([400, 'ERROR', 'INVALID_REQUEST']);
    }
  });

  fact('an invalid body comes before a wrong key, a wrong key before refused SQL', async () => {
    expect((await post({ api_key: WRONG_KEY })).status).toBe(400);
    expect((await post({ api_key: WRONG_KEY, sql: 'DROP TABLE RawOptionTrades' })).status).toBe(401);
    expect((await post({ api_key: KEYS.realtimeOnly, sql: 'DROP TABLE RawOptionTrades' })).status).toBe(403);
  });

  fact('further members, a repeated one, a query string and a charset change nothing', async () => {
    const text = JSON.stringify({ api_key: key, sql: 'SELECT 2 AS one', further: [1] });
    const init = json(text.replace('}', ',"sql":"SELECT 1 AS one"}'));
    const headers = { 'content-type': 'application/json; charset=utf-8' };
    const path = `${HISTORICAL_PATH}?sql=SELECT+3`;
    expect(await rowsOf(target.send(path, { ...init, headers }))).toEqual([{ one: 1 }]);
  });

  fact('every other method is refused whatever its body is', async () => {
    const paths = [HISTORICAL_PATH, CHAIN_PATH, `${MARKET_PATH}/${SYMBOL}`];
    const bodies = [undefined, '{"broken', 'x'.repeat(600_000)];
    for (const path of paths) {
      const [allowed, methods] = path.startsWith(MARKET_PATH)
        ? ['GET', ['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']]
        : ['POST', ['PUT', 'PATCH', 'DELETE', 'OPTIONS']];
      for (const method of methods) {
        for (const body of bodies) {
          const init = body === undefined ? {} : { headers: { 'content-type': 'application/json' }, body };
          const reply = await target.send(path, { method, ...init });
          expect([reply.status, reply.body?.errorCode, reply.headers.get('allow')], `${method} ${path}`).toEqual([
            405,
            'METHOD_NOT_ALLOWED',
            allowed,
          ]);
        }
      }
      const head = await target.send(path, { method: 'HEAD' });
      expect([head.status, head.headers.get('allow')], path).toEqual([405, allowed]);
    }
    for (const method of ['GET', 'PUT', 'DELETE', 'HEAD', 'OPTIONS']) {
      const { status, headers } = await target.sendPortal(PORTAL_PATH, { method });
      expect([status, headers.get('allow')], method).toEqual([405, 'POST']);
    }
  });
});

const PORTAL_ERRORS = 'Errors > Separate historical entry point, HTTP 400 bodies';
describe(PORTAL_ERRORS, () => {
  const send = (body: object) => target.sendPortal(PORTAL_PATH, postJson(body));

  fact(rowOf(PORTAL_ERRORS, 'API key missing'), async () => {
    for (const body of [{ sql: 'SELECT 1' }, { api_key: '', sql: 'SELECT 1' }, {}]) {
      const reply = await send(body);
      expect([reply.status, reply.body]).toEqual([
        400,
        { status: 'ERROR', errorMsg: expect.stringMatching(/key.*required/i) },
      ]);
    }
  });

  fact(rowOf(PORTAL_ERRORS, 'SQL not a SELECT'), async () => {
    const reply = await askPortal('DROP TABLE RawOptionTrades');
    expect([reply.status, reply.body]).toEqual([
      400,
      { status: 'ERROR', errorMsg: expect.stringMatching(/only SELECT queries are allowed/i) },
    ]);
  });

  fact(rowOf(PORTAL_ERRORS, 'sql missing'), async () => {
    for (const body of [{ api_key: key }, { api_key: key, sql: '' }]) {
      const reply = await send(body);
      expect([reply.status, reply.body]).toEqual([
        400,
        { status: 'ERROR', message: expect.stringMatching(/SQL query is required in the request body/i) },
      ]);
    }
  });
});

const CHAIN_ERRORS = 'Errors > Option chain';
describeRealtime(CHAIN_ERRORS, () => {
  fact(rowOf(CHAIN_ERRORS, '400'), async () => {
    for (const fields of [
      { date: '2026-02-30' },
      { date: 'yesterday' },
      { expiration_date: '2026-13-01' },
      { put_call: 'BOTH' },
      { strike: 'high' },
      { symbol: 7 },
    ]) {
      expect((await askChain(fields)).status, JSON.stringify(fields)).toBe(400);
    }
    expect((await target.send(CHAIN_PATH, { method: 'POST' })).status).toBe(400);
  });

  fact(rowOf(CHAIN_ERRORS, '401'), async () => {
    expect((await askChain({ api_key: WRONG_KEY })).status).toBe(401);
  });

  fact(rowOf(CHAIN_ERRORS, '403'), async () => {
    expect((await askChain({ api_key: KEYS.historicalOnly })).status).toBe(403);
  });

  fact('404: no chain stored for the date (SNAPSHOT_NOT_FOUND)', async () => {
    const { status, text } = await askChain({ date: SUNDAY });
    expect([status, text]).toEqual([404, expect.stringContaining('SNAPSHOT_NOT_FOUND')]);
  });

  fact('404: none for the symbol on that session (SYMBOL_NOT_FOUND)', async () => {
    const { status, text } = await askChain({ symbol: 'ZZZZZZ' });
    expect([status, text]).toEqual([404, expect.stringContaining('SYMBOL_NOT_FOUND')]);
  });

  fact(rowOf(CHAIN_ERRORS, '405'), async () => {
    const { status, text } = await target.send(CHAIN_PATH, { method: 'GET' });
    expect([status, text]).toEqual([405, expect.stringContaining('METHOD_NOT_ALLOWED')]);
  });

  fact(rowOf(CHAIN_ERRORS, '422'), async () => {
    const { status, text } = await askStrictChain({});
    expect([status, text]).toEqual([422, expect.stringContaining('REQUEST_TOO_BROAD')]);
    expect((await askStrictChain()).status).toBe(200);
  });

  fact(rowOf(CHAIN_ERRORS, '429'), async () => {
    const replies = await sendBurst(services.strict, askStrictChain);
    const refused = replies.find(({ status }) => status === 429);
    expect(refused?.headers.get('retry-after')).toMatch(/^[1-9]\d*$/);
    services.strict.advance(Number(refused?.headers.get('retry-after')) * 1_000);
    expect((await askStrictChain()).status).toBe(200);
  });

  fact(rowOf(CHAIN_ERRORS, '500'), async () => {
    const { frail } = services;
    const reply = await failIdleEngine(frail, services.findFrailEngine, () =>
      frail.send(CHAIN_PATH, postJson({ api_key: KEY, symbol: 'QQQ' })),
    );
    expect(reply.status).toBe(500);
    expect((await frail.send(CHAIN_PATH, postJson({ api_key: KEY, symbol: 'QQQ' }))).status).toBe(200);
  });

  fact(rowOf(CHAIN_ERRORS, '504'), async () => {
    const { frail } = services;
    const reply = await waitInVain(frail, () => frail.send(CHAIN_PATH, postJson({ api_key: KEY, symbol: 'IWM' })));
    expect(reply.status).toBe(504);
  });
});

const MARKET_ERRORS = 'Errors > Market structure';
describeRealtime(MARKET_ERRORS, () => {
  fact(rowOf(MARKET_ERRORS, '400'), async () => {
    for (const rest of ['S%20P', 'SPY!', `${SYMBOL}?date=2026-02-30`, `${SYMBOL}?date=today`]) {
      expect((await askMarket(rest)).status, rest).toBe(400);
    }
  });

  fact('an error of the option chain or market structure has a status, an errorCode and an errorMsg', async () => {
    for (const { body } of [await askChain({ symbol: 7 }), await askMarket('ZZZZZZ')]) {
      expect(body).toEqual({ status: 'ERROR', errorCode: expect.any(String), errorMsg: expect.any(String) });
    }
  });

  fact('a symbol that is too long, or that cannot be decoded, is invalid as well', async () => {
    for (const rest of ['A'.repeat(120), '%ZZ', '']) {
      const { status, body, headers } = await askMarket(rest);
      expect([status, body.status, body.errorCode], rest).toEqual([400, 'ERROR', 'INVALID_REQUEST']);
      expect(headers.get('date')).toContain('2026');
      expect(headers.get('x-request-id')).toMatch(/./);
    }
    const posted = await target.send(`${MARKET_PATH}/%ZZ`, { method: 'POST' });
    expect(posted.status).toBe(405);
  });

  fact(rowOf(MARKET_ERRORS, '401'), async () => {
    for (const init of [{}, bearer(WRONG_KEY)]) {
      expect((await target.send(`${MARKET_PATH}/${SYMBOL}`, init)).status).toBe(401);
    }
  });

  fact(rowOf(MARKET_ERRORS, '403'), async () => {
    expect((await target.send(`${MARKET_PATH}/${SYMBOL}`, bearer(KEYS.historicalOnly))).status).toBe(403);
  });

  fact(rowOf(MARKET_ERRORS, '404'), async () => {
    for (const rest of ['ZZZZZZ', `${SYMBOL}?date=${SUNDAY}`]) expect((await askMarket(rest)).status, rest).toBe(404);
  });

  fact(rowOf(MARKET_ERRORS, '405'), async () => {
    for (const method of ['POST', 'PUT', 'DELETE']) {
      const { status, text } = await target.send(`${MARKET_PATH}/${SYMBOL}`, { method, ...bearer(key) });
      expect([status, text], method).toEqual([405, expect.stringContaining('METHOD_NOT_ALLOWED')]);
    }
  });

  fact(rowOf(MARKET_ERRORS, '429'), async () => {
    const replies = await sendBurst(services.strict, askStrictMarket);
    expect(replies.find(({ status }) => status === 429)?.headers.get('retry-after')).toMatch(/^[1-9]\d*$/);
  });

  fact(rowOf(MARKET_ERRORS, '503'), async () => {
    const { frail } = services;
    const read = (symbol: string) => frail.send(`${MARKET_PATH}/${symbol}`, bearer(KEY));
    const late = await waitInVain(frail, () => read('AAPL'));
    expect(late.status).toBe(503);
    const unavailable = await failIdleEngine(frail, services.findFrailEngine, () => read('AAPL'));
    expect([unavailable.status, unavailable.headers.get('retry-after')]).toEqual([503, expect.stringMatching(/^\d+$/)]);
    expect((await read('AAPL')).status).toBe(200);
  });
});

const LIMITS = 'Limits';
describe(LIMITS, () => {
  /** The present and an answer of one moment: at midday here, whenever it is there. */
  const readMoment = async (write: (nowMs: number) => string) => {
    const send = real ? ask : (sql: string) => services.strict.ask(sql);
    if (!real) await moveTo(services.strict, '2026-11-19T18:00:00Z');
    const before = Date.parse((await send('SELECT 1')).headers.get('date') ?? '');
    services?.strict.advance(2_000);
    const reply = await send(write(before));
    return { nowMs: Date.parse(reply.headers.get('date') ?? ''), row: (await rowsOf(Promise.resolve(reply)))[0] };
  };

  fact('visible trade rows are at least 15 minutes old', async () => {
    const { nowMs, row } = await readMoment(() => `SELECT max(time) AS last FROM ${VIEW}`);
    expect(String(row?.['last']) <= formatWallClock(nowMs - 15 * MINUTE_MS)).toBe(true);
    expect(row?.['last']).toMatch(/^\d{4}-\d{2}-\d{2} /);
  });

  fact(rowOf(LIMITS, 'Lookback window'), async () => {
    const edge = (nowMs: number) => formatWallClock(nowMs - 15 * DAY_MS);
    const { nowMs, row } = await readMoment(
      (now) =>
        `SELECT count() AS hidden FROM RawOptionTrades WHERE date <= '${edge(now).slice(0, 10)}' AND time < '${edge(now)}'`,
    );
    expect(nowMs).toBeGreaterThan(0);
    expect(row?.['hidden']).toBe(0);
  });

  fact('the lookback window rolls with the clock', async () => {
    const count = async () => {
      services.strict.advance(2_000);
      return (
        await rowsOf(services.strict.ask('SELECT count() AS trades, min(date) AS first FROM RawOptionTrades'))
      )[0];
    };
    await moveTo(services.strict, '2026-11-19T23:15:00Z');
    const before = await count();
    expect(before?.['first']).toBe('2026-11-05');
    expect(Number(before?.['trades'])).toBeLessThan(services.strict.rows ?? 0);
    services.strict.advance(DAY_MS);
    expect((await count())?.['first']).toBe('2026-11-06');
    services.strict.advance(-DAY_MS);
    expect((await count())?.['first']).toBe('2026-11-05');
  });

  fact(rowOf(LIMITS, 'Earliest data'), async () => {
    const sql = "SELECT count() AS earlier FROM RawOptionTrades WHERE date < '2025-02-28'";
    expect(await rowsOf(ask(sql))).toEqual([{ earlier: 0 }]);
    if (real) return;
    const [row] = await rowsOf(services.frail.ask('SELECT min(date) AS first FROM RawOptionTrades'));
    expect(row?.['first']).toBe('2025-02-28');
  });

  fact(rowOf(LIMITS, 'Row cap'), async () => {
    const { body } = await readTrial();
    const meta = { entitlement: 'trialing', capped: true, truncated: true, row_limit: TRIAL_ROW_LIMIT };
    expect(body.meta).toMatchObject(meta);
    expect(body.data).toHaveLength(TRIAL_ROW_LIMIT);
    const portal = await target.sendPortal(
      PORTAL_PATH,
      postJson({ api_key: KEYS.trial, sql: `SELECT id FROM ${VIEW}` }),
    );
    expect(portal.body.data).toHaveLength(TRIAL_ROW_LIMIT);
  });

  fact(rowOf(LIMITS, 'Truncation'), async () => {
    const { body } = await ask(`SELECT id FROM ${VIEW}`);
    expect(body.meta.truncated).toBe(true);
    expect(body.data).toHaveLength(body.meta.row_limit);
    if (!real) expect(body.meta.row_limit).toBe(ROW_LIMIT);
    const exact = await ask(`SELECT id FROM ${VIEW} LIMIT ${body.meta.row_limit}`);
    expect([exact.body.data.length, exact.body.meta.truncated]).toEqual([body.meta.row_limit, false]);
  });

  fact(rowOf(LIMITS, 'Scan limits'), async () => {
    const { status, body } = await ask('SELECT id FROM RawOptionTrades ORDER BY size LIMIT 1');
    expect([status, body.errorCode]).toEqual([422, 'QUERY_TOO_BROAD']);
    expect(body.errorMsg).not.toMatch(/\d{4}/);
  });

  fact(rowOf(LIMITS, 'Soft rate limit'), async () => {
    const { strict } = services;
    strict.advance(5_000);
    const replies = await Promise.all([strict.ask('SELECT 1'), strict.askPortal('SELECT 1')]);
    expect(replies.map(({ status }) => status).sort()).toEqual([200, 429]);
    const wait = replies.find(({ status }) => status === 429)?.headers.get('retry-after') ?? '';
    expect(wait).toBe('1');
    for (let second = 0; second < 5; second += 1) {
      strict.advance(1_000);
      expect((await strict.askPortal('SELECT 1')).status).toBe(200);
    }
  });

  fact(rowOf(LIMITS, 'Rate'), async () => {
    const { strict } = services;
    const replies = await sendBurst(strict, askStrictChain);
    expect(replies.slice(0, CHAIN_LIMIT).map(({ status }) => status)).toEqual(Array(10).fill(200));
    expect(replies.some(({ status }) => status === 429)).toBe(true);
    for (let second = 0; second < 5; second += 1) {
      strict.advance(1_000);
      expect((await askStrictChain()).status).toBe(200);
    }
  });

  fact(rowOf(LIMITS, 'Snapshot refresh'), async () => {
    const { strict } = services;
    const read = async () => Date.parse((await askStrictChain()).body.meta.as_of);
    await moveTo(strict, '2026-11-19T17:00:05Z');
    const first = await read();
    expect(first).toBe(Date.parse('2026-11-19T17:00:00Z'));
    strict.advance(60_000);
    expect(await read()).toBe(first);
    strict.advance(30_000);
    expect(await read()).toBe(first + 90_000);
  });

  fact('market structure has a rate limit of its own', async () => {
    await sendBurst(services.strict, askStrictMarket);
    expect((await askStrictChain()).status).toBe(200);
  });
});

describe('Versioning', () => {
  fact('the interface description carries version 1.0.0', async () => {
    const { body } = await target.send('/openapi.json', {});
    expect(body.info.version).toBe('1.0.0');
    expect(Object.keys(body.paths)).toEqual(
      expect.arrayContaining([HISTORICAL_PATH, PORTAL_PATH, CHAIN_PATH, `${MARKET_PATH}/{symbol}`]),
    );
  });

  fact('only the market-structure path has a version segment', async () => {
    for (const path of ['/api/v1/historical/sql', '/api/v1/option-chain']) {
      expect((await target.send(path, postJson({ api_key: key, sql: 'SELECT 1', symbol: SYMBOL }))).status).toBe(404);
    }
    expect((await target.send(`/api/market-structure/${SYMBOL}`, bearer(key))).status).toBe(404);
  });
});

describe('the rows of the specification', () => {
  const listTests = (tasks: readonly RunnerTask[], suite = ''): readonly (readonly [suite: string, title: string])[] =>
    tasks.flatMap((task) => (task.type === 'suite' ? listTests(task.tasks, task.name) : [[suite, task.name] as const]));

  test('have a test each, or a reason', ({ task }) => {
    const tests = listTests(task.file.tasks);
    const titles = new Set(tests.map(([, title]) => title));
    const own = new Set(tests.map(([suite, title]) => `${suite}: ${title}`));
    const missing = Object.entries(API_ROWS).flatMap(([section, rows]) =>
      Object.entries(rows).flatMap(([row, coverage]) => {
        const wanted = listTitles(row, coverage);
        if (wanted.length === 0 && !NOTES.some((note) => note.section === section && note.row === row)) return [row];
        return wanted.filter((title) => (title === row ? !own.has(`${section}: ${title}`) : !titles.has(title)));
      }),
    );
    expect(missing).toEqual([]);
  });

  test('that say "not shown" have a note each, whose words docs/service.md has', () => {
    const noted = NOTES.map(({ section, row }) => `${section}: ${row}`);
    const rows = Object.entries(API_ROWS).flatMap(([section, of]) =>
      Object.keys(of).map((row) => `${section}: ${row}`),
    );
    expect(rows.filter((row) => row.includes('not shown') && !noted.includes(row))).toEqual([]);
    const docs = readFileSync(join(REPO, 'docs/service.md'), 'utf8').replaceAll(/\s+/g, ' ');
    expect(NOTES.filter((note) => note.docs !== undefined && !docs.includes(note.docs))).toEqual([]);
  });

  test('that other files test are tested there', () => {
    for (const { test: [file, title] = [] } of NOTES) {
      if (file !== undefined) expect(readFileSync(join(REPO, file), 'utf8')).toContain(`'${title}'`);
    }
  });

  test('name each errorCode and each reason in a title of a test', () => {
    for (const name of ['errorCode', 'reason']) {
      const rows = Object.entries(API_ROWS[ERROR_BODY] ?? {}).filter(([row]) => row.startsWith(`${name} |`));
      const [row = '', coverage = []] = rows[0] ?? [];
      const values = row.match(/\b[A-Z]+(_[A-Z]+)*\b/g) ?? [];
      expect(values.length).toBeGreaterThan(8);
      const titles = listTitles(row, coverage);
      expect(titles.map((title) => title.split(' ')[1])).toEqual(values);
    }
  });

  test('are skipped by titles that exist, each for one reason', ({ task }) => {
    const titles = listTests(task.file.tasks).map(([, title]) => title);
    const skipped = Object.keys({ ...REAL_ADDRESS_SKIPS, ...REALTIME_SKIPS, ...ARCHIVE_SKIPS });
    expect(skipped.filter((title) => !titles.includes(title))).toEqual([]);
    const doubles = listTests(task.file.tasks).map(([suite, title]) => `${suite}: ${title}`);
    expect(new Set(doubles).size).toBe(doubles.length);
  });

  // Skipped where the document, which is not part of the repository, is not beside it; said aloud.
  test.skipIf(!hasDocument)('are those of the document, in its order', () => {
    const known = Object.entries(API_ROWS).flatMap(([section, rows]) =>
      Object.keys(rows).map((row) => ({ section, row })),
    );
    expect(known).toEqual(readDocument());
  });
});
