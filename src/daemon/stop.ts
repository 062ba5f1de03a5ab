/** Stops children: asks them to stop, all at once at the end of the daemon, and kills those that take too long. */
import type { Clock } from '../core/clock.ts';

/** Time for pages in flight to finish; supervisors kill after ten seconds. */
const STOP_GRACE_MS = 9_000;

/** Child processes of one kind. */
export interface Stoppable {
  /** Asks running ones to stop, and starts no new ones. */
  stop(): void;
  kill(): void;
  untilIdle(): Promise<void>;
}

export async function stopAll(all: readonly Stoppable[], clock: Clock): Promise<void> {
  for (const each of all) each.stop();
  const ended = new AbortController();
  const late = killLate(all, { clock, ended: ended.signal });
  await Promise.all(all.map((each) => each.untilIdle()));
  ended.abort();
  await late;
}

/** Kills processes that were asked to stop, unless they end in time. Never rejects. */
export async function killLate(
  all: readonly Pick<Stoppable, 'kill'>[],
  { clock, ended }: { readonly clock: Clock; readonly ended: AbortSignal },
): Promise<void> {
  await clock.sleep(STOP_GRACE_MS, ended).then(
    () => {
      for (const each of all) each.kill();
    },
    // All ended in time.
    () => undefined,
  );
}

export async function untilAborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
}
