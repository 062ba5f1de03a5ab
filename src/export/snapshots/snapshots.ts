/**
 * Exports one date of a snapshot job: one request a symbol, several in flight, paced by the client; then seal. Invariant: what
 * is staged, and what was too broad, is never requested again. A date is sealed only when each symbol was answered, with rows
 * or with the API's answer that there are none. Snapshots have no recount: the drop has what the answers had.
 */
import { assertNotAborted, Fault } from '../../core/errors.ts';
import type { OpenedSnapshots } from '../../run/open-source.ts';
import type { ExportRun, Run } from '../../run/run.ts';
import { SourceFault } from '../../source/source.ts';
import { countByStrike } from '../../stage/count.ts';
import { openStage, type Stage } from '../../stage/stage.ts';
import { findSplitKey } from '../../stage/window-conflicts.ts';
import { DropFile } from '../drop-file.ts';
import type { PlannedDate } from '../plan-dates.ts';
import { hurry } from '../priority.ts';
import { beginDate, type ExportOutcome, sealDate } from '../seal-date.ts';
import { WorkQueue } from '../work-queue.ts';
import { type ChainPart, cutPart, formatPart, listMissing, planCuts, splitPart, splitSides } from './chain-part.ts';

const NO_CONTRACTS = 'NO_CONTRACTS';

/** @throws Fault */
export async function exportSnapshots(
  run: ExportRun,
  opened: OpenedSnapshots,
  { date, pages, expiresAtMs }: PlannedDate,
  restate: boolean,
): Promise<ExportOutcome> {
  const { engine, onEvent } = run;
  const { job, clocks } = opened;
  const source = hurry(opened.source, expiresAtMs);
  const begun = beginDate(opened);
  const stage = await openStage(engine, job, date, source.url);
  const before = await stage.totals();
  onEvent({ kind: 'date', date, rows: undefined, staged: before.rows, pages });
  const fetched = await fetchSnapshots({ ...opened, source, onEvent }, stage);
  const { rows, ids } = await stage.totals();
  const { rows: bad, ids: badIds } = await stage.quarantine();
  // As the source would count them.
  const counted = { rows: rows + bad, ids: ids + badIds };
  const empty = fetched.empty.map((window) => ({ window, reason: NO_CONTRACTS }));
  const missing = [...fetched.missing, ...empty];
  if (counted.rows === 0) return { published: undefined, missing };
  // The API's retention of snapshots is unknown: an answer proves that the date is available.
  const held = clocks.explainHold(date, false);
  if (held !== undefined) return { held };
  onEvent({ kind: 'phase', date, phase: 'sealing' });
  const published = await sealDate(run, stage, {
    ...{ begun, file: new DropFile(run, stage), restate, counted, missing },
    query: `${job.source.api} of ${job.source.symbols.join(', ')} on ${date}`,
    // A chain without contracts is a valid answer; an unknown symbol is a gap.
    ...(fetched.missing.length === 0 ? {} : { degradedReason: describeMissing(fetched.missing) }),
  });
  return { published, missing };
}

function describeMissing(missing: readonly { readonly window: string; readonly reason: string }[]): string {
  return `the API has no snapshot of ${missing.map(({ window, reason }) => `${window} (${reason})`).join(', ')}`;
}

type Fetching = OpenedSnapshots & Pick<Run, 'onEvent'>;

/**
 * Stages the snapshots of all symbols.
 * @returns `missing`: symbols without a snapshot, with the API's reason; `empty`: those whose snapshot has no rows
 * @throws Fault when one cannot be fetched, after the others are staged
 */
export async function fetchSnapshots(run: Fetching, stage: Stage) {
  const fetch = new PartFetch(run, stage, await stage.pages());
  const fetched = await fetch.run();
  await assertApart(stage);
  await fetch.learn();
  return fetched;
}

/** Nobody knows which answer is wrong, so none is kept. @throws SourceFault `SNAPSHOT_MIXED` */
async function assertApart(stage: Stage): Promise<void> {
  const shared = await findSplitKey(stage);
  if (shared === undefined) return;
  const { key, windows } = shared;
  await stage.discard();
  throw new SourceFault(
    'SNAPSHOT_MIXED',
    `${stage.date}: ${key['option_symbol']} of ${key['symbol']} arrived in two answers, for ${windows[0]} and for ${windows[1]}`,
    {
      action: 'fail',
      hint: 'The API ignored a filter, or answered another request. Nothing was kept: run again later; if the problem persists, tell the provider, or remove one of the symbols from the job.',
    },
  );
}

class PartFetch {
  readonly #run: Fetching;
  readonly #stage: Stage;
  /** Texts of the parts that are staged. */
  readonly #staged: Set<string>;
  readonly #missing = new Map<string, string>();
  readonly #symbols: readonly string[];
  /** Parts that the last date's contracts let expect in one answer. */
  readonly #planned = new Set<ChainPart>();
  /** Symbols of parts that were too large. */
  readonly #refused = new Set<string>();

  constructor(run: Fetching, stage: Stage, pages: readonly { window: string }[]) {
    this.#run = run;
    this.#symbols = run.job.source.symbols;
    this.#stage = stage;
    this.#staged = new Set(pages.map(({ window }) => window));
  }

  async run() {
    const { chainCuts } = this.#run.limits;
    const parts = this.#symbols.flatMap((symbol) => {
      const cuts = chainCuts[symbol] ?? [];
      const missing = listMissing(symbol, this.#staged).flatMap((part) => cutPart(part, cuts));
      if (cuts.length > 0) for (const part of missing) this.#planned.add(part);
      return missing;
    });
    const queue = new WorkQueue(parts, {
      date: this.#stage.date,
      plural: 'snapshots',
      log: this.#run.log,
      formatPiece: formatPart,
      work: (part, own) => this.#fetch(part, own),
      tooBroadCode: 'SNAPSHOT_TOO_BROAD',
    });
    await queue.run();
    const found = new Set([...this.#staged].map((name) => name.split(' ')[0]));
    return {
      missing: [...this.#missing]
        .filter(([symbol]) => !found.has(symbol))
        .map(([window, reason]) => ({ window, reason })),
      empty: this.#symbols.filter((symbol) => !found.has(symbol) && !this.#missing.has(symbol)),
    };
  }

  /**
   * After the whole date is staged: plans chains that were too large for the next date, in parts as large as the largest
   * answer. What is wrong or out of date costs requests, never a contract.
   */
  async learn(): Promise<void> {
    const { limits } = this.#run;
    if (this.#refused.size === 0 && !this.#symbols.some((symbol) => symbol in limits.chainCuts)) return;
    const largest = Math.max(0, ...(await this.#stage.pages()).map(({ rows }) => rows));
    limits.chainRows = this.#refused.size > 0 ? largest : Math.max(limits.chainRows, largest);
    const cuts = { ...limits.chainCuts };
    for (const [symbol, counts] of await countByStrike(this.#stage)) {
      if (this.#refused.has(symbol) || symbol in cuts) cuts[symbol] = planCuts(counts, limits.chainRows);
    }
    limits.chainCuts = cuts;
  }

  /** Asks for a part and stages it; one that is too large is fetched in two. */
  async #fetch(part: ChainPart, queue: WorkQueue<ChainPart>): Promise<void> {
    const { source, onEvent, log, signal } = this.#run;
    const { date } = this.#stage;
    const window = formatPart(part);
    assertNotAborted(signal);
    const answer = await source.ask({ ...part, date }, { signal }).catch((error: unknown) => {
      if (error instanceof SourceFault && error.action === 'split') return error;
      throw error;
    });
    if (answer instanceof SourceFault) {
      const halves = source.canNarrow ? this.#halve(part) : undefined;
      if (halves === undefined) throw this.#tooBroad(part, answer);
      this.#refused.add(part.symbol);
      onEvent({ kind: 'split', date, window, reason: answer.code });
      queue.putFirst(halves);
      queue.hire();
      return;
    }
    queue.noteAnswer();
    if (answer.kind === 'missing') {
      // A filter without matches gives no rows; a part of an existing chain cannot be missing.
      if (window !== part.symbol) {
        throw new SourceFault(
          'SNAPSHOT_TORN',
          `${date} ${window}: the API answered ${answer.reason} for a part of a chain that was too large for one answer`,
          {
            action: 'fail',
            hint: 'The parts that arrived are staged. Run again later; if the problem persists, tell the provider.',
          },
        );
      }
      this.#missing.set(part.symbol, answer.reason);
      log.warn(
        { event: 'snapshot-missing', date, symbol: part.symbol, reason: answer.reason },
        `${date}: no snapshot of ${part.symbol}: ${answer.reason}`,
      );
      return;
    }
    await this.#stage.put(window, answer);
    if (answer.rows > 0) this.#staged.add(window);
    onEvent({ kind: 'page', date, window, rows: answer.rows });
  }

  /** A part of the plan is a little too large: its calls and puts are about equally many. */
  #halve(part: ChainPart): readonly ChainPart[] | undefined {
    return (this.#planned.has(part) ? splitSides(part) : undefined) ?? splitPart(part);
  }

  #tooBroad(part: ChainPart, cause: SourceFault): Fault {
    return new Fault('SNAPSHOT_TOO_BROAD', `${this.#stage.date} ${formatPart(part)} is too large for the API`, {
      cause,
      hint: 'It cannot be narrowed any further. Run again later; if the problem persists, remove the symbol from the job.',
    });
  }
}
