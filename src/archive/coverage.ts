/**
 * What an answer from the archive lacks: session dates that the query can touch but that are not sealed, sealed dates
 * that are known to be incomplete, and columns that some dates lack. Pure.
 */
import { type CalendarOverride, listSessions } from '../calendar/session.ts';
import type { Manifest } from '../ledger/manifest.ts';
import { listLacking } from './sealed-tables.ts';

export interface Coverage {
  /** Sealed dates that can be in the answer, ascending. */
  readonly dates: readonly string[];
  /** The subset of `dates` that was sealed as incomplete. */
  readonly degraded: readonly string[];
  /** Session dates that could be in the answer but are not sealed. */
  readonly missing: readonly string[];
  /** Columns of the statement that some dates lack, with these dates; there the columns read as empty. */
  readonly lacking: ReadonlyMap<string, readonly string[]>;
}

interface CoverageInput {
  /** All sealed dates of the dataset, ascending. */
  readonly sealed: readonly string[];
  /** Manifests of the sealed dates that can be in the answer. */
  readonly manifests: readonly Manifest[];
  /** The last session that should be sealed by now. */
  readonly lastSession: string;
  readonly calendar?: CalendarOverride | undefined;
  /** Columns that the statement may read. */
  readonly columns: readonly string[];
  mayTouch(date: string): boolean;
}

/** Dates before the first sealed one are not a gap: the dataset did not exist yet. */
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
