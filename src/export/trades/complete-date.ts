/**
 * Proves a date complete: the stage must equal the source's counts now. Where cells differ (a late row, a correction, a page
 * truncated without notice), their windows are dropped and fetched again, and nothing else is.
 */
import { axisOf, isOverlapping, type Stretch, type Window } from '../../calendar/window.ts';
import type { Clock } from '../../core/clock.ts';
import { Fault } from '../../core/errors.ts';
import { sideBySide } from '../../core/side-by-side.ts';
import type { SqlJob } from '../../job/job.ts';
import {
  type CountTotals,
  type DayCounts,
  findDifferences,
  type HashTotals,
  isBySymbol,
  isSameByHash,
  stretchOf,
  sumCounts,
  sumHashes,
} from '../../plan/counts.ts';
import { bestProof, listHashedColumns, type Proof, weakerProof } from '../../plan/proof.ts';
import type { Stage } from '../../stage/stage.ts';
import type { StateFile } from '../../state/state-file.ts';
import { assertOwnIds, assertWholeGroups } from './custom-sql.ts';
import type { EarlyFile } from './early-file.ts';
import { type FetchDeps, fetchDate } from './fetch.ts';
import { probeGroups, probeRows, probeSymbol, recountRows } from './probe.ts';
import { proofOf } from './recount-proof.ts';
import { type CellPair, pairCells, TextForms } from './text-form.ts';
import { assertSmallLoss, CONFIRM_AFTER_MS, describeLoss, findLoss, isConfirmed, mergeParts } from './withdrawn.ts';

interface CompleteDeps extends FetchDeps {
  readonly clock: Pick<Clock, 'sleep'>;
  /** Works with the staged rows while the source counts. */
  readonly early?: Pick<EarlyFile, 'start' | 'stop'> | undefined;
}

/** The source's last counts, which equal the stage, and how much they prove. */
export interface CompletedDate extends CountTotals, HashTotals {
  readonly proof: Proof;
  /** Columns that `valueHash` covers. */
  readonly columns: readonly string[];
  /** The counts themselves: of the rows behind the groups for aggregating jobs. */
  readonly counts: DayCounts;
}

/** A source whose counts still move after this many rounds is not settled: the date stays pending. */
const MAX_ROUNDS = 4;
/** Each costs a request a round; with more odd symbols the values of some are not compared, and the manifest says so. */
const MAX_ODD_SYMBOLS = 16;

/**
 * Stages the whole date and proves it.
 * @param first raw counts of the date from the run's first probe @param firstGroups groups counted with them, if they were
 * @param countsBefore where an aggregating job keeps the raw counts from before its first page
 * @throws Fault `DATE_UNSETTLED` or `KEY_CAPPED` when the recounts never agree; `SOURCE_SHRANK` when the source lost too much meanwhile;
 *   `GROUP_TORN`, `IDS_REPEATED` when custom SQL does not fit its windows
 */
export async function completeDate(
  deps: CompleteDeps,
  job: SqlJob,
  stage: Stage,
  first: DayCounts,
  countsBefore: StateFile<DayCounts>,
  firstGroups?: DayCounts,
): Promise<CompletedDate> {
  await forgetOtherAxis(stage, first);
  const forms = new TextForms(deps, job, stage);
  let known = first;
  let before = job.source.kind === 'aggregate' ? await snapshot(countsBefore, first, stage) : first;
  const countAgain = async () => {
    return job.source.kind === 'aggregate'
      ? await probeGroups(deps, job, stage.date)
      : await probeRows(deps, job, stage.date);
  };
  let isCapped = false;
  let groups = job.source.kind === 'aggregate' ? (firstGroups ?? (await countAgain())) : first;
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    groups = await fetchDate(deps, job, stage, groups, countAgain);
    isCapped = deps.source.isCapped?.() === true;
    await assertWholeGroups(deps, job, stage, before, countAgain);
    deps.onEvent({ kind: 'phase', date: stage.date, phase: 'recounting' });
    deps.early?.start();
    const counting = recount(deps, job, stage.date, known);
    const [{ after, isSettled }, hashes] = await sideBySide(counting, hashStage(deps, job, stage, known));
    if (isSettled) known = after;
    const counts = { before, after, groups };
    const isEqual = isSameByHash(hashes, mergeParts(after));
    const { changed, isCompared } = isEqual ? EQUAL : await findChanged(deps, job, stage, counts, forms);
    deps.onEvent({ kind: 'recounted', date: stage.date, changed: changed.length });
    if (changed.length === 0 && isSettled) {
      await assertOwnIds(job, stage);
      return describeCompleted(job, after, isCompared ? forms.proof : weakerProof(forms.proof, 'ids'));
    }
    await deps.early?.stop();
    await stage.forget(await windowsOf(stage, changed));
    await forgetOtherAxis(stage, after);
    if (job.source.kind === 'aggregate') {
      await countsBefore.write(after);
      groups = await countAgain();
    } else groups = after;
    before = after;
  }
  throw describeUnsettled(stage.date, isCapped);
}

/** @param isCapped whether pages came with the row cap of a trial */
function describeUnsettled(date: string, isCapped: boolean): Fault {
  if (isCapped) {
    return new Fault('KEY_CAPPED', `the API caps the rows of ${date} as for a trial, below what it counts`, {
      hint: 'Check the subscription of the key: `flowdrop doctor JOB` shows its entitlement. Matching windows stay staged.',
    });
  }
  return new Fault(
    'DATE_UNSETTLED',
    `the source's counts of ${date} still differ from what it sends after ${MAX_ROUNDS} rounds`,
    { hint: 'Rows may still be arriving. Run again later: matching windows stay staged.' },
  );
}

const EQUAL: Changed = { changed: [], isCompared: true };

/**
 * What most dates need once they are staged, while the source counts: the hashes of their cells, and how many ids they have.
 * @param known says along which axis the source counts @returns `undefined` where hashes say nothing
 */
async function hashStage(deps: FetchDeps, job: SqlJob, stage: Stage, known: DayCounts) {
  const hashed = job.source.kind === 'rows' ? listHashedColumns(job.source, proofOf(deps.limits, job)) : undefined;
  if (hashed === undefined) return undefined;
  const hashes = await stage.hashCells(isBySymbol(known) ? 'symbol' : 'time', hashed);
  // The stage keeps them for `assertOwnIds`, which reports what fails.
  await stage.totals().catch(() => undefined);
  return hashes;
}

/** Counts without a hash were not compared. @param wanted what was compared at most */
export function describeCompleted({ source }: SqlJob, counts: DayCounts, wanted: Proof): CompletedDate {
  const hashes = sumHashes(counts);
  const had = hashes.idHash === undefined ? 'counts' : hashes.valueHash === undefined ? 'ids' : wanted;
  const proof = weakerProof(wanted, had);
  const columns = hashes.valueHash === undefined ? [] : (listHashedColumns(source, bestProof(source)) ?? []);
  return { ...sumCounts(counts), ...hashes, proof, columns: columns.map(({ name }) => name), counts };
}

/**
 * Counts the date again. If rows are gone, it is counted once more some seconds later.
 * @param known earlier counts, as far as they are certain
 * @returns whether missing rows are certainly gone
 * @throws Fault `SOURCE_SHRANK`
 */
async function recount(
  deps: CompleteDeps,
  job: SqlJob,
  date: string,
  known: DayCounts,
): Promise<{ readonly after: DayCounts; readonly isSettled: boolean }> {
  const once = await recountRows(deps, job, date);
  const loss = findLoss(known, once);
  if (loss === undefined) return { after: once, isSettled: true };
  assertSmallLoss(date, loss);
  await deps.clock.sleep(CONFIRM_AFTER_MS, deps.signal);
  const after = await recountRows(deps, job, date);
  const lossNow = findLoss(known, after);
  if (lossNow === undefined) return { after, isSettled: true };
  assertSmallLoss(date, lossNow);
  if (!isConfirmed(known, once, after)) return { after, isSettled: false };
  const { had, has, lost, places } = lossNow;
  deps.log.warn(
    { event: 'rows-withdrawn', date, had, has, lost, places: places.length },
    `${date}: ${describeLoss(lossNow)}, confirmed by two counts; the date is sealed without them`,
  );
  return { after, isSettled: true };
}

/** Windows cut along different axes cannot tile a date together. */
async function forgetOtherAxis(stage: Stage, counts: DayCounts): Promise<void> {
  const axis = isBySymbol(counts) ? 'symbol' : 'time';
  const others = (await stage.windows())
    .map(({ window }) => window)
    .filter((window) => (axisOf(window) ?? axis) !== axis);
  await stage.forget(others);
}

interface Changed {
  readonly changed: readonly Stretch[];
  readonly isCompared: boolean;
}

/**
 * Stretches to fetch again. Single trades are compared with the stage. The rows inside a group cannot be: for groups the raw
 * counts before the first page are also compared with those after the last.
 * @returns whether all values were compared: those of a cell with an odd row cannot be, and along the symbols a cell is a
 *   symbol's whole day, so there all of its other seconds are
 */
async function findChanged(
  deps: FetchDeps,
  job: SqlJob,
  stage: Stage,
  counts: { readonly before: DayCounts; readonly after: DayCounts; readonly groups: DayCounts },
  forms: TextForms,
): Promise<Changed> {
  const { before, after, groups } = counts;
  if (job.source.kind === 'aggregate') {
    const staged = isBySymbol(groups) ? await stage.countBySymbol() : await stage.countBySecond();
    const moved = findDifferences(mergeParts(before), mergeParts(after));
    const differing = [...findDifferences(staged, mergeParts(groups)), ...moved];
    return { changed: differing.map((cell) => grainOf(job, stretchOf(cell))), isCompared: true };
  }
  const hashed = listHashedColumns(job.source, proofOf(deps.limits, job));
  const staged = isBySymbol(after) ? await stage.countBySymbol({ hashed }) : await stage.countBySecond({ hashed });
  const wanted = mergeParts(after);
  const pairs = pairCells(findDifferences(staged, wanted), staged, wanted, stretchOf);
  const found: CellPair[] = [];
  for (const pair of await forms.leaveOutCommon(pairs, wanted.length)) {
    found.push(...(await narrowToSeconds(deps, job, stage, pair, after)));
  }
  const odd = hashed === undefined || hashed.length === 0 ? [] : staged.filter((cell) => cell.valueHash === undefined);
  const isPaired = (name: string) => pairs.some(({ stretch }) => stretch.from.symbol === name);
  const symbols = odd.flatMap(({ symbol }) => symbol ?? []).filter((name) => !isPaired(name));
  for (const symbol of symbols.slice(0, MAX_ODD_SYMBOLS)) {
    found.push(...(await compareSeconds(deps, job, stage, symbol, after)));
  }
  const changed = (await forms.leaveOutLasting(found)).map(({ stretch }) => stretch);
  return { changed, isCompared: odd.length === 0 };
}

/** Of a symbol with many pages, only the seconds that differ are fetched again. */
async function narrowToSeconds(
  deps: FetchDeps,
  job: SqlJob,
  stage: Stage,
  pair: CellPair,
  after: DayCounts,
): Promise<readonly CellPair[]> {
  const { symbol } = pair.stretch.from;
  if (symbol === undefined || (await windowsOf(stage, [pair.stretch])).length < 2) return [pair];
  return await compareSeconds(deps, job, stage, symbol, after);
}

/** Seconds of a symbol that differ. */
async function compareSeconds(
  deps: FetchDeps,
  job: SqlJob,
  stage: Stage,
  symbol: string,
  after: DayCounts,
): Promise<readonly CellPair[]> {
  const parts = after.filter((part) => part.symbol === symbol);
  const source = await probeSymbol(deps, job, stage.date, symbol, parts);
  const staged = await stage.countBySecond({
    symbol,
    hashed: listHashedColumns(job.source, proofOf(deps.limits, job)),
  });
  return pairCells(findDifferences(staged, source), staged, source, ({ second }) => ({
    from: { symbol, second },
    to: { symbol, second: second + 1 },
  }));
}

/** A raw second lies in the group of its grain, wherever in it. */
function grainOf({ source }: SqlJob, stretch: Stretch): Stretch {
  if (source.kind !== 'aggregate' || stretch.from.symbol !== undefined) return stretch;
  const second = Math.floor(stretch.from.second / source.grainSeconds) * source.grainSeconds;
  return { from: { second }, to: { second: second + source.grainSeconds } };
}

async function windowsOf(stage: Stage, stretches: readonly Stretch[]): Promise<readonly Window[]> {
  const all = await stage.windows();
  return all
    .map(({ window }) => window)
    .filter((window) => stretches.some((stretch) => isOverlapping(stretch, window)));
}

/**
 * The counts before the date's first page: those of an earlier, interrupted run if its pages are still staged. Pages whose
 * counts are lost or unreadable prove nothing about their groups and are fetched again.
 */
async function snapshot(file: StateFile<DayCounts>, counts: DayCounts, stage: Stage): Promise<DayCounts> {
  const staged = (await stage.windows()).map(({ window }) => window);
  const kept = staged.length > 0 ? await file.read() : undefined;
  if (kept) return kept;
  await stage.forget(staged);
  await file.write(counts);
  return counts;
}
