/**
 * Profiles: how the rows of a date are spread over its axis, so that a date can be cut into stretches of about equal
 * rows before anything of it was counted. Pure. Made from the last date that was counted; before there is one, from what
 * is known of the market: most trades come after the opening and before the close, and a handful of symbols carry half.
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

/** A stretch of the axis from its bound to the next entry's, with its share of the date's rows. */
interface ProfileEntry extends Bound {
  readonly share: number;
}

/** Ascending; the shares add up to 1. The first entry also stands for what lies before it. */
export type Profile = readonly ProfileEntry[];

/** Entries that a profile is made of at most, beside cells that are larger than their share of it. */
const MAX_ENTRIES = 256;

/** Parts that a stretch is cut into at most: finer than this a date is counted by the second anyway. */
const MAX_PARTS = 16_384;

/**
 * Seconds of the day and relative rates of trading from then on, noon's being 1: the regular session, and the indices'
 * quarter after it. Between those of a real session of index options and a steeper opening, so that a quarter of the day
 * by this is at most 28 % of it by either.
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
/** What symbols are made of, in the order of bytes. */
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

/** The profile of a date that was counted; `undefined` when it has no rows. */
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
 * Cuts a stretch into `count` of about equal shares, at places that are whole cells.
 * @param stepSeconds what a cut's second must be a multiple of, on the time axis
 * @returns fewer when the stretch cannot be cut so often; itself when it cannot be cut at all
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

/** What part of an entry a stretch is, by time; of symbols nobody knows, so half. */
function partOf({ from, to }: Stretch, start: Bound, end: Bound): number {
  if (start.symbol !== undefined || end.symbol !== undefined) return 0.5;
  return (to.second - from.second) / (end.second - start.second);
}

/** Where to cut in a piece so that `wanted` of its share lie before: to the second by time, before or after it by symbol. */
function placeIn(piece: Piece, end: Bound, wanted: number, stepSeconds: number): Bound {
  if (piece.from.symbol !== undefined || end.symbol !== undefined)
    return wanted > piece.share / 2 ? strip(end) : piece.from;
  const exact = piece.from.second + ((end.second - piece.from.second) * wanted) / piece.share;
  return { second: Math.round(exact / stepSeconds) * stepSeconds };
}

/** The symbol that the profile begins an entry with, and what comes after it: the symbol is what makes that entry large. */
function isolate(profile: Profile, { from, to }: Stretch): readonly Stretch[] | undefined {
  const { symbol } = from;
  if (symbol === undefined || symbol === to.symbol || from.second >= SECONDS_PER_DAY) return undefined;
  const end: Bound = { symbol, second: SECONDS_PER_DAY };
  const isKnown = profile.some((entry) => entry.symbol === symbol) && compareBounds(end, to) < 0;
  return isKnown ? halvesAt({ from, to }, end) : undefined;
}

/** Halves by the clock, or by the alphabet, where the profile knows nothing; of one symbol, by what is usual in a day. */
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
  // The lowest symbol alone first: where one symbol is too much, this finds it in the end.
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

/** Longest symbol that a middle is sought for; no root is longer. */
const MAX_SYMBOL_LENGTH = 8;

/** A text between two texts, as short as can be; `undefined` when there is none. @param high `undefined`: no end */
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

/** Place of a character in the order, -1 before it: where the text has ended. */
function placeOf(text: string, at: number): number {
  const character = text.charAt(at);
  return character === '' ? -1 : CHARACTERS.indexOf(character);
}

function strip({ symbol, second }: Bound): Bound {
  return symbol === undefined ? { second } : { symbol, second };
}
