/**
 * The daemon's loop with children of its own making and a clock of the test's; whole processes are at the end. What a
 * run does is tested in `test/flow`.
 */
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { type Clock, systemClock } from '../../src/core/clock.ts';
import { type ChildRun, runDaemon, type ScheduledJob } from '../../src/daemon/daemon.ts';
import { findMissedTick } from '../../src/daemon/missed.ts';
import { flowdrop, listFiles, MAIN, makeFolder, startService, type TestService } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';
import { createSilentLog } from '../support/log.ts';

const MINUTE = 60_000;
const DAY = 86_400_000;
const now = Date.parse('2026-11-20T12:00:30Z');

describe('a missed tick', () => {
  const daily = (date: Date) => date.getUTCHours() === 6 && date.getUTCMinutes() === 0;
  it('is the newest one since the last run', () => {
    expect(findMissedTick(daily, now - 3 * DAY, now)).toEqual(new Date('2026-11-20T06:00:00Z'));
  });
  it('is none when the job ran after it', () => {
    expect(findMissedTick(daily, now - 5 * 60 * MINUTE, now)).toBeUndefined();
  });
  it('is looked for inside the lookback only', () => {
    const old = (date: Date) => date.getTime() <= now - 16 * DAY;
    expect(findMissedTick(old, undefined, now)).toBeUndefined();
  });
  it('is due for a job that never ran here', () => {
    expect(findMissedTick(daily, undefined, now)).toEqual(new Date('2026-11-20T06:00:00Z'));
  });
});

describe('the loop', () => {
  const job = (name: string, lastStartedAtMs: number | undefined, cron = '0 6 * * *'): ScheduledJob => ({
    name,
    schedule: { cron, timezone: 'Etc/UTC' },
    lastStartedAtMs,
  });

  it('catches up at start what was missed, once per job, and leaves the others alone', async () => {
    const stop = new AbortController();
    const started: string[] = [];
    await run([job('missed', now - 2 * DAY), job('fresh', now - MINUTE)], stop, (name) => {
      started.push(name);
      stop.abort();
      return ended(0);
    });
    expect(started).toEqual(['missed']);
  });

  it('stops its children in order, and kills those that do not stop in time', async () => {
    const stop = new AbortController();
    const calls: string[] = [];
    let finish: (code: number) => void = () => undefined;
    const done = new Promise<number>((resolve) => {
      finish = resolve;
    });
    await run(
      [job('stubborn', undefined)],
      stop,
      () => {
        queueMicrotask(() => stop.abort());
        const kill = () => {
          calls.push('kill');
          finish(137);
        };
        return { done, stop: () => void calls.push('stop'), kill };
      },
      { now: () => now, sleep: async (ms) => void calls.push(`waited ${ms}`) },
    );
    expect(calls).toEqual(['stop', 'waited 10000', 'kill']);
  });

  it('does not start a job whose last run is still going on', async () => {
    vi.useFakeTimers({ now, toFake: ['Date', 'setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] });
    try {
      const stop = new AbortController();
      let starts = 0;
      let finish: (code: number) => void = () => undefined;
      const daemon = runDaemon([job('slow', now, '* * * * *')], {
        clock: systemClock,
        log: createSilentLog(),
        signal: stop.signal,
        startRun: () => {
          starts += 1;
          return { done: new Promise((resolve) => (finish = resolve)), stop: () => finish(130), kill: () => undefined };
        },
      });
      await vi.advanceTimersByTimeAsync(3 * MINUTE);
      expect(starts).toBe(1);
      finish(0);
      await vi.advanceTimersByTimeAsync(MINUTE);
      expect(starts).toBe(2);
      stop.abort();
      await vi.advanceTimersByTimeAsync(11_000);
      await daemon;
    } finally {
      vi.useRealTimers();
    }
  });

  async function run(
    jobs: readonly ScheduledJob[],
    stop: AbortController,
    startRun: (job: string) => ChildRun,
    clock?: Clock,
  ) {
    await runDaemon(jobs, {
      clock: clock ?? { now: () => now, sleep: systemClock.sleep },
      log: createSilentLog(),
      startRun,
      signal: stop.signal,
    });
  }

  const ended = (code: number): ChildRun => ({
    done: Promise.resolve(code),
    stop: () => undefined,
    kill: () => undefined,
  });
});

describe('flowdrop start', () => {
  let service: TestService;
  let cwd: string;
  let remove: () => Promise<void>;
  beforeAll(async () => {
    service = await startService(['--generate', '1', '--generate-rows', '300']);
    ({ path: cwd, remove } = await makeFolder());
  });
  afterAll(async () => {
    await service.stop();
    await remove();
  });

  it('runs a job that never ran as a catch-up, in a process of its own, and stops on SIGTERM', async () => {
    await writeJob(cwd, { name: 'nightly', reports: '', schedule: 'schedule:\n  cron: "30 17 * * 1-5"' });
    const child = spawn(process.execPath, [MAIN, '--jobs', '.', 'start'], {
      cwd,
      env: { PATH: process.env['PATH'], ...service.env },
    });
    const lines: Record<string, unknown>[] = [];
    const exit = new Promise<number | null>((resolve) => child.once('exit', resolve));
    for await (const line of createInterface({ input: child.stderr })) {
      const entry = JSON.parse(line) as Record<string, unknown>;
      lines.push(entry);
      if (entry['event'] === 'finished') child.kill('SIGTERM');
    }
    expect(await exit).toBe(0);
    expect(lines.find(({ event }) => event === 'scheduled')).toMatchObject({
      job: 'nightly',
      next: expect.stringContaining(':30:00.000Z'),
    });
    expect(lines.find(({ event }) => event === 'finished')).toMatchObject({ job: 'nightly', code: 0 });
    expect((await listFiles(cwd)).filter((name) => name.endsWith('manifest.json'))).toHaveLength(1);
  });

  it('refuses a folder without a scheduled job', async () => {
    const { path, remove: removeEmpty } = await makeFolder();
    await writeJob(path, { reports: '' });
    expect(await flowdrop(['--jobs', '.', 'start'], { cwd: path })).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('schedule'),
    });
    await removeEmpty();
  });
});
