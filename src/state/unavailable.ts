/**
 * Dates that a source was asked for in vain, so that snapshots that are not there are not asked for every night anew.
 * Kept in the state directory: `condition.json` says that a date is missing, but neither when it was asked for nor for
 * which symbols, and dates before the first drop are not in it at all. A lost record costs one more night's requests.
 */
import { z } from 'zod';
import type { CalendarOverride } from '../calendar/session.ts';
import { settledAt } from '../plan/dates.ts';
import type { DateResult } from './run-result.ts';

const askedSchema = z.object({
  /** When it was last asked for, by the API's clock. */
  asked_at: z.string(),
  /** Which address had nothing of it. */
  url: z.string(),
  /** Of which symbols it had nothing. */
  symbols: z.array(z.string()),
});

/** By date. */
export const unavailableSchema = z.record(z.string(), askedSchema);

export type Unavailable = Readonly<z.infer<typeof unavailableSchema>>;

/**
 * How long after its session a snapshot may still come: the longest weekend of the exchange is four days, and a provider
 * mends on a working day what its own alarms told on the weekend. Asking costs one request a symbol and night.
 */
export const LATE_DAYS = 5;

const DAY_MS = 86_400_000;

/** What a source is asked for. */
interface AskedSymbols {
  readonly url: string;
  readonly symbols: readonly string[];
}

/** Whether the same was asked of a date when nothing more was to come. A symbol that is new in the job asks anew. */
export function isUnavailable(
  asked: Unavailable[string] | undefined,
  { url, symbols }: AskedSymbols,
  date: string,
  calendar?: CalendarOverride,
): boolean {
  if (asked === undefined || asked.url !== url) return false;
  const isLate = Date.parse(asked.asked_at) >= settledAt(date, 0, calendar) + LATE_DAYS * DAY_MS;
  return isLate && symbols.every((symbol) => asked.symbols.includes(symbol));
}

/**
 * With the dates that a run asked for in vain, and without those that it found, and those that no run goes for any more.
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
