/**
 * The numbers of the report: one table, one row per number. SQL, the sums of a drop's summary, the model, the mail, the
 * attachments, the comparison, `only_when` and corrections are derived from it, so a new number is a new row; `COMPARED`
 * has the key numbers.
 * `docs/formulas.md` explains each number in full. Pure.
 *
 * Units are dollars and contracts; `premium` is price x size x 100, as in the record. A premium that is null, NaN or
 * infinite is not a number, and sums leave it out. A sum over no numbers is null; it is 0 only if no record lacks a
 * number. A record with a sentiment, side or right unknown to the API is in the total, but in none of these parts
 * (`CODES`).
 */
import { capitalize } from '../core/units.ts';
import { type Amount, divide } from './amount.ts';
import { AT_ASK, AT_BID, IS_CALL, IS_MULTI_LEG, IS_PUT, IS_SWEEP, IS_ZERO_DTE } from './records.ts';

/** `net`: signed dollars, a difference of large sums; `share`: a fraction of the premium; `ratio`: of two sums. */
export type Unit = 'dollars' | 'net' | 'count' | 'share' | 'ratio';

/** A row of the table. */
interface NumberRow {
  /** Name in the model. It never changes, because archived reports contain it. */
  readonly key: string;
  /** Name in SQL, CSV, Parquet and job files. */
  readonly name: string;
  /** Column of the sum, if it differs from the name. */
  readonly column?: string;
  /** Name shown in key numbers and corrections. Default: the name in words. */
  readonly label?: string;
  /** Column heading in a wide table; absent: there the number is only in files for programs. */
  readonly heading?: string;
  /** Default: `count` for records and sizes, `share` for a quotient, else `dollars`. */
  readonly unit?: Unit;

  /** SQL expression summed over counted records, or `records` to count them; `where` limits the records. */
  readonly sum?: string;
  readonly where?: string;
  /** One sum divided by another, by key. */
  readonly quotient?: readonly [part: string, whole: string];
  /** Of a number that is no sum and no quotient, what it is. */
  readonly meaning?: string;
  /** Reads a number that is not a sum from the report; `parts` are the amounts that it needs. */
  readonly read?: (report: NumberSource) => Amount;
  readonly parts?: (report: NumberSource) => readonly Amount[];

  /** `only_when` may use the number, and a change of it causes a correction. */
  readonly isCondition?: true;
  /**
   * The scale for judging a change, if the unit does not give one; null: depends on other days, so never a correction.
   */
  readonly scale?: ((report: NumberSource) => Amount) | null;
}

/**
 * Premium at or above the ask adds, at or below the bid subtracts; at the midpoint it is left out. No cap per trade.
 */
const SIGNED = `CASE WHEN ${AT_ASK} THEN premium ELSE -premium END`;
const IS_AGGRESSIVE = `(${AT_ASK} OR ${AT_BID})`;

function sizeOfGex({ callGex, putGex }: NumberSource['exposure']['total']): number {
  return Math.abs(callGex ?? 0) + Math.abs(putGex ?? 0);
}

const ROWS = [
  { key: 'trades', name: 'trades', heading: 'Trades', sum: 'records' },
  { key: 'contracts', name: 'contracts', sum: 'size' },
  { key: 'callContracts', name: 'call_contracts', sum: 'size', where: IS_CALL },
  { key: 'putContracts', name: 'put_contracts', sum: 'size', where: IS_PUT },
  { key: 'total', name: 'premium', column: 'total_premium', heading: 'Premium', sum: 'premium', isCondition: true },
  { key: 'calls', name: 'call_premium', heading: 'Calls', sum: 'premium', where: IS_CALL, isCondition: true },
  { key: 'puts', name: 'put_premium', heading: 'Puts', sum: 'premium', where: IS_PUT, isCondition: true },
  {
    key: 'netCalls',
    name: 'net_call_premium',
    heading: 'Net calls',
    unit: 'net',
    sum: SIGNED,
    where: `${IS_CALL} AND ${IS_AGGRESSIVE}`,
    isCondition: true,
  },
  {
    key: 'netPuts',
    name: 'net_put_premium',
    heading: 'Net puts',
    unit: 'net',
    sum: SIGNED,
    where: `${IS_PUT} AND ${IS_AGGRESSIVE}`,
    isCondition: true,
  },
  { key: 'bullish', name: 'bullish_premium', heading: 'Bullish', sum: 'premium', where: "sentiment = 'BULLISH'" },
  { key: 'bearish', name: 'bearish_premium', heading: 'Bearish', sum: 'premium', where: "sentiment = 'BEARISH'" },
  { key: 'neutral', name: 'neutral_premium', heading: 'Neutral', sum: 'premium', where: "sentiment = 'NEUTRAL'" },
  { key: 'bullishShare', name: 'bullish_share', quotient: ['bullish', 'total'], isCondition: true },
  { key: 'bearishShare', name: 'bearish_share', quotient: ['bearish', 'total'], isCondition: true },
  { key: 'neutralShare', name: 'neutral_share', quotient: ['neutral', 'total'], isCondition: true },
  {
    key: 'putCallByPremium',
    name: 'put_call_by_premium',
    label: 'Put/call by premium',
    heading: 'Put/call',
    unit: 'ratio',
    quotient: ['puts', 'calls'],
    isCondition: true,
  },
  {
    key: 'putCallByVolume',
    name: 'put_call_by_volume',
    label: 'Put/call by volume',
    unit: 'ratio',
    quotient: ['putContracts', 'callContracts'],
    isCondition: true,
  },
  { key: 'zeroDte', name: 'zero_dte_premium', label: '0DTE premium', sum: 'premium', where: IS_ZERO_DTE },
  { key: 'multiLeg', name: 'multi_leg_premium', label: 'Multi-leg premium', sum: 'premium', where: IS_MULTI_LEG },
  { key: 'sweep', name: 'sweep_premium', sum: 'premium', where: IS_SWEEP },
  {
    key: 'unpriced',
    name: 'unpriced_trades',
    label: 'Trades without a premium',
    sum: 'records',
    where: 'premium IS NULL',
  },
  { key: 'unsized', name: 'unsized_trades', label: 'Trades without a size', sum: 'records', where: 'size IS NULL' },
  {
    key: 'zeroDteShare',
    name: 'zero_dte_share',
    label: '0DTE share',
    quotient: ['zeroDte', 'total'],
    isCondition: true,
  },
  {
    key: 'multiLegShare',
    name: 'multi_leg_share',
    label: 'Multi-leg share',
    quotient: ['multiLeg', 'total'],
    isCondition: true,
  },
  { key: 'sweepShare', name: 'sweep_share', quotient: ['sweep', 'total'], isCondition: true },
  {
    key: 'volumeAboveOpenInterest',
    name: 'volume_above_oi_premium',
    label: 'Premium where volume is above OI',
    meaning: 'premium of the contracts whose volume of the day is above their open interest',
    read: ({ volumeAboveOpenInterest }) => volumeAboveOpenInterest.premium,
  },
  { key: 'callShare', name: 'call_share', quotient: ['calls', 'total'] },
  { key: 'putShare', name: 'put_share', quotient: ['puts', 'total'] },
  {
    key: 'netGex',
    name: 'net_gex',
    label: 'Net GEX',
    unit: 'net',
    // Sums over no contracts are 0 and mean nothing.
    meaning: 'gamma exposure of calls less that of puts, dollars per 1% move, at the close',
    read: ({ exposure }) => (exposure.total.contracts === 0 ? null : exposure.total.netGex),
    parts: ({ exposure }) => [exposure.total.netGex],
    isCondition: true,
    scale: ({ exposure }) => sizeOfGex(exposure.total),
  },
  {
    key: 'netGexAfter',
    name: 'net_gex_after_expiration',
    label: 'Net GEX after expiration',
    unit: 'net',
    meaning: 'net GEX without the contracts that expire on the date',
    read: ({ exposure }) => (exposure.total.contracts === 0 ? null : exposure.total.netGexAfter),
    parts: ({ exposure }) => [exposure.total.netGexAfter],
    isCondition: true,
    scale: ({ exposure }) => sizeOfGex(exposure.total),
  },
  {
    key: 'unusualSymbols',
    name: 'unusual_symbols',
    unit: 'count',
    meaning: 'symbols with at least twice their usual premium',
    read: ({ unusual }) => unusual.length,
    // A symbol with unknown premium may be unusual.
    parts: ({ headline }) => [headline.total],
    isCondition: true,
    scale: null,
  },
  {
    key: 'premiumChange',
    name: 'premium_change',
    label: 'Change of premium',
    unit: 'share',
    meaning: 'premium / that of the session before - 1',
    read({ comparison }) {
      const { latest, previous } = comparison.changes.total;
      return latest === null || previous === null ? null : divide(latest - previous, previous);
    },
    parts: ({ headline }) => [headline.total],
    isCondition: true,
    scale: null,
  },
] as const satisfies readonly NumberRow[];

type Row = (typeof ROWS)[number];

/**
 * The key numbers, which are compared with earlier sessions: in the order of files, which is dollar sums, counts, numbers
 * derived from sums. Those that the mail has, with their names there.
 */
const COMPARED = [
  ['total', 'Premium'],
  ['calls', null],
  ['puts', null],
  ['netCalls', 'Net call premium'],
  ['netPuts', 'Net put premium'],
  ['bullish', 'Bullish'],
  ['bearish', 'Bearish'],
  ['neutral', null],
  ['trades', null],
  ['contracts', null],
  ['putCallByPremium', 'Put/call, premium'],
  ['putCallByVolume', null],
  ['zeroDteShare', '0DTE share'],
  ['multiLegShare', null],
  ['sweepShare', null],
  ['volumeAboveOpenInterest', 'Volume above OI'],
  ['callShare', null],
  ['putShare', null],
] as const satisfies readonly (readonly [Row['key'], string | null])[];

type CountRow = Extract<Row, { readonly sum: 'records' }>;
type SumRow = Exclude<Extract<Row, { readonly sum: unknown }>, CountRow>;

/** Sums over a set of counted records. Sums leave out a record without the number, and such records are counted. */
export type Premium = Readonly<Record<CountRow['key'], number>> &
  Readonly<Record<SumRow['key'] | Extract<Row, { readonly unit: 'ratio' }>['key'], Amount>>;

/** Numbers that are summed by expiration and by moneyness. */
export const PART_KEYS = ['trades', 'contracts', 'total', 'calls', 'puts'] as const;
export type PremiumPart = Pick<Premium, (typeof PART_KEYS)[number]>;

/** Numbers that show the direction of a symbol's premium. */
export const DIRECTION_KEYS = ['netCalls', 'netPuts', 'bullish', 'bearish'] as const;
export type Direction = Pick<Premium, (typeof DIRECTION_KEYS)[number]>;

/** Key of a number that is compared with earlier sessions. */
export type Compared = (typeof COMPARED)[number][0];

/** A number that a condition may use. */
export type ReportNumber = Extract<Row, { readonly isCondition: true }>['name'];

/** The part of a report from which its numbers are read. */
export interface NumberSource {
  readonly headline: Readonly<Record<string, Amount>> & { readonly total: Amount };
  readonly volumeAboveOpenInterest: { readonly premium: Amount };
  readonly comparison: {
    readonly changes: { readonly total: { readonly latest: Amount; readonly previous: Amount } };
  };
  readonly exposure: {
    readonly total: Readonly<Record<'callGex' | 'putGex' | 'netGex' | 'netGexAfter', Amount>> & {
      readonly contracts: number;
    };
  };
  readonly unusual: readonly unknown[];
}

/** A number of any kind. */
export interface ReportedNumber extends NumberRow {
  readonly key: Row['key'];
  readonly name: Row['name'];
  readonly label: string;
  readonly unit: Unit;
}

export const NUMBERS = ROWS.map((row: Row & NumberRow): ReportedNumber => {
  const isCount = row.sum === 'records' || row.sum === 'size';
  const words = row.name.replaceAll('_', ' ');
  return {
    label: capitalize(words),
    unit: isCount ? 'count' : row.quotient ? 'share' : 'dollars',
    ...row,
  };
});

/** A number of `Premium`. */
export interface PremiumNumber extends ReportedNumber {
  readonly key: keyof Premium;
}

export const PREMIUM_NUMBERS = NUMBERS.filter(
  (number): number is PremiumNumber => number.sum !== undefined || number.unit === 'ratio',
);

/** The key numbers. */
export const KEY_NUMBERS = COMPARED.flatMap(([key, mailName]) =>
  NUMBERS.filter((number) => number.key === key).map((number) => ({ ...number, key, mailName })),
);

/** One value for each of them. */
export function forCompared<Value>(read: (number: (typeof KEY_NUMBERS)[number], place: number) => Value) {
  return Object.fromEntries(KEY_NUMBERS.map((number, place) => [number.key, read(number, place)])) as Record<
    Compared,
    Value
  >;
}

/** Numbers of a report that conditions may use and corrections compare. */
export const REPORT_NUMBERS = NUMBERS.filter(({ isCondition }) => isCondition).map(
  ({ name }) => name as ReportNumber, // Exactly those rows are conditions.
);
