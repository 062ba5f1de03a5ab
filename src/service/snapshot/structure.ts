/** Builds the market-structure answer from a snapshot: gamma exposure, flow, and their instants. Pure. */

import type { ChainRow } from '../../api-contract/chain.ts';
import type { MarketStructureSuccess, Structure } from '../../api-contract/market-structure.ts';
import { isSettledAtOpen } from '../../calendar/am-settlement.ts';
import type { OptionContract } from '../../exposure/contract.ts';
import { type GammaExposure, type GammaSums, sumGammaExposure } from '../../exposure/gamma-exposure.ts';
import { computeZeroGamma } from '../../exposure/zero-gamma.ts';
import { describeFlow, describeSymbol } from './flow.ts';
import type { Snapshot } from './snapshot.ts';

/** Characters of an option symbol after its root. */
const SYMBOL_TAIL = 15;

/** Cost: one pass over the contracts for the sums and sixty for zero gamma; about 20 ms for a whole SPX chain. */
export function describeMarket(snapshot: Snapshot): MarketStructureSuccess {
  const { symbol, date, spot, flow } = snapshot;
  const chainAsOf = new Date(snapshot.chainAsOfMs).toISOString();
  const contracts = snapshot.contracts.map((row) => readContract(row, date));
  const gex = spot === undefined ? undefined : sumGammaExposure(spot, contracts);
  const zeroGamma = spot === undefined ? null : computeZeroGamma(spot, date, contracts);
  return {
    data: {
      symbol,
      symbol_meta: describeSymbol(flow),
      flow: describeFlow(flow),
      intraday_gex: spot !== undefined && gex ? { spot, call_gex: gex.callGex, put_gex: gex.putGex } : null,
      structure: describeStructure(snapshot, gex, zeroGamma),
    },
    meta: {
      effective_date: date,
      structure_as_of: chainAsOf,
      flow_as_of: new Date(snapshot.flowAsOfMs).toISOString(),
      intraday_gex_as_of: gex ? chainAsOf : null,
    },
  };
}

function describeStructure(
  { source, spot, contracts }: Snapshot,
  gex: GammaExposure | undefined,
  zeroGamma: number | null,
): Structure {
  const sums = gex ? describeSums(gex) : { call_gex: null, put_gex: null, net_gex: null };
  return {
    source,
    spot: spot ?? null,
    contracts: contracts.length,
    ...sums,
    zero_gamma: zeroGamma,
    call_wall: gex?.callWall ?? null,
    put_wall: gex?.putWall ?? null,
    gex_by_strike: (gex?.strikes ?? []).map((strike) => ({
      strike: strike.strike,
      ...describeSums(strike),
      call_oi: strike.callOpenInterest,
      put_oi: strike.putOpenInterest,
    })),
    gex_by_expiration: (gex?.expirations ?? []).map((expiration) => ({
      expiration_date: expiration.expirationDate,
      ...describeSums(expiration),
    })),
  };
}

function describeSums({ callGex, putGex, netGex }: GammaSums) {
  return { call_gex: callGex, put_gex: putGex, net_gex: netGex };
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
