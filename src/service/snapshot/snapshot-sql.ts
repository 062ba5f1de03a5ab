/**
 * SQL for snapshots over the service's own tables: the available dates, a symbol's contracts at an instant, and its
 * flow until then. Pure. A contract is identified in full (root, expiration, call or put, strike), because the option
 * symbol may be empty. Its state is that of its latest record by time, then id.
 */
import { quoteIdentifier, quoteString } from '../../engine/literal.ts';
import type { SnapshotDataset } from '../backend.ts';
import { CONTRACT_COLUMNS } from '../data/tables.ts';

type Tables = SnapshotDataset['tables'];

/** The instant of a session that a snapshot shows. */
export interface Moment {
  /** Session date, YYYY-MM-DD. */
  readonly date: string;
  readonly asOfMs: number;
  /** The same instant on the exchange's wall clock, `YYYY-MM-DD HH:MM:SS`; it includes trades up to that time. */
  readonly wallTime: string;
  /** Instant of the next snapshot; undefined for the session's last. */
  readonly nextMs: number | undefined;
}

/** Limits of one statement, seconds and bytes: a whole session has millions of trades. */
const SETTINGS = 'SETTINGS max_execution_time = 30, max_memory_usage = 2000000000';

const RECORD_ORDER = '(time, id)';

/** Columns that identify a contract in full. */
const CONTRACT_KEY = ['symbol', 'option_symbol', 'expiration_date', 'put_call', 'strike'];
/** The other columns of the answer, of a contract's latest record, but for `volume`; and those that records name otherwise. */
const LATEST = CONTRACT_COLUMNS.filter((name) => !CONTRACT_KEY.includes(name) && name !== 'volume');
const RECORD_NAMES: Readonly<Record<string, string>> = { last: 'price', last_time: 'time', open_interest: 'oi' };

/** `date, first, last`: every date with trades, ascending, and the times of its first and last trade. */
export function buildDatesQuery({ dates }: Tables): string {
  return `SELECT date, first_time AS first, last_time AS last FROM ${dates} ORDER BY date ${SETTINGS}`;
}

/** `symbol, date, as_of, spot`: every loaded chain. */
export function buildLoadedQuery({ chains }: Tables): string {
  return `SELECT DISTINCT symbol, date, as_of, spot FROM ${chains} ORDER BY symbol, date, as_of ${SETTINGS}`;
}

/** The contracts of a loaded chain; each once, even when two files contain the same chain. */
export function buildLoadedChainQuery(
  { chains }: Tables,
  chain: { readonly symbol: string; readonly date: string; readonly as_of: string },
): string {
  return `SELECT symbol, ${CONTRACT_COLUMNS.join(', ')} FROM ${chains}
    WHERE symbol = ${quoteString(chain.symbol)} AND date = ${quoteString(chain.date)} AND as_of = ${quoteString(chain.as_of)}
    ORDER BY expiration_date, strike, put_call, option_symbol
    LIMIT 1 BY expiration_date, strike, put_call, option_symbol ${SETTINGS}`;
}

/** The contracts that have traded. Volume is the exchange's daily volume, which includes every trade. */
export function buildTradedChainQuery({ trades }: Tables, symbol: string, moment: Moment): string {
  const key = CONTRACT_KEY.join(', ');
  const columns = LATEST.map((name) => quoteIdentifier(RECORD_NAMES[name] ?? name)).join(', ');
  const values: Readonly<Record<string, string>> = {
    volume: 'day_volume AS volume',
    ...Object.fromEntries(LATEST.map((name, index) => [name, `latest.${index + 1} AS ${quoteIdentifier(name)}`])),
  };
  return `SELECT symbol, ${CONTRACT_COLUMNS.map((name) => values[name] ?? name).join(', ')} FROM (
      SELECT ${key}, argMax((${columns}), ${RECORD_ORDER}) AS latest, max(daily_volume) AS day_volume
      FROM ${trades} WHERE ${recordsSql(symbol, moment)} GROUP BY ${key}
    ) ORDER BY expiration_date, strike, put_call, option_symbol ${SETTINGS}`;
}

const NEUTRAL = "sentiment NOT IN ('BULLISH', 'BEARISH')";

const FLOW = {
  trades: 'count()',
  call_trades: "countIf(put_call = 'CALL')",
  put_trades: "countIf(put_call = 'PUT')",
  bullish_trades: "countIf(sentiment = 'BULLISH')",
  bearish_trades: "countIf(sentiment = 'BEARISH')",
  neutral_trades: `countIf(${NEUTRAL})`,
  contracts: 'sum(size)',
  call_contracts: "sumIf(size, put_call = 'CALL')",
  put_contracts: "sumIf(size, put_call = 'PUT')",
  total_premium: 'sum(premium)',
  call_premium: "sumIf(premium, put_call = 'CALL')",
  put_premium: "sumIf(premium, put_call = 'PUT')",
  bullish_premium: "sumIf(premium, sentiment = 'BULLISH')",
  bearish_premium: "sumIf(premium, sentiment = 'BEARISH')",
  neutral_premium: `sumIf(premium, ${NEUTRAL})`,
} as const;

/** Attributes of the underlying: the latest value that is set. */
const META: Readonly<Record<string, string>> = {
  spot: `argMaxIf(underlying_price, ${RECORD_ORDER}, underlying_price > 0)`,
  underlying_type: `argMaxIf(toString(underlying_type), ${RECORD_ORDER}, underlying_type != '')`,
  market_cap: `argMaxIf(toFloat64OrZero(toString(market_cap)), ${RECORD_ORDER}, toFloat64OrZero(toString(market_cap)) > 0)`,
  earning_date: `argMaxIf(toString(earning_date), ${RECORD_ORDER}, earning_date != '')`,
};

/** Sums over a symbol's trades as the engine returns them; 0 and empty text when there are none. */
export interface FlowRow extends Readonly<Record<keyof typeof FLOW, number>> {
  /** Latest positive price of the underlying, dollars; 0 if there is none. */
  readonly spot: number;
  readonly underlying_type: string;
  readonly market_cap: number;
  readonly earning_date: string;
}

/** Flow of a symbol without trades. */
export const NO_FLOW: FlowRow = {
  ...(Object.fromEntries(Object.keys(FLOW).map((name) => [name, 0])) as Record<keyof typeof FLOW, number>),
  spot: 0,
  underlying_type: '',
  market_cap: 0,
  earning_date: '',
};

/** One row: a symbol's flow and the attributes of its underlying; zeros and empty text without records. */
export function buildFlowQuery({ trades }: Tables, symbol: string, moment: Moment): string {
  const values = Object.entries({ ...FLOW, ...META }).map(
    ([name, sql]) => `${sql} AS ${quoteIdentifier(`out_${name}`)}`,
  );
  // Renamed in an outer SELECT: an alias equal to a column name would replace that column in the other expressions.
  const names = Object.keys({ ...FLOW, ...META }).map((name) => `out_${name} AS ${quoteIdentifier(name)}`);
  return `SELECT ${names.join(', ')} FROM (
      SELECT ${values.join(', ')} FROM ${trades} WHERE ${recordsSql(symbol, moment)}
    ) ${SETTINGS}`;
}

function recordsSql(symbol: string, { date, wallTime }: Moment): string {
  return `date = ${quoteString(date)} AND symbol = ${quoteString(symbol)} AND time <= ${quoteString(wallTime)}`;
}
