/**
 * The ticks that this daemon holds of schedules that several share: renewed while their run waits, goes on or is to be
 * tried again, and given back when it is over. Invariant: a tick is completed once, by whoever holds it; on a stop those
 * whose runs are done, and no others, so that another daemon takes over what is left.
 */
import { describeError } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import type { Coordinator, Tick } from './coordinator.ts';

export interface Claims {
  /** The tick is this daemon's from now on. */
  hold(tick: Tick): void;
  /** Its run is over, whatever it came to. Without effect on a tick that is not held. */
  settle(tick: Tick): void;
  /** Keeps what is held. @returns jobs whose tick another daemon has taken over meanwhile */
  renew(): Promise<readonly Tick[]>;
}

export function createClaims(coordinator: Coordinator | undefined, log: Log): Claims {
  const held = new Map<string, Tick>();
  const idOf = ({ job, dueAtMs }: Tick) => `${job} ${dueAtMs}`;
  return {
    hold: (tick) => void held.set(idOf(tick), tick),
    settle(tick) {
      if (!held.delete(idOf(tick))) return;
      // When it fails, the lease runs out: another daemon runs a tick again that is done, which costs a request.
      coordinator?.complete(tick).catch((error: unknown) => {
        const reason = describeError(error);
        log.warn({ event: 'complete-failed', job: tick.job, reason }, `${tick.job}: ${reason}`);
      });
    },
    async renew() {
      const lost: Tick[] = [];
      for (const tick of [...held.values()]) {
        try {
          if (!held.has(idOf(tick)) || (await coordinator?.renew(tick)) !== false) continue;
          // One that was settled while it was renewed is nobody else's.
          if (held.delete(idOf(tick))) lost.push(tick);
        } catch (error) {
          const reason = describeError(error);
          log.warn({ event: 'renew-failed', job: tick.job, reason }, `${tick.job}: ${reason}`);
        }
      }
      return lost;
    },
  };
}
