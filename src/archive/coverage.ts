/**
 * What an answer from the archive does not rest on: session dates that the query can touch and that are not sealed, dates
 * that are sealed but known to be incomplete, and columns that some dates lack. Pure.
 */
import { type CalendarOverride, listSessions } from '../calendar/session.ts';
import type { Manifest } from '../ledger/manifest.ts';
import { listLacking } from './sealed-tables.ts';

export interface Coverage {
  /** Sealed dates that can be in the answer, ascending. */
  readonly dates: readonly string[];
  /** Of these, the ones that are sealed as incomplete. */
  readonly degraded: readonly string[];
  /** Session dates that could be in the answer and are not sealed. */
  readonly missing: readonly string[];
  /** Columns of the statement that some of the dates lack: there they read as empty. */
  readonly lacking: ReadonlyMap<string, readonly string[]>;
}

interface CoverageInput {
  /** All sealed dates of the dataset, ascending. */
  readonly sealed: readonly string[];
  /** Manifests of those that can be in the answer. */
  readonly manifests: readonly Manifest[];
  /** The last session that should be sealed by now. */
  readonly lastSession: string;
  readonly calendar?: CalendarOverride | undefined;
  /** Columns that the statement may read. */
  readonly columns: readonly string[];
  mayTouch(date: string): boolean;
}

/** Dates before the first sealed one are no gap: the dataset did not exist. */
export function describeCoverage({
  sealed,
  manifests,
  lastSession,
  calendar,
  columns,
  mayTouch,
}: CoverageInput): Coverage {
  const [first] = sealed;
  const known = new Set(sealed);
  const sessions = first === undefined ? [] : listSessions(first, lastSession, calendar);
  return {
    dates: manifests.map(({ date }) => date),
    degraded: manifests.filter(({ condition }) => condition === 'degraded').map(({ date }) => date),
    missing: sessions.filter((date) => !known.has(date) && mayTouch(date)),
    lacking: listLacking(columns, manifests),
  };
}
