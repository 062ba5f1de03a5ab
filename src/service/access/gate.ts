/**
 * Decides who may ask for what, and how often: authentication (401), then entitlement (403), then the pace of that
 * caller and product (429). Invariant: a refused call costs nothing of any budget. One gate serves all addresses, so
 * both entry points of historical SQL share one budget.
 */
import type { Clock } from '../../core/clock.ts';
import { ApiFailure } from '../http/api-failure.ts';
import type { Caller, KeyRing } from './keys.ts';
import { KeyPace, type Pace, type PaceOptions } from './pace.ts';

export type Product = 'historical' | 'chain' | 'market-structure';
export type Budget = Product | 'login';

export interface Credentials {
  /** From the body or the Authorization header; empty counts as missing. */
  readonly apiKey?: string | undefined;
  /** Caller id of a verified session. */
  readonly session?: string | undefined;
  /** Where the call comes from. */
  readonly address?: string | undefined;
}

interface GateOptions {
  /** For historical SQL, per key. */
  readonly requestsPerSecond: number;
}

/**
 * The specification's limit for the option chain. It gives none for market structure: use the same, counted separately.
 */
const SNAPSHOT_PACE = { requestsPerSecond: 1, burst: 10 } as const;
/** A person or a script logs in a few times a day; ten logins at once are a team that shares one key. */
const LOGIN_PACE = { requestsPerSecond: 1, burst: 10 } as const;
/** A person mistypes a key a few times; a script that tries many fills the log and costs a comparison each. */
export const WRONG_KEY_PACE = { requestsPerSecond: 1, burst: 10 } as const;

export class Gate {
  readonly #keys: KeyRing;
  readonly #paces: Readonly<Record<Budget, Pace>>;
  /** Of wrong keys, by address. Not shared: it only slows down. */
  readonly #wrongKeys: KeyPace;

  /** @param openPace where the budgets are counted; default: in this process */
  constructor(
    clock: Clock,
    keys: KeyRing,
    options: GateOptions,
    openPace: (budget: Budget, pace: PaceOptions) => Pace = (_, pace) => new KeyPace(clock, pace),
  ) {
    this.#keys = keys;
    this.#wrongKeys = new KeyPace(clock, WRONG_KEY_PACE);
    this.#paces = {
      historical: openPace('historical', { requestsPerSecond: options.requestsPerSecond, burst: 1 }),
      chain: openPace('chain', SNAPSHOT_PACE),
      'market-structure': openPace('market-structure', SNAPSHOT_PACE),
      login: openPace('login', LOGIN_PACE),
    };
  }

  /**
   * Admits one call. If a key is given, it is used, even beside a valid session.
   * @throws ApiFailure 401 UNAUTHORIZED, 403 SUBSCRIPTION_REQUIRED, 429 RATE_LIMITED with `retryAfterSeconds`
   */
  async enter(credentials: Credentials, product: Product): Promise<Caller> {
    const caller = this.#identify(credentials);
    assertEntitled(caller, product);
    await this.#assertPace(caller, product);
    return caller;
  }

  /**
   * Identifies the key's caller for a new session; any valid key may open one.
   * @throws ApiFailure 401 UNAUTHORIZED, 429 RATE_LIMITED with `retryAfterSeconds`
   */
  async enterLogin(apiKey: string | undefined, address?: string): Promise<Caller> {
    const caller = this.#identify({ apiKey, address });
    await this.#assertPace(caller, 'login');
    return caller;
  }

  /**
   * Wrong keys are slowed down by address. A right key is never refused for the wrong ones of others: behind a proxy, one
   * stranger would lock everybody out, and keys are too long to be guessed.
   */
  #identify({ apiKey, session, address = '' }: Credentials): Caller {
    const hasKey = apiKey !== undefined && apiKey !== '';
    const caller = hasKey ? this.#keys.identify(apiKey) : session && this.#keys.find(session);
    if (caller) return caller;
    if (hasKey) assertAdmitted(this.#wrongKeys.admit(address), 'Too many wrong keys from this address');
    throw new ApiFailure(401, 'UNAUTHORIZED', 'The API key is missing or not valid.');
  }

  async #assertPace(caller: Caller, budget: Budget): Promise<void> {
    assertAdmitted(await this.#paces[budget].admit(caller.id), 'Too many requests');
  }
}

function assertAdmitted(waitSeconds: number, reason: string): void {
  if (waitSeconds === 0) return;
  throw new ApiFailure(429, 'RATE_LIMITED', `${reason}; try again in ${waitSeconds} s.`, {
    retryAfterSeconds: waitSeconds,
  });
}

function assertEntitled(caller: Caller, product: Product): void {
  if (product === 'historical') {
    if (caller.historical !== 'none') return;
    throw new ApiFailure(403, 'SUBSCRIPTION_REQUIRED', 'This key has no subscription to historical SQL.');
  }
  if (caller.realtime) return;
  throw new ApiFailure(403, 'SUBSCRIPTION_REQUIRED', 'This key has no realtime subscription, trialing or active.');
}
