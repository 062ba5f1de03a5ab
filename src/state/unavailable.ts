/**
 * Dates that a source had no data for, so that runs do not ask for the same missing snapshots every night. The state
 * directory keeps them: `condition.json` records that a date is missing, but not when it was asked for or for which
 * symbols, and it does not list dates before the first drop. Losing this record costs one more night's requests.
 */
import { z } from 'zod';
import type { CalendarOverride } from '../calendar/session.ts';
import { settledAt } from '../plan/dates.ts';
import type { DateResult } from './run-result.ts';

const askedSchema = z.object({
  /** When it was last asked for, by the API's clock. */
  asked_at: z.string(),
  /** The URL that had no data. */
  url: z.string(),
  /** The symbols that it had no data for. */
  symbols: z.array(z.string()),
});

/** By date. */
export const unavailableSchema = z.record(z.string(), askedSchema);

export type Unavailable = Readonly<z.infer<typeof unavailableSchema>>;

/**
 * How long after its session's rows are visible a snapshot may still arrive. The exchange's longest weekend is four days, and
 * a provider fixes on a working day what its alarms reported on the weekend. Asking costs one request a symbol and
 * night.
 */
export const LATE_DAYS = 5;

const DAY_MS = 86_400_000;

/** What a run asks the source for. */
interface AskedSymbols {
  readonly url: string;
  readonly symbols: readonly string[];
}

/**
 * Whether the last request for these symbols came too late to expect more data. A symbol new to the job is asked for
 * again.
 */
export function isUnavailable(
  asked: Unavailable[string] | undefined,
  { url, symbols }: AskedSymbols,
  date: string,
  calendar?: CalendarOverride,
): boolean {
  if (asked === undefined || asked.url !== url) return false;
  const isLate = Date.parse(asked.asked_at) >= settledAt(date, { settleSeconds: 0, calendar }) + LATE_DAYS * DAY_MS;
  return isLate && symbols.every((symbol) => asked.symbols.includes(symbol));
}

/**
 * Adds the dates that a run found no data for. Removes those it found, and those before the lookback.
 * @param firstWhole first date of the lookback
 */
export function addUnavailable(
  before: Unavailable,
  results: readonly DateResult[],
  { url, symbols }: AskedSymbols,
  { askedAt, firstWhole }: { readonly askedAt: string; readonly firstWhole: string },
): Unavailable {
  const after = new Map(Object.entries(before).filter(([date]) => date >= firstWhole));
  for (const { date, status } of results) {
    if (status !== 'missing') after.delete(date);
    else if (date >= firstWhole) after.set(date, { asked_at: askedAt, url, symbols: [...symbols] });
  }
  return Object.fromEntries(after);
}
