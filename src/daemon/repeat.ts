/** What the daemon does again and again: one action, one at a time, whatever it comes to, until the stop. */
import type { Clock } from '../core/clock.ts';
import { describeError } from '../core/errors.ts';
import type { Log } from '../core/log.ts';

export interface RepeatDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/** @param everyMs pause before the action, and after it has ended. Never rejects */
export async function repeat(everyMs: number, deps: RepeatDeps, action: () => Promise<void>): Promise<void> {
  const { clock, log, signal } = deps;
  while (!signal.aborted) {
    await clock.sleep(everyMs, signal).catch(() => undefined); // The stop.
    if (signal.aborted) return;
    await action().catch((error: unknown) => {
      log.error({ event: 'loop-fault', what: action.name, reason: describeError(error) }, describeError(error));
    });
  }
}
