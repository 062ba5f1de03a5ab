/**
 * Restates a sealed date that differs from the source. Only the windows that differ are fetched; the other rows come from the
 * sealed drop, whose cells the source's counts just proved again. Invariant: what is sealed is proved and verified like any
 * drop, and nothing is published before. The stage begins empty, so a killed repair leaves nothing that counts.
 */
import { rm } from 'node:fs/promises';
import { formatWallClock } from '../../calendar/wall-clock.ts';
import { compareBounds, wholeDay } from '../../calendar/window.ts';
import { Fault } from '../../core/errors.ts';
import type { HashedColumn } from '../../engine/row-hash.ts';
import type { SqlJob } from '../../job/job.ts';
import type { Manifest } from '../../ledger/manifest.ts';
import {
  type CellCount,
  compareCells,
  type DayCounts,
  findDifferences,
  isBySymbol,
  keyOf,
  startOf,
  sumCounts,
} from '../../plan/counts.ts';
import { computeLookback, expiresAt, firstSecondOf } from '../../plan/dates.ts';
import { findMoved, listSymbols, planRepair, type RepairPlan, WHOLE_DATE } from '../../plan/moved-windows.ts';
import { listHashedColumns } from '../../plan/proof.ts';
import { buildPage } from '../../plan/statement.ts';
import type { ExportRun } from '../../run/run.ts';
import type { Source } from '../../source/source.ts';
import { countStaged, secondKey } from '../../stage/count.ts';
import { readSealedRows, type SealedFile } from '../../stage/sealed-rows.ts';
import { openStage, type Stage } from '../../stage/stage.ts';
import { forgetWhenBad } from '../bad-rows.ts';
import { believedNow, latestNow } from '../clocks.ts';
import { draftStaged } from '../draft-file.ts';
import { withLaterDrops } from '../later-drops.ts';
import { hurry } from '../priority.ts';
import { type SealResult, sealDate } from '../seal-date.ts';
import { type CompletedDate, completeDate, describeCompleted } from '../trades/complete-date.ts';
import { fetchDate } from '../trades/fetch.ts';
import { probeSymbol, recountRows } from '../trades/probe.ts';
import { proofOf } from '../trades/recount-proof.ts';
import { assertStillWhole, describeRecount } from '../trades/trades.ts';
import { CONFIRM_AFTER_MS, findLoss, isConfirmed, mergeParts } from '../trades/withdrawn.ts';
import type { SealedCounts } from './sealed-counts.ts';

interface RepairResult extends SealResult {
  /** Rows of the drop that the source no longer has. */
  readonly kept: number;
  /** The source's counts that the rows were proved by: it may have changed since the audit. */
  readonly counts: DayCounts;
}

interface RepairDeps extends ExportRun {
  readonly source: Source;
}

/**
 * @param now the source's counts @param moved the cells that differ; `undefined` if they are not known
 * @param since ISO instant until which the sealed rows were of this date at the source
 * @throws Fault; the sealed date stays as it is
 */
export async function repairDate(
  run: ExportRun,
  calm: Source,
  job: SqlJob,
  sealed: SealedCounts,
  now: DayCounts,
  moved: DayCounts | undefined,
  since: string,
): Promise<RepairResult> {
  const { engine, state, signal, ledger, limits } = run;
  const { manifest } = sealed;
  const { date } = manifest;
  const source = hurry(calm, expiresAt(date));
  const deps = { ...run, source };
  const startedAtMs = believedNow(run);
  const requestsBefore = source.stats.requests;
  const path = state.drop(date);
  const drop = {
    path: `${path}.audited`,
    extraFields: manifest.extra_columns,
    symbols: listSymbols(sealed.before, now),
  };
  const stage = await openStage(engine, job, date, source.url, { rows: sumCounts(now).rows, isEmpty: true });
  try {
    if (!(await ledger.fetchFile(date, manifest.files[0], drop.path, signal))) {
      throw new Fault(
        'DROP_LOST',
        `${date}: ${manifest.files[0].filename} is missing in the store, or has other bytes`,
        {
          hint: '`flowdrop verify` shows what is wrong.',
        },
      );
    }
    if (job.audit === 'mirror') await assertGone(deps, job, sealed, now);
    const keptCells = (manifest.kept ?? 0) > 0 ? await listKept(deps, job, now, drop, date) : [];
    const moves = { sealed, now, moved: moved && mergeMoved(moved, keptCells), drop };
    const fetched = await forgetWhenBad(stage, () => fetchMoved(deps, job, stage, moves));
    const isKeeping = job.audit === 'repair' && job.source.kind === 'rows';
    const gone = isKeeping ? await keepGone(deps, stage, moves, fetched.plan, since) : 0;
    assertStillWhole(date, latestNow(run), source.lookbackDays?.(), firstSecondOf(manifest));
    const kept = isKeeping ? gone + fetched.keptBefore : 0;
    const { completed } = fetched;
    const result = await sealDate(run, job, stage, {
      file: draftStaged(deps.engine, job, stage, path),
      query: buildPage(job, wholeDay(date), limits.dayEdges),
      lookbackEdge: formatWallClock(computeLookback(source.serverNow()).edgeMs),
      counted: completed,
      recount: describeRecount(completed),
      counts: completed.counts,
      audit: { kept, ...fetched.carried },
      requests: source.stats.requests - requestsBefore,
      startedAtMs,
      sealedAtMs: believedNow(run),
      restate: true,
      rowLimit: limits.rowLimit,
    });
    return { ...result, kept, counts: completed.counts };
  } finally {
    await rm(drop.path, { force: true });
    await stage.discard();
    await state.counts(date).remove();
  }
}

/**
 * Before rows are removed, which the audit allows only if they are few: a second count must agree.
 * @throws Fault `DATE_UNSETTLED`
 */
async function assertGone(
  deps: RepairDeps,
  job: SqlJob,
  { manifest, before }: SealedCounts,
  now: DayCounts,
): Promise<void> {
  const { date } = manifest;
  if (findLoss(before, now) === undefined) return;
  await deps.clock.sleep(CONFIRM_AFTER_MS, deps.signal);
  if (isConfirmed(before, now, await recountRows(deps, job, date))) return;
  throw new Fault('DATE_UNSETTLED', `${date}: rows were gone in one count and back in the next`, {
    hint: 'The sealed date stays as it is. The next run compares it again.',
  });
}

/** Keeps the rows that the source no longer has of any date. @returns how many */
async function keepGone(deps: RepairDeps, stage: Stage, { sealed, now, drop }: Moved, plan: RepairPlan, since: string) {
  const isLosing = findLoss(sealed.before, now) !== undefined || (sealed.manifest.kept ?? 0) > 0;
  if (!isLosing) return await stage.keepGone(drop, plan);
  const keep = async (elsewhere: string | undefined) => await stage.keepGone(drop, plan, elsewhere);
  return await withLaterDrops(deps.ledger, sealed.manifest.date, since, drop.path, keep, deps.signal);
}

/** Cells of which the drop keeps rows that the source does not have: they are looked at again, because these may be of another date now. */
async function listKept({ engine }: RepairDeps, job: SqlJob, now: DayCounts, drop: SealedFile, date: string) {
  const key = isBySymbol(now) ? 'symbol' : secondKey(job, date);
  const staged = await countStaged<string | number>(engine, job, readSealedRows(job, drop), key);
  const current = new Map(mergeParts(now).map((cell) => [keyOf(cell), cell]));
  return [...staged].flatMap(([at, count]) => {
    const cell = isBySymbol(now) ? { symbol: String(at), second: 0, ...count } : { second: Number(at), ...count };
    const there = current.get(keyOf(cell));
    return count.ids > (there?.ids ?? 0) ? [there ?? cell] : [];
  });
}

function mergeMoved(moved: DayCounts, kept: DayCounts): DayCounts {
  return [...new Map([...moved, ...kept].map((cell) => [keyOf(cell), cell])).values()].sort(compareCells);
}

interface Moved {
  readonly sealed: SealedCounts;
  readonly now: DayCounts;
  readonly moved: DayCounts | undefined;
  readonly drop: SealedFile;
}

interface Fetched {
  readonly completed: CompletedDate;
  /** What the stage has from the sealed drop. */
  readonly plan: RepairPlan;
  /** Rows among these that the source did not have at an earlier audit. */
  readonly keptBefore: number;
  readonly carried: { readonly duplicates: number; readonly sealed: Pick<Manifest, 'nulls' | 'rewritten'> };
}

/** Stages the source's rows of the date. */
async function fetchMoved(deps: RepairDeps, job: SqlJob, stage: Stage, moves: Moved): Promise<Fetched> {
  const { sealed, now, moved, drop } = moves;
  const { manifest } = sealed;
  const complete = async () => await completeDate(deps, job, stage, now, deps.state.counts(stage.date));
  const whole = { plan: WHOLE_DATE, keptBefore: 0, carried: { duplicates: 0, sealed: manifest } };
  // A row in quarantine cannot be staged again from its drop, and a group has no id.
  if (moved === undefined || manifest.quarantine !== undefined || job.source.kind !== 'rows') {
    return { completed: await complete(), ...whole };
  }
  const hashed = listHashedColumns(job.source, proofOf(deps.limits, job));
  const fine = new Map<string, FineCounts>();
  for (const symbol of listLarge(moved, mergeParts(now), deps.limits.rowLimit)) {
    fine.set(symbol, await countFine(deps, job, symbol, moves, hashed));
  }
  const current = refine(mergeParts(now), fine, (counts) => counts.now);
  const plan = planRepair(
    refine(moved, fine, (counts) => counts.moved),
    current,
    deps.limits.rowLimit,
    new Set(fine.keys()),
  );
  await stage.fill(drop, plan);
  await fetchDate(deps, job, stage, now, async () => await recountRows(deps, job, stage.date));
  const staged = await countStage(stage, isBySymbol(now), [...fine.keys()], hashed);
  const isFetched = (cell: CellCount) => plan.fetched.some((stretch) => isInside(cell, stretch));
  const differing = findDifferences(staged.filter(isFetched), current.filter(isFetched));
  deps.onEvent({ kind: 'recounted', date: stage.date, changed: differing.length });
  const untouched = current.filter((cell) => !isFetched(cell));
  const filled = new Map(staged.map((cell) => [keyOf(cell), cell.ids]));
  // The drop lacks rows that a version in another cell replaced: it may be that version that is gone.
  const isLacking = untouched.some((cell) => (filled.get(keyOf(cell)) ?? 0) < cell.ids);
  // Or rows still move: the date is settled as in any export.
  if (differing.length > 0 || isLacking) return { completed: await complete(), ...whole };
  const replaced = untouched.reduce((sum, { rows, ids }) => sum + rows - ids, 0);
  const idsOf = (cells: DayCounts) => sumCounts(cells.filter((cell) => !isFetched(cell))).ids;
  return {
    completed: describeCompleted(job, now, proofOf(deps.limits, job)),
    plan,
    keptBefore: Math.max(0, idsOf(staged) - idsOf(current)),
    carried: { duplicates: Math.min(manifest.duplicates, replaced), sealed: manifest },
  };
}

/** A symbol with many pages, counted by second: its whole day is not fetched again for one row. */
interface FineCounts {
  readonly now: DayCounts;
  readonly moved: DayCounts;
}

/** Each costs a request and reads the drop; the others are fetched as a whole. */
const MAX_FINE_SYMBOLS = 16;

/** Moved symbols with more rows than a page, largest first. */
function listLarge(moved: DayCounts, current: DayCounts, limit: number): readonly string[] {
  const isMoved = new Set(moved.flatMap(({ symbol }) => symbol ?? []));
  const large = current.filter(({ symbol, rows }) => symbol !== undefined && rows > limit && isMoved.has(symbol));
  const sorted = large.toSorted((a, b) => b.rows - a.rows).slice(0, MAX_FINE_SYMBOLS);
  return sorted.flatMap(({ symbol }) => symbol ?? []);
}

/** Compares the seconds of a symbol with those of the drop. Costs a request, more where one is too broad. */
async function countFine(
  deps: RepairDeps,
  job: SqlJob,
  symbol: string,
  { now, drop, sealed }: Moved,
  hashed: readonly HashedColumn[] | undefined,
): Promise<FineCounts> {
  const { date } = sealed.manifest;
  const parts = now.filter((cell) => cell.symbol === symbol);
  const source = await probeSymbol(deps, job, date, symbol, parts);
  const sealedRows = await countStaged<number>(deps.engine, job, readSealedRows(job, drop), secondKey(job, date), {
    symbol,
    hashed,
  });
  const had = [...sealedRows].map(([second, count]) => ({ symbol, second, ...count })).sort(compareCells);
  return { now: source, moved: findMoved(had, source) };
}

/** The cells with those of finely counted symbols in place of the symbols' own. */
function refine(
  cells: DayCounts,
  fine: ReadonlyMap<string, FineCounts>,
  of: (counts: FineCounts) => DayCounts,
): DayCounts {
  return cells.flatMap((cell) => {
    const counts = cell.symbol === undefined ? undefined : fine.get(cell.symbol);
    return counts === undefined ? [cell] : of(counts);
  });
}

async function countStage(
  stage: Stage,
  isBySymbols: boolean,
  symbols: readonly string[],
  hashed: readonly HashedColumn[] | undefined,
): Promise<DayCounts> {
  if (!isBySymbols) return await stage.countBySecond({ hashed });
  const all = await stage.countBySymbol({ hashed });
  const fine = new Map<string, DayCounts>();
  for (const symbol of symbols) fine.set(symbol, await stage.countBySecond({ symbol, hashed }));
  return all.flatMap((cell) => fine.get(cell.symbol ?? '') ?? [cell]);
}

function isInside(cell: CellCount, { from, to }: RepairPlan['fetched'][number]): boolean {
  const start = startOf(cell);
  return compareBounds(from, start) <= 0 && compareBounds(start, to) < 0;
}
