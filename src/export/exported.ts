/** The outcome of exporting one date. */
import { listDoubts, type Manifest } from '../ledger/manifest.ts';
import type { ExportRun } from '../run/run.ts';
import type { DateResult } from '../state/run-result.ts';
import type { SealResult } from './seal-date.ts';

export interface ExportedDate {
  /** `undefined` when the source has no rows of the date. */
  readonly published: SealResult | undefined;
  /** Named in the job, but without data in the source. */
  readonly missing: NonNullable<Manifest['missing']>;
}

/** A clock now calls the date unfinished or clipped; fetched rows stay staged. */
export interface HeldBack {
  readonly held: string;
}

/** The last rows are so recent that more may follow. */
export interface OpenDate {
  /** When the date will have settled if none does, milliseconds since the epoch. */
  readonly settlesAtMs: number;
}

export type ExportOutcome = ExportedDate | HeldBack | OpenDate;

/** The record of a sealed date, after its event. */
export function describeSealedDate(
  { onEvent }: Pick<ExportRun, 'onEvent'>,
  { manifest, status, changes }: SealResult,
  requests: number,
): DateResult {
  const { date, rows, revision, degraded_reason } = manifest;
  const [{ size }] = manifest.files;
  onEvent({ kind: 'sealed', date, rows, sizeBytes: size, requests });
  const found = listDoubts(manifest);
  const doubts = status === 'sealed' && found.length > 0 ? [...found] : undefined;
  return { date, status, rows, requests, size, revision, changes, degraded_reason, doubts };
}
