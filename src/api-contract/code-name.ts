/**
 * Names for people of the codes in a trade record. A table of data, and its only owner: a code that it does not have is
 * shown as it came. Sources: for `option_activity_type` the message types of OPRA's last sale reports (OPRA Pillar Output
 * Specification, "Equity and Index Last Sale", Message Type; the letters stand in `record-type.ts`), for `side`,
 * `sentiment` and `moneyness` the API's document and samples. Left out: `exchange`, which no report shows and whose codes
 * the API does not list, types that only vendors have (`MAIM`, `MLAI`, `SHOT`), and old ones whose text is not published any more
 * (`CSTP`, `SPIM`).
 */

const CODE_NAMES: Readonly<Record<string, string>> = {
  // Where the trade executed.
  AASK: 'Above ask',
  ASK: 'Ask',
  MID: 'Mid',
  BID: 'Bid',
  BBID: 'Below bid',

  BULLISH: 'Bullish',
  BEARISH: 'Bearish',
  NEUTRAL: 'Neutral',

  ITM: 'In the money',
  ATM: 'At the money',
  OTM: 'Out of the money',

  // Executions of single options.
  AUTO: 'Electronic',
  REOP: 'Reopening',
  ISOI: 'Sweep',
  SLAN: 'Auction',
  SLAI: 'Sweep, auction',
  SLCN: 'Cross',
  SLCI: 'Sweep, cross',
  SLFT: 'Floor',
  EXHT: 'Extended hours',

  // Legs of complex orders.
  MLET: 'Multi-leg',
  MLAT: 'Multi-leg, auction',
  MLCT: 'Multi-leg, cross',
  MLFT: 'Multi-leg, floor',
  MESL: 'Multi-leg vs. single legs',
  MASL: 'Multi-leg vs. single legs, auction',
  MFSL: 'Multi-leg vs. single legs, floor',
  CBMO: 'Multi-leg, floor, proprietary',
  MCTP: 'Compression',

  // Options tied to stock.
  TLET: 'With stock',
  TLAT: 'With stock, auction',
  TLCT: 'With stock, cross',
  TLFT: 'With stock, floor',
  TESL: 'With stock vs. single legs',
  TASL: 'With stock vs. single legs, auction',
  TFSL: 'With stock vs. single legs, floor',

  // Late, out of sequence, or canceled.
  OSEQ: 'Late, out of sequence',
  LATE: 'Late',
  OPEN: 'Late opening, out of sequence',
  OPNL: 'Late opening',
  CANC: 'Cancel',
  CNCL: 'Cancel of last',
  CNCO: 'Cancel of opening',
  CNOL: 'Cancel of only',

  // Of older specifications.
  AJST: 'Adjusted terms',
  SPRD: 'Spread',
  STDL: 'Straddle',
  STPD: 'Stopped',
  BWRT: 'Buy-write',
  CMBO: 'Combination',
  BNMT: 'Benchmark',
  XMPT: 'Trade-through exempt',
};

/** The name of a code, or the code itself. */
export function nameCode(code: string): string {
  return Object.hasOwn(CODE_NAMES, code) ? (CODE_NAMES[code] ?? code) : code;
}
