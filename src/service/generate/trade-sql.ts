/**
 * SQL for the generated trades of one session, in the column order of the trade record. Invariant: every draw is a hash
 * of seed, date, the draw's name and the row number (for open interest, the option symbol), so it does not depend on
 * other rows: further records change only the running volume. Money is whole cents until the last step. Prices and greeks are Black-Scholes (Hull, Options, Futures and
 * Other Derivatives, ch. 15 and 19) with a volatility smile. Pure.
 */
import { EARLY, listGlobal, NIGHT_SECOND, SESSION_END_SECOND } from '../../calendar/segments.ts';
import { hasCurb, OPEN_SECOND } from '../../calendar/session.ts';
import { quoteString } from '../../engine/literal.ts';
import { normalSql, type SessionPlan, spotSql, uniformSql } from './spot-sql.ts';

/** Risk-free rate, continuously compounded. */
const RATE = 0.04;
/** Minimum time to expiration used for pricing an option that expires today, seconds. */
const MIN_LEFT_SECONDS = 600;
const YEAR_SECONDS = 365 * 86_400;
/** Trading in index options and funds continues this long after regular trading, seconds. */
const LATE_SECONDS = 900;

/** Shares of the trades that cluster at the open and at the close, and how fast the clusters fade, seconds. */
const OPENING = { share: 0.24, fadeSeconds: 1_080 } as const;
const CLOSING = { share: 0.16, fadeSeconds: 1_320 } as const;
/** Share of fund and index trades that print after regular trading. */
const LATE_SHARE = 0.015;

/** Index options and some stocks trade until five minutes before the opening. */
const PAUSE_SECONDS = 300;
/** Stocks whose options trade before and after regular trading: those with most trades. */
const LONG_TRADING = 12;
/** The stock with an adjusted series. */
const ADJUSTED = 'SMCI';
/** A print is cancelled, or a trade reported, so much later at most. */
const MOST_DELAY_SECONDS = 900;

/** Values by their share; the last takes the rest. */
const ACTIVITY_TYPES = {
  AUTO: 0.52,
  SLAN: 0.15,
  MLET: 0.12,
  SLAI: 0.07,
  ISOI: 0.06,
  MLAT: 0.03,
  MESL: 0.025,
  SLCN: 0.015,
  SLFT: 0.01,
};
const SIDES = { AASK: 0.04, ASK: 0.31, MID: 0.3, BID: 0.31, BBID: 0.04 };
const EXCHANGES = 'CBOE PHLX ISE ARCA AMEX BATS EDGX C2 BOX MIAX PERL EMLD NSDQ MRX GMNI MEMX'.split(' ');

/** Selects the session's trades in one part of the underlyings. @param inPart SQL condition of these */
export function tradeSql(plan: SessionPlan, inPart: string): string {
  const draw = (name: string) => uniformSql(String(plan.seed), quoteString(plan.date), 'i', quoteString(name));
  const normal = (name: string) => normalSql(String(plan.seed), quoteString(plan.date), 'i', quoteString(name));
  return recordSql(plan, draw, quoteSql(contractSql(plan, inPart, draw, normal), draw));
}

type Draw = (name: string) => string;

/** A kind of the session's other records: its share, who trades (default: as in regular trading), and when. */
interface OtherKind {
  readonly kind: string;
  readonly share: number;
  /** Indexes of underlyings, repeated by weight. */
  readonly slots?: readonly number[];
  /** Seconds since the opening. */
  readonly from?: number;
  readonly to?: number;
}

function listOthers({ date, others, closeSecond, market: { underlyings, slots } }: SessionPlan): readonly OtherKind[] {
  if (others === 0) return [];
  const of = (symbols: readonly string[]) => slots.filter((at) => symbols.includes(underlyings[at]?.symbol ?? ''));
  const stocks = underlyings.flatMap(({ type }, at) => (type === 'STOCK' ? [at] : [])).slice(0, LONG_TRADING);
  const indices = of(listGlobal(date));
  const [closed, night] = [closeSecond - OPEN_SECOND, NIGHT_SECOND - OPEN_SECOND];
  return [
    { kind: 'cancel', share: 6 },
    { kind: 'late report', share: 6 },
    { kind: 'adjusted', share: 3, slots: of([ADJUSTED]) },
    { kind: 'overnight', share: 40, slots: indices, from: night, to: -PAUSE_SECONDS },
    { kind: 'curb', share: hasCurb(date) ? 15 : 0, slots: indices, from: closed, to: SESSION_END_SECOND - OPEN_SECOND },
    ...(date < EARLY.since
      ? []
      : [
          { kind: 'early', share: 20, slots: stocks, from: EARLY.second - OPEN_SECOND, to: -PAUSE_SECONDS },
          { kind: 'late', share: 10, slots: stocks, from: closed - LATE_SECONDS, to: closed },
        ]),
  ];
}

/** Draws the time, the underlying and the contract of each trade. */
function contractSql(plan: SessionPlan, inPart: string, draw: Draw, normal: Draw): string {
  const regular = plan.closeSecond - LATE_SECONDS - OPEN_SECOND;
  const fade = (seconds: number) => `log(1 - ${draw('within')} * (1 - exp(-${regular} / ${seconds}))) * ${seconds}`;
  const { underlyings, slots, further } = plan.market;
  const others = listOthers(plan);
  const kinds = others.flatMap(({ kind, share }) => Array.from({ length: share }, () => quoteString(kind)));
  const hash = (key: string, name: string) => `cityHash64(${plan.seed}, '${plan.date}', ${key}, '${name}')`;
  const pickSlot = (from: readonly number[]) => `[${from.join(',')}][1 + ${hash('i', 'underlying')} % ${from.length}]`;
  const ofKind = (write: (one: OtherKind) => string) =>
    others.map((one) => [one.kind, write(one)]).flatMap(([kind, sql]) => (sql ? [`kind = '${kind}', ${sql}`] : []));
  const ownSlot = ofKind(({ slots: own }) => (own ? pickSlot(own) : ''));
  const ownTime = ofKind(({ from = 0, to = 0 }) =>
    to === from ? '' : `${from} + floor(${draw('within')} * ${to - from})`,
  );
  const late = underlyings.flatMap(({ type }, index) => (type === 'STOCK' ? [] : [index]));
  const named = underlyings.length - further;
  const pick = (dates: readonly string[], decay: number) =>
    `[${dates.map(quoteString).join(', ')}][least(${dates.length}, 1 + toUInt32(floor(-log(${draw('expiration')}) * ${decay})))]`;
  return `
SELECT *,
  dateDiff('day', toDate('${plan.date}'), toDate(expiration_date)) AS expiry_days,
  greatest(expiry_days * 86400 + ${16 * 3600 - OPEN_SECOND} - second, ${MIN_LEFT_SECONDS}) / ${YEAR_SECONDS} AS years,
  greatest(step, round(spot * exp(
    if(put_call = 'CALL', 1, -1) * if(${draw('in the money')} < 0.2, -0.5, 0.9) * abs(${normal('strike')}) * atm_iv * sqrt(years)
  ) / step) * step) AS strike,
  expiration_date IN (${plan.monthlies.map(quoteString).join(', ')}) AS is_monthly,
  concat(if(is_monthly, symbol, weekly_root), if(kind = 'adjusted', '1', ''),
    substring(replaceAll(expiration_date, '-', ''), 3), substring(put_call, 1, 1),
    leftPad(toString(toUInt32(round(strike * 1000))), 8, '0')) AS option_symbol
FROM (
  SELECT number, kind, i, second, delay, symbol, type, step, atm_iv, market_cap, earning_date, weekly_root, first_spot,
    round(spot + (next_spot - spot) * (second % 60) / 60, 2) AS spot,
    if(${draw('call')} < if(type = 'STOCK', 0.6, 0.47), 'CALL', 'PUT') AS put_call,
    multiIf(
      kind = 'curb', ${pick(plan.dailies.slice(1), 1.4)},
      cycle = 'daily' AND ${draw('cycle')} < 0.7, ${pick(plan.dailies, 1.4)},
      ${draw('cycle')} < if(cycle = 'daily', 0.88, 0.62), ${pick(plan.weeklies, 1.3)},
      ${pick(plan.monthlies, 2.4)}) AS expiration_date
  FROM (
    SELECT number,
      ${kinds.length === 0 ? "''" : `if(number < ${plan.rows}, '', [${kinds.join(', ')}][1 + ${hash('number', 'kind')} % ${kinds.length}])`} AS kind,
      -- A cancel repeats the draws of its print.
      if(kind = 'cancel', toUInt64(${hash('number', 'print')} % ${plan.rows}), number) AS i,
      ${ownSlot.length === 0 ? pickSlot(slots) : `multiIf(${ownSlot.join(', ')}, ${pickSlot(slots)})`} AS slot,
      toUInt16(if(slot < ${named}, slot, ${named} + floor(${further} * pow(${draw('further')}, 2)))) AS underlying,
      toInt32(multiIf(
        ${ownTime.map((one) => `${one},`).join('\n        ')}
        underlying IN (${late.join(', ')}) AND ${draw('late')} < ${LATE_SHARE}, ${regular} + floor(${draw('within')} * ${LATE_SECONDS}),
        ${draw('hour')} < ${OPENING.share}, least(${regular - 1}, floor(-${fade(OPENING.fadeSeconds)})),
        ${draw('hour')} > ${1 - CLOSING.share}, greatest(0, ${regular - 1} + ceil(${fade(CLOSING.fadeSeconds)})),
        floor(${draw('within')} * ${regular}))) AS second,
      if(kind IN ('cancel', 'late report'), least(1 + toInt32(floor(${draw('delay')} * ${MOST_DELAY_SECONDS})), ${regular + LATE_SECONDS - 1} - second), 0) AS delay,
      toUInt16(greatest(0, least(${(regular + LATE_SECONDS) / 60 - 1}, intDiv(second, 60)))) AS minute
    FROM numbers(${plan.rows + plan.others})
    WHERE ${inPart}
  ) AS trade
  INNER JOIN (${spotSql(plan, inPart)}) AS spot USING (underlying, minute)
)`;
}

/** Computes a contract's value, quotes and trade price, in cents. */
function quoteSql(contract: string, draw: Draw): string {
  const cumulative = (value: string) => `(0.5 * (1 + erf((${value}) / sqrt(2))))`;
  return `
SELECT *,
  -- The further from the money in standard deviations, the dearer; puts more so.
  greatest(-4, least(4, log(strike / spot) / (atm_iv * sqrt(greatest(years, 0.008))))) AS distance,
  round(atm_iv * (1 - 0.06 * distance + 0.025 * distance * distance) * (1 + 0.15 * exp(-12 * years)), 4) AS iv,
  if(put_call = 'CALL', 1, -1) AS sign,
  iv * sqrt(years) AS deviation,
  (log(spot / strike) + (${RATE} + iv * iv / 2) * years) / deviation AS d1,
  d1 - deviation AS d2,
  exp(-d1 * d1 / 2) / sqrt(2 * pi()) AS density,
  exp(-${RATE} * years) AS discount,
  ${cumulative('sign * d1')} AS n1,
  ${cumulative('sign * d2')} AS n2,
  greatest(0.1, 100 * sign * (spot * n1 - strike * discount * n2)) AS worth_cents,
  greatest(1, worth_cents * (0.004 + 0.03 * ${draw('spread')})) AS spread_cents,
  toInt64(greatest(0, floor(worth_cents - spread_cents / 2))) AS bid_cents,
  greatest(bid_cents + 1, toInt64(ceil(worth_cents + spread_cents / 2))) AS ask_cents,
  ${chooseSql(SIDES, draw('side'))} AS wanted_side,
  -- Nothing fits inside a spread of a cent, nor below a bid of a cent.
  multiIf(
    bid_cents < 2 AND wanted_side != 'AASK', 'ASK',
    wanted_side = 'MID' AND ask_cents - bid_cents < 2, if(${draw('tight')} < 0.5, 'ASK', 'BID'),
    wanted_side) AS side,
  multiIf(
    side = 'AASK', ask_cents + 1,
    side = 'ASK', ask_cents,
    side = 'BID', bid_cents,
    side = 'BBID', bid_cents - 1,
    bid_cents + 1 + toInt64(floor(${draw('inside')} * (ask_cents - bid_cents - 1)))) AS price_cents,
  toInt32(if(${draw('block')} < 0.001, 50 * (10 + floor(${draw('lots')} * 90)), least(2000, floor(pow(${draw('lots')}, -0.75))))) AS size
FROM (${contract})`;
}

/** Selects the columns of the trade record. */
function recordSql(plan: SessionPlan, draw: Draw, quotes: string): string {
  const share = (name: string, count: number) => `toUInt32(floor(${draw(name)} * ${count}))`;
  const id = `concat('${plan.date.replaceAll('-', '')}', leftPad(toString(number), 9, '0'))`;
  // Most is at round strikes and monthly expirations, out of the money, and of indexes and funds in puts, which insure; a day
  // changes it little.
  const openInterest = `exp(3.4 + 1.3 * ${normalSql(String(plan.seed), 'option_symbol', "'oi'")})
    * (0.1 + 0.9 / (1 + exp(-sign * (strike / first_spot - 1) / 0.01))) * if(put_call = 'PUT' AND type != 'STOCK', 1.6, 1)
    * if(is_monthly, 6, 1) * multiIf(strike % (10 * step) = 0, 9, strike % (5 * step) = 0, 3, 1)
    * (0.9 + 0.2 * ${uniformSql(String(plan.seed), `'${plan.date}'`, 'option_symbol', "'oi'")})`;
  return `
SELECT
  ${id} AS id, symbol, '${plan.date}' AS date,
  formatDateTime(toDateTime('${plan.date} 00:00:00', 'UTC') + ${OPEN_SECOND} + second + delay, '%F %T') AS time,
  put_call, strike, expiration_date,
  multiIf(kind = 'cancel', 'CANC', kind = 'late report', 'LATE', ${chooseSql(ACTIVITY_TYPES, draw('activity'))}) AS option_activity_type,
  type AS underlying_type,
  toInt32(least(400000, floor(${openInterest}))) AS oi,
  size, price_cents / 100 AS price, spot AS underlying_price,
  bid_cents / 100 AS bid, toInt32(if(bid_cents = 0, 0, 1 + ${share('bid size', 400)})) AS bid_size,
  ask_cents / 100 AS ask, toInt32(1 + ${share('ask size', 400)}) AS ask_size,
  iv, toFloat64(price_cents * size) AS premium,
  multiIf(side = 'MID', 'NEUTRAL', (side IN ('ASK', 'AASK')) = (put_call = 'CALL'), 'BULLISH', 'BEARISH') AS sentiment,
  1 AS trade_count, expiry_days,
  round(sign * n1, 4) AS delta,
  round(spot * density * sqrt(years) / 100, 4) AS vega,
  round((-spot * density * iv / (2 * sqrt(years)) - sign * ${RATE} * strike * discount * n2) / 365, 4) AS theta,
  round(sign * strike * years * discount * n2 / 100, 4) AS rho,
  if(type = 'INDEX', 'CBOE', [${EXCHANGES.map(quoteString).join(', ')}][1 + ${share('exchange', EXCHANGES.length)}]) AS exchange,
  toInt32(sum(if(kind = 'cancel', 0, size)) OVER (PARTITION BY option_symbol ORDER BY second + delay, number ROWS UNBOUNDED PRECEDING)) AS daily_volume,
  earning_date,
  toString(${plan.openMs} + (second + delay) * 1000 + ${share('milliseconds', 1000)}) AS updated_timestamp,
  market_cap, option_symbol, side,
  multiIf(abs(strike - spot) <= step / 2, 'ATM', sign * (spot - strike) > 0, 'ITM', 'OTM') AS moneyness,
  round(density / (spot * deviation), 6) AS gamma,
  round(delta * size * 100 * spot, 2) AS dex,
  round(delta * size * 100, 2) AS dei
FROM (${quotes})`;
}

/** Picks a value by its share. */
function chooseSql(shares: Readonly<Record<string, number>>, drawn: string): string {
  let below = 0;
  const branches = Object.entries(shares).map(([value, share]) => {
    below += share;
    return `drawn < ${below.toFixed(3)}, ${quoteString(value)}`;
  });
  const [last = ''] = Object.keys(shares).slice(-1);
  return `arrayMap(drawn -> multiIf(${branches.slice(0, -1).join(', ')}, ${quoteString(last)}), [${drawn}])[1]`;
}
