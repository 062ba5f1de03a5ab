/**
 * The rows of a table that chaos runs read, and what happens to them: rows that appear, vanish, change under their id or
 * are replaced, and rows with an odd cell, each with what must become of it. Pure; `table.ts` keeps and changes them.
 * Invariant: everything is drawn from a seed, and what must become of a row is said here, not asked of the product.
 */
import { formatSecond, parseSecond } from '../../src/calendar/wall-clock.ts';
import { createRandom } from '../support/random.ts';
import { createTrade, type TradeRow } from '../support/trades.ts';

/** A row as the table holds it; a `Buffer` is text that is no UTF-8. */
export interface TableRow {
  readonly id: string;
  readonly values: TradeRow;
  /** Cells that are answered otherwise than they are held: JSON text by column. */
  readonly answered?: Readonly<Record<string, string>> | undefined;
  /** The row as the drop must hold it; `undefined` when it belongs into the quarantine. Default: `values`. */
  readonly sealed?: TradeRow | undefined;
  readonly isOdd?: true;
}

/** The day that is exported: over, and whole inside the lookback. */
export const SETTLED = '2026-11-18';
/** The day that goes on. */
export const UNFINISHED = '2026-11-19';
/** The day that the lookback has cut. */
export const CLIPPED = '2026-11-04';
/** 12:30 in New York. */
export const NOON = Date.parse('2026-11-19T17:30:00Z');
/** The same day, when it is over and its rows have come. */
export const EVENING = Date.parse('2026-11-20T02:00:00Z');
/** Sessions in between are taken out of the calendar, so that a run has one date to do. */
export const CLOSED = ['2026-11-05', '2026-11-06', '2026-11-09', '2026-11-10', '2026-11-11', '2026-11-12'].concat([
  ...['2026-11-13', '2026-11-16', '2026-11-17'],
]);

const SETTLED_ROWS = 3_000;
const UNFINISHED_ROWS = 400;
const CLIPPED_ROWS = 300;
const OPEN_SECOND = 34_200;
const CLOSE_SECOND = 57_600;
/** Rows visible of the day that goes on: until the delay; of the clipped one: from the edge on. */
const LAST_VISIBLE_SECOND = 43_800;
const FIRST_VISIBLE_SECOND = 45_000;
/** More rows than an answer may have in one second, so that windows are cut inside it. */
const BURSTS = [
  { second: OPEN_SECOND + 1, rows: 250 },
  { second: 50_000, rows: 180 },
] as const;
const SYMBOLS = 40;

/** The rows of the settled day; the same in every run. */
export function createSettledRows(): readonly TableRow[] {
  const rows: TableRow[] = [];
  for (const { second, rows: count } of BURSTS) {
    for (let n = 0; n < count; n += 1) rows.push(createRow(SETTLED, rows.length, second));
  }
  const rest = SETTLED_ROWS - rows.length;
  const width = (CLOSE_SECOND - OPEN_SECOND) / rest;
  for (let n = 0; n < rest; n += 1)
    rows.push(createRow(SETTLED, rows.length, OPEN_SECOND + 2 + Math.floor(n * width * 0.999)));
  return rows;
}

/** Those of the day that goes on, and of the one that is clipped. @param isOver whether all of the former have come */
export function createOtherRows(isOver: boolean): readonly TableRow[] {
  const spread = (date: string, count: number, from: number, first: number) =>
    Array.from({ length: count }, (_, n) =>
      createRow(date, first + n, from + Math.floor((n * (CLOSE_SECOND - from)) / count)),
    );
  const unfinished = spread(UNFINISHED, UNFINISHED_ROWS, OPEN_SECOND, 100_000);
  return [
    ...unfinished.filter((row) => isOver || secondOf(row) <= LAST_VISIBLE_SECOND),
    ...spread(CLIPPED, CLIPPED_ROWS, OPEN_SECOND, 200_000).filter((row) => secondOf(row) >= FIRST_VISIBLE_SECOND),
  ];
}

/** Row `k` of a date at a second. Few symbols, and one of them with a fifth of the rows. */
export function createRow(date: string, k: number, second: number, changes: TradeRow = {}): TableRow {
  const h = Math.imul(k + 7, 2_246_822_519) >>> 0;
  const symbol = h % 5 === 0 ? 'BIG' : `SYM${(h >>> 8) % SYMBOLS}`;
  const size = 1 + (h % 50);
  const price = (h % 977) / 100;
  const values = createTrade(k, {
    symbol,
    date,
    time: `${date} ${formatSecond(second)}`,
    option_symbol: `${symbol}261218C00100000`,
    size,
    price,
    premium: Math.round(price * size * 100),
    updated_timestamp: String(Date.parse(`${date}T00:00:00Z`) + second * 1000 + (h % 1000)),
    ...changes,
  });
  return { id: String(values['id']), values };
}

function secondOf({ values }: TableRow): number {
  return parseSecond(String(values['time']).slice(11, 19));
}

/** What may happen to rows. */
export const MOVES = ['rows-appear', 'rows-vanish', 'rows-change', 'rows-replaced'] as const;
/** What a date is held for, and what concerns two of them. */
export const DOUBTED_MOVES = ['rows-twice', 'rows-redated'] as const;
export const LIFE_MOVES = [...MOVES, ...DOUBTED_MOVES] as const;
export type Move = (typeof LIFE_MOVES)[number];

/** A replica that is some minutes behind. */
export interface Lag {
  /** It answers from this request of the attempt on. */
  readonly request: number;
  /** Before the close of the settled day. */
  readonly minutes: number;
}

/** The last second that it has rows of. */
export function lastSecondOf({ minutes }: Lag): string {
  return `${SETTLED} ${formatSecond(CLOSE_SECOND - 60 * minutes)}`;
}

export type Spread = 'near' | 'far' | 'burst';

export interface Alteration {
  readonly move: Move;
  /** Before this request of the attempt is answered; `recount`: before the first count after so many pages. */
  readonly at: { readonly on: 'request' | 'page' | 'recount'; readonly number: number };
  readonly rows: number;
  /** Whether the rows lie close together, all over the day, or in a second that has more of them than a page. */
  readonly spread: Spread;
  readonly seed: number;
  /** The date that the rows have afterwards. */
  readonly to?: string | undefined;
}

export interface RowChange {
  readonly remove: readonly string[];
  readonly add: readonly TableRow[];
}

/** What an alteration does to the rows there are. */
export function planAlteration(
  { move, rows: count, spread, seed, to = UNFINISHED }: Alteration,
  rows: readonly TableRow[],
): RowChange {
  const random = createRandom(seed);
  const kept = rows.filter(({ isOdd }) => !isOdd);
  const chosen = choose(random, kept, count, spread);
  switch (move) {
    case 'rows-appear':
      return { remove: [], add: chosen.map((row, at) => appearBeside(row, seed, at)) };
    case 'rows-vanish':
      return { remove: chosen.map(({ id }) => id), add: [] };
    case 'rows-change':
      return { remove: chosen.map(({ id }) => id), add: chosen.map((row) => correct(random, row)) };
    case 'rows-replaced':
      return {
        remove: chosen.map(({ id }) => id),
        add: chosen.map((row, at) => rename(row, `${shuffle(seed, at)}-r${at}`)),
      };
    case 'rows-twice':
      return { remove: [], add: chosen.map((row, at) => rename(row, `${shuffle(seed, at)}-t${at}`)) };
    case 'rows-redated':
      return { remove: chosen.map(({ id }) => id), add: chosen.map((row) => redate(row, to)) };
    default:
      return move satisfies never;
  }
}

function choose(random: () => number, rows: readonly TableRow[], count: number, spread: Spread): readonly TableRow[] {
  const sorted = [...rows].sort((a, b) => (String(a.values['time']) < String(b.values['time']) ? -1 : 1));
  const few = Math.min(count, sorted.length);
  if (spread === 'burst') {
    const { second } = BURSTS[Math.floor(random() * BURSTS.length)] ?? BURSTS[0];
    const inside = sorted.filter((row) => secondOf(row) === second);
    return choose(random, inside.length > 0 ? inside : sorted, count, 'far');
  }
  if (spread === 'near') {
    const from = Math.floor(random() * (sorted.length - few));
    return sorted.slice(from, from + few);
  }
  const step = sorted.length / few;
  const places = new Set(Array.from({ length: few }, (_, n) => Math.floor((n + random()) * step)));
  return [...places].flatMap((place) => sorted[place] ?? []);
}

/** A trade of the same second and symbol that nobody has seen yet. */
function appearBeside(row: TableRow, seed: number, at: number): TableRow {
  return rename(row, `${shuffle(seed, at)}-a${at}`, { size: 7, premium: 4_321 });
}

function rename(row: TableRow, id: string, changes: TradeRow = {}): TableRow {
  return { id, values: { ...row.values, ...changes, id } };
}

/** At a time that every session has. */
function redate({ id, values }: TableRow, date: string): TableRow {
  return { id, values: { ...values, date, time: `${date} 10${String(values['time']).slice(13)}` } };
}

/** Ids sort anywhere among the others. */
function shuffle(seed: number, at: number): string {
  return (Math.imul(seed + at + 1, 2_654_435_761) >>> 0).toString(16).padStart(8, '0');
}

/** A correction has a later mark; now and then it moves the trade to another second or symbol. */
function correct(random: () => number, row: TableRow): TableRow {
  const updated = { updated_timestamp: String(Number(row.values['updated_timestamp']) + 60_000) };
  const draw = random();
  const what: TradeRow =
    draw < 0.6
      ? { price: 1.23, premium: 99_999 }
      : draw < 0.8
        ? { time: `${String(row.values['date'])} ${formatSecond(OPEN_SECOND + Math.floor(random() * 23_000))}` }
        : { size: 3, sentiment: 'BULLISH' };
  return { id: row.id, values: { ...row.values, ...what, ...updated } };
}
