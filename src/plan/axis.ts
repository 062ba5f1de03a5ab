/**
 * The axes along which a date is cut: by time, or by symbol if the server's table is sorted that way. Pure. All that
 * differs between the two is here: what a cell covers, how rows are spread before they are counted, and where to cut a
 * stretch. A profile comes from the last counted date; without one from the usual market: most trades follow the opening
 * and precede the close, and a handful of symbols make up half.
 */
import { SECONDS_PER_DAY } from '../calendar/wall-clock.ts';
import {
  type Axis,
  type Bound,
  compareBounds,
  compareText,
  DAY_END,
  DAY_START,
  type Stretch,
} from '../calendar/window.ts';

/** Rows that are counted together: those of a second (of a grain, for groups), of a symbol, or of a part of its day. */
export interface Cell {
  /** Only on the symbol axis. */
  readonly symbol?: string | undefined;
  /** First second of the cell. */
  readonly second: number;
}

/** A stretch of the axis from this bound to the next entry's, with its share of the date's rows. */
interface ProfileEntry extends Cell {
  readonly share: number;
}

/** Ascending; the shares add up to 1. The first entry also covers everything before it. */
export type Profile = readonly ProfileEntry[];

interface AxisRules {
  /** Without counts of a date: how its rows are spread. */
  readonly usual: Profile;
  /** The cell that an answer names. @param from start of the counted stretch */
  readCell(name: string, from: Bound): Cell;
  stretchOf(cell: Cell, grainSeconds: number): Stretch;
  /** For people. */
  describe(cell: Cell): string;
  /** The fraction of a stretch's rows that lie in a part of it. */
  fractionOf(part: Stretch, whole: Stretch): number;
  /** Where to cut a stretch so that a fraction of its rows lies before. */
  placeAt(fraction: number, whole: Stretch, stepSeconds: number): Bound;
  /** Where to halve a stretch that its profile does not cut. */
  middleOf(stretch: Stretch, profile: Profile, stepSeconds: number): Bound | undefined;
}

/** The axis along which cells lie. */
export function axisOf(cells: readonly Cell[]): Axis {
  return cells[0]?.symbol === undefined ? 'time' : 'symbol';
}

const rulesOf = (cell: Cell): AxisRules => AXES[axisOf([cell])];

/** The bound at the start of a cell. */
export function startOf({ symbol, second }: Cell): Bound {
  return { symbol, second };
}

/** The stretch of a cell. On the symbol axis it extends to the symbol's end and overlaps the symbol's later cells. */
export function stretchOf(cell: Cell, grainSeconds = 1): Stretch {
  return rulesOf(cell).stretchOf(cell, grainSeconds);
}

/** The stretch of one second: on the symbol axis, of one symbol. */
export function secondOf({ symbol, second }: Cell): Stretch {
  return { from: { symbol, second }, to: { symbol, second: second + 1 } };
}

/** Orders cells along their axis. */
export function compareCells(a: Cell, b: Cell): number {
  return compareBounds(startOf(a), startOf(b));
}

/** Whether a cell begins in a stretch. */
export function isInside(cell: Cell, { from, to }: Stretch): boolean {
  return compareBounds(from, startOf(cell)) <= 0 && compareBounds(startOf(cell), to) < 0;
}

/** A key that is unique among the cells of a date. */
export function keyOf({ symbol = '', second }: Cell): string {
  return `${symbol}@${second}`;
}

export function readCell(axis: Axis, name: string | number, from: Bound = DAY_START): Cell {
  return AXES[axis].readCell(String(name), from);
}

export function describeCell(cell: Cell): string {
  return rulesOf(cell).describe(cell);
}

export function usualProfile(axis: Axis): Profile {
  return AXES[axis].usual;
}

/** Share of a date's rows in a stretch. */
export function shareOf(profile: Profile, stretch: Stretch): number {
  return listPieces(profile, stretch).reduce((sum, { share }) => sum + share, 0);
}

/** Maximum entries of a profile, not counting cells that alone exceed one share of it. */
const MAX_ENTRIES = 256;

/** Builds the profile of a counted date; `undefined` if it has no rows. */
export function buildProfile(counts: readonly (Cell & { readonly rows: number })[]): Profile | undefined {
  const total = counts.reduce((sum, { rows }) => sum + rows, 0);
  if (total === 0) return undefined;
  const entries: { start: Bound; rows: number }[] = [];
  for (const cell of counts) {
    const open = entries.at(-1);
    if (open && (open.rows + cell.rows) * MAX_ENTRIES <= total) open.rows += cell.rows;
    else entries.push({ start: startOf(cell), rows: cell.rows });
  }
  return entries.map(({ start, rows }) => ({ ...start, share: rows / total }));
}

/** Maximum parts of a stretch: for finer ones the date is counted by the second anyway. */
const MAX_PARTS = 16_384;

/**
 * Cuts a stretch into `count` parts of about equal shares, between whole cells.
 * @param stepSeconds the second of a cut must be a multiple of this
 * @returns fewer parts if the stretch cannot be cut that often; the stretch itself if it cannot be cut at all
 */
export function cutStretch(profile: Profile, stretch: Stretch, count: number, stepSeconds: number): readonly Stretch[] {
  if (count <= 1) return [stretch];
  const axis = AXES[axisOf(profile)];
  const parts = Math.min(count, MAX_PARTS);
  const pieces = listPieces(profile, stretch);
  const total = pieces.reduce((sum, { share }) => sum + share, 0);
  const bounds: Bound[] = [];
  let before = 0;
  for (const { share, ...piece } of pieces) {
    for (let next = bounds.length + 1; next < parts && total > 0; next = bounds.length + 1) {
      const wanted = (total * next) / parts - before;
      if (wanted > share) break;
      bounds.push(axis.placeAt(wanted / share, piece, stepSeconds));
    }
    before += share;
  }
  const isInside = (bound: Bound, after: Bound) =>
    compareBounds(after, bound) < 0 && compareBounds(stretch.from, bound) < 0 && compareBounds(bound, stretch.to) < 0;
  const distinct = bounds.filter((bound, index) => isInside(bound, bounds[index - 1] ?? stretch.from));
  const middle = distinct.length === 0 ? axis.middleOf(stretch, profile, stepSeconds) : undefined;
  if (middle !== undefined && isInside(middle, stretch.from)) distinct.push(middle);
  return [stretch.from, ...distinct].map((from, index) => ({ from, to: distinct[index] ?? stretch.to }));
}

/** The parts of the profile's entries that lie in a stretch, with their shares. */
function listPieces(profile: Profile, { from, to }: Stretch): readonly (Stretch & { readonly share: number })[] {
  const axis = AXES[axisOf(profile)];
  return profile.flatMap((entry, index) => {
    const whole: Stretch = { from: index === 0 ? DAY_START : startOf(entry), to: profile[index + 1] ?? DAY_END };
    const low = compareBounds(whole.from, from) < 0 ? from : whole.from;
    const high = compareBounds(whole.to, to) < 0 ? whole.to : to;
    if (compareBounds(low, high) >= 0) return [];
    const part: Stretch = { from: startOf(low), to: startOf(high) };
    const isWhole = low === whole.from && high === whole.to;
    return [{ ...part, share: isWhole ? entry.share : entry.share * axis.fractionOf(part, whole) }];
  });
}

/** The axis as one number: more than the seconds of a day for each symbol. */
const SYMBOL_STEP = 100_000;

/**
 * A bound between cells as a number that sorts like it. @param symbols all of the date in their order; none along the time
 */
export function placeOf({ symbol, second }: Bound, symbols: ReadonlyMap<string, number>): number {
  if (symbols.size === 0) return second;
  if (symbol === undefined) return second < SECONDS_PER_DAY ? 0 : (symbols.size + 1) * SYMBOL_STEP;
  return ((symbols.get(symbol) ?? 0) + 1) * SYMBOL_STEP + second;
}

/** The symbols of cells in the order of their axis; none along the time. */
export function listSymbols(...cells: readonly (readonly Cell[])[]): readonly string[] {
  return [...new Set(cells.flat().flatMap(({ symbol }) => symbol ?? []))].sort(compareText);
}

/**
 * Seconds of the day and the relative rates of trading from then on (noon is 1): the regular session, and the quarter
 * of an hour after it for indices. The rates lie between a real session of index options and a steeper opening, so that
 * a quarter of the day by this profile is at most 28% of the day by either.
 */
const USUAL_DAY: readonly (readonly [second: number, rate: number])[] = [
  [0, 0],
  [34_200, 7],
  [34_500, 4.6],
  [35_100, 3],
  [36_000, 1.7],
  [37_800, 1],
  [54_000, 1.5],
  [55_800, 2],
  [57_000, 3.1],
  [57_600, 0.7],
  [58_500, 0],
];

/** Shares of the most traded symbols; the rest is spread over the first letters. */
const USUAL_SYMBOLS: Readonly<Record<string, number>> = {
  SPY: 0.15,
  SPX: 0.11,
  QQQ: 0.1,
  NVDA: 0.065,
  TSLA: 0.06,
  IWM: 0.03,
  AAPL: 0.027,
  AMD: 0.025,
  AMZN: 0.025,
  META: 0.023,
  PLTR: 0.022,
  MSFT: 0.02,
  GOOGL: 0.018,
  VIX: 0.017,
};
const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ';
/** Characters of symbols, in byte order. */
const CHARACTERS = `-./0123456789${LETTERS}^_${LETTERS.toLowerCase()}`;

function readUsualDay(): Profile {
  return normalise(
    USUAL_DAY.map(([second, rate], index) => {
      const end = USUAL_DAY[index + 1]?.[0] ?? SECONDS_PER_DAY;
      return { second, share: rate * (end - second) };
    }),
  );
}

function readUsualSymbols(): Profile {
  const known = Object.entries(USUAL_SYMBOLS);
  const rest = (1 - known.reduce((sum, [, share]) => sum + share, 0)) / LETTERS.length;
  const entries = [...known, ...[...LETTERS].map((letter) => [letter, rest] as const)];
  return normalise(entries.map(([symbol, share]) => ({ symbol, second: 0, share })).sort(compareCells));
}

function normalise(entries: Profile): Profile {
  const total = entries.reduce((sum, { share }) => sum + share, 0);
  return entries.map((entry) => ({ ...entry, share: entry.share / total }));
}

/** Longest symbol to search for a middle; no root is longer. */
const MAX_SYMBOL_LENGTH = 8;

/** Finds the shortest text between two texts; `undefined` if there is none. @param high `undefined`: unbounded */
function middleText(low: string, high: string | undefined): string | undefined {
  let prefix = '';
  for (let at = 0; at < MAX_SYMBOL_LENGTH; at += 1) {
    // -1 if the text has ended, which sorts before any character.
    const orderOf = (text: string) => (text.length > at ? CHARACTERS.indexOf(text.charAt(at)) : -1);
    const from = orderOf(low);
    const to = high === undefined || !high.startsWith(prefix) ? CHARACTERS.length : orderOf(high);
    const found = prefix + CHARACTERS.charAt(Math.floor((Math.max(0, from) + to) / 2));
    if (to - from > 1 && compareText(low, found) < 0 && (high === undefined || compareText(found, high) < 0))
      return found;
    prefix += low.charAt(at) || CHARACTERS.charAt(0);
  }
  return undefined;
}

const AXES: Readonly<Record<Axis, AxisRules>> = {
  time: {
    usual: readUsualDay(),
    readCell: (name) => ({ second: Number(name) }),
    stretchOf: ({ second }, grainSeconds) => {
      const start = second - (second % grainSeconds);
      return { from: { second: start }, to: { second: start + grainSeconds } };
    },
    describe: ({ second }) => `second ${second} of the day`,
    fractionOf: (part, whole) => (part.to.second - part.from.second) / (whole.to.second - whole.from.second),
    placeAt: (fraction, { from, to }, stepSeconds) => {
      const exact = from.second + (to.second - from.second) * fraction;
      return { second: Math.round(exact / stepSeconds) * stepSeconds };
    },
    middleOf: ({ from, to }, _, stepSeconds) => ({
      second: Math.floor((from.second + to.second) / 2 / stepSeconds) * stepSeconds,
    }),
  },
  symbol: {
    usual: readUsualSymbols(),
    // The first symbol of a stretch may begin in the middle of its day.
    readCell: (symbol, from) => ({ symbol, second: from.symbol === symbol ? from.second : 0 }),
    stretchOf: ({ symbol, second }) => ({ from: { symbol, second }, to: { symbol, second: SECONDS_PER_DAY } }),
    describe: ({ symbol }) => `symbol ${symbol}`,
    // How the rows of an entry are spread over its symbols is unknown.
    fractionOf: () => 0.5,
    placeAt: (fraction, { from, to }) => (fraction > 0.5 ? to : from),
    middleOf: ({ from, to }, profile, stepSeconds) => {
      const { symbol = '' } = from;
      const end: Bound = { symbol, second: SECONDS_PER_DAY };
      const isAlone = symbol === to.symbol;
      // Separates a symbol that begins an entry from the rest: it makes that entry large.
      if (!isAlone && profile.some((entry) => entry.symbol === symbol) && compareBounds(end, to) < 0) {
        if (compareBounds(from, end) < 0) return end;
      }
      if (isAlone) {
        const inside: Stretch = { from: { second: from.second }, to: { second: to.second } };
        return { symbol, second: cutStretch(AXES.time.usual, inside, 2, stepSeconds)[0]?.to.second ?? to.second };
      }
      // Isolate the lowest symbol first: repeated splits then find a single symbol that is too large.
      const middle = middleText(symbol, to.symbol);
      return middle === undefined ? end : { symbol: middle, second: 0 };
    },
  },
};
