/**
 * Counting a date at the source once more, for `verify --deep`. One request asks for rows, distinct ids and hashes of the
 * whole date. Where that is too broad for the source, the date is counted in parts: rows and hashes add up, distinct ids do
 * not (an id may be in two parts), so they are unknown then.
 */
import { Fault } from '../../core/errors.ts';
import type { HashedColumn } from '../../engine/row-hash.ts';
import type { SqlJob } from '../../job/job.ts';
import { type HashTotals, readCount, sumCounts, sumHashes } from '../../plan/counts.ts';
import { listHashedColumns } from '../../plan/proof.ts';
import { buildTotals } from '../../plan/statement.ts';
import { type Page, SourceFault } from '../../source/source.ts';
import { type ProbeDeps, recountRows } from './probe.ts';
import { proofOf, withProof } from './recount-proof.ts';

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
export async function recountDate(deps: ProbeDeps, job: SqlJob, date: string, rows: number): Promise<Recount> {
  return (await askTotals(deps, job, date, rows)) ?? (await sumParts(deps, job, date));
}

/** @returns `undefined` where it is too broad */
async function askTotals(deps: ProbeDeps, job: SqlJob, date: string, rows: number): Promise<Recount | undefined> {
  const { source, limits, signal } = deps;
  if (limits.isKnownTooBroad(rows)) return undefined;
  try {
    return await withProof(deps, job, async (proof) => {
      const hashed = listHashedColumns(job.source, proof);
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
export async function sumParts(deps: ProbeDeps, job: SqlJob, date: string): Promise<Recount> {
  const counts = await recountRows(deps, job, date);
  const columns = namesOf(listHashedColumns(job.source, proofOf(deps.limits, job)));
  return { rows: sumCounts(counts).rows, ids: undefined, ...sumHashes(counts), columns };
}

function namesOf(hashed: readonly HashedColumn[] | undefined): readonly string[] {
  return (hashed ?? []).map(({ name }) => name);
}
