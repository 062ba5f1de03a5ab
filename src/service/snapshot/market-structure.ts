/**
 * GET /api/v1/market-structure/{symbol}: dealer gamma exposure and flow of one symbol at the latest snapshot of a
 * session. Order of checks: symbol and date (400), key and pace (401, 403, 429), snapshot (404, 503). The key is
 * accepted in the Authorization header only.
 */

import type { ChainRow } from '../../api-contract/chain.ts';
import {
  type Flow,
  type MarketStructureSuccess,
  marketStructureFailureSchema,
  marketStructureRequestSchema,
  marketStructureSuccessSchema,
} from '../../api-contract/market-structure.ts';
import { MARKET_STRUCTURE_PATH } from '../../api-contract/published-limits.ts';
import { SYMBOL_TAIL } from '../../api-contract/trade.ts';
import { isSettledAtOpen } from '../../calendar/holidays.ts';
import { Fault } from '../../core/errors.ts';
import { listZeroGammas, type OptionContract, sumGammaExposure } from '../../exposure/gamma-exposure.ts';
import type { Gate } from '../access/gate.ts';
import { ApiFailure, BUSY_RETRY_SECONDS, internalError } from '../http/api-failure.ts';
import { parseRequest, type Route, USUAL_FAILURES } from '../http/route.ts';
import type { Snapshot, SnapshotReader } from './snapshot.ts';
import type { FlowRow } from './snapshot-sql.ts';

const { 504: _none, ...FAILURES } = USUAL_FAILURES;

export function createMarketStructure(gate: Pick<Gate, 'enter'>, reader: SnapshotReader): Route {
  /** Encoded answers, kept as long as their snapshots. */
  const answers = new WeakMap<Snapshot, Uint8Array>();
  return {
    name: 'market-structure',
    operationId: 'readMarketStructure',
    method: 'GET',
    path: MARKET_STRUCTURE_PATH,
    summary: 'Market structure of one underlying',
    description:
      'Symbol metadata, flow, intraday GEX summary and structure, for the active snapshot or a retained historical date.',
    tag: 'Snapshots',
    security: ['bearer'],
    pathParameters: marketStructureRequestSchema.pick({ symbol: true }),
    queryParameters: marketStructureRequestSchema.pick({ date: true }),
    success: { description: 'The snapshot.', schema: marketStructureSuccessSchema },
    failureSchema: marketStructureFailureSchema,
    failures: {
      ...FAILURES,
      400: 'Symbol or date is not valid: INVALID_REQUEST.',
      403: 'No realtime entitlement: SUBSCRIPTION_REQUIRED.',
      404: 'There is no such snapshot: SNAPSHOT_NOT_FOUND.',
      503: 'The snapshot is not available now, or not in time: SNAPSHOT_UNAVAILABLE.',
    },
    answer: async ({ params, query, authorization, address, signal }) => {
      const asked = { symbol: params['symbol'], date: query['date'] };
      const request = parseRequest(marketStructureRequestSchema, asked);
      await gate.enter({ apiKey: readBearer(authorization), address }, 'market-structure');
      const snapshot = await reader.read(request, signal).catch((error: unknown) => {
        throw toMarketFailure(error);
      });
      const body = answers.get(snapshot) ?? Buffer.from(JSON.stringify(describeMarket(snapshot)));
      answers.set(snapshot, body);
      return { body };
    },
    // The listener reports a call that exceeds its deadline as 504; here it is 503.
    translate: (failure) => (failure.status === 504 ? unavailable(failure) : failure),
  };
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

/** Of a chain without a price of the underlying. */
const NO_EXPOSURE = {
  call_gex: null,
  put_gex: null,
  net_gex: null,
  call_wall: null,
  put_wall: null,
  gex_by_strike: [],
  gex_by_expiration: [],
};

/** Cost: a few passes over the contracts for the sums and sixty for zero gamma; about 20 ms for a whole SPX chain. */
function describeMarket(snapshot: Snapshot): MarketStructureSuccess {
  const { symbol, date, source, spot, flow } = snapshot;
  const chainAsOf = new Date(snapshot.chainAsOfMs).toISOString();
  const contracts = snapshot.contracts.map((row) => readContract(row, date));
  const gex = spot === undefined ? undefined : sumGammaExposure(spot, contracts);
  const { call_gex, put_gex, net_gex, ...structure } = gex ?? NO_EXPOSURE;
  return {
    data: {
      symbol,
      symbol_meta: {
        underlying_type: flow.underlying_type || null,
        market_cap: flow.market_cap || null,
        earning_date: flow.earning_date || null,
      },
      flow: describeFlow(flow),
      intraday_gex: spot !== undefined && gex ? { spot, call_gex: gex.call_gex, put_gex: gex.put_gex } : null,
      structure: {
        source,
        spot: spot ?? null,
        contracts: contracts.length,
        call_gex,
        put_gex,
        net_gex,
        zero_gamma: spot === undefined ? null : (listZeroGammas(spot, date, contracts)[0] ?? null),
        ...structure,
      },
    },
    meta: {
      effective_date: date,
      structure_as_of: chainAsOf,
      flow_as_of: new Date(snapshot.flowAsOfMs).toISOString(),
      intraday_gex_as_of: gex ? chainAsOf : null,
    },
  };
}

/** A contract that settled at the opening of the date has no gamma left. */
function readContract(row: ChainRow, date: string): OptionContract {
  const root = row.option_symbol.replaceAll(' ', '').slice(0, -SYMBOL_TAIL);
  const isSettled = row.expiration_date === date && isSettledAtOpen(root, date);
  return {
    putCall: row.put_call,
    strike: row.strike,
    expirationDate: row.expiration_date,
    iv: row.iv,
    gamma: row.gamma,
    openInterest: isSettled ? 0 : row.open_interest,
  };
}

function describeFlow(row: FlowRow): Flow {
  const { spot: _spot, underlying_type: _type, market_cap: _cap, earning_date: _date, ...sums } = row;
  const net = row.bullish_premium - row.bearish_premium;
  return {
    ...sums,
    net_premium: net,
    sentiment: net > 0 ? 'BULLISH' : net < 0 ? 'BEARISH' : 'NEUTRAL',
    neutral_share: divide(row.neutral_premium, row.total_premium),
    put_call_premium_ratio: divide(row.put_premium, row.call_premium),
    put_call_volume_ratio: divide(row.put_contracts, row.call_contracts),
  };
}

function divide(part: number, whole: number): number | null {
  return whole === 0 ? null : part / whole;
}
