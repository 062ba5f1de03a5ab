/**
 * Dates that a source was asked for in vain, so that snapshots that are not there are not asked for every night anew.
 * Kept in the state directory: `condition.json` says that a date is missing, but neither when it was asked for nor for
 * which symbols, and dates before the first drop are not in it at all. A lost record costs one more night's requests.
 */
import { z } from 'zod';
import type { CalendarOverride } from '../calendar/session.ts';
import { writeFileAtomic } from '../core/atomic-file.ts';
import { readJsonFile } from '../core/json-file.ts';
import { settledAt } from '../plan/dates.ts';
import type { DateResult } from './run-result.ts';

const absenceSchema = z.object({
  /** When it was last asked for, by the API's clock. */
  asked_at: z.string(),
  /** Which address had nothing of it. */
  url: z.string(),
  /** Of which symbols it had nothing. */
  symbols: z.array(z.string()),
});

const recordSchema = z.record(z.string(), absenceSchema);

export type Absence = Readonly<z.infer<typeof absenceSchema>>;

/** By date. */
export type Absences = ReadonlyMap<string, Absence>;

/**
 * How long after its session a snapshot may still come: the longest weekend of the exchange is four days, and a provider
 * mends on a working day what its own alarms told on the weekend. Asking costs one request a symbol and night.
 */
export const LATE_DAYS = 5;

const DAY_MS = 86_400_000;

/** What a source is asked for. */
export interface Question {
  readonly url: string;
  readonly symbols: readonly string[];
}

/** Whether the same was asked of a date when nothing more was to come. A symbol that is new in the job asks anew. */
export function isAbsent(
  absence: Absence | undefined,
  { url, symbols }: Question,
  date: string,
  calendar?: CalendarOverride,
): boolean {
  if (absence === undefined || absence.url !== url) return false;
  const isLate = Date.parse(absence.asked_at) >= settledAt(date, 0, calendar) + LATE_DAYS * DAY_MS;
  return isLate && symbols.every((symbol) => absence.symbols.includes(symbol));
}

/** A record that cannot be read is worth no more than none. */
export async function readAbsences(path: string): Promise<Absences> {
  return new Map(Object.entries((await readJsonFile(path, recordSchema)) ?? {}));
}

/**
 * Keeps the dates that a run asked for in vain, and forgets those that it found, and those that no run goes for any more.
 * @param firstWhole first date of the lookback
 */
export async function noteAbsences(
  path: string,
  results: readonly DateResult[],
  question: Question,
  { askedAt, firstWhole }: { readonly askedAt: string; readonly firstWhole: string },
): Promise<void> {
  const before = await readAbsences(path);
  const after = new Map([...before].filter(([date]) => date >= firstWhole));
  for (const { date, status } of results) {
    if (status !== 'missing') after.delete(date);
    else if (date >= firstWhole)
      after.set(date, { asked_at: askedAt, url: question.url, symbols: [...question.symbols] });
  }
  const text = JSON.stringify(Object.fromEntries(after));
  if (text !== JSON.stringify(Object.fromEntries(before))) await writeFileAtomic(path, `${text}\n`);
}
