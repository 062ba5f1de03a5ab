/**
 * `npm run bench -- export`: everything that an export is measured by, one bench after another. Each is a bench of its
 * own; this file only says which belong together, and on how many rows the numbers to reach are meant. `--rows` and
 * `--pages` make them smaller, never larger.
 */
import type { BenchOptions } from './support/bench.ts';

export interface ExportPart {
  readonly name: 'requests' | 'pace' | 'seal' | 'memory' | 'point';
  /** Rows of the session; the bench of memory takes ten times as many too. The pace has pages of its own. */
  readonly rows: number;
}

/** A session has 7 million trades. The peers of sealing keep their rows in JavaScript, of which a million is enough. */
export const EXPORT_PARTS: readonly ExportPart[] = [
  { name: 'requests', rows: 7_000_000 },
  { name: 'pace', rows: 0 },
  { name: 'seal', rows: 1_000_000 },
  { name: 'memory', rows: 1_000_000 },
  { name: 'point', rows: 7_000_000 },
];

/** @param most rows that the user wants to wait for; `undefined`: as many as the numbers are meant for */
export function optionsOf(part: ExportPart, options: BenchOptions, most: number | undefined): BenchOptions {
  return { ...options, rows: Math.min(part.rows, most ?? part.rows), goalsOnly: true };
}
