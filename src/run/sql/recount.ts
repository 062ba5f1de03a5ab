/**
 * Counting a date at the source once more, for `verify --deep`. One request asks for rows and distinct ids of the whole
 * date. Where that is too broad for the source, the date is counted in parts: rows add up, distinct ids do not (an id may
 * come in two of them), so then only the rows are known.
 */
import type { SqlJob } from '../../job/job.ts';
import { sumCounts } from '../../plan/counts.ts';
import { buildTotals } from '../../plan/statement.ts';
import { SourceFault } from '../../source/source.ts';
import { type ProbeDeps, probeRows } from './probe.ts';
import { isKnownTooBroad, noteTooBroad } from './scan.ts';

export interface Recount {
  readonly rows: number;
  /** Distinct ids of the date; `undefined` when it could be counted only in parts. */
  readonly ids: number | undefined;
}

/**
 * @param rows of the date when it was sealed: where so many are known to be too much they are not asked for at once
 * @throws SourceFault; Fault `SCAN_TOO_BROAD` when not even a little of it may be counted
 */
export async function recountDate(deps: ProbeDeps, job: SqlJob, date: string, rows: number): Promise<Recount> {
  return (await askTotals(deps, job, date, rows)) ?? (await sumParts(deps, job, date));
}

/** @returns `undefined` where it is too broad */
async function askTotals(deps: ProbeDeps, job: SqlJob, date: string, rows: number): Promise<Recount | undefined> {
  const { source, learnt, signal } = deps;
  if (isKnownTooBroad(learnt, rows)) return undefined;
  try {
    const page = await source.ask(buildTotals(job, date, learnt.day_edges), signal ? { signal } : {});
    const [row] = JSON.parse(Buffer.from(page.data).toString('utf8')) as readonly Record<string, unknown>[];
    return { rows: Number(row?.['rows'] ?? 0), ids: Number(row?.['ids'] ?? 0) };
  } catch (error) {
    if (!(error instanceof SourceFault) || error.action !== 'split') throw error;
    noteTooBroad(learnt, rows);
    return undefined;
  }
}

async function sumParts(deps: ProbeDeps, job: SqlJob, date: string): Promise<Recount> {
  return { rows: sumCounts(await probeRows(deps, job, date)).rows, ids: undefined };
}
