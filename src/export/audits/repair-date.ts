/**
 * Restates a sealed date that differs from the source. Only the windows that differ are fetched; the other rows come from the
 * sealed drop, whose cells the source's counts just proved again. Invariant: what is sealed is proved and verified like any
 * drop, and nothing is published before. The stage begins empty, so a killed repair leaves nothing that counts.
 */
import { rm } from 'node:fs/promises';
import { compareBounds } from '../../calendar/window.ts';
import { Fault } from '../../core/errors.ts';
import type { HashedColumn } from '../../engine/row-hash.ts';
import type { SqlJob } from '../../job/job.ts';
import type { Manifest } from '../../ledger/manifest.ts';
import { axisOf, compareCells, keyOf, listSymbols, startOf } from '../../plan/axis.ts';
import { type CellCount, type DayCounts, findDifferences, mergeParts, sumCounts } from '../../plan/counts.ts';
import { expiresAt, firstSecondOf } from '../../plan/dates.ts';
import { findMoved, planRepair, type RepairPlan, WHOLE_DATE } from '../../plan/pack.ts';
import type { SqlRun } from '../../run/run.ts';
import { hurry } from '../../source/source.ts';
import { countSealed, type DropRows } from '../../stage/sealed-rows.ts';
import { openStage, type Stage } from '../../stage/stage.ts';
import type { DateWork } from '../date-source.ts';
import { settle } from '../export-dates.ts';
import { withLaterDrops } from '../restate.ts';
import { beginDate, DropFile, sealRows } from '../seal-rows.ts';
import { fetchDate } from '../trades/fetch.ts';
import {
  assertStillWhole,
  type CompletedDate,
  describeCompleted,
  describeProved,
  fetchedDate,
} from '../trades/fetched-date.ts';
import { hashedOf, probeSymbol, proofOf, recountRows } from '../trades/probe.ts';
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
  const source = hurry(calm.source, expiresAt(date));
  const run: SqlRun = { ...calm, source };
  const begun = beginDate(run);
  const path = `${state.drop(date)}.audited`;
  const drop = { path, extraFields: manifest.extra_columns, symbols: listSymbols(before, now) };
  const stage = await openStage(engine, job, date, source.url, { rows: sumCounts(now).rows, isEmpty: true });
  try {
    if (!(await ledger.fetchFile(date, manifest.files[0], path, signal))) {
      throw new Fault(
        'DROP_LOST',
        `${date}: ${manifest.files[0].filename} is missing in the store, or has other bytes`,
        { hint: '`flowdrop verify` shows what is wrong.' },
      );
    }
    if (rule === 'mirror') await assertGone(run, sealed, now);
    const keptCells = (manifest.kept ?? 0) > 0 ? await listKept(run, now, drop, date) : [];
    const all = moved && [...new Map([...moved, ...keptCells].map((cell) => [keyOf(cell), cell])).values()];
    const work = repairedDate(run, stage, manifest, now, all?.sort(compareCells), drop);
    const { completed, plan, keptBefore, carried } = await settle(work);
    let kept = 0;
    if (rule === 'repair' && job.source.kind === 'rows') {
      const keep = async (elsewhere?: string) => await stage.keepGone(drop, plan, elsewhere);
      const isLosing = findLoss(before, now) !== undefined || (manifest.kept ?? 0) > 0;
      // The rows that the source no longer has of any date.
      kept = keptBefore + (isLosing ? await withLaterDrops(run, date, since, path, keep) : await keep());
    }
    assertStillWhole(run, date, firstSecondOf(manifest));
    const result = await sealRows(run, stage, {
      ...{ begun, file: new DropFile(run, stage), restate: true },
      ...describeProved(run, date, completed),
      audit: { kept, ...carried },
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

/** Cells of which the drop keeps rows that the source does not have: they are looked at again, because these may be of another date now. */
async function listKept(
  { engine, job }: SqlRun,
  now: DayCounts,
  drop: DropRows,
  date: string,
): Promise<readonly CellCount[]> {
  const current = new Map(mergeParts(now).map((cell) => [keyOf(cell), cell]));
  const kept = await countSealed(engine, job, date, drop, axisOf(now));
  return kept.flatMap((cell) => {
    const there = current.get(keyOf(cell));
    return cell.ids > (there?.ids ?? 0) ? [there ?? cell] : [];
  });
}

interface RepairProof {
  readonly completed: CompletedDate;
  /** What the stage has from the sealed drop. */
  readonly plan: RepairPlan;
  /** Rows among these that the source did not have at an earlier audit. */
  readonly keptBefore: number;
  readonly carried: { readonly duplicates: number; readonly sealed: Manifest };
}

/**
 * A sealed date whose stage begins with the rows of its drop: what moved is fetched, and compared with the counts that showed
 * it. Where that does not agree, or the drop cannot be taken over, it is fetched as a whole, like any other date.
 * @param moved the cells that differ; `undefined` if they are not known
 */
function repairedDate(
  run: SqlRun,
  stage: Stage,
  manifest: Manifest,
  now: DayCounts,
  moved: DayCounts | undefined,
  drop: DropRows,
): DateWork<RepairProof> {
  const { job, limits, engine } = run;
  const { date } = stage;
  const hashed = hashedOf(run);
  const fine = new Map<string, FineCounts>();
  let plan = WHOLE_DATE;
  const whole = fetchedDate({ run, stage, first: now, countsBefore: run.state.counts(date) });
  // A row in quarantine cannot be staged again from its drop, and a group has no id.
  let isWhole = moved === undefined || manifest.quarantine !== undefined || job.source.kind !== 'rows';
  return {
    stage,
    async fetch() {
      if (isWhole || moved === undefined) return await whole.fetch();
      for (const symbol of listLarge(moved, mergeParts(now), limits.rowLimit)) {
        const parts = now.filter((cell) => cell.symbol === symbol);
        const current = await probeSymbol(run, date, symbol, parts);
        const had = await countSealed(engine, job, date, drop, 'time', { symbol, hashed });
        fine.set(symbol, { now: current, moved: findMoved(had, current) });
      }
      const current = refine(mergeParts(now), fine, 'now');
      plan = planRepair(refine(moved, fine, 'moved'), current, limits.rowLimit, new Set(fine.keys()));
      await stage.fill(drop, plan);
      await fetchDate(run, stage, now, async () => await recountRows(run, date));
    },
    async prove() {
      if (isWhole) {
        const completed = await whole.prove();
        return (
          completed && { completed, plan: WHOLE_DATE, keptBefore: 0, carried: { duplicates: 0, sealed: manifest } }
        );
      }
      const current = refine(mergeParts(now), fine, 'now');
      const staged = await countStage(stage, now, fine, hashed);
      const isFetched = (cell: CellCount) => plan.fetched.some((stretch) => isInside(cell, stretch));
      const differing = findDifferences(staged.filter(isFetched), current.filter(isFetched));
      run.onEvent({ kind: 'recounted', date, changed: differing.length });
      const untouched = current.filter((cell) => !isFetched(cell));
      const filled = new Map(staged.map((cell) => [keyOf(cell), cell.ids]));
      // The drop lacks rows that a version in another cell replaced: it may be that version that is gone.
      const isLacking = untouched.some((cell) => (filled.get(keyOf(cell)) ?? 0) < cell.ids);
      // Or rows still move: the date is settled as in any export.
      isWhole = differing.length > 0 || isLacking;
      if (isWhole) return undefined;
      const replaced = untouched.reduce((sum, { rows, ids }) => sum + rows - ids, 0);
      const idsOf = (cells: DayCounts) => sumCounts(cells.filter((cell) => !isFetched(cell))).ids;
      return {
        completed: describeCompleted(job, now, proofOf(run)),
        plan,
        keptBefore: Math.max(0, idsOf(staged) - idsOf(current)),
        carried: { duplicates: Math.min(manifest.duplicates, replaced), sealed: manifest },
      };
    },
    explainUnsettled: () => whole.explainUnsettled(),
  };
}

/**
 * Seconds of a symbol with many pages, and those that differ from the drop: its whole day is not fetched again for one row.
 * Costs a request, more where one is too broad.
 */
interface FineCounts {
  readonly now: DayCounts;
  readonly moved: DayCounts;
}

/** Each costs a request and reads the drop; the others are fetched as a whole. */
const MAX_FINE_SYMBOLS = 16;

/** Moved symbols with more rows than a page, largest first. */
function listLarge(moved: DayCounts, current: DayCounts, limit: number): readonly string[] {
  const isMoved = new Set(moved.flatMap(({ symbol }) => symbol ?? []));
  const large = current.filter(({ symbol = '', rows }) => rows > limit && isMoved.has(symbol));
  const sorted = large.toSorted((a, b) => b.rows - a.rows).slice(0, MAX_FINE_SYMBOLS);
  return sorted.flatMap(({ symbol }) => symbol ?? []);
}

/** The cells with those of finely counted symbols in place of the symbols' own. */
function refine(cells: DayCounts, fine: ReadonlyMap<string, FineCounts>, which: keyof FineCounts): DayCounts {
  return cells.flatMap((cell) => fine.get(cell.symbol ?? '')?.[which] ?? [cell]);
}

async function countStage(
  stage: Stage,
  now: DayCounts,
  fine: ReadonlyMap<string, FineCounts>,
  hashed: readonly HashedColumn[] | undefined,
): Promise<DayCounts> {
  const counted = new Map<string, DayCounts>();
  for (const symbol of fine.keys()) counted.set(symbol, await stage.count('time', { symbol, hashed }));
  const all = await stage.count(axisOf(now), { hashed });
  return all.flatMap((cell) => counted.get(cell.symbol ?? '') ?? [cell]);
}

function isInside(cell: CellCount, { from, to }: RepairPlan['fetched'][number]): boolean {
  const start = startOf(cell);
  return compareBounds(from, start) <= 0 && compareBounds(start, to) < 0;
}
