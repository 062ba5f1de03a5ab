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

export class Gate {
  readonly #keys: KeyRing;
  readonly #paces: Readonly<Record<Budget, Pace>>;

  /** @param openPace where the budgets are counted; default: in this process */
  constructor(
    clock: Clock,
    keys: KeyRing,
    options: GateOptions,
    openPace: (budget: Budget, pace: PaceOptions) => Pace = (_, pace) => new KeyPace(clock, pace),
  ) {
    this.#keys = keys;
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
   * Identifies the key's caller for a new session; any valid key may open one. Wrong keys are not counted: keys are
   * compared in constant time and cannot be guessed, and a shared limit would let one stranger lock everybody out.
   * @throws ApiFailure 401 UNAUTHORIZED, 429 RATE_LIMITED with `retryAfterSeconds`
   */
  async enterLogin(apiKey: string | undefined): Promise<Caller> {
    const caller = this.#identify({ apiKey });
    await this.#assertPace(caller, 'login');
    return caller;
  }

  #identify({ apiKey, session }: Credentials): Caller {
    const hasKey = apiKey !== undefined && apiKey !== '';
    const caller = hasKey ? this.#keys.identify(apiKey) : session && this.#keys.find(session);
    if (!caller) throw new ApiFailure(401, 'UNAUTHORIZED', 'The API key is missing or not valid.');
    return caller;
  }

  async #assertPace(caller: Caller, budget: Budget): Promise<void> {
    const waitSeconds = await this.#paces[budget].admit(caller.id);
    if (waitSeconds === 0) return;
    throw new ApiFailure(429, 'RATE_LIMITED', `Too many requests; try again in ${waitSeconds} s.`, {
      retryAfterSeconds: waitSeconds,
    });
  }
}

function assertEntitled(caller: Caller, product: Product): void {
  if (product === 'historical') {
    if (caller.historical !== 'none') return;
    throw new ApiFailure(403, 'SUBSCRIPTION_REQUIRED', 'This key has no subscription to historical SQL.');
  }
  if (caller.realtime) return;
  throw new ApiFailure(403, 'SUBSCRIPTION_REQUIRED', 'This key has no realtime subscription, trialing or active.');
}
