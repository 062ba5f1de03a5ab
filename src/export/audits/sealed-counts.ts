/**
 * What audits compare: the source's counts of a sealed date, then (`counts.parquet`) and now. Pure but for the reading.
 * Invariant: counts are compared only if they are of the same rows: the query, the address and the hashed columns of the
 * sealed date are those of the job.
 */
import { createHash } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { wholeDay } from '../../calendar/window.ts';
import { Fault } from '../../core/errors.ts';
import { formatCount } from '../../core/units.ts';
import type { SqlJob } from '../../job/job.ts';
import type { Manifest } from '../../ledger/manifest.ts';
import { type DayCounts, isBySymbol, sumCounts } from '../../plan/counts.ts';
import { findMoved } from '../../plan/moved-windows.ts';
import { bestProof, listHashedColumns } from '../../plan/proof.ts';
import { buildPage } from '../../plan/statement.ts';
import type { ExportRun } from '../../run/run.ts';
import { readCounts } from '../../seal/counts-file.ts';
import { mergeParts } from '../trades/withdrawn.ts';

export interface SealedCounts {
  readonly manifest: Manifest;
  /** The source's counts when the date was sealed. */
  readonly before: DayCounts;
}

/** The manifest of a date; why the date cannot be compared, in words, if it cannot. @throws StoreFault; Fault `MANIFEST_INVALID` */
export async function readComparable(
  { ledger, source }: Pick<ExportRun, 'ledger' | 'source'>,
  job: SqlJob,
  date: string,
): Promise<Manifest | string> {
  const manifest = await ledger.manifest(date);
  if (manifest?.counts === undefined) return 'it was sealed without counts of the source';
  const { query } = manifest;
  const sent = (['open', 'closed'] as const).map((edges) => buildPage(job, wholeDay(date), edges));
  if (query.url !== source.url || query.entry_point !== job.source.api) return 'it was sealed from another address';
  return sent.includes(query.sql) ? manifest : 'it was sealed with another query';
}

/** The source's counts when the date was sealed. @throws StoreFault; Fault `COUNTS_LOST` */
export async function readSealedCounts(
  { ledger, engine, state, signal }: ExportRun,
  job: SqlJob,
  manifest: Manifest,
): Promise<DayCounts> {
  const { date } = manifest;
  const path = `${state.drop(date)}.counts`;
  try {
    const file = manifest.files.find(({ filename }) => filename === manifest.counts);
    if (file === undefined || !(await ledger.fetchFile(date, file, path, signal))) {
      throw new Fault('COUNTS_LOST', `${date}: ${manifest.counts} is missing in the store, or has other bytes`, {
        hint: 'The next run repairs it.',
      });
    }
    const counts = await readCounts(engine, path);
    return haveSameColumns(job, manifest) ? counts : counts.map(withoutValues);
  } finally {
    await rm(path, { force: true });
  }
}

/** A job whose columns were changed hashes others: such hashes say nothing about the values. */
function haveSameColumns({ source }: SqlJob, { recount }: Manifest): boolean {
  const hashed = listHashedColumns(source, bestProof(source)) ?? [];
  return recount?.columns.join() === hashed.map(({ name }) => name).join();
}

function withoutValues({ valueHash: _, ...cell }: DayCounts[number]): DayCounts[number] {
  return cell;
}

/** Cells that have moved; `undefined` if the counts are along different axes, and their totals differ. */
export function findMovedCells(before: DayCounts, now: DayCounts): DayCounts | undefined {
  if (now.length === 0 || isBySymbol(before) === isBySymbol(now)) return findMoved(mergeParts(before), mergeParts(now));
  const merge = (counts: DayCounts) => mergeParts(counts.map((cell) => ({ ...cell, symbol: '' })));
  return findMoved(merge(before), merge(now)).length === 0 ? [] : undefined;
}

/** The same text for the same counts. */
export function hashCounts(counts: DayCounts): string {
  const cells = mergeParts(counts).map(({ symbol, second, rows, ids, mark, idHash, valueHash }) => {
    return [symbol ?? null, second, rows, ids, mark, idHash ?? null, valueHash ?? null];
  });
  return createHash('sha256').update(JSON.stringify(cells)).digest('hex').slice(0, 16);
}

/** `the source has 40,003 rows, 40,000 when the date was sealed; they differ in 3 seconds`. */
export function describeMoved(before: DayCounts, now: DayCounts, moved: DayCounts | undefined): string {
  const [had, has] = [before, now].map((counts) => formatCount(sumCounts(counts).rows));
  const cells = moved && `${formatCount(moved.length)} ${isBySymbol(now) ? 'symbol(s)' : 'second(s)'}`;
  return `the source has ${has} rows, ${had} when the date was sealed${cells === undefined ? '' : `; they differ in ${cells}`}`;
}
