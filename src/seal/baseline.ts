/**
 * The check `baseline`: does the day look like the sessions before it? Counts that agree with the source prove nothing
 * about the source, so the day's summary is compared with the median of earlier ones. Pure. Invariant: what a half day,
 * an expiration or a thin symbol explains is no finding; a fault that all symbols share is found once.
 */
import {
  type CalendarOverride,
  CLOSE_HALF_HOUR,
  closeSecond,
  formatHalfHour,
  OPEN_HALF_HOUR,
  shareOfHours,
} from '../calendar/session.ts';
import { formatMinute } from '../calendar/wall-clock.ts';
import { countOf, formatCount, formatDollars, formatPercent } from '../core/units.ts';
import type { BaselineCheck } from '../job/job.ts';
import type { CheckResult } from '../ledger/manifest.ts';

/** A day as its summary and its manifest have it. */
export interface DayShape {
  readonly date: string;
  readonly rows: number;
  /** Nulls by column. */
  readonly nulls: ReadonlyMap<string, number>;
  /** By symbol; `ALL_SYMBOLS` is the whole day. */
  readonly symbols: ReadonlyMap<string, SymbolShape>;
}

export interface SymbolShape {
  readonly trades: number;
  /** Dollars; null if unknown. */
  readonly premium: number | null;
  /** Of it, that of calls and that of puts. */
  readonly calls: number | null;
  readonly puts: number | null;
  /** Distinct expiration dates. */
  readonly expirations: number;
  /** Second of the day on the exchange's clock. */
  readonly lastTrade: number;
  /** Trades of each half hour from 09:30 on. */
  readonly halfHours: readonly number[];
}

type Finding = NonNullable<CheckResult['findings']>[number];

/** The symbol of the row for the whole day. */
export const ALL_SYMBOLS = '';

/** Below that many sessions a median says nothing: the check passes. */
export const FEWEST_SESSIONS = 3;

/** Findings that are kept; the result has the number of all. */
const MAX_FINDINGS = 20;

/** The times of a symbol with fewer trades are chance: fewer than this usually, or than half of it today. */
const BUSY_TRADES = 500;

/** Trades in a half hour of every session before: without one, today's silence is a finding. */
const USUAL_IN_HALF_HOUR = 5;

/** What has fewer trades a day may have none, or many times as many. */
const KNOWN_TRADES = 100;

/** Fewer new symbols are listings of the day. */
const FEWEST_NEW = 10;

/** Later than this, a symbol trades until the close of index options. */
const GRACE_SECONDS = 30;

const SHOWN_SYMBOLS = 3;

/** @param past sessions before the day, without half days */
export function judgeBaseline(
  check: BaselineCheck,
  today: DayShape,
  past: readonly DayShape[],
  calendar?: CalendarOverride,
): CheckResult {
  const findings = past.length < FEWEST_SESSIONS ? [] : findOddities(check, today, past, calendar);
  return {
    check: 'baseline',
    on_failure: check.onFailure,
    passed: findings.length === 0,
    found: findings.length,
    allowed: 0,
    findings: findings.slice(0, MAX_FINDINGS),
    sessions: past.map(({ date }) => date),
  };
}

function findOddities(
  check: BaselineCheck,
  today: DayShape,
  past: readonly DayShape[],
  calendar: CalendarOverride | undefined,
): readonly Finding[] {
  const usual = createUsual(today, past, calendar);
  const largest = usual.largest(check.symbols);
  const early = findEarly(usual, ALL_SYMBOLS, check.earlySeconds);
  const silent = findSilence(usual, ALL_SYMBOLS, []);
  const shared = silent.flatMap(({ hours }) => hours);
  return [
    ...findVolume(usual, ALL_SYMBOLS, check.total),
    ...early,
    ...silent.map(({ finding }) => finding),
    ...(early.length > 0 ? [] : largest.flatMap((symbol) => findEarly(usual, symbol, check.earlySeconds))),
    ...findOneSided(usual),
    ...findVanished(usual),
    ...largest.flatMap((symbol) => findVolume(usual, symbol, check.symbol)),
    ...largest.flatMap((symbol) => findSilence(usual, symbol, shared).map(({ finding }) => finding)),
    ...findNulls(today, past, check.nulls),
    ...findExpirations(usual, check.total),
    ...findNew(usual, check.newSymbols),
  ];
}

type Usual = ReturnType<typeof createUsual>;

/** What the sessions before let one expect. A symbol that did not trade in a session counts as 0. */
function createUsual(today: DayShape, past: readonly DayShape[], calendar: CalendarOverride | undefined) {
  const all = [...new Set(past.flatMap(({ symbols }) => [...symbols.keys()]))].filter((name) => name !== ALL_SYMBOLS);
  const of = (symbol: string) => past.map(({ symbols }) => symbols.get(symbol));
  const tradesOf = (symbol: string) => median(of(symbol).map((shape) => shape?.trades ?? 0));
  // Less than 1 on a half day.
  const scale = median(past.map(({ date }) => shareOfHours(today.date, date, calendar)));
  return {
    today,
    scale,
    isBusy: (symbol: string) =>
      tradesOf(symbol) * scale >= BUSY_TRADES && (today.symbols.get(symbol)?.trades ?? 0) >= BUSY_TRADES / 2,
    symbols: all,
    of,
    tradesOf,
    premiumOf: (symbol: string) => median(of(symbol).map((shape) => shape?.premium ?? 0)),
    largest: (count: number) =>
      all
        .map((symbol) => ({ symbol, trades: tradesOf(symbol) }))
        .filter(({ trades }) => trades > 0)
        .sort((a, b) => b.trades - a.trades || (a.symbol < b.symbol ? -1 : 1))
        .slice(0, count)
        .map(({ symbol }) => symbol),
    /** Seconds between the last trade and the close of the symbol's options: today's, and the median before. */
    lateness: (symbol: string) => {
      const traded = past.flatMap(({ date, symbols }) => {
        const last = symbols.get(symbol)?.lastTrade;
        return last === undefined ? [] : [{ date, last }];
      });
      const beyond = traded.map(({ date, last }) => last - closeSecond(date, 'equity', calendar));
      const options = median(beyond) > GRACE_SECONDS ? 'index' : 'equity';
      const before = median(traded.map(({ date, last }) => closeSecond(date, options, calendar) - last));
      const close = closeSecond(today.date, options, calendar);
      return { close, before, now: close - (today.symbols.get(symbol)?.lastTrade ?? close) };
    },
  };
}

function findVolume(usual: Usual, symbol: string, [low, high]: readonly [number, number]): readonly Finding[] {
  const shape = usual.today.symbols.get(symbol);
  // A symbol without any trade has vanished.
  if (shape === undefined || (symbol !== ALL_SYMBOLS && shape.trades === 0)) return [];
  if (usual.tradesOf(symbol) * usual.scale < KNOWN_TRADES) return [];
  const findings: Finding[] = [];
  const who = symbol === ALL_SYMBOLS ? 'the day' : symbol;
  const add = (about: string, found: number, expected: number, describe: (found: number, usual: number) => string) => {
    // One block trade can multiply a symbol's premium: of that, only the lack is a finding.
    const isMuch = found > high * expected && (about === 'rows' || symbol === ALL_SYMBOLS);
    if (expected <= 0 || (found >= low * expected && !isMuch)) return;
    findings.push({
      ...{ about, symbol, found, usual: expected },
      says: describe(found, expected),
    });
  };
  add('rows', shape.trades, usual.tradesOf(symbol) * usual.scale, (found, expected) => {
    return `${who} has ${countOf(found, 'trade')}, usually ${formatCount(expected)}`;
  });
  if (shape.premium !== null) {
    add('premium', shape.premium, usual.premiumOf(symbol) * usual.scale, (found, expected) => {
      return `${who}'s premium is ${formatDollars(found)}, usually ${formatDollars(expected)}`;
    });
  }
  return findings;
}

function findEarly(usual: Usual, symbol: string, allowedSeconds: number): readonly Finding[] {
  const shape = usual.today.symbols.get(symbol);
  if (shape === undefined || !usual.isBusy(symbol)) return [];
  const { now, before } = usual.lateness(symbol);
  if (now - Math.max(0, before) <= allowedSeconds) return [];
  const minutes = Math.round(now / 60);
  const whose = symbol === ALL_SYMBOLS ? 'the last trade of the day is at' : `${symbol}'s last trade`;
  return [
    {
      ...{ about: 'last-trade', symbol, found: now, usual: before },
      says: `${whose} ${formatMinute(shape.lastTrade)}, ${minutes} minutes before the close`,
    },
  ];
}

/**
 * Half hours without a trade before the last trade: what lacks after it is `findEarly`'s.
 * @param known half hours that are silent in the whole day
 */
function findSilence(usual: Usual, symbol: string, known: readonly number[]) {
  const shape = usual.today.symbols.get(symbol);
  if (shape === undefined || !usual.isBusy(symbol)) return [];
  const last = Math.floor(shape.lastTrade / 1800);
  const hours = Array.from({ length: CLOSE_HALF_HOUR - OPEN_HALF_HOUR + 1 }, (_, index) => index).filter(
    (index) =>
      index + OPEN_HALF_HOUR < last &&
      shape.halfHours[index] === 0 &&
      !known.includes(index) &&
      usual.of(symbol).every((before) => (before?.halfHours[index] ?? 0) >= USUAL_IN_HALF_HOUR),
  );
  if (hours.length === 0) return [];
  const startOf = (index: number) => formatHalfHour(index + OPEN_HALF_HOUR);
  const [first = 0, end = 0] = [hours[0], hours.at(-1)];
  const isOneGap = end - first === hours.length - 1;
  const when = isOneGap
    ? `from ${startOf(first)} to ${startOf(end + 1)}`
    : `in the half hours from ${hours.map(startOf).join(', ')}`;
  const who = symbol === ALL_SYMBOLS ? 'no symbol trades' : `${symbol} has no trades`;
  const finding: Finding = {
    ...{ about: 'half-hours', symbol, found: hours.length, usual: 0 },
    says: `${who} ${when}`,
  };
  return [{ finding, hours }];
}

/** A whole day without a put or without a call: a part of the feed is absent. */
function findOneSided(usual: Usual): readonly Finding[] {
  if (usual.tradesOf(ALL_SYMBOLS) * usual.scale < KNOWN_TRADES) return [];
  const today = usual.today.symbols.get(ALL_SYMBOLS);
  return (['calls', 'puts'] as const).flatMap((right) => {
    const before = usual.of(ALL_SYMBOLS).map((shape) => shape?.[right] ?? 0);
    if (!today?.trades || today[right] !== 0 || before.some((premium) => premium <= 0)) return [];
    const expected = median(before) * usual.scale;
    const says = `no ${right === 'puts' ? 'put' : 'call'} has traded, usually for ${formatDollars(expected)}`;
    return [{ about: right, found: 0, usual: expected, says }];
  });
}

/** Symbols of every session before that are absent. */
function findVanished(usual: Usual): readonly Finding[] {
  const gone = usual.symbols
    .filter((symbol) => (usual.today.symbols.get(symbol)?.trades ?? 0) === 0)
    .filter((symbol) => usual.of(symbol).every((shape) => (shape?.trades ?? 0) > 0))
    .filter((symbol) => usual.tradesOf(symbol) * usual.scale >= KNOWN_TRADES)
    .sort((a, b) => usual.tradesOf(b) - usual.tradesOf(a));
  if (gone.length === 0) return [];
  const [first = ''] = gone;
  const says =
    gone.length === 1
      ? `${first} has no trades, usually ${formatCount(usual.tradesOf(first))}`
      : `${formatCount(gone.length)} symbols that traded in every earlier session have no trades: ${listSymbols(gone)}`;
  return [{ about: 'vanished-symbols', found: gone.length, usual: 0, says }];
}

function findNew(usual: Usual, allowedShare: number): readonly Finding[] {
  const names = [...usual.today.symbols.keys()].filter((name) => name !== ALL_SYMBOLS);
  const known = new Set(usual.symbols);
  const fresh = names.filter((name) => !known.has(name));
  if (fresh.length < FEWEST_NEW || fresh.length <= allowedShare * names.length) return [];
  const says = `${formatCount(fresh.length)} of ${formatCount(names.length)} symbols are new: ${listSymbols(fresh)}`;
  return [{ about: 'new-symbols', found: fresh.length, usual: allowedShare * names.length, says }];
}

function findExpirations(usual: Usual, [low, high]: readonly [number, number]): readonly Finding[] {
  const found = usual.today.symbols.get(ALL_SYMBOLS)?.expirations ?? 0;
  const expected = median(usual.of(ALL_SYMBOLS).map((shape) => shape?.expirations ?? 0));
  if (expected <= 0 || (found >= low * expected && found <= high * expected)) return [];
  const says = `the trades have ${countOf(found, 'expiration date')}, usually ${formatCount(expected)}`;
  return [{ about: 'expirations', found, usual: expected, says }];
}

function findNulls(today: DayShape, past: readonly DayShape[], allowed: number): readonly Finding[] {
  const shareOf = ({ rows, nulls }: DayShape, column: string) => (rows === 0 ? 0 : (nulls.get(column) ?? 0) / rows);
  return [...today.nulls.keys()].flatMap((column) => {
    const found = shareOf(today, column);
    const expected = median(past.map((day) => shareOf(day, column)));
    if (found - expected <= allowed) return [];
    const says = `${formatPercent(found)} of rows have no ${column}, usually ${formatPercent(expected)}`;
    return [{ about: 'nulls', column, found, usual: expected, says }];
  });
}

function listSymbols(names: readonly string[]): string {
  return `${names.slice(0, SHOWN_SYMBOLS).join(', ')}${names.length > SHOWN_SYMBOLS ? ', …' : ''}`;
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const [low = 0, high = low] = sorted.slice(Math.max(0, middle - (sorted.length % 2 === 0 ? 1 : 0)), middle + 1);
  return (low + high) / 2;
}
