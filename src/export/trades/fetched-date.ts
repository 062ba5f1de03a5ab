/**
 * Fetches a date and proves it complete: the stage must equal the source's counts now. Where cells differ (a cell is the
 * rows of one second, or of one symbol; it differs by a late row, a correction, a page truncated without notice), their
 * windows are dropped and fetched again, and nothing else is. It does not seal.
 */
import { LOOKBACK_DAYS } from '../../api-contract/published-limits.ts';
import { OPEN_SECOND } from '../../calendar/session.ts';
import { axisOfStretch, isOverlapping, type Stretch, wholeDay } from '../../calendar/window.ts';
import { Fault } from '../../core/errors.ts';
import { sideBySide } from '../../core/side-by-side.ts';
import { axisOf, keyOf, secondOf, stretchOf } from '../../plan/axis.ts';
import {
  type CellCount,
  type DayCounts,
  findDifferences,
  isSameByHash,
  isSameCount,
  isSameHash,
  mergeParts,
  sumCounts,
  sumHashes,
} from '../../plan/counts.ts';
import { computeLookback, leavesAt } from '../../plan/dates.ts';
import { bestProof, listHashedColumns, type Proof, weakerProof } from '../../plan/proof.ts';
import { buildHashedRows, buildPage } from '../../plan/statement.ts';
import type { OpenedSql } from '../../run/open-source.ts';
import { SourceFault } from '../../source/source.ts';
import { readHashedRows } from '../../stage/count.ts';
import { isAboutData } from '../../stage/intake.ts';
import type { Stage } from '../../stage/stage.ts';
import type { StateFile } from '../../state/job-state.ts';
import type { CompleteRows, DateWork } from '../date-source.ts';
import type { DropFile } from '../seal-rows.ts';
import { assertOwnIds, assertWholeGroups } from './custom-sql.ts';
import { type Fetching, fetchDate } from './fetch.ts';
import { hashedOf, noteProof, probeGroups, probeRows, probeSymbol, proofOf, recountRows } from './probe.ts';
import { askBroadly } from './scan.ts';
import { assertSmallLoss, CONFIRM_AFTER_MS, describeLoss, findLoss, isConfirmed } from './withdrawn.ts';

/** Rows that equal the source's last counts: of the rows behind the groups for aggregating jobs. */
export interface CompletedDate extends CompleteRows {
  readonly counts: DayCounts;
}

interface KnownOfDate {
  readonly groups?: DayCounts | undefined;
  readonly counted?: DayCounts | undefined;
  readonly file?: Pick<DropFile, 'start' | 'stop'>;
}

/**
 * A date whose pages are staged, round by round, until the stage equals the source's counts.
 * `fetch` throws Fault `GROUP_TORN`, and `prove` `IDS_REPEATED`, when custom SQL does not fit its windows; `prove` throws
 * `SOURCE_SHRANK` when the source lost too much meanwhile.
 * @param first raw counts of the date @param countsBefore where an aggregating job keeps those from before its first page
 * @param known `groups` counted with them, if they were; `counted`: counts with hashes that were just made, which prove the
 *   first round; `file`: written while the source counts again
 */
export function fetchedDate(
  run: Fetching,
  stage: Stage,
  first: DayCounts,
  countsBefore: StateFile<DayCounts>,
  { groups, counted, file }: KnownOfDate = {},
): DateWork<CompletedDate> {
  const { date } = stage;
  const isGrouped = run.job.source.kind === 'aggregate';
  const differences = new Differences(run, stage);
  const count = async () => (isGrouped ? await probeGroups(run, date) : await probeRows(run, date));
  let known = first;
  let before: DayCounts | undefined;
  let planned = isGrouped ? groups : first;
  let isCapped = false;
  let fresh = counted;
  return {
    stage,
    async fetch() {
      await forgetOtherAxis(stage, before ?? first);
      before ??= isGrouped ? await snapshot(countsBefore, first, stage) : first;
      planned ??= await count();
      await fetchDate(run, stage, planned);
      isCapped = run.source.isCapped?.() === true;
      await assertWholeGroups(run, stage, before, count);
    },
    async prove() {
      run.onEvent({ kind: 'phase', date, phase: 'recounting' });
      file?.start();
      const counting = fresh ? Promise.resolve({ after: fresh, isSettled: true }) : recount(run, date, known);
      fresh = undefined;
      const [{ after, isSettled }, hashes] = await sideBySide(counting, hashStage(run, stage, known));
      if (isSettled) known = after;
      const isEqual = isSameByHash(hashes, mergeParts(after));
      const changed = isEqual ? [] : await differences.find(before ?? first, after, planned ?? after);
      run.onEvent({ kind: 'recounted', date, changed: changed.length });
      if (changed.length === 0 && isSettled) {
        await assertOwnIds(run.job, stage);
        return describeProved(run, date, after, differences.prove(isEqual));
      }
      await file?.stop();
      await differences.forget(changed);
      if (isGrouped) await countsBefore.write(after);
      planned = isGrouped ? undefined : after;
      before = after;
      return undefined;
    },
    explainUnsettled() {
      if (isCapped) {
        return new Fault('KEY_CAPPED', `the API caps the rows of ${date} as for a trial, below what it counts`, {
          hint: 'Check the subscription of the key: `flowdrop doctor JOB` shows its entitlement. Matching windows stay staged.',
        });
      }
      return new Fault('DATE_UNSETTLED', `the source's counts of ${date} still differ from what it sends`, {
        hint: 'Rows may still be arriving. Run again later: matching windows stay staged.',
      });
    },
  };
}

/** What was sent for a date, as its manifest has it: a page that spans the whole day. */
export function describeSent({ job, limits }: OpenedSql, date: string) {
  return { query: buildPage(job, wholeDay(date), limits.dayEdges), rowLimit: limits.rowLimit };
}

/** Counts without a hash were not compared. @param wanted what was compared at most */
function describeProved(api: OpenedSql, date: string, counts: DayCounts, wanted: Proof): CompletedDate {
  const { source } = api.job;
  const { idHash: id_hash, valueHash: value_hash } = sumHashes(counts);
  const had = id_hash === undefined ? 'counts' : value_hash === undefined ? 'ids' : wanted;
  const hashed = value_hash === undefined ? [] : (listHashedColumns(source, bestProof(source)) ?? []);
  const recount = { proved: weakerProof(wanted, had), columns: hashed.map(({ name }) => name), id_hash, value_hash };
  return { ...describeSent(api, date), counted: sumCounts(counts), counts, recount };
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

/** The shortest lookback that the source has reported. */
export function lookbackDaysOf({ source }: OpenedSql): number {
  return Math.min(source.lookbackDays?.() ?? LOOKBACK_DAYS, LOOKBACK_DAYS);
}

/**
 * The lookback moves while a date is fetched, and its first rows may have expired. A shorter lookback than the contract's
 * may have cut them from the start.
 * @param firstSecond of its first row, as far as that must be visible
 * @throws Fault `DATE_CLIPPED`
 */
export function assertStillWhole(api: OpenedSql, date: string, firstSecond = OPEN_SECOND): void {
  const nowMs = api.clocks.latest();
  const days = lookbackDaysOf(api);
  if (leavesAt(date, firstSecond, days) >= nowMs) return;
  if (days < LOOKBACK_DAYS) {
    throw new Fault(
      'DATE_CLIPPED',
      `${date} is not completely inside the lookback: the API shows ${days} days, not ${LOOKBACK_DAYS}`,
      { hint: 'Staged pages are kept. Ask the provider why the lookback is shorter than its contract says.' },
    );
  }
  throw new Fault(
    'DATE_CLIPPED',
    `${date} began to expire while it was fetched (the lookback now begins at ${computeLookback(nowMs).edge}), so it cannot be proved complete`,
    { hint: 'Staged pages are kept. Run earlier next time: `flowdrop status` shows when each date expires.' },
  );
}

/** A cell of the stage and of the source; one of them may be missing. */
interface CellPair {
  readonly key: string;
  readonly stretch: Stretch;
  readonly staged: CellCount | undefined;
  readonly source: CellCount | undefined;
}

/** If more than this share of a date's cells differs, the form differs, not the rows. */
const WIDESPREAD = 0.5;
/** Most cells asked in vain, because rows have moved in them too. */
const MAX_TRIES = 3;
/** Each costs a request a round; with more odd symbols the values of some are not compared, and the manifest says so. */
const MAX_ODD_SYMBOLS = 16;

interface SuspectPair extends CellPair {
  readonly staged: CellCount;
  readonly source: CellCount;
}

/**
 * Remembers the differences of one date that stay the same from round to round. A cell may differ although its rows are the
 * same: a source may keep a value in another form than it sends (a price as the text "1.50", a name that is not UTF-8), and
 * hash that. Such a difference would look like a change for ever. Invariant: it is accepted only when proved. The source is
 * asked for the rows of a cell together with its hashes, in one answer: only the form differs if its hashes add up to its
 * count, and its rows equal the staged ones.
 */
class Differences {
  readonly #api: OpenedSql;
  readonly #stage: Stage;
  #seen: ReadonlyMap<string, string> = new Map();
  readonly #explained = new Map<string, string>();
  #weakest: Proof = 'ids and values';
  /** The values of a cell with an odd row cannot be compared. Along the symbols a cell is a symbol's whole day. */
  #hasOdd = false;

  constructor(api: OpenedSql, stage: Stage) {
    this.#api = api;
    this.#stage = stage;
  }

  /** What is proved of the date once nothing differs. @param isEqual whether all hashes are those of the source */
  prove(isEqual: boolean): Proof {
    const proof = weakerProof(this.#weakest, proofOf(this.#api));
    return this.#hasOdd && !isEqual ? weakerProof(proof, 'ids') : proof;
  }

  /**
   * Stretches to fetch again. Single trades are compared with the stage. The rows inside a group cannot be: for groups the
   * raw counts before the first page are also compared with those after the last.
   */
  async find(before: DayCounts, after: DayCounts, groups: DayCounts): Promise<readonly Stretch[]> {
    const { source } = this.#api.job;
    const stage = this.#stage;
    if (source.kind === 'aggregate') {
      const staged = await stage.count(axisOf(groups));
      const moved = findDifferences(mergeParts(before), mergeParts(after));
      // A raw second lies in the group of its grain, wherever in it.
      const cells = [...findDifferences(staged, mergeParts(groups)), ...moved];
      return cells.map((cell) => stretchOf(cell, source.grainSeconds));
    }
    const hashed = hashedOf(this.#api);
    const staged = await stage.count(axisOf(after), { hashed });
    const wanted = mergeParts(after);
    const pairs = pairCells(staged, wanted, stretchOf);
    const suspects = pairs.filter(isSuspect);
    const common = suspects.length > wanted.length * WIDESPREAD ? await this.#findForm(suspects) : undefined;
    const found: CellPair[] = [];
    for (const pair of pairs) {
      const { symbol } = pair.stretch.from;
      // Of a symbol with many pages, only the seconds that differ are fetched again.
      const isLarge = !common && symbol !== undefined && (await this.#windowsOf([pair.stretch])).length > 1;
      found.push(...(isLarge ? await this.#compareSeconds(symbol, after) : [pair]));
    }
    const isOdd = ({ valueHash }: CellCount) => hashed !== undefined && hashed.length > 0 && valueHash === undefined;
    const odd = staged.filter(isOdd);
    this.#hasOdd = odd.length > 0;
    const isPaired = (name: string) => pairs.some(({ stretch }) => stretch.from.symbol === name);
    const symbols = odd.flatMap(({ symbol }) => symbol ?? []).filter((name) => !isPaired(name));
    for (const symbol of symbols.slice(0, MAX_ODD_SYMBOLS)) found.push(...(await this.#compareSeconds(symbol, after)));
    return (await this.#leaveOutForm(found, common)).map(({ stretch }) => stretch);
  }

  /** Drops the pages of these stretches. */
  async forget(stretches: readonly Stretch[]): Promise<void> {
    await this.#stage.forget(await this.#windowsOf(stretches));
  }

  async #windowsOf(stretches: readonly Stretch[]) {
    const all = (await this.#stage.windows()).map(({ window }) => window);
    return all.filter((window) => stretches.some((stretch) => isOverlapping(stretch, window)));
  }

  /** Seconds of a symbol that differ. */
  async #compareSeconds(symbol: string, after: DayCounts): Promise<readonly CellPair[]> {
    const parts = after.filter((part) => part.symbol === symbol);
    const source = await probeSymbol(this.#api, this.#stage.date, symbol, parts);
    const staged = await this.#stage.count('time', { symbol, hashed: hashedOf(this.#api) });
    return pairCells(staged, source, secondOf);
  }

  /**
   * Leaves out cells that are proved to differ only by form: those with the same difference after a second fetch, or at once
   * if that is proved where most of the date differs (`common`); the source is then known to write that form.
   */
  async #leaveOutForm(pairs: readonly CellPair[], common: Proof | undefined): Promise<readonly CellPair[]> {
    const isLeft = (pair: CellPair) => !isSuspect(pair) || this.#explained.get(pair.key) !== describe(pair);
    const left = pairs.filter(isLeft);
    const suspects = left.filter(isSuspect);
    const asked = common ? suspects : suspects.filter((pair) => this.#seen.get(pair.key) === describe(pair));
    this.#seen = new Map(suspects.map((pair) => [pair.key, describe(pair)]));
    const proof = common ?? (await this.#findForm(asked));
    if (proof === undefined) return left;
    if (common) noteProof(this.#api, proof, 'it sends values in a different form than it hashes');
    else this.#weakest = weakerProof(this.#weakest, proof);
    for (const pair of asked) if (isExplained(pair, proof)) this.#explained.set(pair.key, describe(pair));
    return left.filter(isLeft);
  }

  /** @returns the proof that still holds; `undefined` when no cell is proved to differ by form */
  async #findForm(suspects: readonly SuspectPair[]): Promise<Proof | undefined> {
    const smallest = [...suspects].sort((a, b) => a.source.rows - b.source.rows).slice(0, MAX_TRIES);
    let proof: Proof | undefined;
    for (const pair of smallest) proof ??= await this.#ask(pair);
    return proof;
  }

  async #ask({ stretch, staged, source }: SuspectPair): Promise<Proof | undefined> {
    const { limits, job } = this.#api;
    const hashed = hashedOf(this.#api) ?? [];
    const window = { date: this.#stage.date, ...stretch };
    try {
      const page = await askBroadly(this.#api, buildHashedRows(job, window, hashed, limits.dayEdges));
      // No answer, no proof: the cell is fetched again.
      if (page instanceof SourceFault) return undefined;
      const rows = await readHashedRows(this.#stage, page, hashed);
      const isAsCounted = rows.source.idHash === source.idHash && isSameHash(rows.source.valueHash, source.valueHash);
      const isAsStaged = rows.own.idHash === staged.idHash && isSameHash(rows.own.valueHash, staged.valueHash);
      if (rows.rows !== source.rows || !isAsCounted || !isAsStaged) return undefined;
      return rows.own.idHash === rows.source.idHash ? 'ids' : 'counts';
    } catch (error) {
      // Bad rows give no proof either.
      if (isAboutData(error)) return undefined;
      throw error;
    }
  }
}

/** Counts and update marks agree; only the hashes differ. */
function isSuspect(pair: CellPair): pair is SuspectPair {
  const { staged, source } = pair;
  return staged !== undefined && source !== undefined && staged.rows === source.rows && isSameCount(staged, source);
}

function isExplained({ staged, source }: SuspectPair, proof: Proof): boolean {
  return proof === 'counts' || isSameHash(staged.idHash, source.idHash);
}

function describe({ staged, source }: SuspectPair): string {
  return JSON.stringify([staged, source].map(({ rows, ids, idHash, valueHash }) => [rows, ids, idHash, valueHash]));
}

/** What differs between the stage and the source. */
function pairCells(staged: DayCounts, source: DayCounts, placeOf: (cell: CellCount) => Stretch): readonly CellPair[] {
  const [ours, theirs] = [staged, source].map((cells) => new Map(cells.map((cell) => [keyOf(cell), cell])));
  return findDifferences(staged, source).map((cell) => {
    const key = keyOf(cell);
    return { key, stretch: placeOf(cell), staged: ours?.get(key), source: theirs?.get(key) };
  });
}
