/**
 * `verify --repair`: puts right what an audit found. Damaged files beside a drop are rebuilt from it; a damaged drop is
 * exported again while the source has its whole date; a damaged revision of the history, whose bytes are gone for good,
 * is recorded as lost. Invariant: nothing is changed that no audit found damaged, and what cannot be repaired is named
 * with its reason.
 */
import { Fault } from '../core/errors.ts';
import type { Job } from '../job/job.ts';
import type { LostRevision } from '../ledger/ledger.ts';
import type { Manifest } from '../ledger/manifest.ts';
import { type ExportRun, type RunEnv, withExportRun } from '../run/run.ts';
import { type AuditDeps, auditDrop } from '../seal/audit.ts';
import { mendFiles } from '../seal/mend.ts';
import type { DateResult } from '../state/run-result.ts';
import { attempt } from '../store/identity.ts';
import { runExport } from './export.ts';
import { describeFailed } from './export-dates.ts';

/** What an audit found of a date that a repair needs to know. */
export interface AuditedDate {
  /** `undefined`: it is damaged itself. */
  readonly manifest: Manifest | undefined;
  readonly isDamaged: boolean;
  /** Damaged revisions of its history that are not on record as lost. */
  readonly unrecorded: ReadonlyMap<number, LostRevision>;
}

/** By date: what was done, or why nothing could be. */
export interface Repairs {
  readonly done: Map<string, string[]>;
  readonly refused: Map<string, string>;
}

/**
 * What needs no source: the history and the summaries.
 * @returns the dates whose drop must be exported again
 */
export async function repairInStore(
  deps: AuditDeps,
  job: Job,
  dates: ReadonlyMap<string, AuditedDate>,
  repairs: Repairs,
  nowMs: number,
): Promise<readonly string[]> {
  const left: string[] = [];
  for (const [date, { manifest, isDamaged, unrecorded }] of dates) {
    for (const [revision, lost] of unrecorded) {
      await deps.ledger.noteLost(date, revision, lost);
      note(repairs, date, `revision ${revision} recorded as lost`);
    }
    if (!isDamaged) continue;
    const mended = manifest && (await mendFiles(deps, job, date, nowMs));
    if ((await auditDrop(deps, date)).isDamaged) left.push(date);
    else if (mended?.files.length) note(repairs, date, 'its files beside the drop were rebuilt');
  }
  return left;
}

/** Exports the dates again, each by itself: a run of a range would take the dates between them too. */
export async function repairFromSource(
  env: RunEnv,
  job: Job,
  dates: readonly string[],
  repairs: Repairs,
): Promise<void> {
  await withExportRun(env, job, async (run) => {
    for (const date of dates) {
      const found = await exportAgain(run, date);
      if (found?.status === 'sealed') note(repairs, date, `sealed again as revision ${found.revision}`);
      else repairs.refused.set(date, found?.error?.message ?? 'the source no longer has rows for it');
    }
    // Derives `condition.json` from what is sealed now.
    await runExport(run, { mode: 'none' });
  });
}

async function exportAgain(run: ExportRun, date: string): Promise<DateResult | undefined> {
  const seal = async () => {
    const { result } = await runExport(run, { mode: 'all', range: { from: date, to: date } });
    const { dates, held } = result;
    const reason = held.find((one) => one.date === date)?.reason;
    if (reason !== undefined) throw new Fault('DATE_HELD', `held back, ${reason}`);
    return dates.find((one) => one.date === date);
  };
  return await attempt<DateResult | undefined>(seal, (error) => describeFailed(run, date, error));
}

function note({ done }: Repairs, date: string, what: string): void {
  done.set(date, [...(done.get(date) ?? []), what]);
}
