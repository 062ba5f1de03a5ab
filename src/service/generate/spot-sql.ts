/**
 * SQL for the generated price of every underlying in every minute of one session. Invariant: a session opens at the
 * close of the session before, and every figure depends only on seed, symbol and date. The closes follow a first-order
 * autoregression, so that prices stay near their level for years; the minutes between two closes are a Brownian bridge.
 * Pure.
 */
import { OPEN_SECOND } from '../../calendar/session.ts';
import { quoteString } from '../../engine/literal.ts';
import { type Market, strikeStep, type Underlying } from './market.ts';

export interface SessionPlan {
  readonly date: string;
  /** Trades from the opening to the close of index options. */
  readonly rows: number;
  readonly others: number;
  readonly seed: number;
  readonly market: Market;
  /** Instant of the open, milliseconds since the epoch. */
  readonly openMs: number;
  /** Second of the day at which trading ends. */
  readonly closeSecond: number;
  /** Expirations on or after the date, ascending. */
  readonly dailies: readonly string[];
  readonly weeklies: readonly string[];
  readonly monthlies: readonly string[];
}

/** Persistence of the closes' distance from their level, per session. */
const PERSISTENCE = 0.985;
/** Past moves that a close sums up. A session's open and close use the same number, so the cut-off does not show. */
const MEMORY_SESSIONS = 240;
/** Monday from which sessions are counted. */
const EPOCH_MONDAY = Date.UTC(2000, 0, 3);
const DAY_MS = 86_400_000;
const EARNINGS_CYCLE_DAYS = 91;

/** A uniform number in (0, 1) from the hash of `keys`, which are SQL expressions. */
export function uniformSql(...keys: readonly string[]): string {
  // 53 bits fill a double. The added 0.5 excludes 0, whose logarithm is infinite.
  return `((bitShiftRight(cityHash64(${keys.join(', ')}), 11) + 0.5) / 9007199254740992)`;
}

/** A standard normal number from the hash of `keys` (Box-Muller). */
export function normalSql(...keys: readonly string[]): string {
  return `(sqrt(-2 * log(${uniformSql(...keys, "'r'")})) * cos(2 * pi() * ${uniformSql(...keys, "'a'")}))`;
}

/**
 * A query with one row per underlying and minute: `underlying` (its index in the market), `minute` since the open,
 * `spot` at the start of the minute, `next_spot` at its end, and the attributes that a trade carries.
 * @param inPart SQL condition of the underlyings
 */
export function spotSql(plan: SessionPlan, inPart: string): string {
  const minutes = (plan.closeSecond - OPEN_SECOND) / 60;
  const index = sessionIndex(plan.date);
  const epochDay = Date.parse(`${plan.date}T00:00:00Z`) / DAY_MS;
  const close = (at: number) =>
    `arraySum(j -> pow(${PERSISTENCE}, j) * ${moveSql(plan.seed, `toInt32(${at} - j)`)}, range(${MEMORY_SESSIONS}))`;
  const walk = `arrayConcat([0.], arrayCumSum(m -> ${moveSql(plan.seed, `${index}, toInt32(m)`)}, range(${minutes})))`;
  // Pass the walk as an argument: the engine would copy a captured array for every element.
  const level = `m / ${minutes} * (close - open) + (w - m / ${minutes} * walk_end) / sqrt(${minutes})`;
  return `
SELECT
  underlying, minute, spot, next_spot, first_spot,
  symbol, type, step, cycle, weekly_root,
  iv * exp(0.08 * ${normalSql(String(plan.seed), 'symbol', String(index), "'iv'")}) AS atm_iv,
  if(type = 'STOCK', toString(toInt64(round(first_spot * shares_millions) * 1e6)), '') AS market_cap,
  if(type = 'STOCK', toString(toDate(toInt32(earnings_day + multiIf(earnings_day % 7 = 2, 2, earnings_day % 7 = 3, 1, 0)))), '')
    AS earning_date
FROM (
  SELECT *,
    arrayMap((m, w) -> price * exp(open + ${level}), range(${minutes + 1}), walk) AS path,
    path[1] AS first_spot,
    ${epochDay} + (${EARNINGS_CYCLE_DAYS * 1000} - (${epochDay} - cityHash64(${plan.seed}, symbol, 'earnings') % ${EARNINGS_CYCLE_DAYS})) % ${EARNINGS_CYCLE_DAYS}
      AS earnings_day
  FROM (
    SELECT *, ${close(index - 1)} AS open, ${close(index)} AS close, ${walk} AS walk, walk[${minutes + 1}] AS walk_end
    FROM ${underlyingsSql(plan.market.underlyings)} WHERE ${inPart}
  )
)
ARRAY JOIN range(${minutes}) AS minute, arrayPopBack(path) AS spot, arrayPopFront(path) AS next_spot`;
}

/** One move of an underlying as a log return: the market's part plus its own. */
function moveSql(seed: number, at: string): string {
  const market = normalSql(String(seed), "'market'", at);
  const own = normalSql(String(seed), 'walk_name', at);
  return `(daily_move * (beta * ${market} + sqrt(1 - beta * beta) * ${own}))`;
}

function underlyingsSql(underlyings: readonly Underlying[]): string {
  const rows = underlyings.map((underlying, index) => {
    const { symbol, type, price, dailyMove, beta, iv, sharesMillions, cycle, walk, weeklyRoot } = underlying;
    const texts = [symbol, type, cycle, walk, weeklyRoot].map(quoteString);
    return `(${[index, ...texts, price, dailyMove, beta, iv, sharesMillions, strikeStep(price)].join(', ')})`;
  });
  const structure =
    'underlying UInt16, symbol String, type String, cycle String, walk_name String, weekly_root String, ' +
    'price Float64, daily_move Float64, beta Float64, iv Float64, shares_millions Float64, step Float64';
  return `values(${quoteString(structure)}, ${rows.join(', ')})`;
}

/**
 * Weekdays since the epoch. Consecutive sessions have consecutive numbers, except across holidays, where prices may
 * gap.
 */
function sessionIndex(date: string): number {
  const days = (Date.parse(`${date}T00:00:00Z`) - EPOCH_MONDAY) / DAY_MS;
  return Math.floor(days / 7) * 5 + Math.min(days % 7, 4);
}
