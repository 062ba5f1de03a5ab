/** The end of the daemon: its children are asked to stop all at once, and killed when they take too long. */
import type { Clock } from '../core/clock.ts';

/** Pages in flight get this long to land; supervisors kill after ten seconds. */
const STOP_GRACE_MS = 9_000;

/** Child processes of one sort. */
export interface Stoppable {
  /** Asks those that go on to stop; none is started from now on. */
  stop(): void;
  kill(): void;
  untilIdle(): Promise<void>;
}

export async function stopAll(all: readonly Stoppable[], clock: Clock): Promise<void> {
  for (const each of all) each.stop();
  const ended = new AbortController();
  const late = clock.sleep(STOP_GRACE_MS, ended.signal).then(
    () => {
      for (const each of all) each.kill();
    },
    // All have ended in time.
    () => undefined,
  );
  await Promise.all(all.map((each) => each.untilIdle()));
  ended.abort();
  await late;
}

export async function untilAborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
}
