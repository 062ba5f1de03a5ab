/**
 * The main entry point, POST /api/historical/sql. Order of checks: method, body (400), key (401), entitlement (403),
 * pace (429), sample when `test_mode`, guardrails (400), analysis and limits (422), then rows. Bodies follow the
 * specification.
 */
import {
  type ErrorBody,
  type HistoricalMeta,
  type HistoricalRequest,
  requestSchema,
} from '../../api-contract/historical.ts';
import { DELAY_HEADER, MINIMUM_DATA_DELAY_MINUTES } from '../../api-contract/published-limits.ts';
import { describeLimits, type RowLimits } from '../access/entitlement.ts';
import type { Gate } from '../access/gate.ts';
import { type ApiFailure, invalidRequest } from '../http/api-failure.ts';
import type { Endpoint, EndpointAnswer } from '../http/endpoint.ts';
import { QUERY_HISTORICAL } from '../openapi/openapi-historical.ts';
import { omitFromExamples } from '../openapi/openapi-operation.ts';
import type { QueryRunner } from './query-runner.ts';
import { SAMPLE_ROWS, writeSample } from './sample.ts';

export interface EntryParts {
  readonly gate: Gate;
  readonly runner: QueryRunner;
  readonly limits: RowLimits;
}

/** Head of an answer with rows. The rows come first, because part of `meta` is known only at their end. */
export const HEAD = '{"status":"SUCCESS","data":[';
const HEADERS = { [DELAY_HEADER]: String(MINIMUM_DATA_DELAY_MINUTES) } as const;

export function createHistorical({ gate, runner, limits }: EntryParts): Endpoint {
  return {
    name: 'historical',
    operation:
      limits.lookbackDays === undefined ? omitFromExamples(QUERY_HISTORICAL, 'lookback_days') : QUERY_HISTORICAL,
    answer: async ({ body, session, address, signal }) => {
      const request = parseRequest(body);
      const caller = await gate.enter({ apiKey: request.api_key, session, address }, 'historical');
      const allowed = describeLimits(caller, limits);
      const describe = (truncated: boolean): HistoricalMeta => ({
        entitlement: allowed.entitlement,
        row_limit: allowed.rowLimit,
        capped: allowed.capped,
        truncated,
        lookback_days: allowed.lookbackDays,
        minimum_data_delay_minutes: MINIMUM_DATA_DELAY_MINUTES,
      });
      if (request.test_mode) return writeTestAnswer(describe(false));
      const frame = { head: HEAD, tail: (truncated: boolean) => `],"meta":${JSON.stringify(describe(truncated))}}` };
      const { rowLimit } = allowed;
      const rows = await runner.run({ sql: request.sql, rowLimit, frame, owner: caller.id, signal });
      return { status: 200, headers: HEADERS, body: rows };
    },
    fail: (failure) => ({
      status: failure.status,
      headers: retryHeaders(failure),
      body: Buffer.from(JSON.stringify(errorBody(failure))),
    }),
  };
}

/** The specification's error body, with members in the specification's order. */
export function errorBody(failure: ApiFailure): ErrorBody {
  const { reason, hints } = failure.details;
  return {
    status: 'ERROR',
    errorCode: failure.errorCode,
    reason,
    ...(hints ? { hints: [...hints] } : {}),
    errorMsg: failure.message,
  };
}

export function retryHeaders(failure: ApiFailure): Readonly<Record<string, string>> {
  const seconds = failure.details.retryAfterSeconds;
  return seconds === undefined ? {} : { 'retry-after': String(seconds) };
}

/** @throws ApiFailure INVALID_REQUEST */
function parseRequest(body: unknown): HistoricalRequest {
  const parsed = requestSchema.safeParse(body ?? {});
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    const where = issue && issue.path.length > 0 ? `${issue.path.join('.')}: ` : '';
    throw invalidRequest(`The request body is not valid: ${where}${issue?.message ?? 'unknown shape'}.`);
  }
  if (parsed.data.sql.trim() === '') throw invalidRequest('The request body is not valid: sql is empty.');
  return parsed.data;
}

function writeTestAnswer(meta: HistoricalMeta): EndpointAnswer {
  const body = Buffer.concat([
    Buffer.from('{"status":"SUCCESS","data":'),
    writeSample(),
    Buffer.from(`,"meta":${JSON.stringify(meta)}}`),
  ]);
  return { status: 200, headers: HEADERS, body, rows: SAMPLE_ROWS };
}
