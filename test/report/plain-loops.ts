/**
 * The report's numbers a second time, in plain loops over the records and without SQL: what the engine's answers are
 * compared with. It follows `docs/formulas.md`, not the code.
 */
import { expect } from 'vitest';
import type { Exclusions, Premium, VolumeAboveOpenInterest } from '../../src/report/model.ts';
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

export interface Fates {
  readonly counted: readonly Trade[];
  readonly cancels: readonly Trade[];
  readonly cancelled: readonly Trade[];
  readonly late: readonly Trade[];
}

/** Each cancel message in the order of time takes the latest print that it fits and that is still there. */
export function splitFates(trades: readonly Trade[]): Fates {
  const cancels = trades.filter(isCancel).sort(byTime);
  const prints = trades.filter((trade) => !isCancel(trade)).sort(byTime);
  const taken = new Set<Trade>();
  for (const cancel of cancels) {
    const print = prints.findLast(
      (candidate) => !taken.has(candidate) && candidate.time <= cancel.time && keyOf(candidate) === keyOf(cancel),
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
    premium: sum(trades, (trade) => trade.premium),
  });
  return {
    cancelMessages: tally(cancels),
    cancelledPrints: tally(cancelled),
    unmatchedCancels: cancels.length - cancelled.length,
    lateReports: tally(late),
    recorded: tally([...counted, ...cancels, ...cancelled, ...late]),
  };
}

export function computePremium(trades: readonly Trade[]): Premium {
  const premium = (of: (trade: Trade) => boolean) => sum(trades.filter(of), (trade) => trade.premium);
  const volume = (of: (trade: Trade) => boolean) => sum(trades.filter(of), (trade) => trade.size);
  const isCall = (trade: Trade) => trade.put_call === 'CALL';
  const isPut = (trade: Trade) => trade.put_call === 'PUT';
  const net = (of: (trade: Trade) => boolean) =>
    premium((trade) => of(trade) && ['ASK', 'AASK'].includes(trade.side)) -
    premium((trade) => of(trade) && ['BID', 'BBID'].includes(trade.side));
  const ratio = (part: number, whole: number) => (whole === 0 ? null : part / whole);
  return {
    trades: trades.length,
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
    neutral: premium((trade) => !['BULLISH', 'BEARISH'].includes(trade.sentiment)),
    putCallByPremium: ratio(premium(isPut), premium(isCall)),
    putCallByVolume: ratio(volume(isPut), volume(isCall)),
    zeroDte: premium((trade) => trade.expiration_date <= trade.date),
    multiLeg: premium(
      ({ option_activity_type: type }) => type.startsWith('ML') || STOCK_AND_SINGLE_LEGS.includes(type),
    ),
    sweep: premium((trade) => trade.option_activity_type === 'ISOI'),
  };
}

export function computeVolumeAboveOpenInterest(trades: readonly Trade[]): VolumeAboveOpenInterest {
  const series = [...groupBy(trades, seriesOf).values()];
  const above = series.filter((own) => sum(own, (trade) => trade.size) > Math.max(...own.map((trade) => trade.oi)));
  return {
    series: above.length,
    ofSeries: series.length,
    premium: sum(above.flat(), (trade) => trade.premium),
  };
}

export function daysLeft(trade: Trade): number {
  return Math.round((Date.parse(trade.expiration_date) - Date.parse(trade.date)) / 86_400_000);
}

/** The record after which no other of the same time comes. */
export function byTime(a: Trade, b: Trade): number {
  return compare(a.time, b.time) || compare(a.id, b.id);
}

export function seriesOf(trade: Trade): string {
  return JSON.stringify([trade.symbol, trade.option_symbol, trade.put_call, trade.strike, trade.expiration_date]);
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

function keyOf(trade: Trade): string {
  return `${seriesOf(trade)}${JSON.stringify([trade.size, trade.price])}`;
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
