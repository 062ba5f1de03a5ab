/**
 * Compares a sealed date with its source's counts, for `verify --deep`: trades, groups and server tables, each by the count
 * that proved their export. Snapshots have no count. No rows are fetched and nothing is changed.
 */

import type { Manifest } from '../ledger/manifest.ts';
import { sumCounts } from '../plan/counts.ts';
import { firstSecondOf, leavesAt } from '../plan/dates.ts';
import { expires } from '../plan/lookback.ts';
import type { OpenedSource } from '../run/open-source.ts';
import type { ApiLimits } from '../state/limits.ts';
import { type ClockDeps, latestNow } from './clocks.ts';
import { buildTableCounts, buildTableRepeats, hasId } from './server-table/table-statement.ts';
import { probeGroups } from './trades/probe.ts';
import { type Recount, recountDate, sumParts } from './trades/recount.ts';

/** A source whose rows can be counted. */
type CountedSource = Exclude<OpenedSource, { kind: 'snapshots' }>;

type SealedCounts = Pick<
  Manifest,
  'date' | 'rows' | 'source_rows' | 'recount' | 'ids' | 'quarantine' | 'kept' | 'min_time'
>;

interface RecountDeps extends Pick<ClockDeps, 'clock' | 'clockRule'> {
  readonly limits: ApiLimits;
  readonly signal?: AbortSignal | undefined;
}

/**
 * What differs, in words; `undefined` for a date that is no longer complete in the source.
 * @throws SourceFault, EngineFault; Fault `SCAN_TOO_BROAD`, `SERVER_TOO_OLD`, `TABLE_UNFIT`
 */
export async function compareWithSource(
  deps: RecountDeps,
  opened: CountedSource,
  sealed: SealedCounts,
): Promise<readonly string[] | undefined> {
  const nowMs = latestNow({ ...deps, source: opened.source });
  if (expires(opened.job.source) && leavesAt(sealed.date, firstSecondOf(sealed)) < nowMs) return undefined;
  if (opened.kind === 'table') return compareIds(sealed, sealed.rows, await countTable(deps, opened, sealed.date));
  const { source, job } = opened;
  const asked = { source, ...deps };
  if (job.source.kind === 'rows') {
    const now = await recountDate(asked, job, sealed.date, sealed.source_rows ?? sealed.rows);
    return compareHashes(sealed, now) ?? compareIds(sealed, countIds(sealed), now);
  }
  const groups = sumCounts(await probeGroups(asked, job, sealed.date)).rows;
  const trades = await sumParts(asked, job, sealed.date);
  // A late trade may belong to an existing group.
  return [
    ...(groups === sealed.rows ? [] : [`the source now gives ${groups} groups, the drop has ${sealed.rows}`]),
    ...(compareHashes(sealed, trades) ?? compareRows(sealed, trades.rows)),
  ];
}

/**
 * Compares the source's hashes, then and now: they show which rows exist, not only how many. Where the counts differ, the
 * hashes add nothing.
 * @returns `undefined` where there is nothing to compare
 */
function compareHashes({ recount, source_rows: had }: SealedCounts, now: Recount): readonly string[] | undefined {
  if (recount?.id_hash === undefined || now.idHash === undefined || had !== now.rows) return undefined;
  if (recount.id_hash !== now.idHash) {
    return [
      `the source still has ${now.rows} rows, but with other ids than when the date was sealed: rows were replaced`,
    ];
  }
  const isComparable = recount.columns.join() === now.columns.join() && now.valueHash !== undefined;
  if (!isComparable || recount.value_hash === undefined || recount.value_hash === now.valueHash) return [];
  return ['the source has the same ids as when the date was sealed, but with other values: rows were corrected'];
}

/** Distinct ids in the source: those of the drop and of rows in quarantine, without rows that an audit kept. */
function countIds({ ids, rows, quarantine, kept = 0 }: SealedCounts): number {
  return (ids ?? rows) - kept + (quarantine?.ids ?? 0);
}

/** Without ids, each row of the table is a row of the drop. */
async function countTable(
  { signal }: RecountDeps,
  { source, job }: Extract<OpenedSource, { kind: 'table' }>,
  date: string,
): Promise<Recount> {
  const { types } = await source.describe(signal);
  const counting = buildTableCounts(job.source, types, date);
  const [counted] = await source.rows<{ n: number; u: number }>(counting, { signal });
  const rows = Number(counted?.n ?? 0);
  if (!hasId(job.source) || Number(counted?.u ?? 0) === rows) {
    return { rows, ids: hasId(job.source) ? rows : undefined, columns: [] };
  }
  const repeats = buildTableRepeats(job.source, types, date, 'trade');
  const [beyond] = await source.rows<{ n: number }>(repeats, { signal });
  return { rows, ids: rows - Number(beyond?.n ?? 0), columns: [] };
}

/** @param had ids that the drop has; of a server's table trades, which are counted as it counts them */
function compareIds(sealed: SealedCounts, had: number, now: Recount): readonly string[] {
  // Counts of parts: distinct ids do not add up, rows do.
  if (now.ids === undefined) return compareRows(sealed, now.rows);
  if (now.ids === had) return [];
  return [
    `the source now has ${now.ids} distinct ids, the drop ${sealed.rows} rows${had === sealed.rows ? '' : ` with ${had}`}`,
  ];
}

function compareRows({ source_rows: had }: SealedCounts, has: number): readonly string[] {
  if (had === null || has === had) return [];
  return [`the source now has ${has} rows, it had ${had} when the date was sealed`];
}
