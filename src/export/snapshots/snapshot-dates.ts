/**
 * The dates of a snapshot job: those of the calendar, one request for each symbol, several in flight, paced by the client. The
 * API does not say how long it retains snapshots: a run asks for the dates of the lookback, and others by name. Dates answered
 * with nothing, long after their session, are not asked again unless they are named. Invariant: what is staged, and what was
 * too broad, is never requested again. A date is sealed only when each symbol was answered, with rows or with the API's answer
 * that there are none. Snapshots have no recount: the drop has what the answers had.
 */
import { createHash } from 'node:crypto';
import { type Families, membersOf } from '../../api-contract/family.ts';
import { SNAPSHOT_REFRESH_SECONDS } from '../../api-contract/snapshot.ts';
import { isSession, listSessions } from '../../calendar/session.ts';
import { formatWallDate } from '../../calendar/wall-clock.ts';
import { assertNotAborted, Fault } from '../../core/errors.ts';
import { TRUSTED_OFFSET_MS } from '../../plan/clocks.ts';
import { assertNotFuture, expiresAt, sealsFrom } from '../../plan/dates.ts';
import type { OpenedSnapshots } from '../../run/open-source.ts';
import type { ExportRun, Run } from '../../run/run.ts';
import type { SnapshotAnswer } from '../../source/snapshot.ts';
import { SourceFault } from '../../source/source.ts';
import { countByStrike, listRoots } from '../../stage/count.ts';
import { openStage, type Stage } from '../../stage/stage.ts';
import { findSplitKey } from '../../stage/window-conflicts.ts';
import { isUnavailable } from '../../state/job-state.ts';
import type { DateExport, DateSource, ExportPlan, NoRows, PlannedDate } from '../date-source.ts';
import { createDropFile } from '../seal-rows.ts';
import type { DateSelection } from '../select-dates.ts';
import { type WorkQueue, workOff } from '../work-queue.ts';
import {
  type ChainPart,
  cutPart,
  formatPart,
  listMissing,
  parsePart,
  planCuts,
  splitPart,
  splitSides,
} from './chain-part.ts';

const NO_CONTRACTS = 'NO_CONTRACTS';

export class SnapshotDates implements DateSource {
  readonly #opened: OpenedSnapshots;

  constructor(opened: OpenedSnapshots) {
    this.#opened = opened;
  }

  get question() {
    const { source, job } = this.#opened;
    return { url: source.url, symbols: job.source.symbols };
  }

  /** Whether a session has just closed: its snapshots may be those of the close, before they have settled by the clock. */
  #isClosed(date: string): boolean {
    const { clocks, calendar, job } = this.#opened;
    if (!isSession(date, calendar) || clocks.conflict() !== undefined) return false;
    return clocks.earliest() >= sealsFrom(job, date, calendar);
  }

  /** Costs no request where the clock of the API is known from an earlier run, else one. */
  async plan({ range, isWanted, unavailable, notBeforeMs }: DateSelection): Promise<ExportPlan> {
    const { source, limits, clocks, calendar, job, signal } = this.#opened;
    const { symbols } = job.source;
    const [symbol] = symbols;
    const offsetMs = Math.abs(limits.clockOffsetMs);
    const isKnown = offsetMs !== 0 && offsetMs <= TRUSTED_OFFSET_MS && clocks.ownNow() >= notBeforeMs;
    if (symbol !== undefined && !isKnown) await source.greet(symbol, signal);
    const { dates: agreed, contested, lookback } = clocks.agreeOnDates();
    assertNotFuture(range, lookback, clocks.latest());
    const last = lookback.lastSettled;
    // Older dates may still be available and can be named.
    const older = range === undefined || last === undefined ? [] : listSessions(range.from, last, calendar);
    const isContested = (date: string) => contested.some((held) => held.date === date);
    const today = formatWallDate(clocks.earliest());
    const closed = this.#isClosed(today) && !agreed.includes(today) ? [today] : [];
    const due = older.length > 0 ? older.filter((date) => !isContested(date)) : agreed;
    const wanted = [...due, ...closed].filter(isWanted);
    const isEmpty = (date: string) => isUnavailable(unavailable[date], this.question, date, calendar);
    return {
      lookback,
      dates: wanted
        .filter((date) => !isEmpty(date))
        .map((date) => ({ date, counts: [], rows: undefined, pages: symbols.length, expiresAtMs: expiresAt(date) })),
      empty: new Set(wanted.filter(isEmpty)),
      held: contested.filter(({ date }) => isWanted(date)),
    };
  }

  async open(run: ExportRun, { date, pages }: PlannedDate): Promise<DateExport> {
    const { job, source, clocks, signal } = this.#opened;
    const isEarly = clocks.earliest() < clocks.settledAt(date);
    // What an earlier run staged may be from before the close.
    const stage = await openStage(run.engine, job, date, source.url, { isEmpty: isEarly });
    const { rows: staged } = await stage.totals();
    run.onEvent({ kind: 'date', date, rows: undefined, staged, pages });
    const fetching = { ...this.#opened, onEvent: run.onEvent };
    let fetched: Fetched = NOTHING;
    let rounds = 0;
    const before = isEarly ? (await run.ledger.dates()).findLast((other) => other < date) : undefined;
    const last = before === undefined ? undefined : await run.ledger.validManifest(before);
    const lacking = new Set(last?.missing?.map(({ window }) => window));
    return {
      stage,
      file: createDropFile(run, stage),
      fetch: async () => {
        fetched = await fetchSnapshots(fetching, stage);
      },
      prove: async () => {
        if (isEarly) {
          await clocks.sleep(PROOF_MS, signal);
          // What is not there, but was on the date before, may come until the date has settled.
          const isThere = [...fetched.missing.map(({ window }) => window), ...fetched.empty].every((symbol) =>
            lacking.has(symbol),
          );
          const isProved = isThere && (await isStill(fetching, date, fetched.hashes));
          if (!isProved) {
            rounds += 1;
            if (!isThere || rounds === EARLY_ROUNDS) return { settlesAtMs: clocks.settledAt(date) };
            await stage.forget([...fetched.hashes.keys()]);
            return undefined;
          }
        }
        const { rows, ids } = await stage.totals();
        const { rows: bad, ids: badIds } = await stage.quarantine();
        // As the source would count them.
        const counted = { rows: rows + bad, ids: ids + badIds };
        const missing = [...fetched.missing, ...fetched.empty.map((window) => ({ window, reason: NO_CONTRACTS }))];
        if (counted.rows === 0) return { missing };
        // The API's retention of snapshots is unknown: an answer proves that the date is available.
        const held = isEarly ? clocks.conflict() : clocks.explainHold(date, false);
        if (held !== undefined) return { held };
        // A chain without contracts is a valid answer; an unknown symbol is a gap.
        const degradedReason = fetched.missing.length === 0 ? undefined : describeMissing(fetched.missing);
        const query = `${job.source.api} of ${job.source.symbols.join(', ')} on ${date}`;
        return { counted, missing, query, degradedReason };
      },
      explainUnsettled: () => new Error('a snapshot that has settled is not fetched twice'),
    };
  }
}

function describeMissing(missing: NoRows['missing']): string {
  return `the API has no snapshot of ${missing.map(({ window, reason }) => `${window} (${reason})`).join(', ')}`;
}

type Fetching = OpenedSnapshots & Pick<Run, 'onEvent'>;

/**
 * Two snapshots that are equal, and further apart than the market's refresh, are of the close: nothing shows how far a
 * snapshot lags behind.
 */
const PROOF_MS = (SNAPSHOT_REFRESH_SECONDS + 5) * 1000;

/** How often a session that has just closed is compared; if it still changes then, it waits until it has settled. */
const EARLY_ROUNDS = 3;

const NOTHING = { missing: [], empty: [], hashes: new Map<string, string>() };

/** Asks for all parts once more. @param hashes of the answers before, by part */
async function isStill({ source, signal }: Fetching, date: string, hashes: Fetched['hashes']): Promise<boolean> {
  for (const [name, hash] of hashes) {
    assertNotAborted(signal);
    const part = parsePart(name);
    if (part === undefined || hashAnswer(await source.ask({ ...part, date }, { signal })) !== hash) return false;
  }
  return true;
}

function hashAnswer(answer: SnapshotAnswer): string {
  return createHash('sha256')
    .update(answer.kind === 'rows' ? answer.data : answer.reason)
    .digest('hex');
}

interface Fetched {
  /** Of each answer, by the text of its part. */
  readonly hashes: ReadonlyMap<string, string>;
  /** Symbols without a snapshot, with the API's reason. */
  readonly missing: NoRows['missing'];
  /** Symbols whose snapshot has no rows. */
  readonly empty: readonly string[];
}

/**
 * Stages the snapshots of all symbols. @throws Fault when one cannot be fetched, after the others are staged
 */
export async function fetchSnapshots(run: Fetching, stage: Stage): Promise<Fetched> {
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
  readonly #hashes = new Map<string, string>();
  readonly #symbols: readonly string[];
  /** None for market structure, which each symbol has on its own. */
  readonly #families: Families;
  /** Parts that the last date's contracts let expect in one answer. */
  readonly #planned = new Set<ChainPart>();
  /** Symbols of parts that were too large. */
  readonly #refused = new Set<string>();

  constructor(run: Fetching, stage: Stage, pages: readonly { window: string }[]) {
    this.#run = run;
    this.#symbols = run.job.source.symbols;
    this.#families = run.job.source.api === 'chain' ? run.job.families : {};
    this.#stage = stage;
    this.#staged = new Set(pages.map(({ window }) => window));
  }

  async run(): Promise<Fetched> {
    const headOf = (symbol: string) => membersOf(symbol, this.#families)[0];
    const isFirst = (symbol: string) => headOf(symbol) === symbol || !this.#symbols.includes(headOf(symbol));
    const first = this.#symbols.filter(isFirst);
    await this.#fetchAll(first);
    // Other symbols of the families that are asked for: the API may have their contracts under a symbol of their own.
    const others = first
      .filter((symbol) => headOf(symbol) === symbol)
      .flatMap((symbol) => membersOf(symbol, this.#families).slice(1));
    const roots = others.length === 0 ? undefined : await listRoots(this.#stage);
    const hasRoot = (symbol: string) => roots?.get(headOf(symbol))?.includes(symbol) ?? false;
    // Of a date without a snapshot, the others have none either.
    const isOtherwise = (family: string) =>
      (this.#missing.get(family) ?? 'SNAPSHOT_NOT_FOUND') !== 'SNAPSHOT_NOT_FOUND';
    const isWanted = (symbol: string) => {
      const found = roots?.get(headOf(symbol));
      if (this.#isRequired(symbol)) return !hasRoot(symbol);
      // A contract without an option symbol may have any root.
      return found === undefined ? isOtherwise(headOf(symbol)) : !found.includes('') && !hasRoot(symbol);
    };
    await this.#fetchAll(others.filter(isWanted));
    const staged = new Set([...this.#staged].map((name) => name.split(' ')[0]));
    const required = [...first, ...others.filter((symbol) => this.#isRequired(symbol))];
    // The API may know a family by another of its names only.
    const isThere = (symbol: string) =>
      staged.has(symbol) ||
      hasRoot(symbol) ||
      (isOtherwise(symbol) && others.some((other) => headOf(other) === symbol && staged.has(other)));
    const lacking = required.filter((symbol) => !isThere(symbol));
    return {
      hashes: this.#hashes,
      missing: lacking.flatMap((window) => {
        const reason = this.#missing.get(window);
        return reason === undefined ? [] : [{ window, reason }];
      }),
      empty: lacking.filter((symbol) => !this.#missing.has(symbol)),
    };
  }

  /** Whether the job names it, or the API has had it under its own symbol before; else it is only looked for. */
  #isRequired(symbol: string): boolean {
    return this.#symbols.includes(symbol) || this.#run.limits.apart.includes(symbol);
  }

  async #fetchAll(symbols: readonly string[]): Promise<void> {
    const { chainCuts } = this.#run.limits;
    const parts = symbols.flatMap((symbol) => {
      const cuts = chainCuts[symbol] ?? [];
      const missing = listMissing(symbol, this.#staged).flatMap((part) => cutPart(part, cuts));
      if (cuts.length > 0) for (const part of missing) this.#planned.add(part);
      return missing;
    });
    await workOff(parts, {
      date: this.#stage.date,
      plural: 'snapshots',
      log: this.#run.log,
      formatPiece: formatPart,
      work: (part, own) => this.#fetch(part, own),
    });
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
    const { source, onEvent, log, signal, limits } = this.#run;
    const { date } = this.#stage;
    const window = formatPart(part);
    const isRequired = this.#isRequired(part.symbol);
    assertNotAborted(signal);
    const answer = await source.ask({ ...part, date }, { signal }).catch((error: unknown) => {
      if (!(error instanceof SourceFault)) throw error;
      if (error.action === 'split') return error;
      // Nobody asked for it: an API may refuse the symbol, or answer about another.
      if (isRequired) throw error;
      return { kind: 'missing', rows: 0, reason: error.code } as const;
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
    if (isRequired || answer.kind === 'rows') this.#hashes.set(window, hashAnswer(answer));
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
      if (isRequired) {
        log.warn(
          { event: 'snapshot-missing', date, symbol: part.symbol, reason: answer.reason },
          `${date}: no snapshot of ${part.symbol}: ${answer.reason}`,
        );
      }
      return;
    }
    if (!this.#symbols.includes(part.symbol)) {
      // For a symbol that it does not have, an API may answer what it has of the underlying.
      if (!Buffer.from(answer.data).includes(part.symbol)) return;
      if (!isRequired) limits.apart = [...limits.apart, part.symbol];
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
