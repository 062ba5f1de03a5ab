/**
 * The main entry point, POST /api/historical/sql. Order of checks: method, body (400), key (401), pace (429), sample when
 * `test_mode`, guardrails (400), analysis and limits (422), then rows. Bodies as in the specification.
 */

import { type ErrorBody, type HistoricalMeta, type HistoricalRequest, requestSchema } from '../wire/historical.ts';
import { DELAY_HEADER, HISTORICAL_PATH, LOOKBACK_DAYS, MINIMUM_DATA_DELAY_MINUTES } from '../wire/limits.ts';
import { type ApiFailure, invalidRequest } from './failure.ts';
import type { Gate } from './gate.ts';
import type { Answer, EntryPoint } from './listener.ts';
import type { QueryRunner } from './query.ts';
import { SAMPLE_ROWS, writeSample } from './sample.ts';

export interface EntryDependencies {
  readonly gate: Gate;
  readonly runner: QueryRunner;
  readonly rowLimit: number;
}

export function createHistorical({ gate, runner, rowLimit }: EntryDependencies): EntryPoint {
  return {
    name: 'historical',
    path: HISTORICAL_PATH,
    answer: async (body) => {
      const request = parseRequest(body);
      gate.enter(request.api_key);
      if (request.test_mode) return writeSuccess(writeSample(), SAMPLE_ROWS, describeAnswer(rowLimit, false));
      const result = await runner.run(request.sql);
      return writeSuccess(result.json, result.rows, describeAnswer(rowLimit, result.truncated));
    },
    fail: (failure) => ({
      status: failure.status,
      headers: retryHeaders(failure),
      body: Buffer.from(JSON.stringify(errorBody(failure))),
      rows: 0,
    }),
  };
}

/** The specification's error body, members in its order. */
export function errorBody(failure: ApiFailure): ErrorBody {
  const { reason, hints } = failure.details;
  return {
    status: 'ERROR',
    errorCode: failure.errorCode,
    ...(reason ? { reason } : {}),
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

function describeAnswer(rowLimit: number, truncated: boolean): HistoricalMeta {
  return {
    entitlement: 'active',
    row_limit: rowLimit,
    capped: false,
    truncated,
    lookback_days: LOOKBACK_DAYS,
    minimum_data_delay_minutes: MINIMUM_DATA_DELAY_MINUTES,
  };
}

function writeSuccess(rowsJson: Uint8Array, rows: number, meta: HistoricalMeta): Answer {
  return {
    status: 200,
    headers: { [DELAY_HEADER]: String(MINIMUM_DATA_DELAY_MINUTES) },
    body: Buffer.concat([
      Buffer.from('{"status":"SUCCESS","data":'),
      rowsJson,
      Buffer.from(`,"meta":${JSON.stringify(meta)}}`),
    ]),
    rows,
  };
}
