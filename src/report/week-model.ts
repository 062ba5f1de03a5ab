/** The week of a report as data, as `model.ts` has the date's. A list of days is ascending. */
import type { Amount } from './amount.ts';
import type { Change } from './changes.ts';
import type { Compared } from './numbers.ts';
import { field, maybe, type RowOf, shown } from './report-table.ts';

/** How much of a day the store has, by what a reader calls it. */
export const DAY_STATES = {
  complete: 'Complete',
  unusual: 'Unusual',
  degraded: 'Degraded',
  pending: 'Pending',
  missing: 'Missing',
  lost: 'Lost',
  empty: 'No trades',
  unknown: 'Not exported',
  closed: 'Closed',
} as const;

export type DayState = keyof typeof DAY_STATES;

/** States of which a reader needs no warning. */
const USUAL_STATES: readonly DayState[] = ['complete', 'empty', 'closed'];

/** A session, or a weekday without one. */
export interface WeekDay {
  readonly date: string;
  readonly state: DayState;
  /** Why it is not complete, in words; empty otherwise. */
  readonly reason: string;
  /** The part of a whole session that it has: less than 1 on a half day. */
  readonly length: number;
  /** Null if it is not sealed, or its drop has no summary that can be read. */
  readonly numbers: Readonly<Record<Compared, Amount>> | null;
}

export function isWarned({ state }: WeekDay): boolean {
  return !USUAL_STATES.includes(state);
}

type Held = Readonly<Record<'before' | 'after', number>>;

export const WEEK_OPENED_COLUMNS = [
  field(null, 'symbol', 'text'),
  field('Contract', 'contract', 'contract'),
  shown('Opened', 'opened', 'count', (row: Held) => row.after - row.before),
  field('OI before', 'before', 'count', 'open_interest_before'),
  field('OI after', 'after', 'count', 'open_interest_after'),
  maybe('Premium', 'premium', 'dollars'),
];

/** A contract whose open interest rose: `before` at the opening of the first session in which it traded, `after` of the last. */
export type WeekOpened = RowOf<typeof WEEK_OPENED_COLUMNS>;

export const WEEK_EXPIRED_COLUMNS = [
  field('Symbol', 'symbol', 'text'),
  maybe('Premium', 'premium', 'dollars'),
  field('Open interest', 'openInterest', 'count'),
  field('Contracts', 'series', 'count'),
];

/** Of a symbol, or of all: what traded in the week and expired in it. */
export type WeekExpired = RowOf<typeof WEEK_EXPIRED_COLUMNS>;

export const WEEK_SUMS = [
  ...(['trades', 'contracts', 'total', 'calls', 'puts'] as const),
  ...(['netCalls', 'netPuts', 'bullish', 'bearish', 'neutral'] as const),
] as const;

export interface Week {
  /** Monday to the last day of the report, or to Friday where no later session is to come. */
  readonly days: readonly WeekDay[];
  /** Those of up to four weeks before in which a session is sealed, newest first. */
  readonly before: readonly (readonly WeekDay[])[];
  /** Each number of an average session, beside that of the newest of `before` and their median. */
  readonly changes: Readonly<Record<Compared, Change>>;
  /** Of the sealed days, not of an average one. */
  readonly sums: Readonly<Record<(typeof WEEK_SUMS)[number], Amount>>;
  /** All symbols together. */
  readonly expired: Omit<WeekExpired, 'symbol'>;
  /** By premium (at most 10). */
  readonly expiredSymbols: readonly WeekExpired[];
  /** Contracts that traded in two sessions or more, and rose. */
  readonly openedSeries: number;
  /** By how far it rose (at most 10). */
  readonly opened: readonly WeekOpened[];
}
