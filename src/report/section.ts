/**
 * The sections of a report, by the names that a job file uses to choose and order them. The first screen, with everything
 * that says how to read the numbers, is no section: it cannot be left out.
 */

/** Those that the mail has room for, in its usual order. */
export const MAIL_SECTIONS = ['watchlist', 'key-numbers', 'session-chart', 'strikes-chart', 'moved'] as const;

export type MailSection = (typeof MAIL_SECTIONS)[number];

/** Charts of the full report, in its usual order. */
export const CHART_SECTIONS = ['session-chart', 'symbols-chart', 'strikes-chart'] as const;

export type ChartSection = (typeof CHART_SECTIONS)[number];

/** What the full report ends with. */
export const CLOSING_SECTIONS = ['left-out', 'formulas', 'rebuild'] as const;

export type ClosingSection = (typeof CLOSING_SECTIONS)[number];

/** All names: `watchlist` is of the mail only, those between the charts and `left-out` are the tables of `report-tables.ts`. */
export const SECTIONS = [
  'watchlist',
  'key-numbers',
  ...CHART_SECTIONS,
  'moved',
  'symbols',
  'unusual-symbols',
  'half-hours',
  'expirations',
  'moneyness',
  'biggest-trades',
  'biggest-sweeps',
  'contracts',
  'volatility',
  'gex-by-symbol',
  'gex-by-strike',
  'gex-by-expiration',
  'market-structure',
  ...CLOSING_SECTIONS,
] as const;

export type Section = (typeof SECTIONS)[number];

/** Keeps those that are asked for, in the order asked for; without a wish, all as they are. */
export function chooseSections<T>(
  usual: readonly T[],
  nameOf: (section: T) => string,
  wanted: readonly string[] | null,
): readonly T[] {
  if (wanted === null) return usual;
  return wanted.flatMap((name) => usual.filter((section) => nameOf(section) === name));
}
