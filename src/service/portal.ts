/**
 * The separate entry point, POST /api-portal/historical-trades-by-sql, on an address of its own. It has no `meta`: rows
 * beyond the limit are dropped without a word. Order of checks: key present (400), sql present (400), key valid (401),
 * pace (429), guardrails (400), then as at the main entry point.
 */
import { z } from 'zod';
import { PORTAL_PATH } from '../wire/limits.ts';
import { type ApiFailure, invalidRequest } from './failure.ts';
import { type EntryDependencies, errorBody, retryHeaders } from './historical.ts';
import type { EntryPoint } from './listener.ts';

/** Anything that is not text counts as missing: the specification knows no other failure of the body. */
const portalSchema = z.object({
  api_key: z.string().min(1).optional().catch(undefined),
  sql: z.string().trim().min(1).optional().catch(undefined),
});

const SQL_MISSING = 'SQL query is required in the request body';

export function createPortal({ gate, runner }: EntryDependencies): EntryPoint {
  return {
    name: 'portal',
    path: PORTAL_PATH,
    answer: async (body) => {
      const { api_key, sql } = portalSchema.catch({}).parse(body ?? {});
      if (api_key === undefined) throw invalidRequest('API key is required');
      if (sql === undefined) throw invalidRequest(SQL_MISSING);
      gate.enter(api_key);
      const { json, rows } = await runner.run(sql);
      return {
        status: 200,
        headers: {},
        body: Buffer.concat([Buffer.from('{"status":"SUCCESS","data":'), json, Buffer.from('}')]),
        rows,
      };
    },
    fail: (failure) => ({
      status: failure.status,
      headers: retryHeaders(failure),
      body: Buffer.from(JSON.stringify(portalBody(failure))),
      rows: 0,
    }),
  };
}

/** The three documented 400 bodies carry one text and nothing else; one of them under another name. */
function portalBody(failure: ApiFailure): object {
  if (failure.status !== 400) return errorBody(failure);
  if (failure.message === SQL_MISSING) return { status: 'ERROR', message: SQL_MISSING };
  return { status: 'ERROR', errorMsg: failure.message };
}
