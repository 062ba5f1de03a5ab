/** What every bench gets and gives back. */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { NoteGoal } from './goal.ts';

export interface BenchOptions {
  /** Generated trades of the one session that is exported. */
  readonly rows: number;
  /** Sessions of the year that the archive is asked about. */
  readonly sessions: number;
  /** Times each measurement is taken; the tables show medians. */
  readonly repeat: number;
  /** Pages of the run that the pace is measured over. Each takes a second. */
  readonly pages: number;
  /** Takes a number that was to be reached, for the table at the end. */
  readonly note: NoteGoal;
}

/** 300 pages: counts, cuts and recounts, which wait for each other, then weigh as little as on a real night. */
export const DEFAULT_OPTIONS: BenchOptions = {
  rows: 1_000_000,
  sessions: 250,
  repeat: 3,
  pages: 300,
  note: () => undefined,
};

/** Runs a bench and returns its tables as text. */
export type RunBench = (options: BenchOptions) => Promise<string>;

/** Rows of a full page: the API's row limit. */
export const PAGE_ROWS = 10_000;

/** Middle of the sorted values; the mean of the two middle ones when their number is even. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2;
}

/** A ratio as it is printed: `2.41x`. */
export function formatRatio(value: number): string {
  return `${value.toFixed(2)}x`;
}

/** Progress goes to stderr, so that stdout holds nothing but the tables. */
export function say(text: string): void {
  process.stderr.write(`${text}\n`);
}

const MAX_OUTPUT_BYTES = 1 << 26;

/** Runs a file of this folder as a process of its own, so that what it takes is its own. @returns what it printed */
export async function runChild(name: string, args: readonly string[], flags: readonly string[] = []): Promise<string> {
  const entry = fileURLToPath(new URL(name, import.meta.url));
  const words = [...flags, '--import', 'tsx', entry, ...args];
  return (await promisify(execFile)(process.execPath, words, { maxBuffer: MAX_OUTPUT_BYTES })).stdout;
}
