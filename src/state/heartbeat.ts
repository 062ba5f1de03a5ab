/**
 * The sign of life of the daemon, in its state folder: a schedule alone runs nothing, so whoever shows what is due asks
 * here whether somebody is there to run it. Removed at its end. Invariants: a state folder has one daemon, as two would
 * start every run twice; one that was killed counts for nobody.
 */
import { hostname } from 'node:os';
import { pid } from 'node:process';
import { z } from 'zod';
import type { Clock } from '../core/clock.ts';
import { Fault } from '../core/errors.ts';
import { isSameProcess, readProcessStart } from '../core/liveness.ts';
import { heartbeatOf, StateFile } from './job-state.ts';

const BEAT_MS = 15_000;
const LOOK_MS = 1_000;
/** Of another machine or container, only its last beat shows that it lives. */
const SILENT_MS = 4 * BEAT_MS;

const heartbeatSchema = z.object({
  process: z.object({ pid: z.number(), started: z.string() }),
  host: z.string(),
  /** Of the status page; null without one. */
  url: z.string().nullable(),
  /** When its loop last looked for what is due. */
  at: z.iso.datetime(),
  /** Names of the jobs that it runs by their schedule. */
  jobs: z.array(z.string()),
});

export type Heartbeat = z.infer<typeof heartbeatSchema>;

/** The daemon that lives in this state folder. An unreadable file counts as absent: the next beat replaces it. */
export async function readHeartbeat(stateDir: string, nowMs: number): Promise<Heartbeat | undefined> {
  const beat = await new StateFile(heartbeatOf(stateDir), heartbeatSchema).read().catch(() => undefined);
  if (!beat) return undefined;
  const isRecent = Math.abs(nowMs - Date.parse(beat.at)) < SILENT_MS;
  // Where the system does not say when a process was started, its number may be that of another by now.
  const isHere = beat.host === hostname() && (beat.process.started !== '' || isRecent);
  return (isHere ? await isSameProcess(beat.process) : isRecent) ? beat : undefined;
}

/**
 * Beats until it is ended. A full disk costs a beat, not the daemon. @param readSign what the daemon says of itself
 * @returns what ends it, and removes the file @throws Fault `DAEMON_ACTIVE`
 */
export async function startHeartbeat(
  stateDir: string,
  clock: Clock,
  readSign: () => Pick<Heartbeat, 'url' | 'at' | 'jobs'>,
): Promise<() => Promise<void>> {
  const living = await readHeartbeat(stateDir, clock.now());
  if (living) throw refuseSecond(stateDir, living);
  const file = new StateFile(heartbeatOf(stateDir), heartbeatSchema);
  const process = { pid, started: await readProcessStart(pid) };
  const ending = new AbortController();
  const beat = async () => {
    let [said, beatAtMs] = ['', Number.NEGATIVE_INFINITY];
    while (!ending.signal.aborted) {
      const [{ at, ...sign }, nowMs] = [readSign(), clock.now()];
      // Its jobs are news at once: whoever has just started it looks whether it has them.
      if (JSON.stringify(sign) !== said || Math.abs(nowMs - beatAtMs) >= BEAT_MS) {
        [said, beatAtMs] = [JSON.stringify(sign), nowMs];
        await file.write({ process, host: hostname(), at, ...sign }).catch(() => undefined);
      }
      // Only the end rejects this, and the loop checks for that.
      await clock.sleep(LOOK_MS, ending.signal).catch(() => undefined);
    }
  };
  const beating = beat();
  return async () => {
    ending.abort();
    await beating;
    await file.remove().catch(() => undefined);
  };
}

function refuseSecond(stateDir: string, { url, host, process }: Heartbeat): Fault {
  const where = `${url ?? 'without a status page'} (process ${process.pid} on ${host})`;
  return new Fault('DAEMON_ACTIVE', `a daemon already runs in the state folder ${stateDir}: ${where}`, {
    kind: 'active',
    hint: 'Use that one, or stop it first: kill -HUP makes it read changed job files. A second daemon needs its own FLOWDROP_STATE_DIR. If it died on another machine, try again in a minute.',
  });
}
