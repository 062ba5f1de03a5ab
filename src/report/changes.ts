/**
 * A number beside those of the sessions before. Exposure and volatility are in no summary, so the reports of these sessions,
 * which the store keeps as they were mailed, are read for them. Pure. Invariant: exposure of a whole chain is compared with
 * that of a whole chain only, and one of traded contracts with its like.
 */
import type { Amount } from './amount.ts';
import type { ExpirationVolatility, Exposure, SymbolExposure } from './exposure-model.ts';

/** A median over fewer is about one of them. */
export const FEWEST_IN_MEDIAN = 3;

/** A number of this date beside the same number of earlier sessions. */
export interface Change {
  readonly latest: number | null;
  /** The number of the sealed session before; null if there is none. */
  readonly previous: number | null;
  /** Over the sessions of `Comparison.dates`; null if fewer than three have the number. */
  readonly median: number | null;
  /** How many of the sessions that have the number it is above; null if there are fewer than three, or it is unknown. */
  readonly place: { readonly above: number; readonly sessions: number } | null;
}

/**
 * A number beside the same of earlier sessions.
 * @param before of the compared sessions, in any order; null where a session does not have it
 */
export function compare(latest: Amount, previous: Amount, before: readonly Amount[]): Change {
  const known = before.filter((value) => value !== null).toSorted((a, b) => a - b);
  if (known.length < FEWEST_IN_MEDIAN) return { latest, previous, median: null, place: null };
  const middle = known.slice(Math.ceil(known.length / 2) - 1, Math.floor(known.length / 2) + 1);
  return {
    ...{ latest, previous },
    median: middle.reduce((sum, value) => sum + value, 0) / middle.length,
    place: latest === null ? null : { above: known.filter((value) => value < latest).length, sessions: known.length },
  };
}

/** The expiration whose volatility is compared is the one nearest to this many days, as volatility indexes have it. */
const USUAL_DAYS = 30;

interface Level {
  readonly label: string;
  readonly unit: 'dollars' | 'price' | 'fraction' | 'points';
  /** Whether it depends on which contracts it is of. */
  readonly isOfContracts: boolean;
  readonly read: (exposure: SymbolExposure, volatility: readonly ExpirationVolatility[]) => Amount;
}

const level = (
  label: string,
  unit: Level['unit'],
  read: Level['read'],
  isOfContracts = unit === 'dollars' || unit === 'price',
): Level => ({ label, unit, isOfContracts, read });

/** What is compared, by its name in files. */
export const LEVELS = {
  spot: level('Spot', 'price', ({ spot }) => spot, false),
  net_gex: level('Net GEX', 'dollars', ({ spot, netGex }) => (spot === null ? null : netGex)),
  net_gex_after_expiration: level('Net GEX after expiration', 'dollars', ({ spot, netGexAfter }) =>
    spot === null ? null : netGexAfter,
  ),
  net_dex: level('Net delta', 'dollars', ({ spot, netDex }) => (spot === null ? null : netDex)),
  zero_gamma: level('Zero gamma', 'price', ({ zeroGamma }) => zeroGamma),
  call_wall: level('Call wall', 'price', ({ callWall }) => callWall),
  put_wall: level('Put wall', 'price', ({ putWall }) => putWall),
  at_the_money_volatility: level(
    'IV at the money, 30 days',
    'fraction',
    (_, rows) => pickUsual(rows)?.atTheMoney ?? null,
  ),
  skew_25_delta: level('25-delta skew, 30 days', 'points', (_, rows) => pickUsual(rows)?.skew ?? null),
  expected_move_a_day: level('Expected move a day', 'price', (_, rows) => readMoveADay(rows), false),
} as const satisfies Readonly<Record<string, Level>>;

export type LevelName = keyof typeof LEVELS;

const NAMES = Object.keys(LEVELS) as LevelName[]; // Its keys.

/** The levels of one session, by symbol. */
export type SessionLevels = ReadonlyMap<
  string,
  { readonly isWholeChain: boolean; readonly values: Readonly<Record<LevelName, Amount>> }
>;

/** A number of a symbol with details, beside the same of the sessions before. */
export interface LevelChange extends Change {
  readonly symbol: string;
  readonly name: LevelName;
  readonly label: string;
  readonly unit: Level['unit'];
}

/** Of one session, as its report has them. */
export interface Measured {
  readonly exposure: Exposure;
  readonly volatility: readonly ExpirationVolatility[];
}

/** @throws TypeError if it is the report of another version, without these numbers */
export function readLevels({ exposure, volatility }: Measured): SessionLevels {
  return new Map(
    exposure.focus.map((own) => {
      const rows = volatility.filter(({ symbol }) => symbol === own.symbol);
      const values = NAMES.map((name) => [name, toKnown(LEVELS[name].read(own, rows))]);
      return [own.symbol, { isWholeChain: own.isWholeChain, values: Object.fromEntries(values) }];
    }),
  );
}

/** A number of an earlier report came from a file. */
function toKnown(value: unknown): Amount {
  return typeof value === 'number' && Number.isFinite(value) ? value : null;
}

/**
 * Leaves out what no session before has.
 * @param before of the compared sessions, newest first; null where no report was mailed
 */
export function compareLevels(today: Measured, before: readonly (SessionLevels | null)[]): readonly LevelChange[] {
  return [...readLevels(today)].flatMap(([symbol, own]) =>
    NAMES.flatMap((name) => {
      const { label, unit, isOfContracts } = LEVELS[name];
      const past = before.map((session) => {
        const then = session?.get(symbol);
        return then === undefined || (isOfContracts && then.isWholeChain !== own.isWholeChain)
          ? null
          : then.values[name];
      });
      const change = compare(own.values[name], past[0] ?? null, past);
      return change.previous === null && change.median === null ? [] : [{ symbol, name, label, unit, ...change }];
    }),
  );
}

function pickUsual(rows: readonly ExpirationVolatility[]): ExpirationVolatility | undefined {
  const distance = ({ days }: ExpirationVolatility) => Math.abs(days - USUAL_DAYS);
  return rows.filter(({ atTheMoney }) => atTheMoney !== null).toSorted((a, b) => distance(a) - distance(b))[0];
}

/** Of the next expiration, for one calendar day: a move grows with the root of its days. */
function readMoveADay(rows: readonly ExpirationVolatility[]): Amount {
  const next = rows
    .filter(({ days, expectedMove }) => days > 0 && expectedMove !== null)
    .toSorted((a, b) => a.days - b.days)[0];
  return next === undefined || next.expectedMove === null ? null : next.expectedMove / Math.sqrt(next.days);
}
