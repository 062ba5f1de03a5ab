/**
 * What `option_activity_type` says about a record: OPRA's message types of last sale reports, under the short names
 * that the API sends. Source: OPRA Pillar Output Specification (and the Binary Data Recipient Interface Specification
 * before it), "Equity and Index Last Sale", field Message Type. A table of data: `report/records.ts` decides which
 * records count, `code-name.ts` has the names for people.
 */

/** Messages that cancel an earlier print; they repeat the print's contract, size and price. */
export const CANCEL_TYPES = [
  'CANC', // A: a print that is neither the contract's last nor its opening one.
  'CNCL', // C: the last print of the contract.
  'CNCO', // E: the opening print of the contract; later ones were reported.
  'CNOL', // G: the only print of the contract.
] as const;

/** Prints that are reported late: their time, price of the underlying and quotes are not those of the trade. */
export const LATE_TYPES = [
  'OSEQ', // B: late and out of sequence.
  'LATE', // D: late, in sequence.
  'OPEN', // F: a late report of the opening trade, out of sequence.
  'OPNL', // H: a late report of the opening trade, in sequence.
] as const;

/** Executions of intermarket sweep orders (ISO), which take the quotes of several exchanges at once. */
export const SWEEP_TYPES = [
  'ISOI', // S: executed as it came.
  'SLAI', // b: in an auction.
  'SLCI', // d: in a cross.
] as const;

/**
 * Legs of complex orders: of several option series, or tied to stock. Types that begin with `ML` (f MLET, g MLAT, h
 * MLCT, i MLFT, and similar types of vendors, such as MLAI) are always legs; these are the others.
 */
export const MULTI_LEG_PREFIX = 'ML';
export const MULTI_LEG_TYPES = [
  'MESL', // j: electronic, a complex order against single legs.
  'TLAT', // k: option tied to stock, auction.
  'MASL', // l: auction, a complex order against single legs.
  'MFSL', // m: floor, a complex order against single legs.
  'TLET', // n: option tied to stock, electronic.
  'TLCT', // o: option tied to stock, cross.
  'TLFT', // p: option tied to stock, floor.
  'TESL', // q: option tied to stock, electronic, against single legs.
  'TASL', // r: option tied to stock, auction, against single legs.
  'TFSL', // s: option tied to stock, floor, against single legs.
  'CBMO', // t: floor, complex, proprietary products.
  'MCTP', // u: compression of portfolios, proprietary products.
] as const;

/** Prints of single options: not canceled, late, a sweep, or a leg. A type that is in no list counts as one. */
export const SINGLE_LEG_TYPES = [
  'AUTO', // I: executed electronically.
  'REOP', // J: reopening after a halt.
  'SLAN', // a: auction.
  'SLCN', // c: cross.
  'SLFT', // e: floor.
  'EXHT', // v: extended hours.
  // From older specifications.
  'AJST',
  'SPRD',
  'STDL',
  'STPD',
  'CSTP',
  'BWRT',
  'CMBO',
  'SPIM',
  'BNMT',
  'XMPT',
] as const;

export function isMultiLegType(type: string): boolean {
  return type.startsWith(MULTI_LEG_PREFIX) || MULTI_LEG_TYPES.some((known) => known === type);
}

export function isSweepType(type: string): boolean {
  return SWEEP_TYPES.some((known) => known === type);
}
