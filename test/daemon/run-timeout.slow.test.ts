/**
 * Runs that take too long, as real processes that do not listen, under a clock that the test moves. What becomes of the
 * job afterwards, and how a run's time is counted, is in `loop-faults.slow.test.ts`.
 */

import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createDaemon } from '../../src/daemon/daemon.ts';
import { startRunProcess } from '../../src/daemon/run-process.ts';
import { RENEW_MS } from '../../src/daemon/state.ts';
import { parseJob } from '../../src/job/parse.ts';
import type { RunRecord } from '../../src/state/run-record.ts';
import { makeFolder } from '../support/flowdrop.ts';
import { createSilentLog } from '../support/log.ts';
import { answerCommands, createOutside, jobText } from './loop.ts';
import { makeStatus } from './web/views.ts';

const DEAF = 'process.on("SIGTERM", () => {}); console.error("."); setInterval(() => {}, 1000)';
const LISTENS = 'process.on("SIGTERM", () => process.exit(130)); console.error("."); setInterval(() => {}, 1000)';
const QUICK = 'console.log("{}")';
/** Time that a run has in these tests, and how long one that was asked to stop is waited for. */
const TIMEOUT_MS = 60_000;
const GRACE_MS = 9_000;
/** Between two steps of the loop. */
const STEP_MS = 1_000;

const log = createSilentLog();
let folder: string;
let remove: () => Promise<void>;
let stop: () => Promise<void> = async () => undefined;
beforeEach(async () => {
  ({ path: folder, remove } = await makeFolder());
});
afterEach(async () => {
  await stop();
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

/** A daemon of which each job has missed a tick and runs a script. */
async function startDaemon(scripts: Readonly<Record<string, string>>, isLost = () => false) {
  const clock = createHeldClock();
  const isShared = Object.keys(scripts).length === 1;
  const alerts: string[] = [];
  const ends = new Map<string, Pick<RunRecord, 'outcome' | 'error'>>();
  const outside = createOutside();
  const daemon = createDaemon({
    ...{ ...outside, clock, log, maxRuns: 2, hasAlerts: () => true },
    async readFiles() {
      const jobs = Object.keys(scripts).map((name) => {
        const schedule = `cron: "0 12 * * 1-5", timeout: 1m, retry: off${isShared ? ', distributed: true' : ''}`;
        return { job: parseJob(`${name}.yaml`, jobText(name, schedule)), path: name, fault: undefined };
      });
      return { jobs, unusable: [] };
    },
    commands: answerCommands(async (verb, file, what = '') => {
      if (verb === 'status') return [makeStatus(file)];
      alerts.push(`${file} ${what}`);
      return undefined;
    }),
    coordinator: {
      claim: async () => true,
      renew: async () => !isLost(),
      complete: async () => undefined,
      takeOver: async () => [],
      lastTick: async () => undefined,
      close: async () => undefined,
    },
    async startRun({ job: { name } }, runId) {
      const command = {
        executable: process.execPath,
        args: ['-e', scripts[name] ?? ''],
        env: { PATH: process.env['PATH'] },
        cwd: folder,
      };
      await mkdir(join(folder, name), { recursive: true });
      return await startRunProcess(command, { runId, logFile: join(folder, name, `${runId}.log`), log });
    },
    historyOf: (job) => ({
      ...outside.historyOf(job),
      async settle(_id, end) {
        ends.set(job, end);
      },
    }),
  });
  const stopping = new AbortController();
  const running = daemon.run(stopping.signal);
  stop = async () => {
    stopping.abort();
    // Whoever is deaf is killed.
    const waker = setInterval(() => clock.wake(GRACE_MS), 20);
    await running;
    clearInterval(waker);
  };
  const viewOf = (name: string) => daemon.view().jobs.find((job) => job.name === name);
  await vi.waitUntil(() => Object.keys(scripts).every((name) => viewOf(name)?.waiting_since !== null));
  await vi.waitUntil(() => clock.wake(STEP_MS) > 0);
  /** The script has begun: it has said so in its log. */
  const untilBegun = async (...names: readonly string[]) => {
    for (const name of names) {
      await vi.waitFor(
        async () => {
          const runId = viewOf(name)?.running?.id ?? '';
          expect(await readFile(join(folder, name, `${runId}.log`), 'utf8')).toContain('.');
        },
        { timeout: 30_000, interval: 20 },
      );
    }
  };
  const untilEnded = (name: string) => vi.waitUntil(() => ends.get(name), { timeout: 30_000, interval: 20 });
  return { clock, alerts, viewOf, untilBegun, untilEnded };
}

describe('runs that hang', () => {
  it('in every place are stopped when their time is over, killed when they are deaf, and give their places on', async () => {
    const test = await startDaemon({ deaf: DEAF, listens: LISTENS, quick: QUICK });
    const { clock, alerts, viewOf, untilBegun, untilEnded } = test;
    await untilBegun('deaf', 'listens');
    expect(viewOf('quick')?.waiting_since).not.toBeNull();
    // Beside the reading of the job files.
    await vi.waitUntil(() => clock.count(TIMEOUT_MS) >= 3);
    clock.wake(TIMEOUT_MS);
    expect(await untilEnded('listens')).toMatchObject({ outcome: 'timed-out' });
    expect(await untilEnded('quick')).toMatchObject({ outcome: 'done' });
    expect(viewOf('deaf')?.running).toBeDefined();
    expect(clock.wake(GRACE_MS)).toBe(1);
    expect(await untilEnded('deaf')).toMatchObject({
      outcome: 'timed-out',
      error: { code: 'RUN_TIMED_OUT', message: expect.stringContaining('1 min') },
    });
    await vi.waitUntil(
      () => clock.wake(STEP_MS) > 0 && alerts.filter((alert) => alert.endsWith('--died')).length === 2,
    );
    expect(clock.count(GRACE_MS)).toBe(0);
  });

  it('when another daemon has taken them over are killed too, and have not timed out', async () => {
    let isLost = false;
    const { clock, alerts, untilBegun, untilEnded } = await startDaemon({ deaf: DEAF }, () => isLost);
    await untilBegun('deaf');
    isLost = true;
    clock.wake(RENEW_MS);
    await vi.waitUntil(() => clock.wake(GRACE_MS) === 1);
    expect(await untilEnded('deaf')).toMatchObject({ outcome: 'interrupted', error: { code: 'ENDED_BY_SIGNAL' } });
    expect(alerts).toEqual([]);
  });
});
