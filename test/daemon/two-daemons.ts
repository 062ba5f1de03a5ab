/**
 * Two daemons reduced to their schedules, a tick a second by the real clock, and kills: who ran which tick. Runs of one
 * overlap, so a kill leaves several ticks to be taken over, which the job of a whole daemon never does. A kill hits a daemon while it has runs in
 * progress and all of them wait, and takes their children with it; so whatever is written twice was given out twice.
 */
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { createRandom } from '../support/random.ts';
import { hasEnded } from '../support/server-process.ts';
import type { TickerEvent, TickerOptions, TickerReason } from './ticker.ts';

const TICKER = fileURLToPath(new URL('ticker.ts', import.meta.url));
const JOB = 'nightly';

export interface TwoDaemonsOptions {
  readonly url: string;
  readonly file: string;
  readonly ticks: number;
  /** How many daemons are killed, spread over the first two thirds. */
  readonly kills: number;
  readonly leaseMs: number;
  readonly workSeconds: number;
  /** Decides which daemon is killed, and at which tick. */
  readonly seed: number;
}

/** Ticks by when they were due. */
export interface TwoDaemonsResult {
  readonly ticks: number;
  /** Of the ticks, those that were written at least once. */
  readonly completed: number;
  readonly lost: readonly number[];
  readonly doubled: readonly number[];
  /** Begun more often than they were killed. */
  readonly startedTwice: readonly number[];
  /** Their run was killed with its daemon. */
  readonly killed: readonly number[];
  /** Of the killed ones, those that another daemon took over. */
  readonly takenOver: readonly number[];
  readonly byDaemon: Readonly<Record<string, number>>;
  readonly byReason: Readonly<Partial<Record<TickerReason, number>>>;
  readonly faults: readonly string[];
}

interface Daemon {
  readonly id: string;
  readonly child: ChildProcessByStdio<Writable, Readable, null>;
  readonly events: TickerEvent[];
  isClosed: boolean;
}

/** @throws when ticks are still not done long after they should be: the message says which */
export async function runTwoDaemons(options: TwoDaemonsOptions): Promise<TwoDaemonsResult> {
  const { ticks, kills } = options;
  const random = createRandom(options.seed);
  const daemons: Daemon[] = [];
  const places: Daemon[] = [];
  const killed = new Set<number>();
  const startAt = async (place: number) => {
    const daemon = startDaemon(`${place === 0 ? 'A' : 'B'}${daemons.length}`, options);
    daemons.push(daemon);
    places[place] = daemon;
    await until(() => daemon.events.length > 0);
  };
  try {
    await Promise.all([startAt(0), startAt(1)]);
    const firstDue = Math.ceil(Date.now() / 1000) * 1000 + 1000;
    const expected = Array.from({ length: ticks }, (_, i) => firstDue + i * 1000);
    const stretch = (ticks * 2) / 3 / kills;
    for (let kill = 0; kill < kills; kill += 1) {
      const at = firstDue + Math.floor(2 + stretch * (kill + random() / 2)) * 1000;
      await until(() => Date.now() >= at, ticks * 1000);
      const place = random() < 0.5 ? 0 : 1;
      const daemon = places[place];
      if (!daemon) continue;
      const hit = await killInRun(daemon);
      for (const due of hit) killed.add(due);
      await startAt(place);
    }
    const isDone = async () => {
      const done = new Set((await readLines(options.file)).map(({ due }) => due));
      return expected.every((due) => done.has(due));
    };
    const patienceMs = (expected.at(-1) ?? 0) - Date.now() + 3 * options.leaseMs + 20_000;
    // What is lost is told by the result.
    await until(isDone, patienceMs, 200).catch(() => undefined);
    for (const { child } of places) child.stdin.end();
    await until(() => daemons.every(({ isClosed }) => isClosed));
    return tally(await readLines(options.file), expected, daemons, killed);
  } finally {
    for (const daemon of daemons) killGroup(daemon);
  }
}

function startDaemon(id: string, { url, file, leaseMs, workSeconds }: TwoDaemonsOptions): Daemon {
  const options: TickerOptions = { url, id, job: JOB, store: file, file, leaseMs, workSeconds };
  // Detached: a group of its own, which a kill takes as a whole.
  const child = spawn(process.execPath, ['--import', 'tsx', TICKER, JSON.stringify(options)], {
    stdio: ['pipe', 'pipe', 'inherit'],
    detached: true,
  });
  const daemon: Daemon = { id, child, events: [], isClosed: false };
  createInterface({ input: child.stdout }).on('line', (line) => daemon.events.push(JSON.parse(line) as TickerEvent));
  child.stdin.on('error', () => undefined);
  child.once('close', () => {
    daemon.isClosed = true;
  });
  return daemon;
}

/** @returns due times of the runs that were killed: at least one */
async function killInRun(daemon: Daemon): Promise<readonly number[]> {
  daemon.child.stdin.write('hold\n');
  await until(() => {
    const runs = listInProgress(daemon);
    return runs.length > 0 && runs.every(({ held }) => held);
  });
  killGroup(daemon);
  await until(() => daemon.isClosed);
  return listInProgress(daemon).map(({ due }) => due);
}

function killGroup({ child }: Daemon): void {
  if (child.pid !== undefined && !hasEnded(child)) process.kill(-child.pid, 'SIGKILL');
}

function listInProgress({ events }: Daemon): readonly Extract<TickerEvent, { readonly event: 'started' }>[] {
  const ended = new Set(
    events.flatMap((event) => (event.event === 'completed' || event.event === 'lost' ? event.due : [])),
  );
  return events.flatMap((event) => (event.event === 'started' && !ended.has(event.due) ? event : []));
}

interface Line {
  readonly due: number;
  readonly daemon: string;
}

async function readLines(file: string): Promise<readonly Line[]> {
  const lines = (await readFile(file, 'utf8')).split('\n').filter((line) => line !== '');
  return lines.map((line) => ({ due: Number(line.split(' ')[0]), daemon: line.split(' ')[1] ?? '' }));
}

function tally(
  lines: readonly Line[],
  expected: readonly number[],
  daemons: readonly Daemon[],
  killed: ReadonlySet<number>,
): TwoDaemonsResult {
  const written = count(lines.map(({ due }) => due));
  const starts = daemons.flatMap(({ id, events }) =>
    events.flatMap((event) => (event.event === 'started' ? { ...event, id } : [])),
  );
  const unkilled = daemons.flatMap((daemon) => {
    const inProgress = new Set(listInProgress(daemon).map(({ due }) => due));
    return starts.filter(({ id, due }) => id === daemon.id && !inProgress.has(due)).map(({ due }) => due);
  });
  return {
    ticks: expected.length,
    completed: expected.filter((due) => written.has(due)).length,
    lost: expected.filter((due) => !written.has(due)),
    // Before the first expected tick and after the last as well.
    doubled: [...written].flatMap(([due, times]) => (times > 1 ? due : [])),
    startedTwice: [...count(unkilled)].flatMap(([due, times]) => (times > 1 ? due : [])),
    killed: [...killed],
    takenOver: [...killed].filter((due) => starts.some((start) => start.due === due && start.reason === 'take-over')),
    byDaemon: Object.fromEntries(count(lines.map(({ daemon }) => daemon))),
    byReason: Object.fromEntries(count(starts.map(({ reason }) => reason))),
    faults: daemons.flatMap(({ events }) => events.flatMap((event) => (event.event === 'fault' ? event.message : []))),
  };
}

function count<T>(values: readonly T[]): ReadonlyMap<T, number> {
  const counts = new Map<T, number>();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  return counts;
}

/** Of its own, because the long form runs without the test runner. */
async function until(isSo: () => boolean | Promise<boolean>, timeoutMs = 30_000, intervalMs = 10): Promise<void> {
  const end = performance.now() + timeoutMs;
  while (!(await isSo())) {
    if (performance.now() > end) throw new Error(`two daemons: nothing came of it in ${timeoutMs} ms`);
    await delay(intervalMs);
  }
}
