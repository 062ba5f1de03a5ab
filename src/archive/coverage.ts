/**
 * What an answer from the archive lacks, by dataset: session dates that the query can touch but that are not sealed,
 * sealed dates that are known to be incomplete or have no summary, and columns that some dates lack. Pure.
 */
import { type CalendarOverride, listSessions } from '../calendar/session.ts';
import type { Manifest } from '../ledger/manifest.ts';
import { mayTouch } from './reads.ts';
import { type OpenTable, sortByDate } from './tables.ts';

export interface Coverage {
  readonly dataset: string;
  /** All sealed dates of the dataset, ascending. */
  readonly sealed: readonly string[];
  /** Sealed dates that can be in the answer, ascending. */
  readonly dates: readonly string[];
  /** The subset of `dates` that was sealed as incomplete. */
  readonly degraded: readonly string[];
  /** Session dates that could be in the answer but are not sealed. */
  readonly missing: readonly string[];
  /** Sealed dates that the statement reads the summary of, but that have none. */
  readonly unsummarized: readonly string[];
  /** Columns of the statement that some dates lack, with these dates; there the columns are null, or empty texts. */
  readonly lacking: ReadonlyMap<string, readonly string[]>;
}

/** A table as the statement sees it. */
type ShownTable = Pick<OpenTable, 'rows' | 'columns' | 'reads' | 'manifests'> & {
  readonly sealed: Pick<OpenTable['sealed'], 'dataset' | 'dates'>;
};

/**
 * Of each dataset that the statement reads.
 * @param tables narrowed to what it reads @param lastSession the last session that should be sealed by now
 * @param isNamed whether the statement may read the column
 */
export function describeCoverage(
  tables: readonly ShownTable[],
  lastSession: string,
  calendar: CalendarOverride | undefined,
  isNamed: (column: string) => boolean,
): readonly Coverage[] {
  const shown = tables.filter(({ reads }) => reads.length > 0);
  const datasets = new Map(shown.map(({ sealed }) => [sealed.dataset, sealed.dates]));
  return Array.from(datasets, ([dataset, sealed]) => {
    const own = shown.filter((table) => table.sealed.dataset === dataset);
    const rows = own.filter((table) => table.rows !== 'summary');
    const manifests = unite(own);
    const [first] = sealed;
    // Dates before the first sealed one are not a gap: the dataset did not exist yet.
    const sessions = first === undefined ? [] : listSessions(first, lastSession, calendar);
    // The table of the newest date has no gap.
    const reads = own.filter((table) => table.rows !== 'newest').flatMap((table) => table.reads);
    const columns = new Set(
      rows.flatMap((table) => table.columns().flatMap(({ name, readAs }) => (readAs ? [name] : []))),
    );
    return {
      dataset,
      sealed,
      dates: manifests.map(({ date }) => date),
      degraded: manifests.filter(({ condition }) => condition === 'degraded').map(({ date }) => date),
      // All times of a date lie on that date.
      missing: sessions.filter(
        (date) => !sealed.includes(date) && reads.some((read) => mayTouch(read, date, date, `${date} 24`)),
      ),
      unsummarized: unite(own.filter((table) => table.rows === 'summary'))
        .filter(({ summary }) => !summary)
        .map(({ date }) => date),
      lacking: listLacking([...columns].filter(isNamed), unite(rows)),
    };
  });
}

function unite(shown: readonly ShownTable[]): readonly Manifest[] {
  return sortByDate(shown.flatMap(({ manifests }) => manifests));
}

/** The columns that some files lack, with the dates of these files. */
function listLacking(columns: readonly string[], manifests: readonly Manifest[]): Coverage['lacking'] {
  const lacking = columns.map((name) => {
    const dates = manifests.filter(({ schema }) => !schema.some((column) => column.name === name));
    return [name, dates.map(({ date }) => date)] as const;
  });
  return new Map(lacking.filter(([name, dates]) => name !== 'date' && dates.length > 0));
}
