/**
 * GET /api/v1/market-structure/{symbol}: dealer gamma exposure and flow of one symbol at the latest snapshot of a
 * session. Order of checks: symbol and date (400), key and pace (401, 403, 429), snapshot (404, 503). The key is
 * accepted in the Authorization header only.
 */

import { marketStructureRequestSchema } from '../../api-contract/market-structure.ts';
import { Fault } from '../../core/errors.ts';
import { ApiFailure, BUSY_RETRY_SECONDS, internalError } from '../http/api-failure.ts';
import type { Call, Endpoint, EndpointAnswer } from '../http/endpoint.ts';
import { READ_MARKET_STRUCTURE } from '../openapi/openapi-snapshots.ts';
import type { Snapshot, SnapshotReader } from './snapshot.ts';
import { answerFailure, type Entrance, parseRequest } from './snapshot-answer.ts';
import { describeMarket } from './structure.ts';

interface MarketStructureParts {
  readonly gate: Entrance;
  readonly reader: SnapshotReader;
}

export function createMarketStructure({ gate, reader }: MarketStructureParts): Endpoint {
  /** Encoded answers, kept as long as their snapshots. */
  const answers = new WeakMap<Snapshot, Uint8Array>();
  return { name: 'market-structure', operation: READ_MARKET_STRUCTURE, answer, fail };

  async function answer(call: Call): Promise<EndpointAnswer> {
    const request = parseRequest(marketStructureRequestSchema, {
      symbol: call.params['symbol'],
      date: call.query['date'],
    });
    await gate.enter({ apiKey: readBearer(call.authorization), address: call.address }, 'market-structure');
    const snapshot = await reader.read(request, call.signal).catch((error: unknown) => {
      throw toMarketFailure(error);
    });
    const body = answers.get(snapshot) ?? Buffer.from(JSON.stringify(describeMarket(snapshot)));
    answers.set(snapshot, body);
    return { status: 200, headers: {}, body };
  }
}

/** The listener reports a call that exceeds its deadline as 504; this endpoint answers 503 instead. */
function fail(failure: ApiFailure): EndpointAnswer {
  return answerFailure(failure.status === 504 ? unavailable(failure) : failure);
}

/** The key of `Bearer KEY`; the scheme name is case-insensitive (RFC 9110, section 11.1). */
function readBearer(authorization: string | undefined): string | undefined {
  return /^bearer +(\S+) *$/i.exec(authorization ?? '')?.[1];
}

function toMarketFailure(error: unknown): ApiFailure {
  if (error instanceof ApiFailure && error.status === 404) {
    // This endpoint has one code for an unknown date and for an unknown symbol.
    return new ApiFailure(404, 'SNAPSHOT_NOT_FOUND', error.message);
  }
  // Engine faults, and time-outs and other aborts raised by a signal.
  if (error instanceof Fault || error instanceof DOMException) return unavailable(error);
  return internalError(error);
}

function unavailable(cause: unknown): ApiFailure {
  return new ApiFailure(503, 'SNAPSHOT_UNAVAILABLE', 'The snapshot is not available now; try again in a moment.', {
    retryAfterSeconds: BUSY_RETRY_SECONDS,
    cause,
  });
}
