/** The end of children: they are asked to stop, at the end of the daemon all at once, and killed when they take too long. */
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
  const late = killLate(all, { clock, ended: ended.signal });
  await Promise.all(all.map((each) => each.untilIdle()));
  ended.abort();
  await late;
}

/** Of what was asked to stop: kills it unless it ends in time. Never rejects. */
export async function killLate(
  all: readonly Pick<Stoppable, 'kill'>[],
  { clock, ended }: { readonly clock: Clock; readonly ended: AbortSignal },
): Promise<void> {
  await clock.sleep(STOP_GRACE_MS, ended).then(
    () => {
      for (const each of all) each.kill();
    },
    // All have ended in time.
    () => undefined,
  );
}

export async function untilAborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
}
