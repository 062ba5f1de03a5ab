/** Interface description of the two historical SQL entry points. A table of data. */
import { TOO_BROAD_HINTS } from '../../api-contract/historical.ts';
import {
  HISTORICAL_PATH,
  LOOKBACK_DAYS,
  MINIMUM_DATA_DELAY_MINUTES,
  PORTAL_PATH,
} from '../../api-contract/published-limits.ts';
import { writeSample } from '../historical/sample.ts';
import { JSON_OR_FORM, type Operation, type OperationResponse } from './openapi-operation.ts';

const SQL_RULES =
  'One SELECT over RawOptionTrades (all historical trades) or RawOptionTradesMaxDateOnlyMV (the most recent date only, ' +
  'faster); names are case-insensitive and any other table is an error. Standard functions, WHERE, GROUP BY, ORDER BY and ' +
  'LIMIT are allowed; INSERT, UPDATE, DELETE, DROP, CREATE, ALTER, UNION and stored procedures are not. Every record is ' +
  'one trade: build aggregates with SUM, COUNT and GROUP BY.';

const QUERY = "SELECT * FROM RawOptionTrades WHERE date = '2025-03-03' AND symbol = 'SPY' ORDER BY time LIMIT 2";
const KEY = 'cus_0123456789abcdef';

/** The rows returned for `test_mode`. */
const SAMPLE = JSON.parse(Buffer.from(writeSample()).toString('utf8')) as unknown;

const META = {
  entitlement: 'active',
  row_limit: 10_000,
  capped: false,
  truncated: false,
  lookback_days: LOOKBACK_DAYS,
  minimum_data_delay_minutes: MINIMUM_DATA_DELAY_MINUTES,
};

const failure = (errorCode: string, errorMsg: string, more: object = {}) => ({
  status: 'ERROR',
  errorCode,
  ...more,
  errorMsg,
});

const TOO_BROAD = failure('QUERY_TOO_BROAD', 'The query reads or holds more than the service allows.', {
  reason: 'SCAN_LIMIT_EXCEEDED',
  hints: [...TOO_BROAD_HINTS],
});

/** Failures that both entry points share. */
const FAILURES: readonly OperationResponse[] = [
  {
    status: 401,
    description: 'The key is missing or not valid: UNAUTHORIZED.',
    schema: 'HistoricalFailure',
    examples: { unauthorized: failure('UNAUTHORIZED', 'The API key is missing or not valid.') },
  },
  { status: 403, description: 'The caller is not entitled: SUBSCRIPTION_REQUIRED.', schema: 'HistoricalFailure' },
  {
    status: 405,
    description: 'A method other than POST: METHOD_NOT_ALLOWED.',
    schema: 'HistoricalFailure',
    headers: ['Allow'],
  },
  {
    status: 422,
    description:
      'The query cannot be analyzed (INVALID_QUERY, with a reason), or it exceeds the scan limits (QUERY_TOO_BROAD, with ' +
      'hints): do not send the same query again.',
    schema: 'HistoricalFailure',
    examples: {
      unknown_column: failure('INVALID_QUERY', 'The query names a column or table that does not exist: strikes.', {
        reason: 'UNKNOWN_IDENTIFIER',
      }),
      too_broad: TOO_BROAD,
    },
  },
  {
    status: 429,
    description: 'Too many requests: RATE_LIMITED. Wait as long as Retry-After says.',
    schema: 'HistoricalFailure',
    headers: ['Retry-After'],
  },
  {
    status: 500,
    description: 'The service failed: INTERNAL_ERROR. The same request may succeed later.',
    schema: 'HistoricalFailure',
  },
  { status: 504, description: 'The query took too long and was stopped: QUERY_TIMEOUT.', schema: 'HistoricalFailure' },
];

export const QUERY_HISTORICAL: Operation = {
  operationId: 'queryHistorical',
  method: 'POST',
  path: HISTORICAL_PATH,
  summary: 'Run a SQL query over historical option trades',
  description: SQL_RULES,
  tag: 'Historical SQL',
  security: ['body', 'session'],
  request: {
    contentTypes: JSON_OR_FORM,
    schema: 'HistoricalRequest',
    examples: {
      trades: { api_key: KEY, sql: QUERY },
      aggregate: {
        api_key: KEY,
        sql: "SELECT symbol, sum(premium) AS total_premium FROM RawOptionTrades WHERE date = '2025-03-03' GROUP BY symbol",
      },
      sample: { api_key: KEY, sql: 'SELECT * FROM RawOptionTrades LIMIT 1', test_mode: true },
    },
  },
  responses: [
    {
      status: 200,
      description: 'The rows. When meta.truncated is true, rows beyond meta.row_limit were dropped.',
      schema: 'HistoricalSuccess',
      headers: ['X-Service-Historical-Sql-Minimum-Data-Delay-Minutes'],
      examples: {
        trades: { status: 'SUCCESS', data: SAMPLE, meta: META },
        aggregate: { status: 'SUCCESS', data: [{ symbol: 'SPY', total_premium: 2570 }], meta: META },
      },
    },
    {
      status: 400,
      description: 'The body is not valid (INVALID_REQUEST), or the guardrails refuse the SQL (INVALID_SQL).',
      schema: 'HistoricalFailure',
      examples: {
        invalid_sql: failure('INVALID_SQL', 'Only one SELECT statement is allowed.'),
      },
    },
    ...FAILURES,
  ],
};

export const QUERY_HISTORICAL_PORTAL: Operation = {
  operationId: 'queryHistoricalPortal',
  method: 'POST',
  path: PORTAL_PATH,
  address: 'portal',
  summary: 'Run a SQL query over historical option trades, at the separate address',
  description: `${SQL_RULES} There is no meta: rows beyond the row limit are dropped without notice.`,
  tag: 'Historical SQL',
  security: ['body'],
  request: {
    contentTypes: JSON_OR_FORM,
    schema: 'PortalRequest',
    examples: { trades: { api_key: KEY, sql: QUERY } },
  },
  responses: [
    {
      status: 200,
      description: 'The rows.',
      schema: 'PortalSuccess',
      examples: { trades: { status: 'SUCCESS', data: SAMPLE } },
    },
    {
      status: 400,
      description: 'The key is missing, the SQL is not a SELECT, or sql is missing (whose text is named message).',
      schema: ['PortalRefusal', 'PortalSqlMissing'],
      examples: {
        key_missing: { status: 'ERROR', errorMsg: 'API key is required' },
        not_select: { status: 'ERROR', errorMsg: 'Only SELECT queries are allowed' },
        sql_missing: { status: 'ERROR', message: 'SQL query is required in the request body' },
      },
    },
    ...FAILURES,
  ],
};
