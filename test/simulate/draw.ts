/**
 * What happens in a simulated life, as data drawn from its seed: sessions and their rows, what becomes of the rows, and when
 * the job runs, under which trouble. Pure. Invariant: a date that is cared for has a run without trouble shortly before it
 * expires, after the last of its rows has moved.
 */

import { LOOKBACK_DAYS } from '../../src/api-contract/published-limits.ts';
import {
  type CalendarOverride,
  closeSecond,
  isHalfDay,
  listSessions,
  NO_OVERRIDE,
  OPEN_SECOND,
} from '../../src/calendar/session.ts';
import { addDays, formatSecond, parseSecond, parseWallClock } from '../../src/calendar/wall-clock.ts';
import type { SqlJob } from '../../src/job/job.ts';
import { expiresAt, leavesAt } from '../../src/plan/dates.ts';
import { createRow, LIFE_MOVES, type Move, type Spread, type TableRow } from '../chaos/rows.ts';
import { drawFault, type FaultKind } from '../support/fault-plan.ts';
import { parseSqlJob } from '../support/jobs.ts';
import { createRandom, drawSeed, pick as pickFrom } from '../support/random.ts';
import type { RunTrouble } from './world.ts';

export interface RowMove {
  readonly date: string;
  readonly move: Move;
  readonly rows: number;
  readonly spread: Spread;
  readonly seed: number;
  /** Of rows that change their date. */
  readonly to: string;
}

export interface DrawnTrouble extends Omit<RunTrouble, 'onRequest'> {
  /** What moves before the n-th request is answered. */
  readonly moves: ReadonlyMap<number, RowMove>;
  /** From this request on, until the run is over, a replica answers that has no rows after a time. */
  readonly failover?: { readonly request: number; readonly behind: string } | undefined;
}

export type LifeEvent =
  | { readonly atMs: number; readonly kind: 'move'; readonly move: RowMove }
  /** The source has no rows after a time; `undefined`: it has caught up. */
  | { readonly atMs: number; readonly kind: 'lag'; readonly behind: string | undefined }
  | { readonly atMs: number; readonly kind: 'run'; readonly trouble: DrawnTrouble | undefined };

/** How the source dates the trades of an evening: by their own day, or by the session that they belong to. */
export type Evenings = 'own-day' | 'session';

export interface DrawnLife {
  /** Set in a life whose market trades all segments. */
  readonly evenings?: Evenings | undefined;
  /** When the first row of a date leaves the lookback. */
  readonly expiryOf: (date: string) => number;
  readonly job: SqlJob;
  readonly rowLimit: number;
  readonly calendar: CalendarOverride;
  /** Ascending. */
  readonly dates: readonly string[];
  /** Those that must equal the source when they expire. */
  readonly cared: ReadonlySet<string>;
  /** A date whose rows do not move but lag, and that has like sessions before it which tell of its end. */
  readonly lagging: string | undefined;
  readonly recipients: readonly string[];
  readonly rows: readonly TableRow[];
  readonly startMs: number;
  /** By time. */
  readonly events: readonly LifeEvent[];
}

const HOUR_MS = 3_600_000;
/** So long before a cared date expires its rows no longer move. */
export const CALM_MS = 6 * HOUR_MS;
const FIRST = '2026-03-02';
const LAST = '2027-01-29';
/** Of the session that a life ends with: a half day has the first of them. */
const END_SECONDS = [36_000, 46_700, 57_590] as const;
const END_ROW = 90_000;
const EVENING_SECOND = 17.5 * 3600;
/** 20:15 of the evening before. */
const EVENING_BEFORE_SECOND = -3.75 * 3600;
/** A run of a small day takes about so many steps; what is drawn beyond them does not happen. */
const STEPS = 420;
const STORE_OPERATIONS = 90;
/** Without a report, and with few columns, a life takes a fifth of the time: most lives are so. */
const NARROW_SHARE = 0.94;
const LAGGING_NARROW_SHARE = 0.75;
const NARROW = ['id', 'symbol', 'date', 'time', 'put_call', 'size', 'price', 'premium', 'updated_timestamp'] as const;
const FAULT_RATE = 0.2;
/** The same as in chaos runs but those that take real time. */
const API_KINDS = [
  'reset',
  'truncate',
  'garble',
  'shorten',
  'duplicate',
  'status',
  'header',
  'close-delimited',
] as const;
const STORE_TROUBLES = ['store-refuses', 'store-lost-answer', 'store-full', 'store-away'] as const;
const MAIL_FAULTS = ['mail-put-off', 'mail-cut', 'mail-lost-answer'] as const;
const TROUBLES = [
  'stop',
  'death',
  'death',
  'api',
  'api-down',
  'store',
  'store',
  'mail',
  'mail-down',
  'rows',
  'rows',
] as const;

/** How often a life has a lagging date. */
const LAGGING_SHARE = 0.08;
/** How often the source lags at the close of another date, or fails over in a run of it. */
const LAG_SHARE = 0.1;
/** Sessions that show what the end of one looks like, and the one that lags. */
const LIKE_DATES = 4;
/** Rows in the last minutes, and by how many minutes a replica that is seen lacks them: it takes 30 rows. */
const END_MINUTES = 20;
const SEEN_MINUTES = 12;
const MOST_MINUTES = 60;

/** How often a move is of all rows of a date: re-keyed, loaded twice, gone. */
const MANY_SHARE = 0.15;

/** Half of the lives with all segments have mails: these tell what a quiet extension must not send. */
const SEGMENTS_NARROW_SHARE = 0.5;
/** Rows of an evening, a night, a morning and a curb, by their first and last second. */
const SEGMENTS = [
  ['evening', '20:16:00', '23:59:00'],
  ['night', '00:05:00', '07:25:00'],
  ['morning', '07:31:00', '09:24:00'],
  ['curb', '16:20:00', '16:59:30'],
] as const;
const FIRST_OTHER = 500;

/** Rows of the segments around regular trading. The curb of a half day is at the time of others, in which it may have one. */
function drawSegments(random: () => number, date: string, evenings: Evenings, first: number): readonly TableRow[] {
  const rows: TableRow[] = [];
  for (const [segment, from, to] of SEGMENTS) {
    const [start, end] = [parseSecond(from), parseSecond(to)];
    for (let left = 1 + Math.floor(random() * 4); left > 0; left -= 1) {
      const second = start + Math.floor(random() * (end - start));
      const isBefore = segment === 'evening' && evenings === 'session';
      const time = `${isBefore ? addDays(date, -1) : date} ${formatSecond(second)}`;
      const symbol = segment === 'morning' ? 'NVDA' : 'SPX';
      rows.push(
        createRow(date, first + rows.length, second, { time, symbol, option_symbol: `${symbol}261218C00100000` }),
      );
    }
  }
  return rows;
}

/** @param evenings absent: the market trades in regular trading alone, as it does with them but for the further rows */
export function drawLife(seed: number, evenings?: Evenings): DrawnLife {
  const random = createRandom(Math.imul(seed, 2_654_435_761));
  const below = (most: number) => Math.floor(random() * most);
  const pick = <One>(choices: readonly One[]) => pickFrom(random, choices);
  const all = listSessions(FIRST, LAST);
  const from = below(all.length - 12);
  const near = all.slice(from, from + 10);
  const count = 1 + below(3);
  // Of its own, so that the rest of a life is the same with it and without.
  const lagRandom = createRandom(Math.imul(seed, 1_597_334_677));
  const isLagging = lagRandom() < LAGGING_SHARE;
  const segmentRandom = createRandom(Math.imul(seed, 668_265_263));
  const expiryOf = (date: string) =>
    evenings === undefined ? expiresAt(date) : leavesAt(date, evenings === 'session' ? EVENING_BEFORE_SECOND : 0);
  const dates: readonly string[] = isLagging
    ? near.filter((date) => !isHalfDay(date)).slice(0, LIKE_DATES)
    : [...new Set(Array.from({ length: count }, () => pick(near)))].sort();
  const [first = FIRST] = dates;
  const last = dates.at(-1) ?? first;
  // Over when all others have expired: a run's lookback always has a session.
  const [end = last] = all.filter((date) => date >= addDays(last, LOOKBACK_DAYS + 1));
  const open = [...dates, end];
  const closed = listSessions(addDays(first, -20), addDays(end, 20)).filter((date) => !open.includes(date));
  const calendar = { ...NO_OVERRIDE, closed: new Set(closed) };
  const drawMove = (date: string): RowMove => ({
    ...{ date, move: pick(LIFE_MOVES), rows: random() < MANY_SHARE ? 60 : 1 + below(6) },
    spread: pick(['near', 'far'] as const),
    seed: drawSeed(random),
    to: pick(dates),
  });
  const drawTrouble = () => drawRunTrouble(random, () => drawMove(pick(dates)));
  const events: LifeEvent[] = [];
  const cared = new Set<string>();
  const rows: TableRow[] = [];
  for (const [number, date] of dates.entries()) {
    const close = closeSecond(date, 'equity', calendar);
    const size = (isLagging ? 120 : 12) + below(40);
    for (let k = 0; k < size; k += 1) {
      const second = OPEN_SECOND + Math.floor(((k + 1) * (close - OPEN_SECOND - 1)) / size);
      rows.push(createRow(date, number * 1000 + k, second));
    }
    for (let k = 0, most = isLagging ? 60 + below(20) : 0; k < most; k += 1)
      rows.push(createRow(date, number * 1000 + size + k, close - 1 - Math.floor((k * END_MINUTES * 60) / most)));
    if (evenings !== undefined) rows.push(...drawSegments(segmentRandom, date, evenings, number * 1000 + FIRST_OTHER));
    const evening = parseWallClock(date, EVENING_SECOND);
    const expiry = expiryOf(date);
    const isLate = isLagging && date === last;
    events.push(...drawLags(lagRandom, { date, close, evening }, isLate ? 'seen' : isLagging ? 'none' : 'any'));
    const isCared = random() < 0.85 || isLagging;
    if (isCared) {
      cared.add(date);
      events.push({ atMs: expiry - (1 + 3 * random()) * HOUR_MS, kind: 'run', trouble: undefined });
    }
    if (isLagging && !isLate) events.push({ atMs: evening + random() * HOUR_MS, kind: 'run', trouble: undefined });
    else if (!isLate && random() < (isCared ? 0.8 : 0.3))
      events.push({
        ...{ atMs: evening + random() * 3 * HOUR_MS, kind: 'run' },
        trouble: random() < 0.6 ? drawTrouble() : undefined,
      });
    const until = isCared ? expiry - CALM_MS : expiry;
    for (let left = below(4); left > 0; left -= 1) {
      const atMs = evening - 2 * HOUR_MS + random() ** 2 * (until - evening);
      events.push({ atMs, kind: 'move', move: drawMove(date) });
    }
  }
  rows.push(...END_SECONDS.map((second, k) => createRow(end, END_ROW + k, second)));
  const startMs = parseWallClock(first, EVENING_SECOND) - 12 * HOUR_MS;
  const endMs = parseWallClock(end, EVENING_SECOND);
  for (let left = 2 + below(3); left > 0; left -= 1) {
    const atMs = startMs + random() * (endMs - startMs);
    // A run that begins before a cared date's last one may still move its rows.
    events.push({ atMs, kind: 'run', trouble: random() < 0.8 ? drawTrouble() : undefined });
  }
  events.push({ atMs: endMs, kind: 'run', trouble: undefined });
  const narrowShare = isLagging ? LAGGING_NARROW_SHARE : NARROW_SHARE;
  const isNarrow = random() < (evenings === undefined ? narrowShare : SEGMENTS_NARROW_SHARE);
  const recipients = isNarrow ? [] : ['a@example.com', 'b@example.com'].slice(0, 1 + below(2));
  const correctAbove = pick([0.01, 0.01, 0.1, 1]);
  const text = `name: life
source: {api: ${pick(['historical', 'historical', 'portal'])}${isNarrow ? `, columns: [${NARROW.join(', ')}]` : ''}}
audit: ${pick(['repair', 'repair', 'mirror'])}
drop: {to: out, dataset: trades}
${isNarrow ? '' : `reports: [{template: flow, to: [${recipients.join(', ')}], correct_above: ${correctAbove}}]`}
`;
  return {
    ...{ evenings, expiryOf, calendar, dates: open, cared, recipients, rows, startMs },
    rowLimit: (isLagging ? 40 : 10) + below(25),
    lagging: isLagging ? last : undefined,
    job: parseSqlJob('life.yaml', text),
    events: events.sort((a, b) => a.atMs - b.atMs),
  };
}

/** Some hours after the close at which the source lags, and a run of the evening in which it fails over. */
function drawLags(
  random: () => number,
  { date, close, evening }: { readonly date: string; readonly close: number; readonly evening: number },
  how: 'seen' | 'any' | 'none',
): readonly LifeEvent[] {
  const [least, share] = how === 'seen' ? [SEEN_MINUTES, 0.6] : [1, how === 'any' ? LAG_SHARE : 0];
  const drawBehind = () =>
    `${date} ${formatSecond(close - 60 * Math.floor(least + random() ** 2 * (MOST_MINUTES - least)))}`;
  const lagMs = HOUR_MS * (2 + random());
  const lag: readonly LifeEvent[] = [
    { atMs: evening - 2 * HOUR_MS, kind: 'lag', behind: drawBehind() },
    { atMs: evening + random() * HOUR_MS, kind: 'run', trouble: undefined },
    { atMs: evening + lagMs, kind: 'lag', behind: undefined },
  ];
  const hasLag = random() < share;
  const failovers = Array.from({ length: 2 }, (_, at): LifeEvent => {
    // A run has few requests, and one that has sealed all dates a count alone.
    const failover = { request: 1 + Math.floor(random() * (at === 0 ? 10 : 2)), behind: drawBehind() };
    return {
      atMs: evening + (hasLag ? lagMs : 0) + at * HOUR_MS,
      kind: 'run',
      trouble: { moves: new Map(), failover },
    };
  });
  return [...(hasLag ? lag : []), ...(random() < share || (how === 'seen' && !hasLag) ? failovers : [])];
}

function drawRunTrouble(random: () => number, drawMove: () => RowMove): DrawnTrouble {
  const below = (most: number) => Math.floor(random() * most);
  const pick = <One>(choices: readonly One[]) => pickFrom(random, choices);
  const kinds = new Set([pick(TROUBLES), ...(random() < 0.4 ? [pick(TROUBLES)] : [])]);
  const step = () => 1 + Math.floor(random() ** 1.3 * STEPS);
  const moves = new Map<number, RowMove>();
  if (kinds.has('rows')) for (let left = 1 + below(3); left > 0; left -= 1) moves.set(1 + below(12), drawMove());
  return {
    stopAt: kinds.has('stop') ? step() : undefined,
    deathAt: kinds.has('death') ? { step: step(), after: random() < 0.5 } : undefined,
    store: kinds.has('store') ? { operation: 1 + below(STORE_OPERATIONS), how: pick(STORE_TROUBLES) } : undefined,
    api: drawApi(),
    mail: kinds.has('mail') ? drawMail() : undefined,
    isMailDown: kinds.has('mail-down'),
    moves,
  };

  function drawApi(): DrawnTrouble['api'] {
    if (kinds.has('api-down')) {
      const since = 1 + below(12);
      return (request) => (request >= since ? { kind: 'status', status: 503, body: 'html' } : undefined);
    }
    if (!kinds.has('api')) return undefined;
    const drawn: readonly FaultKind[] = Array.from({ length: 1 + below(3) }, () => pick(API_KINDS));
    const rates = Object.fromEntries(drawn.map((kind) => [kind, FAULT_RATE / drawn.length]));
    const seed = drawSeed(random);
    return (number) => drawFault({ seed, rates }, number);
  }

  function drawMail(): DrawnTrouble['mail'] {
    const faults = Array.from({ length: 8 }, () => (random() < 0.5 ? pick(MAIL_FAULTS) : undefined));
    return (message) => faults[message - 1];
  }
}
