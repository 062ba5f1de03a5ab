/** What became of a date that was to be exported. */
import type { Manifest } from '../ledger/manifest.ts';
import type { SealResult } from './seal-date.ts';

export interface ExportedDate {
  /** `undefined` when the source has nothing of the date. */
  readonly published: SealResult | undefined;
  /** What the source has nothing of, although the job names it. */
  readonly missing: NonNullable<Manifest['missing']>;
}

/** A date that a witness of the time calls unfinished or clipped by now; what was fetched of it stays staged. */
export interface HeldBack {
  readonly held: string;
}

/** `open`: the date's last rows are too fresh for it to be over. */
export type ExportOutcome = ExportedDate | HeldBack | 'open';
