/** Rows of tables with their own layout: the watchlist, and the records left out. Pure. */

import { formatCount, formatDecimal, formatDollars, formatSignedDollars } from '../../core/units.ts';
import { leanOf } from '../amount.ts';
import type { Exclusions, Tally, WatchedSymbol } from '../model.ts';
import type { Premium } from '../numbers.ts';
import { toneOf } from './bar.ts';
import { formatRatio, formatTimes, NONE, nameSymbol } from './label.ts';

const FAR_RATIO = 2;

export function buildWatchRow({ symbol, flow, exposure, unusual }: WatchedSymbol) {
  const priced = exposure !== null && exposure.spot !== null;
  const lean = flow === null ? null : leanOf(flow);
  return {
    symbol: nameSymbol(symbol),
    traded: flow !== null,
    place: flow === null ? NONE : `#${formatCount(flow.place)}`,
    premium: flow === null ? NONE : formatDollars(flow.total),
    putCall: formatRatio(flow?.putCallByPremium ?? null),
    // Bullish minus bearish premium with its sign; `tone` says which is larger.
    lean: flow === null ? NONE : formatSignedDollars(lean),
    tone: toneOf(lean),
    gex: priced ? formatSignedDollars(exposure.netGex) : NONE,
    zeroGamma: priced && exposure.zeroGamma !== null ? formatDecimal(exposure.zeroGamma) : NONE,
    // `4.3 ×` its mean, if that is far from it; a smaller difference is noise.
    unusual: unusual === null || !isFar(unusual.ratio) ? '' : formatTimes(unusual.ratio),
  };
}

/** Twice its mean or more, half of it or less. */
function isFar(ratio: number): boolean {
  return ratio >= FAR_RATIO || ratio <= 1 / FAR_RATIO;
}

/** One row per kind of records left out, between the counted records and the total of the file. */
export function buildExclusionRows(counted: Premium, left: Exclusions) {
  const row = (name: string, { trades, premium }: Tally) => ({
    name,
    trades: formatCount(trades),
    premium: formatDollars(premium),
  });
  return [
    row('Counted above', { trades: counted.trades, premium: counted.total }),
    row('Cancel messages', left.cancelMessages),
    row('Prints they cancel', left.cancelledPrints),
    row('Late reports', left.lateReports),
    row('Recorded in the file', left.recorded),
  ];
}
