/**
 * What a chaos run does, as data drawn from its seed: pure. A scenario says what is read, where it goes and what kind of
 * trouble there is; the seed draws the trouble. Invariant: the trouble of an attempt is less than that of the one before,
 * and after `TROUBLED_ATTEMPTS` there is none, so that every run comes to its end.
 */
import { createFaultChoice, type Fault, type FaultKind } from '../support/fault-plan.ts';
import { createRandom } from '../support/random.ts';
import type { S3Fault } from '../support/s3-fault-proxy.ts';
import type { SourceSettings } from './source.ts';

export interface Scenario {
  readonly name: string;
  readonly source: SourceSettings;
  readonly api: 'historical' | 'portal';
  readonly store: 'directory' | 's3';
  /** Faults of the S3 server's answers, or connections to it that break at random bytes. */
  readonly storeFaults?: 'answers' | 'bytes';
  readonly disk?: DiskFault['place'];
  readonly workers: 1 | 2;
  /** Takes long: left out of the bounded version. */
  readonly isLong?: true;
}

const GENERATED = { data: 'generated', order: 'time' } as const;
const REAL = { data: 'real', order: 'time' } as const;

export const SCENARIOS: readonly Scenario[] = [
  { name: 'generated-day', source: GENERATED, api: 'historical', store: 'directory', workers: 1 },
  { name: 'real-day', source: REAL, api: 'historical', store: 'directory', workers: 1 },
  {
    name: 'ordered-by-symbol',
    source: { data: 'generated', order: 'symbol' },
    api: 'historical',
    store: 'directory',
    workers: 1,
  },
  { name: 'portal', source: GENERATED, api: 'portal', store: 'directory', workers: 1 },
  { name: 'real-portal-s3', source: REAL, api: 'portal', store: 's3', storeFaults: 'answers', workers: 1 },
  {
    name: 'scan-limit',
    source: { data: 'real', order: 'symbol', scanLimit: 2_500 },
    api: 'historical',
    store: 'directory',
    workers: 1,
  },
  {
    name: 'scan-limit-s3',
    source: { data: 'generated', order: 'time', scanLimit: 20_000 },
    api: 'historical',
    store: 's3',
    storeFaults: 'answers',
    workers: 1,
  },
  { name: 's3-answers', source: GENERATED, api: 'historical', store: 's3', storeFaults: 'answers', workers: 1 },
  { name: 's3-bytes', source: REAL, api: 'historical', store: 's3', storeFaults: 'bytes', workers: 1 },
  { name: 'disk-of-store', source: GENERATED, api: 'historical', store: 'directory', disk: 'store', workers: 1 },
  { name: 'disk-of-state', source: REAL, api: 'historical', store: 'directory', disk: 'state', workers: 1 },
  {
    name: 'disk-of-state-s3',
    source: GENERATED,
    api: 'historical',
    store: 's3',
    storeFaults: 'answers',
    disk: 'state',
    workers: 1,
  },
  { name: 'two-workers', source: REAL, api: 'historical', store: 'directory', workers: 2 },
  { name: 'two-workers-s3', source: GENERATED, api: 'historical', store: 's3', storeFaults: 'answers', workers: 2 },
  {
    name: 'upload-in-parts',
    source: { data: 'large', order: 'time' },
    api: 'historical',
    store: 's3',
    storeFaults: 'bytes',
    workers: 1,
    isLong: true,
  },
];

export interface DiskFault {
  readonly place: 'state' | 'store';
  /** `file-size`: a file cannot grow beyond the bytes; the others need a disk of their own. */
  readonly how: 'full' | 'read-only' | 'file-size';
  /** Left free, or the largest file. */
  readonly bytes: number;
  /** Whether it happens before the worker starts, or when it has its first pages. */
  readonly when: 'start' | 'first-page';
}

export type Kill =
  /** So much of the duration of an undisturbed run after the start. */
  | { readonly at: 'moment'; readonly share: number }
  /** When this many pages have been asked for. */
  | { readonly at: 'page'; readonly count: number }
  /** So long after the recount agreed: while sealing. */
  | { readonly at: 'sealing'; readonly afterMs: number }
  /** At this many requests to the S3 server, or changes in the store's folder: while publishing. */
  | { readonly at: 'publishing'; readonly count: number };

export interface Trouble {
  /** Of the request with this number within the attempt. */
  readonly api: (number: number) => Fault | undefined;
  readonly s3: (number: number) => S3Fault | undefined;
  /** Connections to the S3 server break after so many bytes of requests or answers, once. */
  readonly bytes: { readonly direction: 'request' | 'answer'; readonly afterBytes: number } | undefined;
  readonly disk: DiskFault | undefined;
  /** One for each worker; `undefined` leaves it alone. */
  readonly kills: readonly (Kill | undefined)[];
}

/** Attempts that have trouble; those after it have none. */
export const TROUBLED_ATTEMPTS = 4;

/** The trouble of each attempt. The same seed and scenario give the same. */
export function drawTroubles(scenario: Scenario, seed: number): readonly Trouble[] {
  const random = createRandom(seed);
  const kinds = drawKinds(random);
  const kills = Math.floor(random() * TROUBLED_ATTEMPTS);
  return Array.from({ length: TROUBLED_ATTEMPTS }, (_, attempt) => {
    const strength = 1 / 2 ** attempt;
    return {
      api: drawApiFaults(random, kinds, strength),
      s3: drawS3Faults(random, scenario, strength),
      bytes: drawBreak(random, scenario, attempt),
      disk: drawDisk(random, scenario, attempt),
      kills: Array.from({ length: scenario.workers }, () => drawKill(random, attempt < kills)),
    };
  });
}

export const NO_TROUBLE: Trouble = {
  api: () => undefined,
  s3: () => undefined,
  bytes: undefined,
  disk: undefined,
  kills: [],
};

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
  'content-type',
  'stall',
  'refuse',
  'redirect',
  'close-delimited',
  'informational',
] as const satisfies readonly FaultKind[];

/** A run has some kinds of faults rather than a little of each, and now and then none. */
const MAX_KINDS = 5;
/** Probability of any fault per request in the first attempt. */
const API_RATE = 0.15;
/** An operator ends a worker that hangs, so a stall is a kill too, and rarer. */
const RARE: ReadonlySet<string> = new Set(['stall', 'redirect']);
const RARE_SHARE = 0.15;
/** A refusal of the key or the address ends the worker: rare. */
const FINAL_STATUSES = [401, 403, 404] as const;
const FINAL_RATE = 0.004;

function drawKinds(random: () => number): readonly (typeof API_KINDS)[number][] {
  const count = Math.floor(random() * (MAX_KINDS + 1));
  return Array.from({ length: count }, () => pick(random, API_KINDS));
}

function drawApiFaults(random: () => number, kinds: readonly FaultKind[], strength: number): Trouble['api'] {
  const seed = seedOf(random);
  const total = random() * API_RATE * strength;
  const rates = Object.fromEntries(
    kinds.map((kind) => [kind, (total / kinds.length) * (RARE.has(kind) ? RARE_SHARE : 1)]),
  );
  const choose = createFaultChoice({ seed, rates });
  const final = createRandom(seed + 1);
  const finals = new Map<number, Fault>();
  // Drawn beforehand, so that a request's fault depends on its number alone.
  for (let number = 1; number <= 200; number += 1) {
    if (final() < FINAL_RATE * strength && kinds.length > 0) {
      finals.set(number, { kind: 'status', status: pick(final, FINAL_STATUSES), body: 'api' });
    }
  }
  return (number) => {
    const fault = finals.get(number) ?? choose({ number, method: 'POST', path: '', body: '', sql: '' });
    return fault && soften(fault);
  };
}

/** Retry-After of many seconds would only take time. */
function soften(fault: Fault): Fault {
  if (fault.kind !== 'status' || fault.retryAfter === undefined) return fault;
  return { ...fault, retryAfter: { ...fault.retryAfter, seconds: fault.retryAfter.seconds % 2 } };
}

const S3_RATE = 0.25;

function drawS3Faults(random: () => number, { storeFaults }: Scenario, strength: number): Trouble['s3'] {
  if (storeFaults !== 'answers') return () => undefined;
  const seed = seedOf(random);
  const rate = random() * S3_RATE * strength;
  return (number) => {
    const draw = createRandom(Math.imul(seed, 0x9e3779b1) + Math.imul(number, 0x85ebca6b));
    if (draw() >= rate) return undefined;
    return pick<S3Fault>(draw, [
      { kind: 's3-reset' },
      { kind: 's3-lost-answer' },
      { kind: 's3-cut-upload', share: draw() },
      { kind: 's3-cut-download', share: draw() },
      { kind: 's3-error', status: draw() < 0.5 ? 500 : 503 },
      { kind: 's3-slow', ms: Math.ceil(draw() * 200) },
    ]);
  };
}

function drawBreak(random: () => number, { storeFaults, source }: Scenario, attempt: number): Trouble['bytes'] {
  if (storeFaults !== 'bytes') return undefined;
  const direction = random() < 0.7 ? 'request' : 'answer';
  const most = direction === 'answer' ? 20_000 : source.data === 'large' ? 25_000_000 : 150_000;
  const afterBytes = Math.floor(random() * most);
  return random() < 0.8 / (attempt + 1) ? { direction, afterBytes } : undefined;
}

function drawDisk(random: () => number, { disk }: Scenario, attempt: number): DiskFault | undefined {
  const how = pick(random, ['full', 'read-only', 'file-size'] as const);
  const bytes = Math.floor(random() ** 2 * (how === 'file-size' ? 1_500_000 : 3_000_000));
  const when = random() < 0.5 ? 'start' : 'first-page';
  const happens = random() < 0.9 / (attempt + 1);
  return disk && happens ? { place: disk, how, bytes, when } : undefined;
}

function drawKill(random: () => number, happens: boolean): Kill | undefined {
  const [share, number] = [random(), random()];
  const kill = pick<Kill>(random, [
    { at: 'moment', share: share * 1.1 },
    { at: 'page', count: 1 + Math.floor(number ** 2 * 40) },
    { at: 'sealing', afterMs: Math.floor(share * 400) },
    { at: 'publishing', count: 1 + Math.floor(number * 14) },
  ]);
  return happens ? kill : undefined;
}

function pick<T>(random: () => number, choices: readonly T[]): T {
  const [first] = choices;
  const chosen = choices[Math.floor(random() * choices.length)] ?? first;
  if (chosen === undefined) throw new RangeError('there is nothing to pick from');
  return chosen;
}

function seedOf(random: () => number): number {
  return Math.floor(random() * 2 ** 31);
}
