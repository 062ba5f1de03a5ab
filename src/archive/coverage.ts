/**
 * What an answer from the archive lacks, by dataset: session dates that the query can touch but that are not sealed,
 * sealed dates that are known to be incomplete or have no summary, and columns that some dates lack. Pure.
 */
import { type CalendarOverride, listSessions } from '../calendar/session.ts';
import type { Manifest } from '../ledger/manifest.ts';
import { listLacking } from './archive-column.ts';
import type { TableRead } from './reads.ts';
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

interface CoverageContext {
  /** The last session that should be sealed by now. */
  readonly lastSession: string;
  readonly calendar?: CalendarOverride | undefined;
  /** Whether the statement may read the column. */
  isNamed(column: string): boolean;
}

/** Of each dataset that the statement reads. @param tables narrowed to what it reads */
export function describeCoverage(tables: readonly ShownTable[], context: CoverageContext): readonly Coverage[] {
  const shown = tables.filter(({ reads }) => reads.length > 0);
  const datasets = [...new Set(shown.map(({ sealed }) => sealed.dataset))];
  return datasets.map((dataset) => {
    const own = shown.filter(({ sealed }) => sealed.dataset === dataset);
    return describeDataset(dataset, own, context);
  });
}

function describeDataset(
  dataset: string,
  shown: readonly ShownTable[],
  { lastSession, calendar, isNamed }: CoverageContext,
): Coverage {
  const sealed = shown[0]?.sealed.dates ?? [];
  const manifests = unite(shown);
  const rows = shown.filter((table) => table.rows !== 'summary');
  const columns = new Set(rows.flatMap((table) => table.columns().map(({ name }) => name)));
  const known = new Set(sealed);
  const [first] = sealed;
  // Dates before the first sealed one are not a gap: the dataset did not exist yet.
  const sessions = first === undefined ? [] : listSessions(first, lastSession, calendar);
  // The table of the newest date has no gap.
  const reads = shown.filter((table) => table.rows !== 'newest').flatMap((table) => table.reads);
  return {
    dataset,
    sealed,
    dates: manifests.map(({ date }) => date),
    degraded: manifests.filter(({ condition }) => condition === 'degraded').map(({ date }) => date),
    missing: sessions.filter((date) => !known.has(date) && reads.some((read) => mayTouch(read, date))),
    unsummarized: unite(shown.filter((table) => table.rows === 'summary'))
      .filter(({ summary }) => !summary)
      .map(({ date }) => date),
    lacking: listLacking([...columns].filter(isNamed), unite(rows)),
  };
}

/** The manifests of all tables, each once, ascending. */
function unite(shown: readonly ShownTable[]): readonly Manifest[] {
  const byDate = new Map(shown.flatMap(({ manifests }) => manifests).map((manifest) => [manifest.date, manifest]));
  return sortByDate([...byDate.values()]);
}

/** Whether rows of an unsealed date could be in the answer. All times of a date lie on that date. */
function mayTouch(read: TableRead, date: string): boolean {
  const { from, to } = read.time;
  return read.mayTouch(date) && !(from !== undefined && `${date} 24` < from) && !(to !== undefined && to < date);
}
