/**
 * Runs that take too long, as real processes that do not listen, under a clock that the test moves. What becomes of the
 * job afterwards is in `loop-faults.test.ts`.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { startRunProcess } from '../../src/daemon/run-process.ts';
import { untilTimeout } from '../../src/daemon/run-timeout.ts';
import { createRuns, type Runs } from '../../src/daemon/runs.ts';
import type { FinishedRun } from '../../src/daemon/view.ts';
import { createFakeClock } from '../support/fake-clock.ts';
import { makeFolder } from '../support/flowdrop.ts';
import { createSilentLog } from '../support/log.ts';

const DEAF = 'process.on("SIGTERM", () => {}); console.error("."); setInterval(() => {}, 1000)';
const LISTENS = 'process.on("SIGTERM", () => process.exit(130)); console.error("."); setInterval(() => {}, 1000)';
const QUICK = 'console.log("{}")';
const HOUR = 3_600_000;

const log = createSilentLog();
let folder: string;
let remove: () => Promise<void>;
let runs: Runs | undefined;
beforeEach(async () => {
  ({ path: folder, remove } = await makeFolder());
});
afterEach(async () => {
  runs?.stop();
  runs?.kill();
  await runs?.untilIdle();
  await remove();
});

/** Sleepers wait until the test says that a time of that length has passed. */
function createHeldClock() {
  const sleepers = new Set<{ readonly ms: number; wake(): void }>();
  return {
    now: () => Date.now(),
    sleep: (ms: number, signal?: AbortSignal) =>
      new Promise<void>((resolve, reject) => {
        const sleeper = { ms, wake: resolve };
        sleepers.add(sleeper);
        signal?.addEventListener('abort', () => {
          sleepers.delete(sleeper);
          reject(signal.reason as Error);
        });
      }),
    /** Lets those wake that sleep so long, and tells how many. */
    wake(ms: number): number {
      const due = [...sleepers].filter((sleeper) => sleeper.ms === ms);
      for (const sleeper of due) {
        sleepers.delete(sleeper);
        sleeper.wake();
      }
      return due.length;
    },
    count: (ms: number) => [...sleepers].filter((sleeper) => sleeper.ms === ms).length,
  };
}

function createTestRuns(scripts: Readonly<Record<string, string>>) {
  const clock = createHeldClock();
  const finished = new Map<string, FinishedRun & { readonly isUntold: boolean }>();
  let count = 0;
  runs = createRuns({
    ...{ clock, log, maxRuns: 2, expiryOf: () => 0, timeoutOf: () => 30_000 },
    newRunId() {
      count += 1;
      return `run-${count}`;
    },
    async startRun({ job }, runId) {
      const args = ['-e', scripts[job] ?? ''];
      const command = { executable: process.execPath, args, env: { PATH: process.env['PATH'] }, cwd: folder };
      return await startRunProcess(command, { runId, logsDir: join(folder, job), log });
    },
    onEnd: ({ job }, run, isUntold) => void finished.set(job, { ...run, isUntold }),
  });
  const add = (job: string) => {
    runs?.add({ job, reason: 'scheduled', tickMs: Date.now() });
    clock.wake(100);
  };
  /** The script has begun: it has said so in its log. */
  const untilBegun = async (...jobs: readonly string[]) => {
    for (const job of jobs) {
      await vi.waitFor(
        async () => {
          const runId = runs?.running(job)?.runId ?? '';
          expect(await readFile(join(folder, job, `${runId}.log`), 'utf8')).toContain('.');
        },
        { timeout: 30_000, interval: 20 },
      );
    }
  };
  return { clock, finished, add, untilBegun };
}

describe('runs that hang', () => {
  it('in every place are stopped when their time is over, killed when they are deaf, and give their places on', async () => {
    const { clock, finished, add, untilBegun } = createTestRuns({ deaf: DEAF, listens: LISTENS, quick: QUICK });
    for (const job of ['deaf', 'listens', 'quick']) add(job);
    await untilBegun('deaf', 'listens');
    expect(runs?.names()).toEqual(['deaf', 'listens']);
    expect(clock.wake(30_000)).toBe(2);
    await vi.waitFor(() => expect([...finished.keys()].sort()).toEqual(['listens', 'quick']), { timeout: 30_000 });
    expect(finished.get('listens')).toMatchObject({ outcome: 'timed-out', code: 130, isUntold: true });
    expect(finished.get('quick')).toMatchObject({ outcome: 'done', isUntold: false });
    expect(runs?.has('deaf')).toBe(true);
    expect(clock.wake(9_000)).toBe(1);
    await vi.waitFor(() => expect(finished.get('deaf')).toBeDefined(), { timeout: 30_000 });
    expect(finished.get('deaf')).toMatchObject({
      ...{ outcome: 'timed-out', signal: 'SIGKILL', isUntold: true },
      error: { code: 'RUN_TIMED_OUT', message: expect.stringContaining('30.0 s') },
    });
    // Nothing is left to wake: no timer outlives its run.
    expect(clock.count(30_000) + clock.count(9_000)).toBe(0);
  });

  it('when they are cancelled are killed too, and have not timed out', async () => {
    const { clock, finished, add, untilBegun } = createTestRuns({ deaf: DEAF });
    add('deaf');
    await untilBegun('deaf');
    runs?.cancel('deaf');
    expect(clock.wake(9_000)).toBe(1);
    await vi.waitFor(() => expect(finished.get('deaf')).toBeDefined(), { timeout: 30_000 });
    expect(finished.get('deaf')).toMatchObject({ outcome: 'interrupted', error: undefined, isUntold: false });
  });
});

describe('the time that a run may take', () => {
  it('is counted in the time that was slept, however the clock is set meanwhile', async () => {
    const clock = createFakeClock();
    const jumpy = {
      now: clock.now,
      async sleep(ms: number, signal?: AbortSignal) {
        await clock.sleep(ms, signal);
        // The machine sleeps for a day after each minute.
        clock.advance(24 * HOUR);
      },
    };
    const ended = new AbortController().signal;
    expect(await untilTimeout({ clock: jumpy, timeoutMs: () => 8 * HOUR + 500, ended })).toBe(8 * HOUR + 500);
    expect(clock.slept).toHaveLength(481);
    expect(clock.slept.reduce((sum, ms) => sum + ms, 0)).toBe(8 * HOUR + 500);
  });

  it('is what the job file says by now', async () => {
    const clock = createFakeClock();
    const ended = new AbortController().signal;
    const timeoutMs = () => (clock.slept.length < 5 ? Number.POSITIVE_INFINITY : HOUR);
    expect(await untilTimeout({ clock, timeoutMs, ended })).toBe(HOUR);
    expect(clock.slept).toHaveLength(60);
  });
});
