/** How many rows of a date may share ids before the date fails, for every kind of source. Pure. */
import { Fault } from '../core/errors.ts';

/**
 * Share of a date's rows that may repeat an id, and how many always may. A source sometimes keeps a corrected row beside
 * the first one; SQL that multiplies rows, or empty ids, repeat half of them.
 */
const MAX_REPEATED_SHARE = 0.05;
const MAX_REPEATED_ROWS = 20;

export function mostRepeated(rows: number): number {
  return Math.max(MAX_REPEATED_ROWS, rows * MAX_REPEATED_SHARE);
}

interface RepeatedFacts {
  readonly what: string;
  readonly examples: readonly { readonly id: string; readonly rows: number; readonly trades: readonly string[] }[];
  readonly hint: string;
}

export function repeatedFault(date: string, { what, examples, hint }: RepeatedFacts): Fault {
  const told = examples.map(
    ({ id, rows, trades }) => `id ${JSON.stringify(id)} has ${rows} rows (${trades.join('; ')})`,
  );
  return new Fault('IDS_REPEATED', `${date}: ${what}. For example: ${told.join(', ')}`, { hint });
}
