/** How many rows of a date may share their ids before it fails, whatever its source, and what is said then. Pure. */
import { Fault } from '../core/errors.ts';

/**
 * Share of a date's rows that may repeat an id, and how many may in any case: a source has a corrected row beside its first
 * now and then, while SQL that multiplies rows, or ids that are none, repeat half of them.
 */
const MAX_REPEATED_SHARE = 0.05;
const MAX_REPEATED_ROWS = 20;

export function mostRepeated(rows: number): number {
  return Math.max(MAX_REPEATED_ROWS, rows * MAX_REPEATED_SHARE);
}

export interface RepeatedFacts {
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
