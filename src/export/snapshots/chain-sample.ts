/**
 * The strikes of a chain, learnt from the contracts of one expiration: a chain that is too large for one answer has some
 * hundred contracts of a monthly expiration, at about the strikes of all. Only a sample, so it is staged nowhere;
 * without it a chain is halved blindly.
 */
import { z } from 'zod';
import { addDays, weekday } from '../../calendar/wall-clock.ts';
import { tryParseJson } from '../../core/json-file.ts';
import type { SnapshotClient } from '../../source/snapshot.ts';
import { SourceFault } from '../../source/source.ts';
import type { StrikeCount } from './chain-part.ts';

const FRIDAY = 5;
/** The next one may be tomorrow, and has few strikes then. The two next months are listed of every underlying. */
const MIN_DAYS = 28;
/** The third Friday of a month is one of these days. */
const THIRD_WEEK = { first: 15, last: 21 } as const;
/** A larger answer is no sample. */
const MAX_SAMPLE_BYTES = 4 * 1024 ** 2;

/** Stock options expire on the third Friday, or on the day before if that is a holiday. */
const rowsSchema = z.array(z.looseObject({ strike: z.coerce.number().positive() }));

/** Contracts by strike of the first monthly expiration after four weeks, ascending; empty where the API shows none. Costs one request. */
export async function askStrikes(
  source: SnapshotClient,
  symbol: string,
  date: string,
  signal: AbortSignal | undefined,
): Promise<readonly StrikeCount[]> {
  try {
    const answer = await source.ask({ symbol, date, filter: { expiration: listedMonthly(date) } }, { signal });
    if (answer.kind !== 'rows' || answer.data.byteLength > MAX_SAMPLE_BYTES) return [];
    const rows = rowsSchema.safeParse(tryParseJson(Buffer.from(answer.data).toString('utf8'))).data ?? [];
    const counts = new Map<number, number>();
    for (const { strike } of rows) {
      const thousandths = Math.round(strike * 1000);
      counts.set(thousandths, (counts.get(thousandths) ?? 0) + 1);
    }
    return [...counts].sort(([a], [b]) => a - b);
  } catch (error) {
    // Even one expiration is too large, or the filter is not taken: it is no loss.
    if (error instanceof SourceFault && error.action === 'split') return [];
    throw error;
  }
}

function listedMonthly(date: string): string {
  for (let day = addDays(date, MIN_DAYS); ; day = addDays(day, 1)) {
    const ofMonth = Number(day.slice(8));
    if (weekday(day) === FRIDAY && ofMonth >= THIRD_WEEK.first && ofMonth <= THIRD_WEEK.last) return day;
  }
}
