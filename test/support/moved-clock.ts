/**
 * A clock that a test moves for whole processes and their children: `moved-clock-preload.mjs` is loaded into each of them
 * before its own code. Invariant: the product knows nothing of it.
 */
import { randomUUID } from 'node:crypto';
import { rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

const PRELOAD = new URL('moved-clock-preload.mjs', import.meta.url);

export interface MovedClock {
  /** Environment of the processes that live by it. */
  readonly env: Readonly<Record<string, string>>;
  /** What it shows, milliseconds since the epoch. It goes on at the pace of the real one. */
  now(): number;
  /** Sets it. Processes started from now on go by it at once; those that run already, where they are given, too. */
  moveTo(ms: number, ...pids: readonly (number | undefined)[]): Promise<void>;
}

/** @param folder of the file that says how far the clock is off */
export async function createMovedClock(folder: string, startMs: number): Promise<MovedClock> {
  const file = join(folder, 'clock');
  let offsetMs = 0;
  const moveTo = async (ms: number, ...pids: readonly (number | undefined)[]) => {
    offsetMs = Math.round(ms - Date.now());
    // Whoever reads it meanwhile finds the one or the other.
    const written = `${file}.${randomUUID()}`;
    await writeFile(written, String(offsetMs));
    await rename(written, file);
    for (const pid of pids) if (pid !== undefined) process.kill(pid, 'SIGUSR2');
  };
  await moveTo(startMs);
  return {
    env: { NODE_OPTIONS: `--import=${PRELOAD.href}`, MOVED_CLOCK_FILE: file },
    now: () => Date.now() + offsetMs,
    moveTo,
  };
}
