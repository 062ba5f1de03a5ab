/**
 * How broadly a table may be queried: chooses the stretches in which a date is counted, and learns from refusals. An unknown
 * table is asked for a whole date; after a refusal, a small stretch shows along which axis the table is ordered, and the
 * next ones are as large as the largest that passed.
 */
import { SECONDS_PER_DAY } from '../../calendar/wall-clock.ts';
import { type Axis, axisOfStretch, DAY_END, DAY_START, type Stretch } from '../../calendar/window.ts';
import { axisOf, buildProfile, cutStretch, shareOf, usualProfile } from '../../plan/axis.ts';
import { type DayCounts, sumCounts } from '../../plan/counts.ts';
import { canCutBySymbol } from '../../plan/statement.ts';
import type { OpenedSql } from '../../run/open-source.ts';
import { type Page, SourceFault } from '../../source/source.ts';
import type { ApiLimits } from '../../state/limits.ts';

/** Tomorrow may have slightly more rows than any count that passed. */
const GROWTH = 1.05;
/** Fewer parts than this are not worth a query that may be refused. */
const FEW_PARTS = 4;
/** If so many more equal parts do not help, the table has changed. */
const MAX_MORE_PARTS = 64;
/** Parts of a date tried until a stretch passes, by axis. */
const FIRST_PARTS: readonly (readonly [axis: Axis, parts: number])[] = [
  ['time', 4],
  ['time', 32],
  ['symbol', 4],
  ['symbol', 32],
  ['time', 512],
  ['symbol', 512],
  ['time', 16_384],
];

type Scanned = Pick<OpenedSql, 'job' | 'limits'>;

/** Whether a query is too broad for the server. */
function isTooBroad({ action }: SourceFault): boolean {
  return action === 'split';
}

/** Whether the API refuses a query that the run can do without, rather than being down. */
export function isRefusal(fault: SourceFault): boolean {
  return isTooBroad(fault) || fault.code.startsWith('INVALID_');
}

/** @returns the answer, or the fault if it is one that the caller expects @throws SourceFault of any other kind */
export async function askBroadly(
  { source, signal }: OpenedSql,
  sql: string,
  isExpected = isTooBroad,
): Promise<Page | SourceFault> {
  return await source.ask(sql, { signal }).catch((error: unknown) => {
    if (error instanceof SourceFault && isExpected(error)) return error;
    throw error;
  });
}

/** Whether several dates may be counted at once: nothing was ever refused, or so many rows fit. */
export function countDatesAtOnce(limits: ApiLimits): number {
  if (limits.refusedRows === null) return Number.POSITIVE_INFINITY;
  return Math.max(1, Math.floor(limits.passedRows / Math.max(1, limits.dateRows ?? limits.passedRows + 1)));
}

/** The stretches in which a date is counted: as few as possible, none larger than the largest that passed. */
export function planSpans({ job, limits }: Scanned): readonly Stretch[] {
  const day: Stretch = { from: DAY_START, to: DAY_END };
  const stepSeconds = job.source.grainSeconds;
  const { axis, refusedRows: refused, dateRows: rows, passedRows: passed } = limits;
  if (refused === null || axis === null || (axis === 'symbol' && !canCutBySymbol(job))) return [day];
  const profile = limits.profile(axis);
  // The axis is known since a whole date was refused; the rows of a date are still unknown.
  if (rows === null) return cutStretch(profile, day, 2, stepSeconds);
  if (passed === 0) return [day];
  // Just above the largest accepted, but below the smallest refused.
  const most = Math.min(passed * GROWTH, refused - 1) / rows;
  if (most >= 1) return [day];
  const fewest = Math.ceil(1 / most);
  let stretches = cutStretch(profile, day, fewest, stepSeconds);
  // Cells are not cut, so parts may be unequal: then try some more.
  for (let count = fewest + 1; count <= fewest + Math.min(fewest, MAX_MORE_PARTS); count += 1) {
    if (stretches.every((stretch) => shareOf(profile, stretch) <= most)) break;
    stretches = cutStretch(profile, day, count, stepSeconds);
  }
  return stretches;
}

/** The running count of one date: what passed and what was refused. */
export class ScanTrial {
  readonly #limits: ApiLimits;
  readonly #stepSeconds: number;
  readonly #canUseSymbols: boolean;
  readonly #refused: Stretch[] = [];
  readonly #passed: { readonly stretch: Stretch; readonly rows: number }[] = [];
  #tried = 0;
  #turned = false;

  constructor({ job, limits }: Scanned) {
    this.#limits = limits;
    this.#stepSeconds = job.source.grainSeconds;
    this.#canUseSymbols = canCutBySymbol(job);
  }

  /** The current axis of the cells. */
  get axis(): Axis {
    return this.#limits.axis ?? this.#next()?.[0] ?? 'time';
  }

  /**
   * @param left stretches of the date still to be counted
   * @returns the stretches to ask for now, merged where they may be larger
   */
  notePassed(stretch: Stretch, rows: number, left: readonly Stretch[]): readonly Stretch[] {
    this.#passed.push({ stretch, rows });
    const [first] = left;
    const last = left.at(-1);
    if (this.#tried === 0 || first === undefined || last === undefined) return left;
    // A narrower query passed and a broader one did not: this is the axis.
    this.#limits.axis ??= this.axis;
    const profile = this.#limits.profile(this.axis);
    const passed = Math.max(...this.#passed.map((each) => shareOf(profile, each.stretch)));
    const rest: Stretch = { from: first.from, to: last.to };
    if (passed <= 0) return left;
    const refused = Math.min(
      ...this.#refused.map((each) => shareOf(profile, each)).filter((share) => share > passed),
      1,
    );
    const parts = shareOf(profile, rest) / passed;
    const size = parts > FEW_PARTS ? Math.min(passed * 4, (passed + refused) / 2) : passed;
    return cutStretch(profile, rest, Math.max(1, Math.ceil(shareOf(profile, rest) / size - 0.02)), this.#stepSeconds);
  }

  /**
   * @param stretch the one that was too broad @param left stretches of the date still to be counted
   * @returns the stretches to ask for now, in place of all of these; `undefined` when it cannot be made smaller
   */
  noteRefused(stretch: Stretch, left: readonly Stretch[]): readonly Stretch[] | undefined {
    this.#refused.push(stretch);
    const axis = this.#limits.axis === 'symbol' && !this.#canUseSymbols ? 'time' : this.#limits.axis;
    if (axis !== null) {
      const halves = cutStretch(this.#limits.profile(axis), stretch, 2, this.#stepSeconds);
      if (halves.length > 1) return [...halves, ...left];
      return this.#turn(axis);
    }
    this.#tried += 1;
    const next = this.#next();
    if (next === undefined) return undefined;
    const day: Stretch = { from: DAY_START, to: DAY_END };
    return cutStretch(usualProfile(next[0]), day, next[1], this.#stepSeconds);
  }

  /** Not even one cell passes: the remembered axis is wrong. The day starts again along the other. */
  #turn(axis: Axis): readonly Stretch[] | undefined {
    const limits = this.#limits;
    if (this.#turned || !this.#canUseSymbols) {
      limits.axis = null;
      return undefined;
    }
    this.#turned = true;
    this.#refused.length = 0;
    this.#passed.length = 0;
    limits.axis = axis === 'time' ? 'symbol' : 'time';
    limits.passedRows = 0;
    return cutStretch(limits.profile(limits.axis), { from: DAY_START, to: DAY_END }, FEW_PARTS, this.#stepSeconds);
  }

  /** Remembers what passed. @param counts of the whole date, on `axis` */
  learn(counts: DayCounts): void {
    const { rows } = sumCounts(counts);
    const limits = this.#limits;
    if (rows === 0) return;
    limits.dateRows = rows;
    const profile = buildProfile(counts);
    if (profile !== undefined) {
      if (axisOf(counts) === 'symbol') limits.symbolProfile = [...profile];
      else limits.timeProfile = [...profile];
      for (const stretch of this.#refused) {
        // The other axis has no narrower query.
        if ((axisOfStretch(stretch) ?? this.axis) !== this.axis) continue;
        limits.noteTooBroad(Math.round(rows * shareOf(profile, stretch)));
      }
    }
    for (const passed of this.#passed) limits.passedRows = Math.max(limits.passedRows, passed.rows);
  }

  #next(): readonly [axis: Axis, parts: number] | undefined {
    const steps = FIRST_PARTS.filter(([axis]) => axis === 'time' || this.#canUseSymbols).filter(
      ([axis, parts]) => axis !== 'time' || this.#stepSeconds * parts <= SECONDS_PER_DAY,
    );
    return steps[this.#tried - 1];
  }
}
