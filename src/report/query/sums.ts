/**
 * The single pass over the counted records that most tables come from: sums cells of symbol, half hour, expiry and
 * moneyness once, then adds them up along each of the four and in total. One pass per table would read the file five
 * times. Invariant: the result is bounded, however many symbols trade: it has only the symbols that a table shows.
 */
import { formatHalfHour } from '../../calendar/session.ts';
import { divide, type EngineNumber, leanOf, readNumber } from '../amount.ts';
import type { DropSource } from '../drop-source.ts';
import type { HalfHour, Mover, SymbolFlow, UnusualSymbol } from '../model.ts';
import { buildPremiumList, listPremiumColumns, type PremiumRow, pickNumbers, readPremium } from '../number-values.ts';
import { DIRECTION_KEYS, PART_KEYS } from '../numbers.ts';
import { HALF_HOUR, IS_ZERO_DTE } from '../records.ts';
import { type History, selectSymbolHistory } from './past-sessions.ts';

/** Symbols in the table of the largest: few enough to read at a glance, and to fit a chart on a phone. */
export const TOP_SYMBOLS = 10;
/** Number of most bullish and of most bearish symbols. */
export const LEANING_SYMBOLS = 5;
/** Rows of the table of unusual activity. */
const UNUSUAL_SYMBOLS = 10;
/** Symbols whose change explains that of the day. */
const MOVERS = 3;

// The rule for unusual symbols is a rule of thumb, so its limits have names here.
/** Past sessions in which the symbol must have traded: a median over fewer only reflects single trades. */
const MIN_SESSIONS = 3;
/** Least premium of the day, dollars: below it, one order can cause any ratio, and no one acts on it. */
const MIN_PREMIUM = 1_000_000;
/** A symbol's premium may halve or double from one day to the next without any news. */
const MIN_RATIO = 2;
/** ORDER BY expression: unusual symbols first, by descending ratio. */
const UNUSUAL_ORDER = `if(sessions >= ${MIN_SESSIONS} AND median > 0 AND total_premium >= ${MIN_PREMIUM} AND total_premium >= ${MIN_RATIO} * median, total_premium / median, 0) DESC`;

const EXPIRIES = ['0DTE', 'week', 'month', 'later', 'unknown'] as const;
const MONEYNESS = ['ITM', 'ATM', 'OTM', 'unknown'] as const;
/** Last day of the buckets, calendar days from the trading date; a month counts as 31 days, the longest. */
const WEEK_DAYS = 7;
const MONTH_DAYS = 31;
/** Name of the bucket, as SQL for ClickHouse and DuckDB; moneyness is the record's own. */
export const EXPIRY_BUCKET = `CASE WHEN ${IS_ZERO_DTE} THEN '0DTE' WHEN expiration_date <= date + ${WEEK_DAYS} THEN 'week' WHEN expiration_date <= date + ${MONTH_DAYS} THEN 'month' WHEN expiration_date IS NULL THEN 'unknown' ELSE 'later' END`;
export const MONEYNESS_BUCKET = "CASE WHEN moneyness IN ('ITM', 'ATM', 'OTM') THEN moneyness ELSE 'unknown' END";

/** The dimension that a row is summed along: `grouping` sets a bit for each dimension that it is not. */
const ALONG = { all: 15, symbol: 7, slot: 11, expiry: 13, moneyness: 14 } as const;

/** Ranks of the day: by premium, by net bullish premium, by net bearish premium, by how unusual, by the change. */
type Place = 'place' | 'bullish_place' | 'bearish_place' | 'unusual_place' | 'change_place';

type SumRow = PremiumRow &
  Readonly<Record<'symbol' | 'expiry' | 'money', string>> &
  /** `members`: number of rows along the same dimension; `sessions`: those before, in which the symbol traded. */
  Readonly<Record<'along' | 'slot' | 'members' | 'sessions' | Place, number>> & {
    /** Median premium of the sessions before: a session without the symbol counts as 0. */
    readonly median: EngineNumber;
    readonly previous: EngineNumber;
  };

interface SymbolSums {
  readonly row: SumRow;
  readonly flow: SymbolFlow;
  /** Comparison with its own past, even if it is not unusual; null if its past is too short or unknown. */
  readonly unusual: UnusualSymbol | null;
}

/**
 * The tables from this pass, as in `FlowReport`, and the symbols of the tables and of `focus`, if they traded.
 * @param focus symbols to include whatever their place
 * @param hasGaps whether some records lack numbers
 */
export async function querySums(source: DropSource, focus: readonly string[], { sessions }: History, hasGaps: boolean) {
  const rows = await source.rows<SumRow>(buildQuery(source, sessions, hasGaps), { focus });
  const along = (which: keyof typeof ALONG) => rows.filter((row) => row.along === ALONG[which]);
  const hasPrevious = sessions.length > 0;
  const symbols = along('symbol').map((row): SymbolSums => {
    const flow = { symbol: row.symbol, place: row.place, ...readPremium(row) };
    return { row, flow, unusual: compareWithPast(row, flow, hasPrevious) };
  });
  const first = (count: number, place: Place) =>
    symbols.filter(({ row }) => row[place] <= count).sort((a, b) => a.row[place] - b.row[place]);
  const leaning = (sign: 1 | -1, place: Place) =>
    first(LEANING_SYMBOLS, place)
      .map(({ flow }) => flow)
      .filter((flow) => sign * (leanOf(flow) ?? 0) > 0);
  return {
    headline: readPremium(along('all')[0]),
    // Every bucket, in the model's order: together they are the whole day.
    expiries: readBuckets(EXPIRIES, along('expiry'), 'expiry'),
    moneyness: readBuckets(MONEYNESS, along('moneyness'), 'money'),
    halfHours: readHalfHours(along('slot')),
    symbolCount: symbols[0]?.row.members ?? 0,
    topSymbols: first(TOP_SYMBOLS, 'place').map(({ flow }) => flow),
    mostBullish: leaning(1, 'bullish_place'),
    mostBearish: leaning(-1, 'bearish_place'),
    unusual: first(UNUSUAL_SYMBOLS, 'unusual_place')
      .map(({ unusual }) => unusual)
      .filter((symbol) => symbol !== null)
      .filter(({ premium, ratio }) => premium >= MIN_PREMIUM && ratio >= MIN_RATIO),
    movers: hasPrevious ? first(MOVERS, 'change_place').flatMap(readMover) : [],
    symbols: new Map(symbols.map((symbol) => [symbol.row.symbol, symbol])),
  };
}

function buildQuery(source: DropSource, past: History['sessions'], hasGaps: boolean): string {
  const { table } = source;
  const names = listPremiumColumns(hasGaps).map(([name]) => name);
  const lean = 'ifNull(bullish_premium, 0) - ifNull(bearish_premium, 0)';
  const place = (order: string) => `row_number() OVER (PARTITION BY along ORDER BY ${order}, symbol)`;
  return `
WITH
  cells AS (
    SELECT symbol, ${HALF_HOUR} AS slot, ${EXPIRY_BUCKET} AS expiry, ${MONEYNESS_BUCKET} AS money, ${buildPremiumList(hasGaps)}
    FROM ${table} GROUP BY symbol, slot, expiry, money
  ),
  sums AS (
    SELECT symbol, slot, expiry, money, grouping(symbol, slot, expiry, money) AS along,
      ${names.map((name) => `sum(cells.${name}) AS ${name}`).join(', ')}
    FROM cells GROUP BY GROUPING SETS ((), (symbol), (slot), (expiry), (money))
  ),
  past AS (${selectSymbolHistory(past)}),
  placed AS (
    SELECT sums.*, past.median AS median, past.previous AS previous, past.sessions AS sessions,
      ${place('total_premium DESC')} AS place,
      ${place(`${lean} DESC`)} AS bullish_place,
      ${place(lean)} AS bearish_place,
      ${place(UNUSUAL_ORDER)} AS unusual_place,
      ${place('abs(ifNull(total_premium, 0) - ifNull(previous, 0)) DESC')} AS change_place,
      count(*) OVER (PARTITION BY along) AS members
    FROM sums LEFT JOIN past ON sums.symbol = past.symbol AND sums.along = ${ALONG.symbol}
  )
SELECT * FROM placed
WHERE along != ${ALONG.symbol} OR place <= ${TOP_SYMBOLS} OR least(bullish_place, bearish_place) <= ${LEANING_SYMBOLS}
  OR unusual_place <= ${UNUSUAL_SYMBOLS} OR change_place <= ${MOVERS} OR has({focus:Array(String)}, symbol)
ORDER BY along, place`;
}

function readBuckets<Bucket extends string>(
  buckets: readonly Bucket[],
  rows: readonly SumRow[],
  by: 'expiry' | 'money',
) {
  return buckets.map((bucket) => {
    const row = rows.find((candidate) => candidate[by] === bucket);
    return { bucket, ...pickNumbers(readPremium(row), PART_KEYS) };
  });
}

/**
 * Half hours of the exchange's wall clock, without gaps from the first counted trade to the last, so that a quiet half
 * hour is visible.
 */
function readHalfHours(rows: readonly SumRow[]): readonly HalfHour[] {
  const bySlot = new Map(rows.map((row) => [row.slot, row]));
  const slots = [...bySlot.keys()];
  const halfHours: HalfHour[] = [];
  for (let slot = Math.min(...slots); slot <= Math.max(...slots); slot += 1) {
    halfHours.push({ start: formatHalfHour(slot), ...readPremium(bySlot.get(slot)) });
  }
  return halfHours;
}

/** A symbol with an unknown premium in one of the two sessions has no change. */
function readMover({ row, flow }: SymbolSums): readonly Mover[] {
  const previous = row.sessions === 0 ? 0 : readNumber(row.previous);
  if (flow.total === null || previous === null) return [];
  return [{ symbol: row.symbol, premium: flow.total, previous }];
}

/** @param hasPrevious whether the history includes the session before */
function compareWithPast(row: SumRow, flow: SymbolFlow, hasPrevious: boolean): UnusualSymbol | null {
  const median = readNumber(row.median);
  const ratio = divide(flow.total, median);
  if (flow.total === null || median === null || ratio === null || row.sessions < MIN_SESSIONS) return null;
  return {
    symbol: row.symbol,
    premium: flow.total,
    previous: hasPrevious ? readNumber(row.previous) : null,
    median,
    ratio,
    sessions: row.sessions,
    ...pickNumbers(flow, DIRECTION_KEYS),
  };
}
