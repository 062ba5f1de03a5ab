/**
 * The report's numbers a second time, in plain loops over the records and without SQL: what the engine's answers are
 * compared with. It follows `docs/formulas.md`, not the code.
 */

import { expect } from 'vitest';
import type { Amount } from '../../src/report/amount.ts';
import type { Exclusions, UnknownCodes, VolumeAboveOpenInterest } from '../../src/report/model.ts';
import type { Premium } from '../../src/report/numbers.ts';
import type { Trade } from './drop-file.ts';

const CANCELS = ['CANC', 'CNCL', 'CNCO', 'CNOL'];
const LATE = ['LATE', 'OSEQ', 'OPEN', 'OPNL'];
const STOCK_AND_SINGLE_LEGS = [
  'MESL',
  'MASL',
  'MFSL',
  'TLET',
  'TLAT',
  'TLCT',
  'TLFT',
  'TESL',
  'TASL',
  'TFSL',
  'CBMO',
  'MCTP',
];

export const SWEEPS = ['ISOI', 'SLAI', 'SLCI'];

const SINGLE = [
  ...['AUTO', 'REOP', 'SLAN', 'SLCN', 'SLFT', 'EXHT', 'AJST', 'SPRD', 'STDL', 'STPD', 'CSTP', 'BWRT'],
  ...['CMBO', 'SPIM', 'BNMT', 'XMPT'],
];

export interface Fates {
  readonly counted: readonly Trade[];
  readonly cancels: readonly Trade[];
  readonly cancelled: readonly Trade[];
  readonly late: readonly Trade[];
}

/** Each cancel message in the order of time takes the latest print that it fits and that is still there. */
export function splitFates(trades: readonly Trade[]): Fates {
  const cancels = trades.filter(isCancel).sort(byTime);
  const prints = trades.filter((trade) => !isCancel(trade)).sort(byPlace);
  const taken = new Set<Trade>();
  for (const cancel of cancels) {
    const print = prints.findLast(
      (candidate) =>
        !taken.has(candidate) && candidate.time <= cancel.time && isKeyed(cancel) && keyOf(candidate) === keyOf(cancel),
    );
    if (print) taken.add(print);
  }
  const rest = prints.filter((print) => !taken.has(print));
  return {
    counted: rest.filter((trade) => !isLate(trade)),
    late: rest.filter(isLate),
    cancelled: [...taken],
    cancels,
  };
}

export function computeExclusions({ counted, cancels, cancelled, late }: Fates): Exclusions {
  const tally = (trades: readonly Trade[]) => ({
    trades: trades.length,
    premium: amountOf(trades, (trade) => trade.premium),
  });
  const sided = (trades: readonly Trade[]) => {
    const of = (side: string) =>
      sum(trades, ({ sentiment, premium }) => (sentiment === side && Number.isFinite(premium) ? premium : 0));
    return { ...tally(trades), bullish: of('BULLISH'), bearish: of('BEARISH') };
  };
  return {
    cancelMessages: tally(cancels),
    cancelledPrints: sided(cancelled),
    unmatchedCancels: cancels.length - cancelled.length,
    lateReports: sided(late),
    otherHours: tally([]),
    recorded: tally([...counted, ...cancels, ...cancelled, ...late]),
    unknownCodes: computeUnknownCodes(counted),
  };
}

/** Each code with what the API documents of it; types of trades as the list of OPRA. */
const KNOWN_CODES = {
  put_call: ['CALL', 'PUT'],
  sentiment: ['BULLISH', 'BEARISH', 'NEUTRAL'],
  side: ['AASK', 'ASK', 'MID', 'BID', 'BBID'],
  option_activity_type: [...CANCELS, ...LATE, ...STOCK_AND_SINGLE_LEGS, ...SINGLE, ...SWEEPS],
} as const;

export function computeUnknownCodes(counted: readonly Trade[]): readonly UnknownCodes[] {
  return (['put_call', 'sentiment', 'side', 'option_activity_type'] as const).flatMap((column) => {
    const isLeg = (trade: Trade) => column === 'option_activity_type' && (trade[column] ?? '').startsWith('ML');
    const unknown = counted.filter(
      (trade) => !KNOWN_CODES[column].some((code) => code === trade[column]) && !isLeg(trade),
    );
    const values = [...groupBy(unknown, (trade) => JSON.stringify(trade[column]))]
      .map(([value, own]) => ({ value: JSON.parse(value) as string | null, trades: own.length }))
      .sort((a, b) => b.trades - a.trades || compare(a.value ?? '\uffff', b.value ?? '\uffff'));
    return unknown.length === 0 ? [] : [{ column, trades: unknown.length, values: values.slice(0, 5) }];
  });
}

/** What has a number is summed. Nobody knows a sum of records of which none has one, nor one that no number can hold. */
export function amountOf(trades: readonly Trade[], of: (trade: Trade) => number): Amount {
  const numbers = trades.map(of).filter((value) => value !== null && Number.isFinite(value));
  const total = sum(numbers, (value) => value);
  return (trades.length > 0 && numbers.length === 0) || !Number.isFinite(total) ? null : total;
}

export function computePremium(trades: readonly Trade[]): Premium {
  const premium = (of: (trade: Trade) => boolean) => amountOf(trades.filter(of), (trade) => trade.premium);
  const volume = (of: (trade: Trade) => boolean) => amountOf(trades.filter(of), (trade) => trade.size);
  const isCall = (trade: Trade) => trade.put_call === 'CALL';
  const isPut = (trade: Trade) => trade.put_call === 'PUT';
  const isBought = (trade: Trade) => ['ASK', 'AASK'].includes(trade.side);
  const isSold = (trade: Trade) => ['BID', 'BBID'].includes(trade.side);
  const net = (of: (trade: Trade) => boolean) =>
    amountOf(
      trades.filter((trade) => of(trade) && (isBought(trade) || isSold(trade))),
      (trade) => (trade.premium === null ? trade.premium : isBought(trade) ? trade.premium : -trade.premium),
    );
  const ratio = (part: Amount, whole: Amount) => (part === null || whole === null || whole === 0 ? null : part / whole);
  const lacks = (value: number) => value === null || !Number.isFinite(value);
  return {
    trades: trades.length,
    unpriced: trades.filter((trade) => lacks(trade.premium)).length,
    unsized: trades.filter((trade) => trade.size === null).length,
    contracts: volume(() => true),
    callContracts: volume(isCall),
    putContracts: volume(isPut),
    total: premium(() => true),
    calls: premium(isCall),
    puts: premium(isPut),
    netCalls: net(isCall),
    netPuts: net(isPut),
    bullish: premium((trade) => trade.sentiment === 'BULLISH'),
    bearish: premium((trade) => trade.sentiment === 'BEARISH'),
    neutral: premium((trade) => trade.sentiment === 'NEUTRAL'),
    putCallByPremium: ratio(premium(isPut), premium(isCall)),
    putCallByVolume: ratio(volume(isPut), volume(isCall)),
    zeroDte: premium(isZeroDte),
    multiLeg: premium(
      ({ option_activity_type: type }) => (type ?? '').startsWith('ML') || STOCK_AND_SINGLE_LEGS.includes(type),
    ),
    sweep: premium((trade) => SWEEPS.includes(trade.option_activity_type)),
  };
}

export function computeVolumeAboveOpenInterest(trades: readonly Trade[]): VolumeAboveOpenInterest {
  const series = [...groupBy(trades, seriesOf).values()];
  const known = (values: readonly number[]) => values.filter((value) => value !== null);
  const isKnown = (own: readonly Trade[]) =>
    known(own.map(({ size }) => size)).length > 0 && openInterestOf(own) !== null;
  const above = series.filter(
    (own) => isKnown(own) && sum(own, (trade) => trade.size ?? 0) > (openInterestOf(own) ?? 0),
  );
  return {
    series: above.length,
    ofSeries: series.length,
    unknownSeries: series.filter((own) => !isKnown(own)).length,
    premium: amountOf(above.flat(), (trade) => trade.premium),
  };
}

/** What a series is worth in GEX, DEX and zero gamma: of its counted records, in any order. */
export interface NaiveState {
  readonly gamma: number;
  readonly delta: number;
  readonly iv: number;
  readonly openInterest: number;
  readonly shares: number;
}

export function stateOf(series: readonly Trade[]): NaiveState {
  const last = (read: (trade: Trade) => number, isKnown: (value: number) => boolean) => {
    // Of one time, the smaller is the later.
    const [first, second, third] = series
      .map((trade) => ({ time: trade.time, value: read(trade) }))
      .filter(({ value }) => Number.isFinite(value) && isKnown(value))
      .sort((a, b) => compare(b.time, a.time) || Math.abs(a.value) - Math.abs(b.value))
      .map(({ value }) => value);
    if (first === undefined || second === undefined) return first ?? 0;
    const isOdd = [second, third ?? 0].every((value) => Math.abs(first) >= 100 * Math.abs(value));
    return isOdd ? second : first;
  };
  const signOf = { CALL: 1, PUT: -1 }[series[0]?.put_call ?? ''] ?? 0;
  const number = (value: unknown) => (value === null ? Number.NaN : Number(value));
  return {
    gamma: last(
      ({ gamma }) => number(gamma),
      (value) => value > 0,
    ),
    delta: last(
      ({ delta }) => number(delta),
      (value) => signOf * value > 0 && signOf * value <= 1,
    ),
    iv: last(
      ({ iv }) => number(iv),
      (value) => value > 0,
    ),
    openInterest: Math.max(0, openInterestOf(series) ?? 0),
    shares: sharesOf(series),
  };
}

/** The last positive value that stands there twice, else the last positive one, else the largest. */
export function openInterestOf(series: readonly Trade[]): number | null {
  const values = series.filter(({ oi }) => oi !== null);
  if (values.length === 0) return null;
  const positive = values.filter(({ oi }) => oi > 0);
  const repeated = positive.filter(({ oi }) => positive.filter((other) => other.oi === oi).length > 1);
  const shown = repeated.length > 0 ? repeated : positive;
  const last = [...shown].sort((a, b) => compare(a.time, b.time) || a.oi - b.oi).at(-1);
  return last?.oi ?? Math.max(...values.map(({ oi }) => oi));
}

/** Shares for a contract, by what most records that say so paid; 0 if that is no number of shares. */
function sharesOf(series: readonly Trade[]): number {
  const parts = series
    .map(partOf)
    .filter((part) => part !== null)
    .sort((a, b) => a - b);
  const odd = parts.filter(isOddPart);
  if (odd.length <= parts.length - odd.length) return 100;
  const shares = Math.round(100 * median(odd));
  return shares >= 10 && shares <= 1000 ? shares : 0;
}

function partOf({ premium, price, size }: Trade): number | null {
  const isKnown = [premium, price, size].every((value) => value !== null && Number.isFinite(value) && value > 0);
  return isKnown ? premium / (price * size * 100) : null;
}

function isOddPart(part: number | null): boolean {
  return part !== null && !(part >= 0.75 && part <= 1.25);
}

/** Of the values that are known; of fewer than three there is none. */
export function medianOf(values: readonly number[]): number {
  const known = values.filter(Number.isFinite).sort((a, b) => a - b);
  return known.length < 3 ? Number.NaN : median(known);
}

function median(sorted: readonly number[]): number {
  const middle = (sorted.length - 1) / 2;
  return ((sorted[Math.floor(middle)] ?? Number.NaN) + (sorted[Math.ceil(middle)] ?? Number.NaN)) / 2;
}

/** Whether a text is an option symbol whose root ends in a digit. */
export function isAdjusted({ option_symbol: text }: Trade): boolean {
  return /[0-9].{6}[CP].{8}$/.test((text ?? '').replaceAll(' ', ''));
}

/** The price of a symbol's underlying, of its counted records; 0 if none has one. */
export function spotOf(records: readonly Trade[]): number {
  const rankOf = (trade: Trade) => (isAdjusted(trade) ? 2 : isOddPart(partOf(trade)) ? 1 : 0);
  const priced = records.filter(({ underlying_price: price }) => Number.isFinite(price) && price > 0);
  const best = Math.min(...priced.map(rankOf));
  const recent = priced
    .filter((trade) => rankOf(trade) === best)
    .sort((a, b) => compare(b.time, a.time) || a.underlying_price - b.underlying_price)
    .slice(0, 16);
  const isOdd = recent.map(({ underlying_price: price }, at) => {
    const near = recent.filter((_, other) => other !== at && Math.abs(other - at) <= 5);
    const far = near.filter(({ underlying_price: other }) => other > 2 * price || other < price / 2);
    return near.length >= 2 && 2 * far.length > near.length;
  });
  const sound = isOdd.every(Boolean) ? recent : recent.filter((_, at) => !isOdd[at]);
  const secondsOf = ({ time }: Trade) => Date.parse(`${time.replace(' ', 'T')}Z`) / 1000;
  const [latest] = sound;
  if (latest === undefined) return 0;
  const used = sound.slice(0, 11).filter((trade) => secondsOf(trade) >= secondsOf(latest) - 300);
  return median(used.map(({ underlying_price: price }) => price).sort((a, b) => a - b));
}

export function daysLeft(trade: Trade): number {
  return Math.round((Date.parse(trade.expiration_date) - Date.parse(trade.date)) / 86_400_000);
}

/** Records of one time and id are ordered by type and premium, those without one last. */
function byPlace(a: Trade, b: Trade): number {
  const textOf = ({ option_activity_type: type }: Trade) => type ?? '\uffff';
  const premiumOf = ({ premium }: Trade) => (Number.isFinite(premium) ? premium : Number.MAX_VALUE);
  return byTime(a, b) || compare(textOf(a), textOf(b)) || premiumOf(a) - premiumOf(b);
}

/** Days of the tests on which series of these roots settle at the opening; those of VIX do on each. */
const MONTHLY = { dates: ['2026-11-20'], roots: ['SPX', 'NDX', 'RUT', 'DJX'] };

/** Whether the contract is dead on this date, on which it expires. */
export function isSettled(trade: Trade): boolean {
  if (trade.expiration_date !== trade.date) return false;
  const isNamed = (trade.option_symbol ?? '').replaceAll(' ', '').length > 15;
  const isMonthly = MONTHLY.dates.includes(trade.date) && MONTHLY.roots.includes(rootOf(trade));
  return ['VIX', 'VIXW'].includes(trade.symbol) || (isNamed && isMonthly);
}

export function isZeroDte(trade: Trade): boolean {
  return trade.expiration_date !== null && trade.expiration_date <= trade.date && !isSettled(trade);
}

/** The record after which no other of the same time comes. */
export function byTime(a: Trade, b: Trade): number {
  return compare(a.time, b.time) || compare(a.id, b.id);
}

/** One contract however its text is padded and its strike is rounded: root, right, expiration, strike in thousandths. */
export function seriesOf(trade: Trade): string {
  const { symbol, strike, put_call: right, expiration_date: day } = trade;
  return JSON.stringify([symbol, rootOf(trade), right, strike === null ? null : Math.round(strike * 1000), day]);
}

/** What is before the 15 characters of date, right and strike; the whole text if it is shorter; the symbol without one. */
function rootOf({ symbol, option_symbol: text }: Trade): string {
  const contract = (text ?? '').replaceAll(' ', '') || symbol.replaceAll(' ', '');
  return contract.length > 15 ? contract.slice(0, -15) : contract;
}

export function groupBy(trades: readonly Trade[], key: (trade: Trade) => string): Map<string, Trade[]> {
  const groups = new Map<string, Trade[]>();
  for (const trade of trades) groups.set(key(trade), [...(groups.get(key(trade)) ?? []), trade]);
  return groups;
}

export function sum<T>(values: readonly T[], of: (value: T) => number): number {
  return values.reduce((total, value) => total + of(value), 0);
}

/** Every number of `expected`, to 1e-9 relative: sums of doubles depend on their order. */
export function expectSame(actual: object | null | undefined, expected: object): void {
  for (const [name, value] of Object.entries(expected)) {
    const own = (actual as Record<string, unknown> | null | undefined)?.[name];
    if (typeof value === 'object' && value !== null) expectSame(own as object, value);
    else if (typeof value !== 'number') expect(own, name).toBe(value);
    else expectClose(own, value, name);
  }
}

export function expectClose(actual: unknown, expected: number, name = ''): void {
  expect(typeof actual, name).toBe('number');
  expect(Math.abs(Number(actual) - expected), name).toBeLessThanOrEqual(1e-9 * Math.max(1, Math.abs(expected)));
}

function isCancel(trade: Trade): boolean {
  return CANCELS.includes(trade.option_activity_type);
}

function isLate(trade: Trade): boolean {
  return LATE.includes(trade.option_activity_type);
}

/** What lacks a part of a contract's price names no print. */
function isKeyed({ strike, size, price }: Trade): boolean {
  return [strike, size, price].every((value) => value !== null);
}

function keyOf(trade: Trade): string {
  const price = trade.price === null ? null : Math.round(trade.price * 10_000);
  return `${seriesOf(trade)}${JSON.stringify([trade.size, price])}`;
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
