/**
 * What the codes of a trade record mean, with their names for people. A table of data, and its only owner: a code that it
 * does not have is shown as it came. For `option_activity_type` these are OPRA's message types of last sale reports,
 * under the short names that the API sends. Source: OPRA Pillar Output Specification (and the Binary Data Recipient
 * Interface Specification before it), "Equity and Index Last Sale", field Message Type, whose letters stand beside them.
 * For `side`, `sentiment` and `moneyness` the source is the API's document and samples. Left out: `exchange`, which no
 * report shows and whose codes the API does not list, and types that only vendors have (`MAIM`, `MLAI`, `SHOT`).
 * `report/records.ts` decides which records count.
 */

/** Messages that cancel an earlier print; they repeat the print's contract, size and price. */
const CANCELS = {
  CANC: 'Cancel', // A: a print that is neither the contract's last nor its opening one.
  CNCL: 'Cancel of last', // C: the last print of the contract.
  CNCO: 'Cancel of opening', // E: the opening print of the contract; later ones were reported.
  CNOL: 'Cancel of only', // G: the only print of the contract.
};

/** Prints that are reported late: their time, price of the underlying and quotes are not those of the trade. */
const LATE = {
  OSEQ: 'Late, out of sequence', // B
  LATE: 'Late', // D: in sequence.
  OPEN: 'Late opening, out of sequence', // F
  OPNL: 'Late opening', // H: in sequence.
};

/** Executions of intermarket sweep orders (ISO), which take the quotes of several exchanges at once. */
const SWEEPS = {
  ISOI: 'Sweep', // S: executed as it came.
  SLAI: 'Sweep, auction', // b
  SLCI: 'Sweep, cross', // d
};

/** Legs of complex orders: of several option series, or tied to stock. */
const MULTI_LEGS = {
  MESL: 'Multi-leg vs. single legs', // j: electronic.
  TLAT: 'With stock, auction', // k
  MASL: 'Multi-leg vs. single legs, auction', // l
  MFSL: 'Multi-leg vs. single legs, floor', // m
  TLET: 'With stock', // n: electronic.
  TLCT: 'With stock, cross', // o
  TLFT: 'With stock, floor', // p
  TESL: 'With stock vs. single legs', // q: electronic.
  TASL: 'With stock vs. single legs, auction', // r
  TFSL: 'With stock vs. single legs, floor', // s
  CBMO: 'Multi-leg, floor, proprietary', // t: proprietary products.
  MCTP: 'Compression', // u: of portfolios, proprietary products.
};

/** Types that begin with `ML`, including similar ones of vendors, are always legs. */
export const MULTI_LEG_PREFIX = 'ML';
const PREFIXED_LEGS = {
  MLET: 'Multi-leg', // f
  MLAT: 'Multi-leg, auction', // g
  MLCT: 'Multi-leg, cross', // h
  MLFT: 'Multi-leg, floor', // i
};

/** Prints of single options: not canceled, late, a sweep, or a leg. A type that is in no list counts as one. */
const SINGLE_LEGS = {
  AUTO: 'Electronic', // I
  REOP: 'Reopening', // J: after a halt.
  SLAN: 'Auction', // a
  SLCN: 'Cross', // c
  SLFT: 'Floor', // e
  EXHT: 'Extended hours', // v
  // From older specifications; the text of two is not published any more.
  AJST: 'Adjusted terms',
  SPRD: 'Spread',
  STDL: 'Straddle',
  STPD: 'Stopped',
  CSTP: 'CSTP',
  BWRT: 'Buy-write',
  CMBO: 'Combination',
  SPIM: 'SPIM',
  BNMT: 'Benchmark',
  XMPT: 'Trade-through exempt',
};

const OTHER_CODES = {
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
};

const NAMES = new Map(
  [CANCELS, LATE, SWEEPS, MULTI_LEGS, PREFIXED_LEGS, SINGLE_LEGS, OTHER_CODES].flatMap((codes) =>
    Object.entries(codes),
  ),
);

export const CANCEL_TYPES: readonly string[] = Object.keys(CANCELS);
export const LATE_TYPES: readonly string[] = Object.keys(LATE);
export const SWEEP_TYPES: readonly string[] = Object.keys(SWEEPS);
export const MULTI_LEG_TYPES: readonly string[] = Object.keys(MULTI_LEGS);
export const SINGLE_LEG_TYPES: readonly string[] = Object.keys(SINGLE_LEGS);

/** The name of a code, or the code itself. */
export function nameCode(code: string): string {
  return NAMES.get(code) ?? code;
}
