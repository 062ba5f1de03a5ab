/**
 * Decides who may ask for what, and how often: authentication (401), then entitlement (403), then the pace of that
 * caller and product (429). Invariant: a refused call costs nothing of any budget. One gate serves all addresses, so
 * both entry points of historical SQL share one budget.
 */
import type { Clock } from '../../core/clock.ts';
import { ApiFailure } from '../http/api-failure.ts';
import type { ServiceOptions } from '../options.ts';
import type { Caller, KeyRing } from './keys.ts';
import { KeyPace, type Pace, type PaceOptions } from './pace.ts';

/** What is counted separately: the products, and logins. */
export type Budget = 'historical' | 'chain' | 'market-structure' | 'login';

interface Credentials {
  /** From the body or the Authorization header; empty counts as missing. */
  readonly apiKey?: string | undefined;
  /** Caller id of a verified session. */
  readonly session?: string | undefined;
  /** Where the call comes from. */
  readonly address?: string | undefined;
}

/**
 * The specification's limit for the option chain, and ours where it gives none: market structure, logins (a person or a
 * script logs in a few times a day; ten at once are a team that shares one key), and wrong keys (a person mistypes a key a
 * few times; a script that tries many fills the log and costs a comparison each).
 */
export const USUAL_PACE = { requestsPerSecond: 1, burst: 10 } as const;

export class Gate {
  readonly #keys: KeyRing;
  readonly #paces: Readonly<Record<Budget, Pace>>;
  /** Of wrong keys, by address. Not shared: it only slows down. */
  readonly #wrongKeys: KeyPace;

  /** @param openPace where the budgets are counted; default: in this process */
  constructor(
    clock: Clock,
    keys: KeyRing,
    { requestsPerSecond }: Pick<ServiceOptions, 'requestsPerSecond'>,
    openPace: (budget: Budget, pace: PaceOptions) => Pace = (_, pace) => new KeyPace(clock, pace),
  ) {
    this.#keys = keys;
    this.#wrongKeys = new KeyPace(clock, USUAL_PACE);
    this.#paces = {
      historical: openPace('historical', { requestsPerSecond, burst: 1 }),
      chain: openPace('chain', USUAL_PACE),
      'market-structure': openPace('market-structure', USUAL_PACE),
      login: openPace('login', USUAL_PACE),
    };
  }

  /**
   * Admits one call. If a key is given, it is used, even beside a valid session. Any valid key may log in.
   * @throws ApiFailure 401 UNAUTHORIZED, 403 SUBSCRIPTION_REQUIRED, 429 RATE_LIMITED with `retryAfterSeconds`
   */
  async enter(credentials: Credentials, budget: Budget): Promise<Caller> {
    const caller = this.#identify(credentials);
    assertEntitled(caller, budget);
    assertAdmitted(await this.#paces[budget].admit(caller.id), 'Too many requests');
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
}

function assertAdmitted(waitSeconds: number, reason: string): void {
  if (waitSeconds === 0) return;
  throw new ApiFailure(429, 'RATE_LIMITED', `${reason}; try again in ${waitSeconds} s.`, {
    retryAfterSeconds: waitSeconds,
  });
}

function assertEntitled(caller: Caller, budget: Budget): void {
  if (budget === 'login' || (budget === 'historical' ? caller.historical !== 'none' : caller.realtime)) return;
  const lacks =
    budget === 'historical' ? 'subscription to historical SQL' : 'realtime subscription, trialing or active';
  throw new ApiFailure(403, 'SUBSCRIPTION_REQUIRED', `This key has no ${lacks}.`);
}
