/**
 * How many rows of a date may be odd, and how they are described: rows in quarantine, and rows that share ids. The rows in
 * quarantine stay in the stage (`stage/quarantine.ts`) until they are sealed beside the drop.
 */
import { Fault } from '../core/errors.ts';
import { formatCount, formatDollars } from '../core/units.ts';
import type { Job } from '../job/job.ts';
import { type BadRowCount, countAllowed, type Quarantine, tooManyBadRows } from '../stage/quarantine.ts';
import type { Stage } from '../stage/stage.ts';
import type { ExampleId } from '../stage/window-conflicts.ts';

/** Reasons in a message; the manifest has all. */
const SHOWN_REASONS = 3;

/**
 * @param rows of the date @throws Fault `BAD_ROWS` when more are bad than the job allows; their pages are dropped, so
 *   that the next run fetches them again
 */
export async function assertFewBadRows(
  job: Job,
  stage: Pick<Stage, 'date' | 'forgetBad'>,
  rows: number,
  quarantine: Pick<Quarantine, 'rows' | 'reasons'>,
): Promise<void> {
  const allowed = countAllowed(job.rows, rows);
  if (quarantine.rows <= allowed) return;
  await stage.forgetBad();
  const examples = quarantine.reasons.slice(0, SHOWN_REASONS).map(describeReason);
  throw tooManyBadRows(job, stage.date, { found: quarantine.rows, allowed, examples, isAll: quarantine.rows >= rows });
}

/** `3 of 60,000 rows are in quarantine (premium $1.20K): 2 "time" is not a time YYYY-MM-DD HH:MM:SS, 1 is not UTF-8`; without any, `undefined`. @param good rows beside them */
export function describeQuarantine({ rows, reasons, premium }: Quarantine, good: number): string | undefined {
  if (rows === 0) return undefined;
  const shown = reasons.slice(0, SHOWN_REASONS).map(describeReason);
  const others = reasons.slice(SHOWN_REASONS).reduce((sum, reason) => sum + reason.rows, 0);
  const rest = others > 0 ? [`${formatCount(others)} for other reasons`] : [];
  const verb = rows === 1 ? 'is' : 'are';
  return `${formatCount(rows)} of ${formatCount(good + rows)} rows ${verb} in quarantine${describePremium(rows, premium)}: ${[...shown, ...rest].join(', ')}`;
}

/** What the day's sums lack. */
function describePremium(rows: number, premium: Quarantine['premium']): string {
  if (premium === undefined) return '';
  if (premium.rows === 0) return ' (premium unknown)';
  return ` (premium ${formatDollars(premium.dollars)}${premium.rows < rows ? ' or more' : ''})`;
}

export function joinReasons(...reasons: readonly (string | undefined)[]): string | undefined {
  return reasons.filter((reason) => reason !== undefined).join('; ') || undefined;
}

function describeReason({ column, reason, rows }: BadRowCount): string {
  return `${formatCount(rows)} ${column === '' ? '' : `"${column}" `}${reason}`;
}

/**
 * Share of a date's rows that may repeat an id, and how many always may, for every kind of source. A source sometimes keeps a
 * corrected row beside the first one; SQL that multiplies rows, or empty ids, repeat half of them.
 */
const MAX_REPEATED_SHARE = 0.05;
const MAX_REPEATED_ROWS = 20;

export function mostRepeated(rows: number): number {
  return Math.max(MAX_REPEATED_ROWS, rows * MAX_REPEATED_SHARE);
}

/** @param what is wrong, in words */
export function repeatedFault(date: string, what: string, examples: readonly ExampleId[], hint: string): Fault {
  const listed = examples.map(
    ({ id, rows, trades }) => `id ${JSON.stringify(id)} has ${rows} rows (${trades.join('; ')})`,
  );
  return new Fault('IDS_REPEATED', `${date}: ${what}. For example: ${listed.join(', ')}`, { hint });
}
