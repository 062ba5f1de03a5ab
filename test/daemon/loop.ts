/** The daemon's real loop under vitest's fake timers, with runs, documents and job files of the test's making. */
import { pino } from 'pino';
import { afterEach, vi } from 'vitest';
import { type CalendarOverride, NO_OVERRIDE } from '../../src/calendar/session.ts';
import { type Clock, systemClock } from '../../src/core/clock.ts';
import { createDaemon, type Daemon } from '../../src/daemon/daemon.ts';
import type { FiledJob } from '../../src/daemon/job-files.ts';
import type { ChildEnd } from '../../src/daemon/run-process.ts';
import type { Coordinator, Outside } from '../../src/daemon/state.ts';
import type { Job } from '../../src/job/job.ts';
import { parseJob } from '../../src/job/parse.ts';
import type { RunRecord } from '../../src/state/run-record.ts';
import { createSilentLog } from '../support/log.ts';
import { createRunRecord } from '../support/run-record.ts';
import { makeDate, makeStatus } from './web/views.ts';

export const MINUTE = 60_000;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

/** A Friday, 12:30 in New York. */
export const NOW = '2026-11-20T17:30:30Z';
/** The last run was before any tick of the day. */
export const TODAY = '2026-11-20T17:00:00Z';
/** At 22:30 UTC. */
export const DAILY = 'cron: "30 17 * * *"';
/** A retry comes, and would come once more after the second. */
export const TWO_TICKS = 'cron: "0 18,19 * * *", timezone: Etc/UTC, retry: 25m';

export interface StartedRun {
  readonly job: string;
  readonly reason: RunRecord['reason'];
  readonly atMs: number;
  isStopped: boolean;
  /** How often it was asked to stop. */
  stops: number;
  end(code: number | 'SIGKILL'): void;
}

export interface TestDaemon {
  readonly daemon: Daemon;
  /** Texts of the job files, by name; one that is changed to `broken` keeps its copy. */
  readonly files: Map<string, string>;
  readonly started: StartedRun[];
  readonly alerts: { readonly file: string; readonly args: readonly string[] }[];
  /** Job of each status read. */
  readonly statusReads: string[];
  readonly lines: Record<string, unknown>[];
  /** `HH:MM job` in UTC of each run started. */
  times(): readonly string[];
  change(): void;
  pass(ms: number): Promise<void>;
  /** May be called again. */
  stop(): Promise<void>;
}

export interface TestOptions {
  /** Default: `NOW`. */
  readonly now?: string;
  /** Lines of the schedule of the only job, `a`. Default: `DAILY`. */
  readonly schedule?: string;
  /** Job name to the lines of its schedule. */
  readonly jobs?: Readonly<Record<string, string>>;
  /** Default: `TODAY` for each job. */
  readonly lastRuns?: Readonly<Record<string, string>>;
  /** Pending dates with when they begin to expire. */
  readonly pending?: Readonly<Record<string, readonly string[]>>;
  /** When the next deadline of each job passes. */
  readonly deadline?: string;
  readonly maxRuns?: number;
  readonly calendar?: CalendarOverride;
  readonly coordinator?: Coordinator;
  /** Whether an alert cannot be sent now. */
  readonly isAlertDown?: () => boolean | Promise<boolean>;
  /** Whether runs record nothing of their end. */
  readonly isSilent?: boolean;
  /** How a run ends that is asked to stop; with SIGKILL it is deaf, and ends when it is killed. Default: 130. */
  readonly stopWith?: 'SIGKILL' | 0 | 3;
  /** How long a run takes to stop. Default: no time. */
  readonly stopMs?: number;
  /** How long a status takes to be read. */
  readonly statusMs?: (job: string) => number;
  /** What the machine remembers of earlier runs. */
  readonly runs?: readonly RunRecord[];
  /** Dates that each run holds back. */
  readonly held?: readonly string[];
  /** Exit code of each run, at once; without it the test ends them. */
  readonly code?: (job: string, count: number) => number | 'SIGKILL';
  /** What each run prints. */
  readonly stdout?: string;
}

export function jobText(name: string, schedule: string): string {
  return `name: ${name}\nsource:\n  api: historical\ndrop:\n  to: drops\n  dataset: ${name}\nschedule: { ${schedule} }\nalerts:\n  to: [ops@example.com]\n`;
}

const clock: Clock = {
  now: () => Date.now(),
  sleep: (ms, signal) =>
    new Promise((resolve, reject) => {
      const stop = () => {
        clearTimeout(timer);
        reject(signal?.reason as Error);
      };
      const timer = setTimeout(() => {
        signal?.removeEventListener('abort', stop);
        resolve();
      }, ms);
      if (signal?.aborted) return stop();
      signal?.addEventListener('abort', stop, { once: true });
    }),
};

/** Daemons of the tests of a file, each of which ends with its test. To be called outside of any test. */
export function useDaemon() {
  let test: TestDaemon | undefined;
  afterEach(async () => {
    await test?.stop();
    test = undefined;
  });
  async function start(options: TestOptions = {}): Promise<TestDaemon> {
    test = await startDaemon(options);
    return test;
  }
  const viewOf = (name = 'a') => test?.daemon.view().jobs.find((job) => job.name === name);
  /** Outcome and reason of the runs of a job, newest first. */
  const runsOf = (name = 'a') => viewOf(name)?.runs.map(({ outcome, reason }) => `${outcome} ${reason}`);
  return { start, viewOf, runsOf };
}

async function startDaemon(options: TestOptions): Promise<TestDaemon> {
  const { now = NOW, jobs = { a: options.schedule ?? DAILY } } = options;
  const { lastRuns = Object.fromEntries(Object.keys(jobs).map((name) => [name, TODAY])) } = options;
  const files = new Map(Object.entries(jobs).map(([name, schedule]) => [name, jobText(name, schedule)]));
  const good = new Map<string, { readonly text: string; readonly job: Job }>();
  const readFiles = (): readonly FiledJob[] =>
    [...files].map(([name, text]) => {
      const file = `jobs/${name}.yaml`;
      const isBroken = text.startsWith('broken');
      if (!isBroken && good.get(name)?.text !== text) good.set(name, { text, job: parseJob(file, text) });
      const job = good.get(name)?.job ?? parseJob(file, '');
      return isBroken
        ? { job, path: `kept/${name}.yaml`, fault: `${file} is ${text}` }
        : { job, path: file, fault: undefined };
    });
  vi.useFakeTimers({
    now: Date.parse(now),
    toFake: ['Date', 'setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'],
  });
  const started: StartedRun[] = [];
  const records = new Map(options.runs?.map((run) => [run.id, run]));
  const alerts: { readonly file: string; readonly args: readonly string[] }[] = [];
  const statusReads: string[] = [];
  const lines: Record<string, unknown>[] = [];
  const log = pino({ level: 'debug' }, { write: (line: string) => void lines.push(JSON.parse(line)) });
  const reasons = new Map<string, RunRecord['reason']>();
  const daemon = createDaemon({
    ...createOutside(),
    ...{ clock, log, maxRuns: options.maxRuns ?? 2, coordinator: options.coordinator, hasAlerts: () => true },
    readFiles: async () => ({ jobs: readFiles(), unusable: [] }),
    commands: answerCommands(async (verb, file, ...args) => {
      if (verb === 'status') {
        const status = buildStatus(file, options.pending ?? {}, options.deadline);
        statusReads.push(status.job);
        const ms = options.statusMs?.(status.job);
        if (ms !== undefined) await clock.sleep(ms);
        return [status];
      }
      if (await options.isAlertDown?.()) throw new Error('the mail server is away');
      alerts.push({ file, args });
      return undefined;
    }),
    calendar: options.calendar ?? NO_OVERRIDE,
    async startRun({ job }, runId, { reason }) {
      let end: (code: number | 'SIGKILL') => void = () => undefined;
      reasons.set(runId, reason);
      const done = new Promise<ChildEnd>((resolve) => {
        end = (code) => {
          const record = options.isSilent ? undefined : recordEnd(job.name, runId, code, options.held ?? []);
          if (record) records.set(runId, record);
          resolve({
            code: code === 'SIGKILL' ? undefined : code,
            signal: code === 'SIGKILL' ? code : undefined,
            stdout: options.stdout ?? '',
            stderr: '',
          });
        };
      });
      const run = { job: job.name, reason, atMs: Date.now(), stops: 0, isStopped: false, end };
      started.push(run);
      const code = options.code?.(job.name, started.length);
      if (code !== undefined) end(code);
      const stop = () => {
        run.stops += 1;
        run.isStopped = true;
        if (options.stopWith === 'SIGKILL') return;
        if (options.stopMs === undefined) end(options.stopWith ?? 130);
        else setTimeout(() => end(options.stopWith ?? 130), options.stopMs);
      };
      return { logFile: undefined, done, stop, kill: () => end('SIGKILL') };
    },
    historyOf: (job) => ({
      read: async (runId) => records.get(runId),
      async settle(runId, { outcome, error }) {
        const record = records.get(runId) ?? createRunRecord({ id: runId, job, error });
        records.set(runId, { ...record, reason: reasons.get(runId) ?? record.reason, outcome });
        return records.get(runId);
      },
      async lastRunAt() {
        const last = lastRuns[job];
        return last === undefined ? undefined : Date.parse(last);
      },
    }),
    runs: {
      of: (name) => [...records.values()].filter(({ job }) => job === name).toReversed(),
      refresh: async () => undefined,
    },
  });
  const stopping = new AbortController();
  const running = daemon.run(stopping.signal);
  let stopped: Promise<void> | undefined;
  const stop = async () => {
    stopping.abort();
    await settle();
    await vi.advanceTimersByTimeAsync(10_000);
    await running;
    vi.useRealTimers();
  };
  const test: TestDaemon = {
    ...{ daemon, files, started, alerts, statusReads, lines },
    times: () => started.map(({ job, atMs }) => `${new Date(atMs).toISOString().slice(11, 16)} ${job}`),
    change: () => void daemon.reload(),
    async pass(ms) {
      await vi.advanceTimersByTimeAsync(ms);
      await settle();
    },
    stop: () => (stopped ??= stop()),
  };
  await settle();
  // What is due at start gathers first.
  await test.pass(1_000);
  return test;
}

/** A world in which nothing happens. */
export function createOutside(): Outside {
  return {
    ...{ clock: systemClock, log: createSilentLog(), version: '1', id: 'test', maxRuns: 1 },
    readFiles: async () => ({ jobs: [], unusable: [] }),
    commands: answerCommands(async (verb, file) => (verb === 'status' ? [makeStatus(file)] : undefined)),
    historyOf: () => ({
      read: async () => undefined,
      settle: async () => undefined,
      lastRunAt: async () => undefined,
    }),
    runs: { of: () => [], refresh: async () => undefined },
    startRun: () => Promise.reject(new Error('nothing is due')),
    calendar: NO_OVERRIDE,
    hasAlerts: () => false,
  };
}

/** Commands that print what is said here. */
export function answerCommands(
  answer: (verb: string, ...args: readonly string[]) => Promise<unknown>,
): Outside['commands'] {
  return {
    read: async <T>([verb, ...args]: readonly [string, ...string[]]) => (await answer(verb, ...args)) as T,
    stop: () => undefined,
    kill: () => undefined,
    untilIdle: async () => undefined,
  };
}

/** Lets everything go on that needs no time. */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < 10; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}

/** What a run records of its end; a killed one nothing. @param held dates that it held back */
function recordEnd(job: string, id: string, code: number | 'SIGKILL', held: readonly string[]): RunRecord | undefined {
  const outcomes = { 0: 'done', 1: 'failed', 2: 'usage', 3: 'incomplete', 4: 'active', 130: 'interrupted' } as const;
  if (code === 'SIGKILL') return undefined;
  const outcome = outcomes[code as keyof typeof outcomes];
  const error = outcome === 'failed' ? { code: 'API_DOWN', message: 'away' } : null;
  return createRunRecord({ id, job, outcome, error, has_open: held.length > 0 });
}

function buildStatus(
  file: string,
  pending: Readonly<Record<string, readonly string[]>>,
  deadline: string | null = null,
) {
  const job = file.replace(/^.*\/|\.yaml$/g, '');
  return makeStatus(job, {
    ...{ dataset: job, store: 'drops', last_success: null, next_run: null, next_deadline: deadline, reports: [] },
    dates: (pending[job] ?? []).map((at) => {
      const unsealed = { condition: 'pending', rows: null, revision: null } as const;
      return makeDate(at.slice(0, 10), { ...unsealed, begins_to_expire: at });
    }),
  });
}
