/**
 * Single steps of the daemon where order or time matters: readings of a status, alerts that do not get through, the time
 * that a run may take. Whole days are in `loop.test.ts` and `loop-faults.slow.test.ts`.
 */
import { describe, expect, it } from 'vitest';
import type { Ask, DaemonEvent, Effect, Rules } from '../../src/daemon/event.ts';
import { createState } from '../../src/daemon/state.ts';
import { step } from '../../src/daemon/step.ts';
import { parseJob } from '../../src/job/parse.ts';
import { createRunRecord } from '../support/run-record.ts';
import { jobText } from './loop.ts';
import { makeStatus } from './web/views.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const rules: Rules = {
  maxRuns: 1,
  newRunId: () => 'run',
  hasSession: () => true,
  hasAlerts: () => true,
  canStage: () => true,
  nextTick: () => undefined,
};

/** A daemon of one job, which takes one event after another. */
function createSteps(schedule = 'cron: "0 12 * * *"', known = rules) {
  let nowMs = Date.parse('2026-11-20T22:30:00Z');
  let state = createState(nowMs);
  const take = (event: DaemonEvent): readonly Effect[] => {
    const next = step(state, event, nowMs, known);
    ({ state } = next);
    return next.effects;
  };
  const read = (text: string, fault?: string) =>
    take({
      kind: 'files-read',
      reading: { jobs: [{ job: parseJob('a.yaml', text), path: 'a.yaml', fault }], unusable: [] },
      lastRuns: new Map(),
    });
  read(jobText('a', schedule));
  return {
    take,
    read,
    job: () => state.jobs.get('a'),
    pass: (ms: number) => {
      nowMs += ms;
    },
  };
}

const count = (effects: readonly Effect[], kind: Effect['kind']) =>
  effects.filter((effect) => effect.kind === kind).length;

describe('what a person asks for', () => {
  const ask = (kind: 'run' | 'backfill') => ({ kind: 'command', job: 'a', command: kind, options: [] }) as const;
  const end = (code: 0 | 1): DaemonEvent => ({
    ...{ kind: 'run-ended', job: 'a', runId: 'run', end: { code, signal: undefined, error: null } },
    record: createRunRecord({ outcome: code === 0 ? 'done' : 'failed' }),
  });
  const answerOf = (effects: readonly Effect[]) =>
    effects.flatMap((effect) => (effect.kind === 'answer' ? [effect.answer.outcome] : []));
  const due: DaemonEvent = { kind: 'due', due: { job: 'a', tickMs: 7, reason: 'scheduled' } };
  const asked = (request: Ask): DaemonEvent => ({ kind: 'asked', id: '1', ask: request });

  it('waits for a place as a tick does, and is refused while the job has a run', () => {
    const { take, job } = createSteps();
    expect(answerOf(take(asked(ask('backfill'))))).toEqual(['started']);
    expect(answerOf(take(asked(ask('run'))))).toEqual(['refused']);
    expect(job()?.run?.phase).toBe('waiting');
    const [started] = take({ kind: 'fill-places' }).filter(({ kind }) => kind === 'start-run');
    expect(started).toMatchObject({ due: { reason: 'asked', asked: { command: 'backfill' } } });
    expect(answerOf(take(asked(ask('run'))))).toEqual(['refused']);
  });

  it('lets a tick that comes meanwhile run after it, and is neither retried nor alerted itself', () => {
    const { take, job } = createSteps('cron: "0 12 * * *", retry: 1m');
    take(asked(ask('run')));
    take({ kind: 'fill-places' });
    take(due);
    const ended = take({
      kind: 'run-ended',
      job: 'a',
      runId: 'run',
      end: { code: 1, signal: undefined, error: null },
      record: undefined,
    });
    expect(ended.filter(({ kind }) => kind === 'send-alert' || kind === 'forget-unfinished')).toEqual([]);
    expect(job()?.retry).toBeUndefined();
    expect(job()?.run).toMatchObject({ phase: 'running', due: { tickMs: 7 } });
  });

  it('replaces the retry of a tick when it went well, and not when it was a backfill', () => {
    const { take, job } = createSteps('cron: "0 12 * * *", retry: 1m');
    const later: Rules = { ...rules, nextTick: () => Number.MAX_SAFE_INTEGER };
    const { take: takeLater, job: jobLater } = createSteps('cron: "0 12 * * *", retry: 1m', later);
    for (const each of [take, takeLater]) {
      each(due);
      each({ kind: 'fill-places' });
      each(end(1));
    }
    expect([job()?.retry, jobLater()?.retry?.due.tickMs]).toEqual([undefined, 7]);
    takeLater(asked(ask('backfill')));
    takeLater({ kind: 'fill-places' });
    takeLater(end(0));
    expect(jobLater()?.retry?.due.tickMs).toBe(7);
    takeLater(asked(ask('run')));
    takeLater({ kind: 'fill-places' });
    const over = takeLater(end(0));
    expect(count(over, 'forget-unfinished')).toBe(1);
    expect(jobLater()?.retry).toBeUndefined();
  });

  it('retries at once what a retry was planned for, and stops what runs or waits', () => {
    const later: Rules = { ...rules, nextTick: () => Number.MAX_SAFE_INTEGER };
    const { take, job } = createSteps('cron: "0 12 * * *", retry: 1m', later);
    expect(answerOf(take(asked({ kind: 'stop', job: 'a' })))).toEqual(['refused']);
    take(due);
    take({ kind: 'fill-places' });
    take({ kind: 'run-started', job: 'a', runId: 'run', logFile: undefined });
    take(end(1));
    expect(answerOf(take(asked({ kind: 'retry', job: 'a' })))).toEqual(['started']);
    expect(job()?.run).toMatchObject({ phase: 'waiting', due: { tickMs: 7, reason: 'retry' } });
    const stopped = take(asked({ kind: 'stop', job: 'a' }));
    expect([answerOf(stopped), count(stopped, 'forget-unfinished'), job()?.run]).toEqual([['done'], 1, undefined]);
    take(asked(ask('run')));
    take({ kind: 'fill-places' });
    take({ kind: 'run-started', job: 'a', runId: 'run', logFile: undefined });
    expect(count(take(asked({ kind: 'stop', job: 'a' })), 'stop-run')).toBe(1);
  });

  it('is refused for a job that is none, and once the daemon stops', () => {
    const { take } = createSteps();
    expect(answerOf(take(asked({ ...ask('run'), job: 'b' })))).toEqual(['refused']);
    take({ kind: 'stop' });
    expect(answerOf(take(asked(ask('run'))))).toEqual(['refused']);
    expect(answerOf(take(asked({ kind: 'retry', job: 'a' })))).toEqual(['refused']);
  });
});

describe('the status of a job', () => {
  it('is read again when a reading began before its run had ended, and once for all who ask meanwhile', () => {
    const { take, job } = createSteps();
    take({ kind: 'status-read', job: 'a', document: makeStatus('a', { dataset: 'first' }) });
    // A tick on a day without a session asks; then a run of it would, twice.
    const quiet: Rules = { ...rules, hasSession: () => false };
    let state = createState(0);
    const takeQuiet = (event: DaemonEvent, nowMs: number) => {
      const next = step(state, event, nowMs, quiet);
      ({ state } = next);
      return next.effects;
    };
    const reading = {
      jobs: [{ job: parseJob('a.yaml', jobText('a', 'cron: "0 12 * * *"')), path: 'a', fault: undefined }],
      unusable: [],
    };
    expect(count(takeQuiet({ kind: 'files-read', reading, lastRuns: new Map() }, 0), 'read-status')).toBe(1);
    const due: DaemonEvent = { kind: 'due', due: { job: 'a', tickMs: 0, reason: 'scheduled' } };
    expect(count(takeQuiet(due, HOUR), 'read-status')).toBe(0);
    const first = takeQuiet({ kind: 'status-read', job: 'a', document: makeStatus('a') }, HOUR);
    // What began before the tick decides nothing.
    expect(count(first, 'read-status')).toBe(1);
    expect(state.jobs.get('a')?.run?.phase).toBe('deciding');
    takeQuiet({ kind: 'status-read', job: 'a', document: makeStatus('a', { dates: [] }) }, HOUR);
    expect(state.jobs.get('a')?.run).toBeUndefined();
    expect(job()?.status.shown?.document.dataset).toBe('first');
  });
});

describe('a run that recorded no end', () => {
  it.each([
    [0, 'done'],
    [1, 'failed'],
    [2, 'usage'],
    [3, 'incomplete'],
    [4, 'active'],
    [130, 'interrupted'],
    [7, 'died'],
    [undefined, 'died'],
  ] as const)('and has the exit code %s is %s', (code, outcome) => {
    const { take } = createSteps();
    take({ kind: 'due', due: { job: 'a', tickMs: 7, reason: 'scheduled' } });
    take({ kind: 'fill-places' });
    const end = { code, signal: undefined, error: null };
    const [ended] = take({ kind: 'run-ended', job: 'a', runId: 'run', end, record: undefined }).filter(
      ({ kind }) => kind === 'record-end',
    );
    expect(ended).toMatchObject({ run: { outcome } });
  });
});

describe('an alert that does not get through', () => {
  const died: DaemonEvent = { kind: 'unsent-found', job: 'a', text: 'was ended by SIGKILL' };
  const fail = ({ take, job }: ReturnType<typeof createSteps>, cause: 'died' | 'broken', hasGotThrough = false) =>
    take({
      ...{ kind: 'alert-ended', job: 'a', cause, hasGotThrough },
      owedAtMs: job()?.alerts[cause]?.owedAtMs ?? Number.NaN,
    });
  const beat = ({ take, pass }: ReturnType<typeof createSteps>, ms: number) => {
    pass(ms);
    const sent = take({ kind: 'beat', missed: [] }).filter((effect) => effect.kind === 'send-alert');
    take({ kind: 'beat-over' });
    return sent.filter(({ cause }) => cause !== 'gaps').length;
  };

  it('is tried again ever more seldom, and once it is sent never again', () => {
    const steps = createSteps();
    expect(count(steps.take(died), 'send-alert')).toBe(1);
    for (const minutes of [1, 2, 4, 8, 16, 32, 60, 60]) {
      fail(steps, 'died');
      expect(beat(steps, minutes * MINUTE - 1)).toBe(0);
      expect(beat(steps, 1)).toBe(1);
    }
    fail(steps, 'died');
    // A clock that was set back does not put it off.
    expect(beat(steps, -365 * 24 * HOUR)).toBe(1);
    expect(count(fail(steps, 'died', true), 'forget-unsent')).toBe(1);
    expect(beat(steps, 24 * HOUR)).toBe(0);
  });

  it('of a file is sent with the fault that it has by then, once for as long as it is broken', () => {
    const steps = createSteps();
    const text = jobText('a', 'cron: "0 12 * * *"');
    steps.read(text, 'line 3');
    expect(beat(steps, 5_000)).toBe(0);
    expect(beat(steps, 10_000)).toBe(1);
    fail(steps, 'broken');
    steps.read(text, 'line 4');
    steps.pass(MINUTE);
    const [sent] = steps
      .take({ kind: 'beat', missed: [] })
      .filter((effect) => effect.kind === 'send-alert' && effect.cause === 'broken');
    expect(sent).toMatchObject({ args: ['--broken', 'line 4'] });
    fail(steps, 'broken', true);
    steps.read(text, 'line 5');
    expect(beat(steps, 24 * HOUR)).toBe(0);
    steps.read(text);
    expect(beat(steps, 15_000)).toBe(0);
    steps.read(text, 'line 6');
    expect(beat(steps, 15_000)).toBe(1);
  });

  it('and is over before is not sent by what was begun for an earlier one', () => {
    const steps = createSteps();
    steps.take(died);
    const owedAtMs = steps.job()?.alerts.died?.owedAtMs ?? Number.NaN;
    steps.take({ kind: 'due', due: { job: 'a', tickMs: 0, reason: 'scheduled' } });
    steps.take({ kind: 'fill-places' });
    const end = { code: 0, signal: undefined, error: null };
    const ended = steps.take({ kind: 'run-ended', job: 'a', runId: 'run', end, record: createRunRecord() });
    expect(count(ended, 'forget-unsent')).toBe(1);
    steps.pass(MINUTE);
    steps.take(died);
    steps.take({ kind: 'alert-ended', job: 'a', cause: 'died', owedAtMs, hasGotThrough: true });
    expect(steps.job()?.alerts.died?.state).toBe('sending');
  });
});

describe('the time that a run may take', () => {
  const startRun = (schedule: string) => {
    const steps = createSteps(schedule);
    steps.take({ kind: 'due', due: { job: 'a', tickMs: 0, reason: 'scheduled' } });
    steps.take({ kind: 'fill-places' });
    return { ...steps, effects: steps.take({ kind: 'run-started', job: 'a', runId: 'run', logFile: undefined }) };
  };
  /** Lets the run work until it is stopped. @returns how long it worked, in slices */
  const work = ({ take, pass, effects }: ReturnType<typeof startRun>, most: number, then = () => {}) => {
    const slices: number[] = [];
    let [next]: (Effect | undefined)[] = effects.filter((effect) => effect.kind === 'later');
    while (next?.kind === 'later' && slices.length < most) {
      slices.push(next.afterMs);
      // The machine sleeps for a day after each minute.
      pass(24 * HOUR);
      if (slices.length === 5) then();
      [next] = take(next.event).filter((effect) => effect.kind === 'later' || effect.kind === 'stop-run');
    }
    return { slices, isStopped: next?.kind === 'stop-run' };
  };

  it('is counted in the time that the machine was at work, however the clock is set meanwhile', () => {
    const { slices, isStopped } = work(startRun('cron: "0 12 * * *", timeout: 8h'), 1_000);
    expect(isStopped).toBe(true);
    expect(slices).toHaveLength(480);
    expect(slices.reduce((sum, ms) => sum + ms, 0)).toBe(8 * HOUR);
  });

  it('is what the job file says by now', () => {
    const run = startRun('cron: "0 12 * * *", timeout: off');
    const { slices, isStopped } = work(run, 1_000, () => run.read(jobText('a', 'cron: "0 12 * * *", timeout: 1h')));
    expect(isStopped).toBe(true);
    expect(slices).toHaveLength(60);
  });
});
