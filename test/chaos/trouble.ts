/**
 * What happens to a chaos run, as data drawn from its seed: pure. Invariant: the trouble of an attempt is less than that of
 * the one before, and after `TROUBLED_ATTEMPTS` there is none, so that every run comes to its end. Each kind draws from
 * numbers of its own: the same seed gives the same faults of a kind whatever else is drawn.
 */
import { drawFault, type Fault, type FaultKind, type SeenRequest } from '../support/fault-plan.ts';
import { createRandom, drawSeed, pick } from '../support/random.ts';
import type { MailFault } from './mail.ts';
import { type Alteration, DOUBTED_MOVES, type Lag, LIFE_MOVES, MOVES, type Move } from './rows.ts';
import { KINDS, type Kind, type Scenario } from './scenario.ts';

export interface DiskFault {
  readonly place: 'state' | 'store';
  /** `file-size`: a file cannot grow beyond the bytes; the others need a disk of their own. */
  readonly how: 'full' | 'read-only' | 'file-size';
  /** Left free, or the largest file. */
  readonly bytes: number;
  /** Whether it happens before the worker starts, or when it has its first pages. */
  readonly when: 'start' | 'first-page';
}

/** A moment in the course of an attempt. */
export type Moment =
  /** So much of the duration of an undisturbed run after the start. */
  | { readonly at: 'moment'; readonly share: number }
  /** When this many pages have been asked for. */
  | { readonly at: 'page'; readonly count: number }
  /** So long after the recount agreed: while sealing. */
  | { readonly at: 'sealing'; readonly afterMs: number }
  /** At this many requests to the S3 server, or changes in the store's folder: while publishing. */
  | { readonly at: 'publishing'; readonly count: number }
  /** When this many mails were announced to the server, or taken by it. */
  | { readonly at: 'mail'; readonly count: number; readonly phase: 'announced' | 'taken' };

/** A clock that is wrong by so much; `garbage` is no date at all. */
export type ApiClock = { readonly offsetMs: number; readonly every: number } | { readonly garbage: string };

export interface Trouble {
  readonly isCalm?: true;
  /** Whether nothing but rows that move is drawn for the run. */
  readonly areOnlyRows: boolean;
  /** Of the request with this number within the attempt. */
  readonly api: (number: number) => Fault | undefined;
  readonly rows: readonly Alteration[];
  /** The source's rows, where a replica answers that is behind. */
  readonly lag: Lag | undefined;
  /** The API's clock; `undefined`: right. */
  readonly apiClock: ApiClock | undefined;
  /** How far each worker's own clock is off. */
  readonly ownClockMs: readonly number[];
  /** As `api`, of the S3 server. */
  readonly s3: (number: number, request: SeenRequest) => Fault | undefined;
  /** Connections to the S3 server break after so many bytes of requests or answers, once. */
  readonly bytes: { readonly direction: 'request' | 'answer'; readonly afterBytes: number } | undefined;
  /** One of the objects, by its place among them, is gone before the attempt begins. */
  readonly loses: number | undefined;
  /** When the folder of the store becomes an empty one; it is back after the attempt. */
  readonly unmount: Moment | undefined;
  readonly disk: DiskFault | undefined;
  /** One for each worker; `undefined` leaves it alone. */
  readonly kills: readonly (Moment | undefined)[];
  /** When the first worker falls asleep. */
  readonly sleep: Moment | undefined;
  readonly mail: (number: number) => MailFault | undefined;
}

const nothing = () => undefined;

export const NO_TROUBLE: Trouble = {
  isCalm: true,
  areOnlyRows: false,
  api: nothing,
  rows: [],
  lag: undefined,
  apiClock: undefined,
  ownClockMs: [],
  s3: nothing,
  bytes: undefined,
  loses: undefined,
  unmount: undefined,
  disk: undefined,
  kills: [],
  sleep: undefined,
  mail: nothing,
};

/** Attempts that have trouble; those after it have none. */
export const TROUBLED_ATTEMPTS = 4;
/** Kinds of a run at most; now and then there is but one. */
const MAX_KINDS = 4;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

export interface Plan {
  readonly kinds: readonly Kind[];
  readonly attempts: readonly Trouble[];
  /** For the odd rows that the source has. */
  readonly seed: number;
}

/** The trouble of each attempt. The same seed and scenario give the same. @param only these kinds, drawn or not */
export function drawPlan(scenario: Scenario, seed: number, only?: readonly Kind[]): Plan {
  const kinds = only ?? drawKinds(createRandom(seed), scenario);
  const streams = new Map(KINDS.map((kind, at) => [kind, createRandom(Math.imul(seed, 31) + at * 7_919 + 1)]));
  const draw = <T>(kind: Kind, none: T, make: (random: () => number) => T): T => {
    const random = streams.get(kind);
    return random && kinds.includes(kind) ? make(random) : none;
  };
  const kills = draw('kill', 0, (random) => 1 + Math.floor(random() * (TROUBLED_ATTEMPTS - 1)));
  const faults = draw<readonly FaultKind[]>('network', [], drawFaultKinds);
  const areOnlyRows = kinds.every((kind) => MOVES.some((move) => move === kind));
  const attempts = Array.from({ length: TROUBLED_ATTEMPTS }, (_, attempt): Trouble => {
    const strength = 1 / 2 ** attempt;
    const often = (random: () => number) => random() < 1.2 * strength;
    const lies = draw<Trouble['s3']>('store-lies', nothing, (random) => drawLies(random, strength));
    const answers = draw<Trouble['s3']>('s3-answers', nothing, (random) => drawS3Faults(random, strength));
    const drawBehind = (kind: Kind, most: number) =>
      draw<Trouble['lag']>(kind, undefined, (random) => drawLag(random, often(random), most));
    const [failover, lag] = [drawBehind('failover', MOST_REQUEST), drawBehind('lag', 1)];
    return {
      areOnlyRows,
      api: draw<Trouble['api']>('network', nothing, (random) => drawApiFaults(random, faults, strength)),
      rows: LIFE_MOVES.flatMap((move) =>
        draw<readonly Alteration[]>(move, [], (random) => drawMoves(random, move, attempt)),
      ),
      lag: failover ?? lag,
      apiClock: draw<Trouble['apiClock']>('api-clock', undefined, (random) => drawApiClock(random, often(random))),
      ownClockMs: draw<readonly number[]>('own-clock', [], (random) => drawOwnClocks(random, often(random))),
      s3: (number, request) => lies(number, request) ?? answers(number, request),
      bytes: draw<Trouble['bytes']>('s3-bytes', undefined, (random) => drawBreak(random, scenario, attempt)),
      loses: draw<Trouble['loses']>('store-loses', undefined, (random) => drawLoss(random, attempt)),
      unmount: draw<Trouble['unmount']>('unmount', undefined, (random) => drawMoment(random, often(random), scenario)),
      disk: draw<Trouble['disk']>('disk', undefined, (random) => drawDisk(random, scenario, attempt)),
      kills: Array.from({ length: scenario.workers }, () =>
        draw<Moment | undefined>('kill', undefined, (random) => drawMoment(random, attempt < kills, scenario)),
      ),
      sleep: draw<Trouble['sleep']>('sleep', undefined, (random) => drawMoment(random, often(random), scenario)),
      mail: draw<Trouble['mail']>('mail-server', nothing, (random) => drawMailFaults(random, strength)),
    };
  });
  return { kinds, attempts, seed: Math.imul(seed, 2_654_435_761) >>> 0 };
}

function drawKinds(random: () => number, { kinds, always }: Scenario): readonly Kind[] {
  const left = kinds.filter((kind) => kind !== always);
  const count = 1 + Math.floor(random() * MAX_KINDS);
  const drawn = Array.from({ length: Math.min(count, left.length) }, () => {
    const kind = pick(random, left);
    left.splice(left.indexOf(kind), 1);
    return kind;
  });
  return always === undefined ? drawn : [always, ...drawn];
}

/**
 * `alter` is left out: a digit that changes inside a whole page is seen by nothing but a check sum, and the API sends none.
 * `endless` is too: it costs a gigabyte each time; `source/faults.test.ts` has it.
 */
const API_KINDS = [
  'delay',
  'drip',
  'reset',
  'truncate',
  'garble',
  'shorten',
  'duplicate',
  'status',
  'header',
  'stall',
  'refuse',
  'redirect',
  'close-delimited',
  'informational',
] as const satisfies readonly FaultKind[];

/** A run has some kinds of faults rather than a little of each. */
const MAX_FAULT_KINDS = 5;
/** Probability of any fault per request in the first attempt. */
const API_RATE = 0.15;
/** An operator ends a worker that hangs, so a stall is a kill too, and rarer. */
const RARE: ReadonlySet<string> = new Set(['stall', 'redirect']);
const RARE_SHARE = 0.15;
/** A refusal of the key or the address ends the worker: rare. */
const FINAL_STATUSES = [401, 403, 404] as const;
const FINAL_RATE = 0.004;

function drawFaultKinds(random: () => number): readonly (typeof API_KINDS)[number][] {
  return Array.from({ length: 1 + Math.floor(random() * MAX_FAULT_KINDS) }, () => pick(random, API_KINDS));
}

function drawApiFaults(random: () => number, kinds: readonly FaultKind[], strength: number): Trouble['api'] {
  const seed = drawSeed(random);
  const total = (0.2 + 0.8 * random()) * API_RATE * strength;
  const rates = Object.fromEntries(
    kinds.map((kind) => [kind, (total / kinds.length) * (RARE.has(kind) ? RARE_SHARE : 1)]),
  );
  const final = createRandom(seed + 1);
  const finals = new Map<number, Fault>();
  // Drawn beforehand, so that a request's fault depends on its number alone.
  for (let number = 1; number <= 200; number += 1) {
    if (final() < FINAL_RATE * strength)
      finals.set(number, { kind: 'status', status: pick(final, FINAL_STATUSES), body: 'api' });
  }
  return (number) => {
    const fault = finals.get(number) ?? drawFault({ seed, rates }, number);
    return fault && soften(fault);
  };
}

/** Retry-After of many seconds would only take time. */
function soften(fault: Fault): Fault {
  if (fault.kind !== 'status' || fault.retryAfter === undefined) return fault;
  return { ...fault, retryAfter: { ...fault.retryAfter, seconds: fault.retryAfter.seconds % 2 } };
}

/** Few and many rows, near each other and far apart: what a provider's corrections and late prints look like. */
const MOVED_ROWS = [1, 2, 10, 50, 100] as const;
/** More than may be told from equal prints. */
const MANY_ROWS = [50, 100] as const;
const MOST_PAGE = 24;
const MOST_REQUEST = 10;

function drawMoves(random: () => number, move: Move, attempt: number): readonly Alteration[] {
  // When something is sealed, and early: a run without much to do asks little.
  if (DOUBTED_MOVES.some((one) => one === move)) {
    const number = 1 + Math.floor(random() ** 2 * MOST_REQUEST);
    const [rows, seed] = [pick(random, MANY_ROWS), drawSeed(random)];
    const happens = attempt > 0 && random() < 1 - attempt / (2 * TROUBLED_ATTEMPTS);
    return happens ? [{ move, at: { on: 'request', number }, rows, spread: 'far', seed }] : [];
  }
  const count = Math.max(0, 1 + Math.floor(random() * 2) - attempt);
  return Array.from({ length: count }, () => {
    const on = pick(random, ['request', 'page', 'page', 'recount'] as const);
    const most = on === 'request' ? MOST_REQUEST : MOST_PAGE;
    return {
      move,
      at: { on, number: 1 + Math.floor(random() * most) },
      rows: pick(random, MOVED_ROWS),
      spread: pick(random, ['near', 'far', 'burst'] as const),
      seed: drawSeed(random),
    };
  });
}

/** Behind by more, a source has no rows of a session's end, and is seen without earlier sessions. */
export const SEEN_MINUTES = 16;
const MOST_MINUTES = 60;

function drawLag(random: () => number, happens: boolean, mostRequest: number): Lag | undefined {
  const request = Math.min(mostRequest, 2 + Math.floor(random() * (mostRequest - 1)));
  const minutes = 1 + Math.floor(random() * MOST_MINUTES);
  return happens ? { request, minutes } : undefined;
}

/** A zone taken for another, a day or a year too early or too late. */
const CLOCK_OFFSETS = [5 * HOUR_MS, -5 * HOUR_MS, DAY_MS, -DAY_MS, 16 * DAY_MS, -400 * DAY_MS] as const;

function drawApiClock(random: () => number, happens: boolean): ApiClock | undefined {
  const garbage = pick(random, ['yesterday', '', 'Thu, 32 Foo 2026 99:99:99 GMT']);
  const clock =
    random() < 0.15 ? { garbage } : { offsetMs: pick(random, CLOCK_OFFSETS), every: pick(random, [1, 1, 3]) };
  return happens ? clock : undefined;
}

function drawOwnClocks(random: () => number, happens: boolean): readonly number[] {
  const offsets = [pick(random, CLOCK_OFFSETS), random() < 0.5 ? pick(random, CLOCK_OFFSETS) : 0];
  return happens ? offsets : [];
}

const S3_RATE = 0.25;

function drawS3Faults(random: () => number, strength: number): Trouble['s3'] {
  const seed = drawSeed(random);
  const rate = random() * S3_RATE * strength;
  return (number) => {
    const draw = createRandom(Math.imul(seed, 0x9e3779b1) + Math.imul(number, 0x85ebca6b));
    if (draw() >= rate) return undefined;
    return pick<Fault>(draw, [
      { kind: 'reset', at: 'request' },
      { kind: 'reset', at: 'answer' },
      { kind: 'reset', at: 'upload' },
      { kind: 'truncate', how: 'length', share: draw() },
      { kind: 'status', status: draw() < 0.5 ? 500 : 503, body: 'xml' },
      { kind: 'delay', before: 'head', ms: Math.ceil(draw() * 200) },
    ]);
  };
}

const LIE_RATE = 0.4;
/** What a copy that was not made is answered with, status 200: an error, a gateway's page, a result without a tag. */
const COPY_LIES = [
  '<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>InternalError</Code><Message>a fault</Message></Error>\n',
  '<html><body>Please sign in</body></html>',
  '<?xml version="1.0" encoding="UTF-8"?><CopyObjectResult></CopyObjectResult>',
];

/** By the place among the requests that can be lied to: there are few of them. */
function drawLies(random: () => number, strength: number): Trouble['s3'] {
  const seed = drawSeed(random);
  const rate = (0.3 + 0.7 * random()) * LIE_RATE * strength;
  let puts = 0;
  return (_, { method, path, headers }) => {
    if (method !== 'PUT' || path.includes('uploadId=')) return undefined;
    puts += 1;
    const isCopy = headers['x-amz-copy-source'] !== undefined;
    const draw = createRandom(Math.imul(seed, 0x9e3779b1) + Math.imul(puts, 0x85ebca6b));
    if (draw() >= (isCopy ? rate * 2 : rate)) return undefined;
    if (isCopy && draw() < 0.7) return { kind: 'status', status: 200, body: { text: pick(draw, COPY_LIES) } };
    return { kind: 'not-kept' };
  };
}

function drawBreak(random: () => number, { source }: Scenario, attempt: number): Trouble['bytes'] {
  const direction = random() < 0.7 ? 'request' : 'answer';
  const most = direction === 'answer' ? 20_000 : source.data === 'large' ? 25_000_000 : 150_000;
  const afterBytes = Math.floor(random() * most);
  return random() < 0.8 / (attempt + 1) ? { direction, afterBytes } : undefined;
}

/** Before the second attempt there is something to lose. */
function drawLoss(random: () => number, attempt: number): number | undefined {
  const [place, draw] = [random(), random()];
  return attempt === 1 || (attempt === 2 && draw < 0.3) ? place : undefined;
}

function drawDisk(random: () => number, { disk }: Scenario, attempt: number): DiskFault | undefined {
  const how = pick(random, ['full', 'read-only', 'file-size'] as const);
  const bytes = Math.floor(random() ** 2 * (how === 'file-size' ? 1_500_000 : 3_000_000));
  const when = random() < 0.5 ? 'start' : 'first-page';
  const happens = random() < 0.9 / (attempt + 1);
  return disk && happens ? { place: disk, how, bytes, when } : undefined;
}

function drawMoment(random: () => number, happens: boolean, { mails }: Scenario): Moment | undefined {
  const [share, number] = [random(), random()];
  const inMails: Moment = {
    at: 'mail',
    count: 1 + Math.floor(number * 3),
    phase: share < 0.5 ? 'announced' : 'taken',
  };
  const moment = pick<Moment>(random, [
    { at: 'moment', share: share * 1.1 },
    { at: 'page', count: 1 + Math.floor(number ** 2 * 40) },
    { at: 'sealing', afterMs: Math.floor(share * 400) },
    { at: 'publishing', count: 1 + Math.floor(number * 14) },
    ...(mails ? [inMails, inMails, inMails] : []),
  ]);
  return happens ? moment : undefined;
}

function drawMailFaults(random: () => number, strength: number): Trouble['mail'] {
  const seed = drawSeed(random);
  const rate = 0.5 * strength;
  return (number) => {
    const draw = createRandom(Math.imul(seed, 0x9e3779b1) + Math.imul(number, 0x85ebca6b));
    if (draw() >= rate) return undefined;
    return pick<MailFault>(draw, ['mail-put-off', 'mail-cut', 'mail-lost-answer']);
  };
}
