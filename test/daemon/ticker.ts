/**
 * A daemon reduced to its schedule, for the tests of the coordinator: a node-cron task at every second, and for each tick
 * that it gets a child process that appends one line to a file. Says on stdout what happens, one JSON value a line.
 * Commands come on stdin: `hold` keeps children that start from now on from writing until `release`; it stops in order
 * when its input ends.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { createTask } from 'node-cron';
import { isFault } from '../../src/core/errors.ts';
import type { Tick } from '../../src/daemon/coordinator.ts';
import { openRedisCoordinator } from '../../src/daemon/redis-coordinator.ts';

export interface TickerOptions {
  readonly url: string;
  readonly id: string;
  readonly job: string;
  /** Tells the runs of one test from those of another. */
  readonly store: string;
  readonly file: string;
  readonly leaseMs: number;
  /** Longest that a run takes; each takes a share of it that follows from its tick. */
  readonly workSeconds: number;
}

export type TickerReason = 'scheduled' | 'missed' | 'owed' | 'catch-up' | 'take-over';

export type TickerEvent =
  | { readonly event: 'ready' }
  | { readonly event: 'started'; readonly due: number; readonly reason: TickerReason; readonly held: boolean }
  /** `lost`: another daemon has taken it over, so the child was killed. */
  | { readonly event: 'completed' | 'lost'; readonly due: number }
  | { readonly event: 'fault'; readonly message: string };

const options = JSON.parse(process.argv[2] ?? '') as TickerOptions;
const { job } = options;
const say = (event: TickerEvent) => process.stdout.write(`${JSON.stringify(event)}\n`);
const coordinator = openRedisCoordinator({
  url: options.url,
  daemonId: options.id,
  storeOf: () => options.store,
  leaseMs: options.leaseMs,
});
const running = new Map<number, { readonly child: ChildProcess; readonly done: Promise<void> }>();
/** Ticks that may be ours: nobody could be asked when they were due. */
const owed = new Map<number, TickerReason>();
let isHeld = false;
let isStopping = false;

/** The line is written by one `write` of a file opened for appending, when the child is told to go on. */
const SCRIPT = 'sleep "$1" && read -r go && printf "%s\\n" "$2" >>"$3"';

function start(tick: Tick, reason: TickerReason): void {
  if (running.has(tick.dueAtMs)) return;
  const work = ((tick.dueAtMs / 1000) % 5) * 0.25 * options.workSeconds;
  const args = ['-c', SCRIPT, 'run', String(work), `${tick.dueAtMs} ${options.id}`, options.file];
  const child = spawn('/bin/sh', args, { stdio: ['pipe', 'ignore', 'inherit'] });
  // A child that was killed does not read to the end.
  child.stdin.on('error', () => undefined);
  if (!isHeld) child.stdin.write('go\n');
  running.set(tick.dueAtMs, { child, done: follow(tick, child) });
  say({ event: 'started', due: tick.dueAtMs, reason, held: isHeld });
}

async function follow(tick: Tick, child: ChildProcess): Promise<void> {
  let isLost = false;
  const renewal = setInterval(() => {
    guard(async () => {
      if ((await coordinator.renew(tick)) || !running.has(tick.dueAtMs)) return;
      isLost = true;
      child.kill('SIGKILL');
    });
  }, options.leaseMs / 4);
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
  clearInterval(renewal);
  running.delete(tick.dueAtMs);
  if (!isLost && code === 0) await guard(() => coordinator.complete(tick));
  say({ event: isLost ? 'lost' : 'completed', due: tick.dueAtMs });
}

async function guard(action: () => Promise<void>): Promise<void> {
  await action().catch((error: unknown) => {
    if (!isFault(error)) throw error;
    say({ event: 'fault', message: error.message });
  });
}

async function claimOwed(): Promise<void> {
  for (const [due, reason] of [...owed].sort(([a], [b]) => a - b)) {
    const tick = { job, dueAtMs: due };
    if (await coordinator.claim(tick)) start(tick, reason);
    owed.delete(due);
  }
}

const task = createTask('* * * * * *', ({ date }) => start({ job, dueAtMs: date.getTime() }, 'scheduled'), {
  timezone: 'America/New_York',
  name: job,
  distributed: true,
  runCoordinator: coordinator.forJob(job),
  suppressMissedWarning: true,
  // What it says of faults is said by the event, once.
  logger: { info: () => undefined, warn: () => undefined, error: () => undefined, debug: () => undefined },
});
task.on('execution:missed', ({ date }) => void owed.set(date.getTime(), 'missed'));
task.on('execution:skipped', ({ date, reason }) => {
  if (reason === 'coordinator-error') owed.set(date.getTime(), 'owed');
});

const fromMs = await coordinator.lastTick(job);
await task.start();
if (fromMs !== undefined) {
  for (let due = fromMs + 1000; due <= Date.now(); due += 1000) if (!owed.has(due)) owed.set(due, 'catch-up');
}
let polling: Promise<void> = Promise.resolve();
let isPolling = false;
const poll = setInterval(() => {
  if (isPolling || isStopping) return;
  isPolling = true;
  polling = guard(async () => {
    await claimOwed();
    for (const tick of await coordinator.takeOver([job])) start(tick, 'take-over');
  }).finally(() => {
    isPolling = false;
  });
}, options.leaseMs / 4);
say({ event: 'ready' });

for await (const line of createInterface({ input: process.stdin })) {
  isHeld = line === 'hold';
  if (!isHeld) for (const { child } of running.values()) child.stdin?.write('go\n');
}
isStopping = true;
clearInterval(poll);
await task.destroy();
await polling;
await Promise.all([...running.values()].map(({ done }) => done));
await guard(async () => void (await coordinator.takeOver([])));
await coordinator.close();
