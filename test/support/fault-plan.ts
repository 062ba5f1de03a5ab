/**
 * What the fault proxy does to which request, of the API or of S3: faults as data, scripted or drawn from a seed. Pure;
 * `fault-proxy.ts` acts.
 * Invariant: the fault of a request is a function of the plan and of that request alone, so a seed repeats a failure.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { createRandom, drawSeed, pick } from './random.ts';

export type Fault =
  /** Milliseconds before the head, or between head and body. */
  | { readonly kind: 'delay'; readonly before: 'head' | 'body'; readonly ms: number }
  /** The body in small pieces. */
  | { readonly kind: 'drip'; readonly bytes: number; readonly everyMs: number }
  /**
   * RST: before the service is asked, when it has half of the request's body, after it answered, after the head, or in the
   * middle of the body.
   */
  | { readonly kind: 'reset'; readonly at: 'request' | 'upload' | 'answer' | 'head' | 'body' }
  /**
   * The first `share` (0 to 1) of the body's bytes. `length`: a clean close short of Content-Length; `chunked`: a clean
   * close without the final chunk; `consistent`: as if that were all.
   */
  | { readonly kind: 'truncate'; readonly how: 'length' | 'chunked' | 'consistent'; readonly share: number }
  /**
   * `bytes`: flips one bit in each of `count` places of the body as transferred, which gzip's check sum finds and plain
   * JSON may hide; `gzip`: calls gzip what is none.
   */
  | { readonly kind: 'garble'; readonly how: 'bytes'; readonly count: number; readonly seed: number }
  | { readonly kind: 'garble'; readonly how: 'gzip' }
  /** The last rows are missing: still a whole page. Nothing in one answer gives it away. */
  | { readonly kind: 'shorten'; readonly rows: number }
  /**
   * What a limit of the server leaves: members of `meta` replaced (`null`: no `meta` at all), and of the rows the first so
   * many. A well-formed page.
   */
  | {
      readonly kind: 'envelope';
      readonly meta?: Readonly<Record<string, unknown>> | null;
      readonly rows?: number;
    }
  /** Another value in place of the first one of a list of numbers in an answer to a count, as JSON. */
  | { readonly kind: 'count'; readonly list: 'counts' | 'ids' | 'cells'; readonly value: string }
  /** The body twice. */
  | { readonly kind: 'duplicate' }
  /** An answer of the proxy's own: as the API or S3 writes errors, as a load balancer does, with no body, or with any. */
  | {
      readonly kind: 'status';
      readonly status: number;
      readonly body: 'api' | 'xml' | 'html' | 'empty' | { readonly text: string };
      /** `errorCode` of the API's body. Default: the one that belongs to the status most often. */
      readonly code?: string;
      /** Its `reason`. Default: none. */
      readonly reason?: string;
      /** Retry-After: seconds, as a number or as an HTTP date on the service's clock. Default: no such header. */
      readonly retryAfter?: { readonly seconds: number; readonly as: 'number' | 'date' };
    }
  /** What S3 answers to a write that it has done; the service is not asked. */
  | { readonly kind: 'not-kept' }
  /** A header of the answer, with another value or added. */
  | { readonly kind: 'header'; readonly name: string; readonly value: string }
  /** What the `Date` header says: another time, another text, or nothing (`null`); and how old the answer calls itself. */
  | { readonly kind: 'date'; readonly shiftMs?: number; readonly text?: string | null; readonly ageSeconds?: number }
  /** A 200 whose rows never end. */
  | { readonly kind: 'endless' }
  /** No byte of an answer until the proxy closes. */
  | { readonly kind: 'stall' }
  /** A gate: the request waits at the proxy until it is healed, and is then passed on as it came. */
  | { readonly kind: 'hold' }
  /** This connection is reset, and new ones are refused until `heal`, or for a while. */
  | { readonly kind: 'refuse'; readonly forMs?: number }
  | { readonly kind: 'redirect'; readonly status: 301 | 302 | 303 | 307 | 308; readonly location: string }
  /** HTTP/1.0: no length, no chunks; the end of the connection is the end of the body, of which a `share` is sent. */
  | { readonly kind: 'close-delimited'; readonly share: number }
  /** 100, 102 or 103 in front of the answer, asked for or not. */
  | { readonly kind: 'informational'; readonly status: 100 | 102 | 103 };

export type FaultKind = Fault['kind'];

/** A request as a rule sees it. */
export interface SeenRequest {
  /** 1 for the first that arrived at the proxy. */
  readonly number: number;
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly bytes: Buffer;
  readonly body: string;
  /** The member `sql` of a JSON or form body; empty without one. */
  readonly sql: string;
}

export interface FaultRule {
  /** The number of one request or of several, a pattern that its SQL or path matches, or any condition. */
  readonly on: number | readonly number[] | RegExp | ((request: SeenRequest) => boolean);
  readonly fault: Fault;
  /** How often the rule applies at most. Default: always. */
  readonly times?: number;
}

/** The first rule that applies counts. */
export type ScriptedPlan = readonly FaultRule[];

export interface RandomPlan {
  readonly seed: number;
  /** Probability of each kind, per request; the sum is at most 1. The rest of a fault is drawn too. */
  readonly rates: Partial<Readonly<Record<FaultKind, number>>>;
}

/** Asked once a request, in order of arrival. The request waits for a promise. */
export type FaultChoice = (request: SeenRequest) => Fault | undefined | Promise<Fault | undefined>;

export type FaultPlan = ScriptedPlan | RandomPlan | FaultChoice;

/** How the worker asks for a page of trades. */
const PAGE = /^SELECT id,/;

/** Holds the n-th request for a page, or whatever the SQL or path of is to match, and all after it. */
export function holdFrom(number: number, pattern: RegExp = PAGE): ScriptedPlan {
  let seen = 0;
  const isHeld = (request: SeenRequest) => {
    if (!isMatch(pattern, request)) return false;
    seen += 1;
    return seen >= number;
  };
  return [{ on: isHeld, fault: { kind: 'hold' } }];
}

/** Chooses the fault of a request; keeps count of rules with `times`. */
export function createFaultChoice(plan: FaultPlan): FaultChoice {
  if (typeof plan === 'function') return plan;
  if ('seed' in plan) {
    assertRates(plan);
    return ({ number }) => drawFault(plan, number);
  }
  const used = new Map<FaultRule, number>();
  return (request) => {
    const rule = plan.find(
      (it) => matches(it, request) && (used.get(it) ?? 0) < (it.times ?? Number.POSITIVE_INFINITY),
    );
    if (rule) used.set(rule, (used.get(rule) ?? 0) + 1);
    return rule?.fault;
  };
}

/** Reads the SQL of a request body, JSON or form. */
export function readSql(body: string): string {
  try {
    const { sql } = JSON.parse(body) as { sql?: unknown };
    return typeof sql === 'string' ? sql : '';
  } catch {
    // Not JSON, so perhaps a form; a body that is neither has no SQL.
    return new URLSearchParams(body).get('sql') ?? '';
  }
}

function isMatch(pattern: RegExp, { sql, path }: SeenRequest): boolean {
  return [sql, path].some((text) => text.search(pattern) >= 0);
}

function matches({ on }: FaultRule, request: SeenRequest): boolean {
  if (typeof on === 'number') return request.number === on;
  if (on instanceof RegExp) return isMatch(on, request);
  return typeof on === 'function' ? on(request) : on.includes(request.number);
}

function assertRates({ rates }: RandomPlan): void {
  const sum = Object.values(rates).reduce((total, rate) => total + rate, 0);
  if (sum > 1 + Number.EPSILON * 10)
    throw new RangeError(`the rates of a fault plan sum to ${sum}; at most 1 is allowed`);
}

/** Each request has a stream of its own: what others drew does not matter. */
export function drawFault({ seed, rates }: RandomPlan, number: number): Fault | undefined {
  const random = createRandom(Math.imul(seed, 0x9e3779b1) + Math.imul(number, 0x85ebca6b));
  let left = random();
  for (const [kind, rate] of Object.entries(rates) as [FaultKind, number][]) {
    left -= rate;
    if (left < 0) return DRAWS[kind](random);
  }
  return undefined;
}

type Random = () => number;

const DRAWS: { readonly [Kind in FaultKind]: (random: Random) => Extract<Fault, { kind: Kind }> } = {
  delay: (random) => ({ kind: 'delay', before: pick(random, ['head', 'body']), ms: Math.ceil(random() * 20) }),
  drip: (random) => ({ kind: 'drip', bytes: 1 + Math.floor(random() * 2000), everyMs: 1 }),
  reset: (random) => ({ kind: 'reset', at: pick(random, ['request', 'answer', 'head', 'body']) }),
  truncate: (random) => ({
    kind: 'truncate',
    how: pick(random, ['length', 'chunked', 'consistent']),
    share: random() * 0.98,
  }),
  garble: (random) =>
    random() < 0.25
      ? { kind: 'garble', how: 'gzip' }
      : { kind: 'garble', how: 'bytes', count: 1 + Math.floor(random() * 4), seed: drawSeed(random) },
  shorten: (random) => ({ kind: 'shorten', rows: 1 + Math.floor(random() * 3) }),
  envelope: (random) => ({ kind: 'envelope', meta: { truncated: true }, rows: Math.floor(random() * 5) }),
  count: (random) => ({ kind: 'count', list: 'counts', value: pick(random, ['1e300', '-1', '0.5', '"abc"']) }),
  duplicate: () => ({ kind: 'duplicate' }),
  status: (random) => {
    const status = pick(random, [429, 500, 502, 503, 504]);
    const body = pick<'api' | 'html' | 'empty'>(random, ['api', 'html', 'empty']);
    if (status !== 429 && status !== 503) return { kind: 'status', status, body };
    const as = pick<'number' | 'date' | undefined>(random, ['number', 'date', undefined]);
    if (as === undefined) return { kind: 'status', status, body };
    return { kind: 'status', status, body, retryAfter: { seconds: 1 + Math.floor(random() * 20), as } };
  },
  'not-kept': () => ({ kind: 'not-kept' }),
  header: (random) => ({
    kind: 'header',
    name: 'content-type',
    value: pick(random, ['text/html', 'application/octet-stream', 'application/json; charset=utf-16', '']),
  }),
  date: (random) => ({ kind: 'date', shiftMs: Math.round((random() - 0.5) * 172_800_000) }),
  endless: () => ({ kind: 'endless' }),
  stall: () => ({ kind: 'stall' }),
  hold: () => ({ kind: 'hold' }),
  refuse: (random) => ({ kind: 'refuse', forMs: Math.ceil(random() * 20) }),
  redirect: (random) => ({
    kind: 'redirect',
    status: pick(random, [301, 302, 303, 307, 308]),
    location: 'http://127.0.0.1:9/elsewhere',
  }),
  'close-delimited': (random) => ({ kind: 'close-delimited', share: pick(random, [1, random()]) }),
  informational: (random) => ({ kind: 'informational', status: pick(random, [100, 102, 103]) }),
};
