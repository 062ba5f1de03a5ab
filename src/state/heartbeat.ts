/**
 * The sign of life of the daemon, in its state folder: a schedule alone runs nothing, so whoever shows what is due asks
 * here whether somebody is there to run it. Written every few seconds with the last look of the daemon's loop, removed at
 * its end. Invariants: a state folder has one daemon, as it would start every run twice; one that was killed counts for
 * nobody.
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
/** Of another machine or container, only the time of its last beat shows that it lives. */
const SILENT_MS = 4 * BEAT_MS;
/** A loop that looks once a second, and has not for so long, hangs. */
const STUCK_MS = 5 * 60_000;

const heartbeatSchema = z.object({
  process: z.object({ pid: z.number(), started: z.string() }),
  host: z.string(),
  /** Of the status page; null without one. */
  url: z.string().nullable(),
  /** When its loop last looked for what is due. */
  looked_at: z.iso.datetime(),
  /** When this was written. */
  at: z.iso.datetime(),
  /** Names of the jobs that it runs by their schedule. */
  jobs: z.array(z.string()),
});

export type Heartbeat = z.infer<typeof heartbeatSchema>;

function openHeartbeat(stateDir: string): StateFile<Heartbeat> {
  return new StateFile(heartbeatOf(stateDir), heartbeatSchema);
}

/** The daemon that lives in this state folder. An unreadable file counts as absent, because the next beat replaces it. */
export async function readHeartbeat(stateDir: string, nowMs: number): Promise<Heartbeat | undefined> {
  const beat = await openHeartbeat(stateDir)
    .read()
    .catch(() => undefined);
  return beat && (await isAlive(beat, nowMs)) ? beat : undefined;
}

async function isAlive({ host, process, at }: Heartbeat, nowMs: number): Promise<boolean> {
  const isRecent = Math.abs(nowMs - Date.parse(at)) < SILENT_MS;
  if (host !== hostname()) return isRecent;
  // Where the system does not say when a process was started, its number may be that of another by now.
  return (await isSameProcess(process)) && (process.started !== '' || isRecent);
}

/** Whether its loop still looks for what is due. */
export function isLooking({ looked_at: at }: Heartbeat, nowMs: number): boolean {
  return Math.abs(nowMs - Date.parse(at)) < STUCK_MS;
}

/** What a daemon says of itself at each beat. */
type Sign = Readonly<Pick<Heartbeat, 'url' | 'jobs'> & { readonly lookedAtMs: number }>;

/**
 * Beats until it is ended. A full disk costs a beat, not the daemon.
 * @returns what ends it, and removes the file @throws Fault `DAEMON_ACTIVE`
 */
export async function startHeartbeat(
  stateDir: string,
  clock: Clock,
  readSign: () => Sign,
): Promise<() => Promise<void>> {
  const living = await readHeartbeat(stateDir, clock.now());
  if (living) throw refuseSecond(stateDir, living);
  const file = openHeartbeat(stateDir);
  const process = { pid, started: await readProcessStart(pid) };
  const ending = new AbortController();
  let [said, beatAtMs] = ['', Number.NEGATIVE_INFINITY];
  const beat = async (nowMs: number) => {
    const { lookedAtMs, ...sign } = readSign();
    // Its jobs are news at once: whoever has just started it looks whether it has them.
    if (JSON.stringify(sign) === said && Math.abs(nowMs - beatAtMs) < BEAT_MS) return;
    [said, beatAtMs] = [JSON.stringify(sign), nowMs];
    const toInstant = (ms: number) => new Date(ms).toISOString();
    await file
      .write({ process, host: hostname(), ...sign, looked_at: toInstant(lookedAtMs), at: toInstant(nowMs) })
      .catch(() => undefined);
  };
  const keepBeating = async () => {
    while (!ending.signal.aborted) {
      await beat(clock.now());
      // Only the end rejects this, and the loop checks for that.
      await clock.sleep(LOOK_MS, ending.signal).catch(() => undefined);
    }
  };
  const beating = keepBeating();
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
