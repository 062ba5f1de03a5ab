/**
 * The separate entry point, POST /api-portal/historical-trades-by-sql, on its own address. It has no `meta`: rows
 * beyond the limit are dropped silently. Order of checks: key present (400), sql present (400), key valid (401),
 * entitlement (403), pace (429), guardrails (400), then as at the main entry point. Sessions are not accepted: the
 * specification requires the key here.
 */
import { z } from 'zod';
import { portalRequestSchema } from '../../api-contract/portal.ts';
import { describeLimits } from '../access/entitlement.ts';
import { type ApiFailure, invalidRequest } from '../http/api-failure.ts';
import type { Endpoint } from '../http/endpoint.ts';
import { QUERY_HISTORICAL_PORTAL } from '../openapi/openapi-historical.ts';
import { type EntryParts, errorBody, HEAD, retryHeaders } from './historical.ts';

/** Any value that is not text counts as missing: the specification has no other error for the body. */
const readingSchema = z.object({
  api_key: portalRequestSchema.shape.api_key.min(1).optional().catch(undefined),
  sql: portalRequestSchema.shape.sql.trim().min(1).optional().catch(undefined),
});

const SQL_MISSING = 'SQL query is required in the request body';

export function createPortal({ gate, runner, limits }: EntryParts): Endpoint {
  return {
    name: 'portal',
    operation: QUERY_HISTORICAL_PORTAL,
    answer: async ({ body, address, signal }) => {
      const { api_key: apiKey, sql } = readingSchema.catch({}).parse(body ?? {});
      if (apiKey === undefined) throw invalidRequest('API key is required');
      if (sql === undefined) throw invalidRequest(SQL_MISSING);
      const caller = await gate.enter({ apiKey, address }, 'historical');
      const { rowLimit } = describeLimits(caller, limits);
      const frame = { head: HEAD, tail: () => ']}' };
      const rows = await runner.run({ sql, rowLimit, frame, owner: caller.id, signal });
      return { status: 200, headers: {}, body: rows };
    },
    fail: (failure) => ({
      status: failure.status,
      headers: retryHeaders(failure),
      body: Buffer.from(JSON.stringify(portalBody(failure))),
    }),
  };
}

/** The three documented 400 bodies contain only one text; one of them uses `message` instead of `errorMsg`. */
function portalBody(failure: ApiFailure): object {
  if (failure.status !== 400) return errorBody(failure);
  if (failure.message === SQL_MISSING) return { status: 'ERROR', message: SQL_MISSING };
  return { status: 'ERROR', errorMsg: failure.message };
}
