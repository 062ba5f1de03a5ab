/**
 * One attempt of one worker: the command as a user starts it, killed when its plan says so, with its disk broken when the
 * plan says so. It tells how the attempt ended, and judges nothing.
 */
import type { ChildProcess } from 'node:child_process';
import { flowdrop } from '../support/flowdrop.ts';
import { limitFileSize, type SmallDisk } from '../support/small-disk.ts';
import type { ApiWatch } from './api.ts';
import type { Place } from './place.ts';
import type { DiskFault, Kill } from './scenario.ts';

export interface Attempt {
  /** The exit code; `null` when it ended by a signal. */
  readonly code: number | null;
  readonly kill: Kill['at'] | 'stalled' | 'hung' | undefined;
  readonly disk: DiskFault['how'] | undefined;
  readonly stdout: string;
  readonly stderr: string;
  readonly ms: number;
}

export interface AttemptSetup {
  readonly job: string;
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly api: ApiWatch;
  readonly place: Place;
  readonly kill: Kill | undefined;
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
  const { job, cwd, env, api, place, kill, diskFault, disk, usualMs } = setup;
  const started = performance.now();
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
  const after = (ms: number, act: () => void) => {
    const timer = setTimeout(act, ms);
    stops.push(() => clearTimeout(timer));
  };
  const finished = await flowdrop(['run', job], {
    cwd,
    env,
    onStart(child) {
      const pid = child.pid ?? 0; // It has one unless it could not be started, and then `flowdrop` throws.
      // A limit of a process that has just ended cannot be set, which is no failure.
      const breakLater = () => void breaking.push(breakDisk(pid).catch(() => undefined));
      if (diskFault && !isEarly) {
        if (diskFault.when === 'start') breakLater();
        else stops.push(api.onPage(2, breakLater));
      }
      after(HUNG_AFTER_MS, () => end(child, 'hung'));
      stops.push(api.onStall(() => after(STALLED_AFTER_MS, () => end(child, 'stalled'))));
      if (kill?.at === 'moment') after(kill.share * usualMs, () => end(child, 'moment'));
      if (kill?.at === 'page') stops.push(api.onPage(kill.count, () => end(child, 'page')));
      if (kill?.at === 'publishing') stops.push(place.onOperation(kill.count, () => end(child, 'publishing')));
      if (kill?.at === 'sealing') {
        child.stderr?.on('data', (chunk: Buffer) => {
          if (/"event":"recounted".*"changed":0/.test(chunk.toString()))
            after(kill.afterMs, () => end(child, 'sealing'));
        });
      }
    },
  });
  hasEnded = true;
  for (const stop of stops) stop();
  await Promise.all(breaking);
  // A kill that came after the end hit nothing.
  const hit = finished.code === null ? killed : undefined;
  return { ...finished, kill: hit, disk: broken, ms: performance.now() - started };
}
