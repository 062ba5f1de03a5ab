/**
 * The two entry points of historical SQL; bodies follow the specification.
 *
 * POST /api/historical/sql, the main one. Order of checks: method, body (400), key (401), entitlement (403), pace (429),
 * sample when `test_mode`, guardrails (400), analysis and limits (422), then rows.
 *
 * POST /api-portal/historical-trades-by-sql, on an address of its own. It has no `meta`: rows beyond the limit are
 * dropped silently. Key (400) and sql (400) come before the check of the key. Sessions are not accepted: the
 * specification requires the key here.
 */
import { z } from 'zod';
import {
  type HistoricalMeta,
  historicalFailureSchema,
  portalRefusalSchema,
  portalRequestSchema,
  portalSqlMissingSchema,
  portalSuccessSchema,
  requestSchema,
  successSchema,
} from '../../api-contract/historical.ts';
import {
  DELAY_HEADER,
  HISTORICAL_PATH,
  MINIMUM_DATA_DELAY_MINUTES,
  PORTAL_PATH,
} from '../../api-contract/published-limits.ts';
import type { Gate } from '../access/gate.ts';
import type { Caller } from '../access/key-file.ts';
import type { Backend } from '../backend.ts';
import { ApiFailure, invalidRequest } from '../http/api-failure.ts';
import { parseRequest, type Route, USUAL_FAILURES } from '../http/route.ts';
import type { ServiceOptions } from '../options.ts';
import type { RunQuery } from './query-runner.ts';

type RowLimits = Pick<ServiceOptions, 'rowLimit' | 'trialRowLimit'> & Pick<Backend, 'lookbackDays'>;

const HEADERS = { [DELAY_HEADER]: String(MINIMUM_DATA_DELAY_MINUTES) } as const;

const SQL_RULES =
  'One SELECT over RawOptionTrades (all historical trades) or RawOptionTradesMaxDateOnlyMV (the most recent date only, ' +
  'faster); names are case-insensitive and any other table is an error. Standard functions, WHERE, GROUP BY, ORDER BY and ' +
  'LIMIT are allowed; INSERT, UPDATE, DELETE, DROP, CREATE, ALTER, UNION and stored procedures are not. Every record is ' +
  'one trade: build aggregates with SUM, COUNT and GROUP BY.';

/** What both entry points are in the interface description. */
const ENTRY = {
  method: 'POST',
  tag: 'Historical SQL',
  failureSchema: historicalFailureSchema,
} as const;
const FAILURES = {
  ...USUAL_FAILURES,
  422:
    'The query cannot be analyzed (INVALID_QUERY, with a reason), or it exceeds the scan limits (QUERY_TOO_BROAD, with ' +
    'hints): do not send the same query again.',
} as const;

/** Columns in the order of the trade record. */
const SAMPLE_CALL = {
  id: '900000000001',
  symbol: 'SPY',
  date: '2025-03-03',
  time: '2025-03-03 09:31:07',
  put_call: 'CALL',
  strike: 600,
  expiration_date: '2025-03-07',
  option_activity_type: 'AUTO',
  underlying_type: 'ETF',
  oi: 12_480,
  size: 10,
  price: 1.85,
  underlying_price: 595.2,
  bid: 1.84,
  bid_size: 120,
  ask: 1.85,
  ask_size: 96,
  iv: 0.1712,
  premium: 1_850,
  sentiment: 'BULLISH',
  trade_count: 1,
  expiry_days: 4,
  delta: 0.2931,
  vega: 0.2218,
  theta: -0.4127,
  rho: 0.0187,
  exchange: 'CBOE',
  daily_volume: 10,
  earning_date: '',
  updated_timestamp: '1741012267412',
  market_cap: '',
  option_symbol: 'SPY250307C00600000',
  side: 'ASK',
  moneyness: 'OTM',
  gamma: 0.030114,
  dex: 174_453.12,
  dei: 293.1,
};

const SAMPLE_PUT = {
  ...SAMPLE_CALL,
  id: '900000000002',
  time: '2025-03-03 09:31:09',
  put_call: 'PUT',
  strike: 590,
  size: 3,
  price: 2.4,
  bid: 2.38,
  ask: 2.42,
  premium: 720,
  sentiment: 'NEUTRAL',
  delta: -0.3016,
  rho: -0.0202,
  daily_volume: 3,
  updated_timestamp: '1741012269088',
  option_symbol: 'SPY250307P00590000',
  side: 'MID',
  dex: -53_853.7,
  dei: -90.48,
};

/** The `test_mode` answer: two invented trades with every column, so that a client can be built before it queries. */
const SAMPLE_TRADES = [SAMPLE_CALL, SAMPLE_PUT];

/** What a subscription means for an answer. The gate rejects callers without one; here they would get the least. */
function describeMeta({ historical }: Caller, limits: RowLimits, truncated = false): HistoricalMeta {
  const isActive = historical === 'active';
  return {
    entitlement: isActive ? 'active' : 'trialing',
    row_limit: isActive ? limits.rowLimit : Math.min(limits.rowLimit, limits.trialRowLimit),
    capped: !isActive,
    truncated,
    lookback_days: isActive ? limits.lookbackDays : undefined,
    minimum_data_delay_minutes: MINIMUM_DATA_DELAY_MINUTES,
  };
}

export function createHistorical(gate: Gate, run: RunQuery, limits: RowLimits): Route {
  return {
    ...ENTRY,
    name: 'historical',
    operationId: 'queryHistorical',
    path: HISTORICAL_PATH,
    summary: 'Run a SQL query over historical option trades',
    description: SQL_RULES,
    security: ['body', 'session'],
    request: requestSchema,
    success: {
      description: 'The rows. When meta.truncated is true, rows beyond meta.row_limit were dropped.',
      schema: successSchema,
      headers: ['X-Service-Historical-Sql-Minimum-Data-Delay-Minutes'],
    },
    failures: {
      ...FAILURES,
      400: 'The body is not valid (INVALID_REQUEST), or the guardrails refuse the SQL (INVALID_SQL).',
    },
    answer: async ({ body, session, address, signal }) => {
      const { api_key: apiKey, sql, test_mode: isTest } = parseRequest(requestSchema, body);
      if (sql.trim() === '') throw invalidRequest('The request is not valid: sql is empty.');
      const caller = await gate.enter({ apiKey, session, address }, 'historical');
      const describe = (truncated: boolean) => describeMeta(caller, limits, truncated);
      if (isTest) {
        const sample = { status: 'SUCCESS', data: SAMPLE_TRADES, meta: describe(false) };
        return { headers: HEADERS, body: JSON.stringify(sample), rows: () => SAMPLE_TRADES.length };
      }
      const tail = (truncated: boolean) => `],"meta":${JSON.stringify(describe(truncated))}}`;
      const rowLimit = describe(false).row_limit;
      return { headers: HEADERS, ...(await run({ sql, rowLimit, tail, owner: caller.id, signal })) };
    },
  };
}

/** Any value that is not text counts as missing: the specification has no other error for the body. */
const readingSchema = z.object({
  api_key: portalRequestSchema.shape.api_key.min(1).optional().catch(undefined),
  sql: portalRequestSchema.shape.sql.trim().min(1).optional().catch(undefined),
});

const KEY_MISSING = 'API key is required';
const SQL_MISSING = 'SQL query is required in the request body';

export function createPortal(gate: Gate, run: RunQuery, limits: RowLimits): Route {
  return {
    ...ENTRY,
    name: 'portal',
    operationId: 'queryHistoricalPortal',
    path: PORTAL_PATH,
    isPortal: true,
    summary: 'Run a SQL query over historical option trades, at the separate address',
    description: `${SQL_RULES} There is no meta: rows beyond the row limit are dropped without notice.`,
    security: ['body'],
    request: portalRequestSchema,
    success: { description: 'The rows.', schema: portalSuccessSchema },
    failures: {
      ...FAILURES,
      400: {
        description: 'The key is missing, the SQL is not a SELECT, or sql is missing (whose text is named message).',
        schema: [portalRefusalSchema, portalSqlMissingSchema],
      },
    },
    answer: async ({ body, address, signal }) => {
      const { api_key: apiKey, sql } = readingSchema.catch({}).parse(body ?? {});
      if (apiKey === undefined) throw invalidRequest(KEY_MISSING);
      if (sql === undefined) throw invalidRequest(SQL_MISSING);
      const caller = await gate.enter({ apiKey, address }, 'historical');
      const rowLimit = describeMeta(caller, limits).row_limit;
      return await run({ sql, rowLimit, tail: () => ']}', owner: caller.id, signal });
    },
    // The documented 400 bodies contain only one text; one of them uses `message` instead of `errorMsg`.
    translate: (failure) => {
      const { status, errorCode, message, details } = failure;
      if (status !== 400) return failure;
      const text = message === SQL_MISSING ? { message } : { errorMsg: message };
      return new ApiFailure(status, errorCode, message, { ...details, body: { status: 'ERROR', ...text } });
    },
  };
}
