/**
 * Who may ask, and how often: authentication first, then the pace of that key. Shared by both entry points, so that a key
 * has one budget.
 */
import { ApiFailure } from './failure.ts';
import type { KeyRing } from './keys.ts';
import type { Pace } from './pace.ts';

export class Gate {
  readonly #keys: KeyRing;
  readonly #pace: Pace;

  constructor(keys: KeyRing, pace: Pace) {
    this.#keys = keys;
    this.#pace = pace;
  }

  /** @throws ApiFailure 401 for a key that is missing or not ours, 429 for one that comes too early */
  enter(key: string | undefined): void {
    const number = key === undefined || key === '' ? undefined : this.#keys.identify(key);
    if (number === undefined) throw new ApiFailure(401, 'UNAUTHORIZED', 'The API key is missing or not valid.');
    const waitSeconds = this.#pace.admit(number);
    if (waitSeconds > 0) {
      throw new ApiFailure(429, 'RATE_LIMITED', `Too many requests; try again in ${waitSeconds} s.`, {
        retryAfterSeconds: waitSeconds,
      });
    }
  }
}
