/**
 * Profiles: how the rows of a date are spread over its axis, so that a date can be cut into stretches of about equal
 * rows before it is counted. Pure. A profile comes from the last counted date. Without one it comes from the usual
 * market: most trades follow the opening and precede the close, and a handful of symbols make up half.
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
import { type DayCounts, startOf } from './counts.ts';

/** A stretch of the axis from this bound to the next entry's, with its share of the date's rows. */
interface ProfileEntry extends Bound {
  readonly share: number;
}

/** Ascending; the shares add up to 1. The first entry also covers everything before it. */
export type Profile = readonly ProfileEntry[];

/** Maximum entries of a profile, not counting cells that alone exceed one share of it. */
const MAX_ENTRIES = 256;

/** Maximum parts of a stretch: for finer ones the date is counted by the second anyway. */
const MAX_PARTS = 16_384;

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

export function usualProfile(axis: Axis): Profile {
  return axis === 'time' ? usualDay() : usualSymbols();
}

function usualDay(): Profile {
  const masses = USUAL_DAY.map(([second, rate], index) => {
    const end = USUAL_DAY[index + 1]?.[0] ?? SECONDS_PER_DAY;
    return { second, share: rate * (end - second) };
  });
  return normalise(masses);
}

function usualSymbols(): Profile {
  const known = Object.entries(USUAL_SYMBOLS);
  const rest = (1 - known.reduce((sum, [, share]) => sum + share, 0)) / LETTERS.length;
  const cells = [...known, ...[...LETTERS].map((letter) => [letter, rest] as const)];
  return normalise(
    cells.map(([symbol, share]) => ({ symbol, second: 0, share })).sort((a, b) => compareText(a.symbol, b.symbol)),
  );
}

/** Builds the profile of a counted date; `undefined` if it has no rows. */
export function buildProfile(counts: DayCounts): Profile | undefined {
  const total = counts.reduce((sum, { rows }) => sum + rows, 0);
  if (total === 0) return undefined;
  const entries: (Bound & { share: number })[] = [];
  let open: { bound: Bound; rows: number } | undefined;
  const close = () => {
    if (open) entries.push({ ...open.bound, share: open.rows / total });
    open = undefined;
  };
  for (const cell of counts) {
    if (open && (open.rows + cell.rows) * MAX_ENTRIES > total) close();
    open ??= { bound: startOf(cell), rows: 0 };
    open.rows += cell.rows;
  }
  close();
  return entries;
}

function normalise(entries: readonly ProfileEntry[]): Profile {
  const total = entries.reduce((sum, { share }) => sum + share, 0);
  return entries.map((entry) => ({ ...entry, share: entry.share / total }));
}

/** Share of a date's rows in a stretch. */
export function shareOf(profile: Profile, stretch: Stretch): number {
  return pieces(profile, stretch).reduce((sum, { share }) => sum + share, 0);
}

/**
 * Cuts a stretch into `count` parts of about equal shares, between whole cells.
 * @param stepSeconds on the time axis, the second of a cut must be a multiple of this
 * @returns fewer parts if the stretch cannot be cut that often; the stretch itself if it cannot be cut at all
 */
export function cutStretch(profile: Profile, stretch: Stretch, count: number, stepSeconds: number): readonly Stretch[] {
  if (count <= 1) return [stretch];
  const parts = Math.min(count, MAX_PARTS);
  const inside = pieces(profile, stretch);
  const total = inside.reduce((sum, { share }) => sum + share, 0);
  const bounds: Bound[] = [];
  let before = 0;
  for (const [index, piece] of inside.entries()) {
    const end = inside[index + 1]?.from ?? stretch.to;
    for (let next = bounds.length + 1; next < parts && total > 0; next = bounds.length + 1) {
      const wanted = (total * next) / parts - before;
      if (wanted > piece.share) break;
      bounds.push(placeIn(piece, end, wanted, stepSeconds));
    }
    before += piece.share;
  }
  const distinct = bounds.filter(
    (bound, index) =>
      compareBounds(bounds[index - 1] ?? stretch.from, bound) < 0 &&
      compareBounds(stretch.from, bound) < 0 &&
      compareBounds(bound, stretch.to) < 0,
  );
  if (distinct.length === 0) return isolate(profile, stretch) ?? bisect(stretch, stepSeconds) ?? [stretch];
  return [stretch.from, ...distinct].map((from, index) => ({ from, to: distinct[index] ?? stretch.to }));
}

interface Piece {
  readonly from: Bound;
  readonly share: number;
}

/** The parts of the profile's entries that lie in a stretch. */
function pieces(profile: Profile, { from, to }: Stretch): readonly Piece[] {
  return profile.flatMap((entry, index): Piece[] => {
    const start: Bound = index === 0 ? DAY_START : entry;
    const end: Bound = profile[index + 1] ?? DAY_END;
    const low = compareBounds(start, from) < 0 ? from : start;
    const high = compareBounds(end, to) < 0 ? end : to;
    if (compareBounds(low, high) >= 0) return [];
    const isWhole = low === start && high === end;
    return [
      { from: strip(low), share: isWhole ? entry.share : entry.share * partOf({ from: low, to: high }, start, end) },
    ];
  });
}

/** The fraction of an entry that a stretch covers, by time; for symbols it is unknown, so half. */
function partOf({ from, to }: Stretch, start: Bound, end: Bound): number {
  if (start.symbol !== undefined || end.symbol !== undefined) return 0.5;
  return (to.second - from.second) / (end.second - start.second);
}

/** Where to cut a piece so that `wanted` of its share lies before: by time to a second, by symbol at either end. */
function placeIn(piece: Piece, end: Bound, wanted: number, stepSeconds: number): Bound {
  if (piece.from.symbol !== undefined || end.symbol !== undefined)
    return wanted > piece.share / 2 ? strip(end) : piece.from;
  const exact = piece.from.second + ((end.second - piece.from.second) * wanted) / piece.share;
  return { second: Math.round(exact / stepSeconds) * stepSeconds };
}

/** Separates the first symbol of the stretch, if it begins an entry, from the rest: it makes that entry large. */
function isolate(profile: Profile, { from, to }: Stretch): readonly Stretch[] | undefined {
  const { symbol } = from;
  if (symbol === undefined || symbol === to.symbol || from.second >= SECONDS_PER_DAY) return undefined;
  const end: Bound = { symbol, second: SECONDS_PER_DAY };
  const isKnown = profile.some((entry) => entry.symbol === symbol) && compareBounds(end, to) < 0;
  return isKnown ? halvesAt({ from, to }, end) : undefined;
}

/** Halves a stretch without a profile: by the clock, by the alphabet, or, within one symbol, by the usual day. */
function bisect({ from, to }: Stretch, stepSeconds: number): readonly Stretch[] | undefined {
  if (from.symbol === undefined && to.symbol === undefined) {
    const second = Math.floor((from.second + to.second) / 2 / stepSeconds) * stepSeconds;
    return second > from.second ? halvesAt({ from, to }, { second }) : undefined;
  }
  if (from.symbol === to.symbol) {
    const [half] = cutStretch(usualDay(), { from: { second: from.second }, to: { second: to.second } }, 2, 1);
    const second = half?.to.second ?? to.second;
    return second < to.second ? halvesAt({ from, to }, { symbol: from.symbol ?? '', second }) : undefined;
  }
  // Isolate the lowest symbol first: repeated splits then find a single symbol that is too large.
  const middle = middleText(from.symbol ?? '', to.symbol);
  if (middle !== undefined) return halvesAt({ from, to }, { symbol: middle, second: 0 });
  if (from.symbol === undefined) return undefined;
  const end: Bound = { symbol: from.symbol, second: SECONDS_PER_DAY };
  return compareBounds(from, end) < 0 && compareBounds(end, to) < 0 ? halvesAt({ from, to }, end) : undefined;
}

function halvesAt({ from, to }: Stretch, at: Bound): readonly Stretch[] {
  return [
    { from, to: at },
    { from: at, to },
  ];
}

/** Longest symbol to search for a middle; no root is longer. */
const MAX_SYMBOL_LENGTH = 8;

/** Finds the shortest text between two texts; `undefined` if there is none. @param high `undefined`: unbounded */
function middleText(low: string, high: string | undefined): string | undefined {
  let prefix = '';
  for (let at = 0; at < MAX_SYMBOL_LENGTH; at += 1) {
    const from = placeOf(low, at);
    const to = high === undefined || !high.startsWith(prefix) ? CHARACTERS.length : placeOf(high, at);
    const found = prefix + CHARACTERS.charAt(Math.floor((Math.max(0, from) + to) / 2));
    if (to - from > 1 && compareText(low, found) < 0 && (high === undefined || compareText(found, high) < 0))
      return found;
    prefix += low.charAt(at) || CHARACTERS.charAt(0);
  }
  return undefined;
}

/** Position in the character order; -1 if the text has ended, which sorts before any character. */
function placeOf(text: string, at: number): number {
  const character = text.charAt(at);
  return character === '' ? -1 : CHARACTERS.indexOf(character);
}

function strip({ symbol, second }: Bound): Bound {
  return symbol === undefined ? { second } : { symbol, second };
}
