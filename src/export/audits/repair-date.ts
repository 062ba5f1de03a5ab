/**
 * Restates a sealed date that differs from the source: an export whose stage begins with the rows of the drop. Only the windows
 * that differ are fetched; of the others, the source's counts just proved the rows again. Invariant: what is sealed is proved
 * and verified like any drop, and nothing is published before. The stage begins empty, so a killed repair leaves nothing that
 * counts.
 */
import { rm } from 'node:fs/promises';
import { Fault } from '../../core/errors.ts';
import type { SqlJob } from '../../job/job.ts';
import type { Manifest } from '../../ledger/manifest.ts';
import { axisOf, isInside, keyOf, listSymbols } from '../../plan/axis.ts';
import { type CellCount, type DayCounts, mergeParts, sumCounts } from '../../plan/counts.ts';
import { expiresAt, firstSecondOf } from '../../plan/dates.ts';
import { planRepair } from '../../plan/pack.ts';
import type { SqlRun } from '../../run/run.ts';
import { hurry } from '../../source/source.ts';
import { countSealed, type DropRows } from '../../stage/sealed-rows.ts';
import { openStage, type Stage } from '../../stage/stage.ts';
import { settle } from '../export-dates.ts';
import { withLaterDrops } from '../restate.ts';
import { beginDate, createDropFile, sealRows } from '../seal-rows.ts';
import { assertStillWhole, fetchedDate } from '../trades/fetched-date.ts';
import { recountRows } from '../trades/probe.ts';
import { CONFIRM_AFTER_MS, findLoss, isConfirmed } from '../trades/withdrawn.ts';

export interface SealedCounts {
  readonly manifest: Manifest;
  /** The source's counts when the date was sealed. */
  readonly before: DayCounts;
}

/**
 * @param now the source's counts @param moved the cells that differ; `undefined` if they are not known
 * @param since ISO instant until which the sealed rows were of this date at the source
 * @returns with `kept`, the rows of the drop that the source no longer has, and the counts that the rows were proved by: the
 * source may have changed since the audit
 * @throws Fault; the sealed date stays as it is
 */
export async function repairDate(
  calm: SqlRun,
  rule: SqlJob['audit'],
  sealed: SealedCounts,
  now: DayCounts,
  moved: DayCounts | undefined,
  since: string,
) {
  const { engine, state, signal, ledger, job } = calm;
  const { manifest, before } = sealed;
  const { date } = manifest;
  const run: SqlRun = { ...calm, source: hurry(calm.source, expiresAt(date)) };
  const begun = beginDate(run);
  const path = `${state.drop(date)}.audited`;
  const drop = { path, extraFields: manifest.extra_columns, symbols: listSymbols(before, now) };
  const stage = await openStage(engine, job, date, run.source.url, { rows: sumCounts(now).rows, isEmpty: true });
  try {
    if (!(await ledger.fetchFile(date, manifest.files[0], path, signal))) {
      throw new Fault(
        'DROP_LOST',
        `${date}: ${manifest.files[0].filename} is missing in the store, or has other bytes`,
        { hint: '`flowdrop verify` shows what is wrong.' },
      );
    }
    if (rule === 'mirror') await assertGone(run, sealed, now);
    // A row in quarantine cannot be staged again from its drop, and a group has no id.
    const isFilled = moved !== undefined && manifest.quarantine === undefined && job.source.kind === 'rows';
    const sealedRows = isFilled ? await fillStage(run, stage, now, moved, drop) : new Map<string, number>();
    const counted = isFilled ? now : undefined;
    const completed = await settle(fetchedDate(run, stage, now, state.counts(date), { counted }));
    // A version that was replaced is counted at the source, and is not in the drop; two trades of one id are in both.
    const replacedIn = (cell: CellCount) => cell.rows - (sealedRows.get(keyOf(cell)) ?? cell.rows);
    const duplicates = stage.carried().reduce((sum, cell) => sum + Math.max(0, replacedIn(cell)), 0);
    let kept = 0;
    if (rule === 'repair' && job.source.kind === 'rows') {
      const keep = async (elsewhere?: string) => await stage.keepGone(drop, elsewhere);
      const isLosing = findLoss(before, now) !== undefined || (manifest.kept ?? 0) > 0;
      kept = isLosing ? await withLaterDrops(run, date, since, path, keep) : await keep();
    }
    assertStillWhole(run, date, firstSecondOf(manifest));
    const result = await sealRows(run, stage, {
      ...{ begun, file: createDropFile(run, stage), restate: true },
      ...completed,
      audit: { kept, duplicates, sealed: manifest },
    });
    return { ...result, kept, counts: completed.counts };
  } finally {
    await rm(path, { force: true });
    await stage.discard();
    await state.counts(date).remove();
  }
}

/**
 * Before rows are removed, which the audit allows only if they are few: a second count must agree.
 * @throws Fault `DATE_UNSETTLED`
 */
async function assertGone(run: SqlRun, { manifest, before }: SealedCounts, now: DayCounts): Promise<void> {
  const { date } = manifest;
  if (findLoss(before, now) === undefined) return;
  await run.clocks.sleep(CONFIRM_AFTER_MS, run.signal);
  if (isConfirmed(before, now, await recountRows(run, date))) return;
  throw new Fault('DATE_UNSETTLED', `${date}: rows were gone in one count and back in the next`, {
    hint: 'The sealed date stays as it is. The next run compares it again.',
  });
}

/** Stages the rows of the drop, all but those of the cells that moved. @returns how many rows the drop has, by cell */
async function fillStage(
  { job, limits, engine }: SqlRun,
  stage: Stage,
  now: DayCounts,
  moved: DayCounts,
  drop: DropRows,
) {
  const current = mergeParts(now);
  const had = await countSealed(engine, job, stage.date, drop, axisOf(now));
  const [hadIds, hasIds] = [had, current].map((cells) => new Map(cells.map((cell) => [keyOf(cell), cell.ids])));
  // Rows that the drop keeps may be of another date now. And it lacks rows that a version in another cell replaced: that
  // version may be gone.
  const other = [...had, ...current].filter((cell) => hadIds?.get(keyOf(cell)) !== hasIds?.get(keyOf(cell)));
  const again = [...new Map([...other, ...moved].map((cell) => [keyOf(cell), cell])).values()];
  const plan = planRepair(again, current, limits.rowLimit);
  const carried = current.filter((cell) => !plan.fetched.some((stretch) => isInside(cell, stretch)));
  await stage.fill(drop, plan, carried);
  return new Map(had.map((cell) => [keyOf(cell), cell.rows]));
}
