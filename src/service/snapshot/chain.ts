/**
 * POST /api/option-chain: the contracts of one symbol at the latest snapshot of a session. Order of checks: body (400),
 * key and pace (401, 403, 429), date and symbol (404), size (422). The filters select from the contracts of the
 * snapshot; if none matches, the answer is empty and not an error.
 */

import { setImmediate as pause } from 'node:timers/promises';
import {
  CHAIN_LIMIT,
  type ChainMeta,
  type ChainRequest,
  type ChainRow,
  chainRequestSchema,
} from '../../api-contract/chain.ts';
import { ApiFailure } from '../http/api-failure.ts';
import type { Call, CountedBody, Endpoint, EndpointAnswer } from '../http/endpoint.ts';
import { READ_OPTION_CHAIN } from '../openapi/openapi-snapshots.ts';
import type { Snapshot, SnapshotReader } from './snapshot.ts';
import { answerFailure, type Entrance, parseRequest, toSnapshotFailure } from './snapshot-answer.ts';

interface ChainParts {
  readonly gate: Entrance;
  readonly reader: SnapshotReader;
  /** Maximum contracts per answer; more fails with REQUEST_TOO_BROAD. Default: 25,000. */
  readonly chainLimit?: number;
}

/** Rows to encode at a time, about 5 ms; other calls run in between. */
const ROWS_PER_PIECE = 2_000;

export function createChain({ gate, reader, chainLimit = CHAIN_LIMIT }: ChainParts): Endpoint {
  return { name: 'chain', operation: READ_OPTION_CHAIN, answer, fail: answerFailure };

  async function answer(call: Call): Promise<EndpointAnswer> {
    const request = parseRequest(chainRequestSchema, dropEmpty(call.body));
    await gate.enter({ apiKey: request.api_key, session: call.session, address: call.address }, 'chain');
    const snapshot = await reader.read(request, call.signal).catch((error: unknown) => {
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
    return { status: 200, headers: {}, body: new ChainBody(rows, describeChain(snapshot, rows.length)) };
  }
}

/** Forms send an empty field as empty text: treat it as absent. The symbol is required, so it stays. */
function dropEmpty(body: unknown): unknown {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return body ?? {};
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

/** The body of an answer, written in pieces so that other callers are served in between. */
class ChainBody implements CountedBody {
  readonly rows: number;
  readonly #contracts: readonly ChainRow[];
  readonly #meta: ChainMeta;
  #bytes = 0;

  constructor(contracts: readonly ChainRow[], meta: ChainMeta) {
    this.rows = contracts.length;
    this.#contracts = contracts;
    this.#meta = meta;
  }

  get bytes(): number {
    return this.#bytes;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    yield this.#write('{"data":[');
    for (let at = 0; at < this.rows; at += ROWS_PER_PIECE) {
      const piece = this.#contracts.slice(at, at + ROWS_PER_PIECE).map((row) => JSON.stringify(row));
      yield this.#write(`${at === 0 ? '\n' : ',\n'}${piece.join(',\n')}`);
      await pause();
    }
    yield this.#write(`],"meta":${JSON.stringify(this.#meta)}}`);
  }

  #write(text: string): Uint8Array {
    const piece = Buffer.from(text);
    this.#bytes += piece.length;
    return piece;
  }
}
