/**
 * Fetches a date and proves it complete: the stage must equal the source's counts now. Where cells differ (a cell is the
 * rows of one second, or of one symbol; it differs by a late row, a correction, a page truncated without notice), their
 * windows are dropped and fetched again, and nothing else is. It does not seal.
 */
import { axisOfStretch } from '../../calendar/window.ts';
import { Fault } from '../../core/errors.ts';
import { sideBySide } from '../../core/side-by-side.ts';
import type { SqlJob } from '../../job/job.ts';
import {
  axisOf,
  type CountTotals,
  type DayCounts,
  type HashTotals,
  isSameByHash,
  mergeParts,
  sumCounts,
  sumHashes,
} from '../../plan/counts.ts';
import { bestProof, listHashedColumns, type Proof, weakerProof } from '../../plan/proof.ts';
import type { OpenedSql } from '../../run/open-source.ts';
import type { Stage } from '../../stage/stage.ts';
import type { StateFile } from '../../state/state-file.ts';
import type { DropFile } from '../drop-file.ts';
import { assertOwnIds, assertWholeGroups } from './custom-sql.ts';
import { Differences } from './differences.ts';
import { type Fetching, fetchDate } from './fetch.ts';
import { hashedOf, probeGroups, probeRows, recountRows } from './probe.ts';
import { assertSmallLoss, CONFIRM_AFTER_MS, describeLoss, findLoss, isConfirmed } from './withdrawn.ts';

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

/**
 * Stages the whole date and proves it.
 * @param first raw counts of the date from the run's first probe @param firstGroups groups counted with them, if they were
 * @param early works with the staged rows while the source counts
 * @param countsBefore where an aggregating job keeps the raw counts from before its first page
 * @throws Fault `DATE_UNSETTLED` or `KEY_CAPPED` when the recounts never agree; `SOURCE_SHRANK` when the source lost too much meanwhile;
 *   `GROUP_TORN`, `IDS_REPEATED` when custom SQL does not fit its windows
 */
export async function completeDate(
  run: Fetching,
  stage: Stage,
  first: DayCounts,
  countsBefore: StateFile<DayCounts>,
  firstGroups?: DayCounts,
  early?: Pick<DropFile, 'start' | 'stop'>,
): Promise<CompletedDate> {
  const { job } = run;
  const { date } = stage;
  await forgetOtherAxis(stage, first);
  const differences = new Differences(run, stage);
  let known = first;
  let before = job.source.kind === 'aggregate' ? await snapshot(countsBefore, first, stage) : first;
  const countAgain = async () => {
    return job.source.kind === 'aggregate' ? await probeGroups(run, date) : await probeRows(run, date);
  };
  let isCapped = false;
  let groups = job.source.kind === 'aggregate' ? (firstGroups ?? (await countAgain())) : first;
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    groups = await fetchDate(run, stage, groups, countAgain);
    isCapped = run.source.isCapped?.() === true;
    await assertWholeGroups(run, stage, before, countAgain);
    run.onEvent({ kind: 'phase', date, phase: 'recounting' });
    early?.start();
    const counting = recount(run, date, known);
    const [{ after, isSettled }, hashes] = await sideBySide(counting, hashStage(run, stage, known));
    if (isSettled) known = after;
    const isEqual = isSameByHash(hashes, mergeParts(after));
    const changed = isEqual ? [] : await differences.find(before, after, groups);
    run.onEvent({ kind: 'recounted', date, changed: changed.length });
    if (changed.length === 0 && isSettled) {
      await assertOwnIds(job, stage);
      return describeCompleted(job, after, differences.prove(isEqual));
    }
    await early?.stop();
    await differences.forget(changed);
    await forgetOtherAxis(stage, after);
    if (job.source.kind === 'aggregate') {
      await countsBefore.write(after);
      groups = await countAgain();
    } else groups = after;
    before = after;
  }
  throw describeUnsettled(date, isCapped);
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

/**
 * What most dates need once they are staged, while the source counts: the hashes of their cells, and how many ids they have.
 * @param known says along which axis the source counts @returns `undefined` where hashes say nothing
 */
async function hashStage(api: OpenedSql, stage: Stage, known: DayCounts) {
  const { source } = api.job;
  const hashed = source.kind === 'rows' ? hashedOf(api) : undefined;
  if (hashed === undefined) return undefined;
  const hashes = await stage.hashCells(axisOf(known), hashed);
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
  api: OpenedSql,
  date: string,
  known: DayCounts,
): Promise<{ readonly after: DayCounts; readonly isSettled: boolean }> {
  const once = await recountRows(api, date);
  const loss = findLoss(known, once);
  if (loss === undefined) return { after: once, isSettled: true };
  assertSmallLoss(date, loss);
  await api.clocks.sleep(CONFIRM_AFTER_MS, api.signal);
  const after = await recountRows(api, date);
  const lossNow = findLoss(known, after);
  if (lossNow === undefined) return { after, isSettled: true };
  assertSmallLoss(date, lossNow);
  if (!isConfirmed(known, once, after)) return { after, isSettled: false };
  const { had, has, lost, places } = lossNow;
  api.log.warn(
    { event: 'rows-withdrawn', date, had, has, lost, places: places.length },
    `${date}: ${describeLoss(lossNow)}, confirmed by two counts; the date is sealed without them`,
  );
  return { after, isSettled: true };
}

/** Windows cut along different axes cannot tile a date together. */
async function forgetOtherAxis(stage: Stage, counts: DayCounts): Promise<void> {
  const axis = axisOf(counts);
  const others = (await stage.windows())
    .map(({ window }) => window)
    .filter((window) => (axisOfStretch(window) ?? axis) !== axis);
  await stage.forget(others);
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
