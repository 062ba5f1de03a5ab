/**
 * POST /api/option-chain: the contracts of one symbol at the latest snapshot of a session. Order of checks: body (400),
 * key and pace (401, 403, 429), date and symbol (404), size (422). The filters select from the contracts of the
 * snapshot; if none matches, the answer is empty and not an error.
 */

import { setImmediate as pause } from 'node:timers/promises';
import {
  type ChainMeta,
  type ChainRequest,
  type ChainRow,
  chainFailureSchema,
  chainRequestSchema,
  chainSuccessSchema,
} from '../../api-contract/chain.ts';
import { CHAIN_PATH } from '../../api-contract/published-limits.ts';
import { SNAPSHOT_REFRESH_SECONDS } from '../../api-contract/snapshot.ts';
import type { Gate } from '../access/gate.ts';
import { ApiFailure, internalError, queryTimeout, toApiFailure } from '../http/api-failure.ts';
import { parseRequest, type Route, USUAL_FAILURES } from '../http/route.ts';
import type { Snapshot, SnapshotReader } from './snapshot.ts';

/** Rows to encode at a time, about 5 ms; other calls run in between. */
const ROWS_PER_PIECE = 2_000;

/** @param chainLimit maximum contracts per answer; more fails with REQUEST_TOO_BROAD */
export function createChain(gate: Pick<Gate, 'enter'>, reader: SnapshotReader, chainLimit: number): Route {
  return {
    name: 'chain',
    operationId: 'readOptionChain',
    method: 'POST',
    path: CHAIN_PATH,
    summary: 'Option chain of one underlying',
    description:
      'Calls and puts across strikes and expirations, for the latest session or an explicit date. The latest session is ' +
      `refreshed about every ${SNAPSHOT_REFRESH_SECONDS} seconds during U.S. market hours. A filter that matches no ` +
      'contract gives 200 with empty data. Sustained traffic of 1 request per second, bursts of at most 10.',
    tag: 'Snapshots',
    security: ['body', 'session'],
    request: chainRequestSchema,
    success: { description: 'The contracts.', schema: chainSuccessSchema },
    failureSchema: chainFailureSchema,
    failures: {
      ...USUAL_FAILURES,
      400: 'The body is not valid, e.g. an impossible calendar date: INVALID_REQUEST.',
      403: 'No realtime entitlement: SUBSCRIPTION_REQUIRED.',
      404: 'No chain is stored for the date (SNAPSHOT_NOT_FOUND), or none of the symbol (SYMBOL_NOT_FOUND).',
      422: 'The chain is too large, narrow the filters: REQUEST_TOO_BROAD.',
    },
    answer: async ({ body, session, address, signal }) => {
      const request = parseRequest(chainRequestSchema, dropEmpty(body));
      await gate.enter({ apiKey: request.api_key, session, address }, 'chain');
      const snapshot = await reader.read(request, signal).catch((error: unknown) => {
        throw toSnapshotFailure(error);
      });
      const rows = filterContracts(snapshot.contracts, request);
      if (rows.length > chainLimit) {
        throw new ApiFailure(
          422,
          'REQUEST_TOO_BROAD',
          `${rows.length} contracts match, and one answer has at most ${chainLimit}; narrow the filters.`,
        );
      }
      return { body: writeChain(rows, describeChain(snapshot, rows.length)), rows: () => rows.length };
    },
  };
}

/** The failure for a snapshot that could not be read. The SQL is the service's own, so the caller is never at fault. */
function toSnapshotFailure(error: unknown): ApiFailure {
  if (error instanceof DOMException && error.name === 'TimeoutError') return queryTimeout(error);
  const failure = toApiFailure(error, '');
  return failure.status === 422 ? internalError(error) : failure;
}

/** Forms send an empty field as empty text: treat it as absent. The symbol is required, so it stays. */
function dropEmpty(body: unknown): unknown {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return body;
  return Object.fromEntries(Object.entries(body).filter(([name, value]) => value !== '' || name === 'symbol'));
}

function filterContracts(contracts: readonly ChainRow[], request: ChainRequest): readonly ChainRow[] {
  const { expiration_date, put_call, strike, strike_min = 0, strike_max = Number.POSITIVE_INFINITY } = request;
  return contracts.filter(
    (row) =>
      (expiration_date === undefined || row.expiration_date === expiration_date) &&
      (put_call === undefined || row.put_call === put_call) &&
      (strike === undefined || row.strike === strike) &&
      row.strike >= strike_min &&
      row.strike <= strike_max,
  );
}

function describeChain(snapshot: Snapshot, contracts: number): ChainMeta {
  const { symbol, date, chainAsOfMs, nextMs, spot, source } = snapshot;
  // A chain from a file never changes, even during the session.
  const refreshMs = source === 'file' ? undefined : nextMs;
  return {
    symbol,
    date,
    as_of: new Date(chainAsOfMs).toISOString(),
    session: refreshMs === undefined ? 'CLOSED' : 'OPEN',
    next_refresh: refreshMs === undefined ? null : new Date(refreshMs).toISOString(),
    spot: spot ?? null,
    contracts,
    total_contracts: snapshot.contracts.length,
    source,
  };
}

/** The body of an answer, in pieces so that other callers are served in between. */
async function* writeChain(contracts: readonly ChainRow[], meta: ChainMeta): AsyncGenerator<Uint8Array> {
  yield Buffer.from('{"data":[');
  for (let at = 0; at < contracts.length; at += ROWS_PER_PIECE) {
    const piece = contracts.slice(at, at + ROWS_PER_PIECE).map((row) => JSON.stringify(row));
    yield Buffer.from(`${at === 0 ? '\n' : ',\n'}${piece.join(',\n')}`);
    await pause();
  }
  yield Buffer.from(`],"meta":${JSON.stringify(meta)}}`);
}
