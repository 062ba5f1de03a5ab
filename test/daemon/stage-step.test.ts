/** When the daemon stages a running session, as single steps. Whole sessions are in `staging.slow.test.ts`. */
import { describe, expect, it } from 'vitest';
import type { DaemonEvent, Effect, Rules } from '../../src/daemon/event.ts';
import { createState } from '../../src/daemon/state.ts';
import { step } from '../../src/daemon/step.ts';
import { parseJob } from '../../src/job/parse.ts';
import { createRunRecord } from '../support/run-record.ts';
import { jobText } from './loop.ts';

const MINUTE = 60_000;
const STAGED = 'cron: "31 16 * * 1-5", stage: 5m';

/** A daemon of these jobs, by name with their schedules, on a Thursday at 15:00 in New York. */
function createSteps(schedules: Readonly<Record<string, string>>, maxRuns = 1) {
  let nowMs = Date.parse('2026-11-19T20:00:00Z');
  let state = createState(nowMs);
  let runs = 0;
  let isOpen = true;
  const rules: Rules = {
    maxRuns,
    newRunId: () => `run-${++runs}`,
    hasSession: () => true,
    hasAlerts: () => true,
    canStage: () => isOpen,
    nextTick: () => undefined,
  };
  const take = (event: DaemonEvent): readonly Effect[] => {
    const next = step(state, event, nowMs, rules);
    ({ state } = next);
    return next.effects;
  };
  const jobs = Object.entries(schedules).map(([name, schedule]) => ({
    ...{ job: parseJob(`${name}.yaml`, jobText(name, schedule)), path: `${name}.yaml`, fault: undefined },
  }));
  take({ kind: 'files-read', reading: { jobs, unusable: [] }, lastRuns: new Map() });
  const started = (effects: readonly Effect[]) =>
    effects.flatMap((effect) => (effect.kind === 'start-run' ? [`${effect.due.job} ${effect.due.reason}`] : []));
  const take2 = (event: DaemonEvent) => {
    const effects = [...take(event)];
    for (const effect of effects)
      if (effect.kind === 'later' && effect.event.kind === 'fill-places') effects.push(...take(effect.event));
    return {
      started: started(effects),
      stopped: effects.flatMap((one) => (one.kind === 'stop-run' ? [one.job] : [])),
      effects,
    };
  };
  return {
    take: take2,
    beat: () => take2({ kind: 'beat', missed: [] }),
    job: (name: string) => state.jobs.get(name),
    pass: (ms: number) => {
      nowMs += ms;
    },
    close: () => {
      isOpen = false;
    },
    begin: (job: string) => take({ kind: 'run-started', job, runId: `run-${runs}`, logFile: undefined }),
    end: (job: string, runId: string, outcome: 'done' | 'failed' | 'interrupted' = 'done') =>
      take2({
        ...{ kind: 'run-ended', job, runId },
        end: { code: 0, signal: undefined, error: null },
        record: createRunRecord({ outcome }),
      }),
    due: (job: string): DaemonEvent => ({ kind: 'due', due: { job, tickMs: nowMs, reason: 'scheduled' } }),
  };
}

describe('the daemon stages a running session', () => {
  it('once in the time that the job names, while the session is on, and records no run', () => {
    const { beat, end, job, pass, close } = createSteps({ a: STAGED, b: 'cron: "31 16 * * 1-5"' });
    expect(beat().started).toEqual(['a stage']);
    expect(beat().started).toEqual([]);
    end('a', 'run-1');
    expect(beat().started).toEqual([]);
    pass(5 * MINUTE);
    expect(beat().started).toEqual(['a stage']);
    const failed = end('a', 'run-2', 'failed');
    expect(failed.effects.filter(({ kind }) => kind === 'send-alert')).toEqual([]);
    expect(job('a')).toMatchObject({ retry: undefined, run: undefined });
    close();
    pass(5 * MINUTE);
    expect(beat().started).toEqual([]);
  });

  it('ends it when its own tick is due, and then runs the tick', () => {
    const { beat, begin, due, end, take } = createSteps({ a: STAGED });
    beat();
    begin('a');
    const tick = take(due('a'));
    expect([tick.started, tick.stopped]).toEqual([[], ['a']]);
    expect(end('a', 'run-1', 'interrupted').started).toEqual(['a scheduled']);
  });

  it('ends it when another job is due, which gets its place', () => {
    const { beat, begin, due, end, take } = createSteps({ a: STAGED, b: 'cron: "31 16 * * 1-5"' });
    beat();
    begin('a');
    const tick = take(due('b'));
    expect([tick.started, tick.stopped]).toEqual([[], ['a']]);
    expect(end('a', 'run-1', 'interrupted').started).toEqual(['b scheduled']);
  });

  it('not while another job runs, but after it', () => {
    const { beat, due, end, take } = createSteps({ a: STAGED, b: 'cron: "31 16 * * 1-5"' }, 2);
    expect(take(due('b')).started).toEqual(['b scheduled']);
    expect(beat().started).toEqual([]);
    end('b', 'run-1');
    expect(beat().started).toEqual(['a stage']);
  });
});
