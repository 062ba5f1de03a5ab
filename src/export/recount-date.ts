/**
 * Compares a sealed date with its source's counts, for `verify --deep`: trades, groups and server tables, each by the count
 * that proved their export. Snapshots have no count. No rows are fetched and nothing is changed. One request asks for rows,
 * distinct ids and hashes of a whole date. Where that is too broad for the source, the date is counted in parts: rows and
 * hashes add up, distinct ids do not (an id may be in two parts), so they are unknown then.
 */

import { Fault } from '../core/errors.ts';
import type { HashedColumn } from '../engine/row-hash.ts';
import type { Manifest } from '../ledger/manifest.ts';
import { type HashTotals, readCount, sumCounts, sumHashes } from '../plan/counts.ts';
import { expires, firstSecondOf, leavesAt } from '../plan/dates.ts';
import { buildTotals } from '../plan/statement.ts';
import type { OpenedSql, OpenedTable } from '../run/open-source.ts';
import { type Page, SourceFault } from '../source/source.ts';
import { countTable, TableSql } from './server-table/table-sql.ts';
import { hashedOf, probeGroups, recountRows, withProof } from './trades/probe.ts';

type SealedCounts = Pick<
  Manifest,
  'date' | 'rows' | 'source_rows' | 'recount' | 'ids' | 'quarantine' | 'kept' | 'min_time'
>;

/**
 * What differs, in words; `undefined` for a date that is no longer complete in the source.
 * @throws SourceFault, EngineFault; Fault `SCAN_TOO_BROAD`, `SERVER_TOO_OLD`, `TABLE_UNFIT`
 */
export async function compareWithSource(
  opened: OpenedSql | OpenedTable,
  sealed: SealedCounts,
): Promise<readonly string[] | undefined> {
  const isGone = leavesAt(sealed.date, firstSecondOf(sealed)) < opened.clocks.latest();
  if (expires(opened.job.source) && isGone) return undefined;
  if (opened.kind === 'table') {
    const { types } = await opened.source.describe(opened.signal);
    const sql = new TableSql(opened.job.source, types);
    const { rows, trades } = await countTable(opened, sql, sealed.date);
    return compareIds(sealed, sealed.rows, { rows, ids: sql.hasId ? trades : undefined, columns: [] });
  }
  if (opened.job.source.kind === 'rows') {
    const now = await recountDate(opened, sealed.date, sealed.source_rows ?? sealed.rows);
    return compareHashes(sealed, now) ?? compareIds(sealed, countIds(sealed), now);
  }
  const groups = sumCounts(await probeGroups(opened, sealed.date)).rows;
  const trades = await sumParts(opened, sealed.date);
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

export interface Recount extends HashTotals {
  readonly rows: number;
  /** Distinct ids of the date; `undefined` when it could be counted only in parts. */
  readonly ids: number | undefined;
  /** Columns that `valueHash` covers. */
  readonly columns: readonly string[];
}

/**
 * @param rows of the date when it was sealed: if so many are known to be too broad, the date is counted in parts
 * @throws SourceFault; Fault `SCAN_TOO_BROAD` when not even the smallest part may be counted
 */
export async function recountDate(api: OpenedSql, date: string, rows: number): Promise<Recount> {
  return (await askTotals(api, date, rows)) ?? (await sumParts(api, date));
}

/** @returns `undefined` where it is too broad */
async function askTotals(api: OpenedSql, date: string, rows: number): Promise<Recount | undefined> {
  const { source, limits, job, signal } = api;
  if (limits.isKnownTooBroad(rows)) return undefined;
  try {
    return await withProof(api, async (hashed) => {
      const sql = buildTotals(job, date, limits.dayEdges, hashed);
      return readTotals(date, await source.ask(sql, { signal }), hashed);
    });
  } catch (error) {
    if (!(error instanceof SourceFault) || error.action !== 'split') throw error;
    limits.noteTooBroad(rows);
    return undefined;
  }
}

/** @throws Fault `ANSWER_MALFORMED` */
function readTotals(date: string, { firstRow: row }: Page, hashed: readonly HashedColumn[] | undefined): Recount {
  const [rows, ids] = [readCount(row?.['rows']), readCount(row?.['ids'])];
  if (rows === undefined || ids === undefined) {
    const came = String(JSON.stringify(row)).slice(0, 200);
    throw new Fault('ANSWER_MALFORMED', `the API's count of ${date} has no rows and ids: ${came}`);
  }
  const hash = (value: unknown) => (typeof value === 'string' ? value : undefined);
  return {
    rows,
    ids,
    idHash: hash(row?.['id_hash']),
    valueHash: hash(row?.['value_hash']),
    columns: namesOf(hashed),
  };
}

/** Rows and hashes of a date, counted in parts where that is needed. */
export async function sumParts(api: OpenedSql, date: string): Promise<Recount> {
  const counts = await recountRows(api, date);
  const columns = namesOf(hashedOf(api));
  return { rows: sumCounts(counts).rows, ids: undefined, ...sumHashes(counts), columns };
}

function namesOf(hashed: readonly HashedColumn[] | undefined): readonly string[] {
  return (hashed ?? []).map(({ name }) => name);
}
