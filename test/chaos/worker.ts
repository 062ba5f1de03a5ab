/**
 * One attempt of one worker: the command as a user starts it, killed, stopped for a while, with its disk broken or its
 * store unmounted when the plan says so. It tells how the attempt ended, and judges nothing.
 */
import type { ChildProcess } from 'node:child_process';
import { flowdrop } from '../support/flowdrop.ts';
import { limitFileSize, type SmallDisk } from '../support/small-disk.ts';
import type { ApiWatch } from './api.ts';
import type { MailServer } from './mail.ts';
import type { Place } from './place.ts';
import type { DiskFault, Moment } from './trouble.ts';

export interface Attempt {
  /** The exit code; `null` when it ended by a signal. */
  readonly code: number | null;
  /** `leap`: the signal that moves its clock met it when it was ending, and ended it. */
  readonly kill: Moment['at'] | 'stalled' | 'hung' | 'leap' | undefined;
  /** Whether it slept, and when it fell asleep. */
  readonly slept: Moment['at'] | undefined;
  readonly disk: DiskFault['how'] | undefined;
  readonly stdout: string;
  readonly stderr: string;
  readonly worker: number;
  /** How far its clock was off. */
  readonly ownClockMs: number;
}

export interface AttemptSetup {
  readonly worker: number;
  readonly ownClockMs: number;
  readonly job: string;
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly api: ApiWatch;
  readonly place: Place;
  readonly mail: MailServer | undefined;
  readonly kill: Moment | undefined;
  /** When it is stopped, and what happens until it goes on. */
  readonly sleep: { readonly at: Moment; readonly meanwhile: () => Promise<void> } | undefined;
  /** When the store is unmounted. */
  readonly unmount: Moment | undefined;
  /** Whether every worker has met the store: one that has not takes an empty mount point for a new one. */
  readonly isStoreKnown: () => boolean;
  /** Called when it has said its first word. */
  readonly onStart: (pid: number | undefined) => void;
  /** Called with what it says. */
  readonly onLog: (text: string) => void;
  readonly onEnd: () => void;
  readonly diskFault: DiskFault | undefined;
  readonly disk: SmallDisk | undefined;
  /** How long an undisturbed attempt takes. */
  readonly usualMs: number;
}

/** An attempt that takes longer than any back-off explains has hung. */
const HUNG_AFTER_MS = 150_000;
/** An operator sees that nothing moves, and ends it. */
const STALLED_AFTER_MS = 300;

export async function runWorker(setup: AttemptSetup): Promise<Attempt> {
  const { worker, ownClockMs, job, cwd, env, api, place, mail, kill, sleep, diskFault, disk, usualMs } = setup;
  const stops: (() => void)[] = [];
  let killed: Attempt['kill'];
  let broken: Attempt['disk'];
  let hasEnded = false;
  const breakDisk = async (pid: number) => {
    if (!diskFault || hasEnded) return;
    if (diskFault.how === 'file-size') await limitFileSize(pid, diskFault.bytes);
    const isDone =
      diskFault.how === 'file-size' ||
      (diskFault.how === 'full' ? await disk?.fill(diskFault.bytes) : await disk?.makeReadOnly());
    if (isDone) broken = diskFault.how;
  };
  const isEarly = diskFault?.when === 'start' && diskFault.how !== 'file-size';
  if (isEarly) await breakDisk(0);
  const breaking: Promise<void>[] = [];
  const end = (child: ChildProcess, why: Attempt['kill']) => {
    if (hasEnded || killed || child.pid === undefined) return;
    killed = why;
    child.kill('SIGKILL');
  };
  let slept: Attempt['slept'];
  let asleep: Promise<void> | undefined;
  const stop = (child: ChildProcess, { at, meanwhile }: NonNullable<typeof sleep>) => {
    if (hasEnded || killed || asleep || child.exitCode !== null) return;
    slept = at.at;
    child.kill('SIGSTOP');
    asleep = meanwhile().finally(() => child.kill('SIGCONT'));
  };
  const after = (ms: number, act: () => void) => {
    const timer = setTimeout(act, ms);
    stops.push(() => clearTimeout(timer));
  };
  let process: ChildProcess | undefined;
  const finished = await flowdrop(['run', job], {
    cwd,
    env,
    onStart(child) {
      process = child;
      const pid = child.pid ?? 0; // It has one unless it could not be started, and then `flowdrop` throws.
      // A limit of a process that has just ended cannot be set, which is no failure.
      const breakLater = () => void breaking.push(breakDisk(pid).catch(() => undefined));
      if (diskFault && !isEarly) {
        if (diskFault.when === 'start') breakLater();
        else stops.push(api.onPage(2, breakLater));
      }
      after(HUNG_AFTER_MS, () => end(child, 'hung'));
      stops.push(api.onStall(() => after(STALLED_AFTER_MS, () => end(child, 'stalled'))));
      const when = (moment: Moment, act: () => void) => {
        if (moment.at === 'moment') after(moment.share * usualMs, act);
        else if (moment.at === 'page') stops.push(api.onPage(moment.count, act));
        else if (moment.at === 'publishing') stops.push(place.onOperation(moment.count, act));
        else if (moment.at === 'mail') stops.push(mail?.onMail(moment.count, moment.phase, act) ?? (() => undefined));
        else {
          child.stderr?.on('data', (chunk: Buffer) => {
            if (/"event":"recounted".*"changed":0/.test(chunk.toString())) after(moment.afterMs, act);
          });
        }
      };
      if (kill) when(kill, () => end(child, kill.at));
      if (sleep) when(sleep.at, () => stop(child, sleep));
      if (setup.unmount)
        when(setup.unmount, () => {
          if (!hasEnded && setup.isStoreKnown()) breaking.push(place.unmount());
        });
      child.stderr?.once('data', () => setup.onStart(child.pid));
      child.stderr?.on('data', (chunk: Buffer) => setup.onLog(chunk.toString()));
    },
  });
  hasEnded = true;
  setup.onEnd();
  for (const stop of stops) stop();
  await Promise.all(breaking);
  await asleep;
  // A kill that came after the end hit nothing.
  const signal: NodeJS.Signals | null | undefined = process?.signalCode;
  const hit = finished.code === null ? (killed ?? (signal === 'SIGUSR2' ? 'leap' : undefined)) : undefined;
  return { ...finished, worker, ownClockMs, kill: hit, slept, disk: broken };
}
