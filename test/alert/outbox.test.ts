/**
 * What is remembered of alerts and events: the pure part, step by step and against a plain model over random histories. Where
 * it is kept, and the ways out: `alerts.slow.test.ts`, `events.slow.test.ts`.
 */
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { listCauses } from '../../src/alert/alerts.ts';
import type { RunFacts } from '../../src/alert/cause-table.ts';
import {
  createOutboxState,
  forgetDone,
  listDue,
  noteCauses,
  noteSent,
  type OutboxState,
  openOutbox,
} from '../../src/alert/outbox.ts';
import { openDirectoryStore } from '../../src/store/directory.ts';
import { ALERT_NOW, createFailure, createResult, createRunFacts } from '../support/alerts.ts';
import { useCleanups } from '../support/cleanups.ts';
import { at, faultStore, refuse } from '../support/fault-store.ts';
import { createSilentLog } from '../support/log.ts';
import { createRandom } from '../support/random.ts';

const { folder } = useCleanups();

const DAY_MS = 86_400_000;
const words = () => ({ title: 'title', what: 'what', next: 'next' });
const note = (state: OutboxState, facts: RunFacts) => noteCauses(state, listCauses(facts), facts, words);

/** A run of the n-th evening; the date that is about to be judged does not age with it. */
const evening = (n: number, conditions: RunFacts['conditions']) =>
  createRunFacts({ nowMs: ALERT_NOW + n * DAY_MS, result: createResult({ conditions }) });

const dueTo = (state: OutboxState, target: string) => listDue(state, target) ?? { alerts: [], recovered: [] };

describe('the state of alerts', () => {
  it('keeps when a cause was first seen, and renews when it was last', () => {
    const first = note(createOutboxState('nightly'), evening(0, { '2026-11-19': 'degraded' }));
    const second = note(first, evening(1, { '2026-11-19': 'degraded' }));
    expect(Object.values(second.alerts)).toEqual([
      expect.objectContaining({ first_seen: '2026-11-20T23:00:00.000Z', last_seen: '2026-11-21T23:00:00.000Z' }),
    ]);
  });

  it('tells a target that is new what is open', () => {
    const facts = evening(0, { '2026-11-19': 'degraded' });
    const open = note(createOutboxState('nightly'), facts);
    const sent = noteSent(open, 'a', dueTo(open, 'a'), facts.nowMs);
    expect(listDue(sent, 'a')).toBeUndefined();
    expect(dueTo(sent, 'new').alerts).toEqual(['nightly/date-degraded/2026-11-19']);
  });

  it('never sends a loss again, and forgets it when no run looks back so far', () => {
    const lost = (n: number) => evening(n, { '2026-11-03': 'expired' });
    let state = note(createOutboxState('nightly'), lost(0));
    state = forgetDone(noteSent(state, 'a', dueTo(state, 'a'), ALERT_NOW), ['a']);
    for (let n = 1; n < 80; n += 1) {
      state = note(state, lost(n));
      expect(listDue(state, 'a')).toBeUndefined();
    }
    expect(state.alerts).toEqual({});
  });

  it('forgets what no run has seen for a month', () => {
    const delivery = { template: 'flow', to: 'gone@example.com' };
    const open: OutboxState = {
      ...createOutboxState('nightly'),
      alerts: {
        'nightly/report-failed/flow/gone@example.com': {
          ...{ kind: 'report-failed', date: '2026-11-20', code: null, report: delivery, ...words() },
          ...{ first_seen: '2026-11-20T23:00:00.000Z', last_seen: '2026-11-20T23:00:00.000Z', status: 'open' },
          ...{ sent: { a: '2026-11-20T23:00:00.000Z' } },
        },
      },
    };
    expect(note(open, evening(29, {})).alerts).toEqual(open.alerts);
    expect(note(open, evening(31, {})).alerts).toEqual({});
  });

  it('tells every target of each cause once, and once that it is over, over random histories with failing ways out', () => {
    const random = createRandom(5);
    const targets = ['a', 'b', 'webhook'];
    const dates = ['2026-11-17', '2026-11-18', '2026-11-19'];
    let heard = 0;
    for (let history = 0; history < 60; history += 1) {
      let state = createOutboxState('nightly');
      /** What each target believes to be wrong. */
      const beliefs = new Map(targets.map((target) => [target, new Set<string>()]));
      let last: readonly string[] = [];
      for (let n = 0; n < 12; n += 1) {
        const isLast = n === 11;
        const conditions = Object.fromEntries(
          dates.map((date) => [date, random() < 0.4 ? ('degraded' as const) : ('available' as const)]),
        );
        const isDown = random() < 0.2 && !isLast;
        const nowMs = ALERT_NOW + n * 60_000;
        const facts = isDown
          ? createRunFacts({ nowMs, result: undefined, error: createFailure('S3_UNREACHABLE'), conditions: {} })
          : createRunFacts({ nowMs, result: createResult({ conditions }) });
        state = note(state, facts);
        for (const target of targets) {
          const due = dueTo(state, target);
          // A way out that fails, as often as not; at the end all work.
          if (!isLast && random() < 0.5) continue;
          const belief = beliefs.get(target) as Set<string>; // Each target has one.
          for (const id of due.alerts) expect(belief.has(id), `${target} is sent ${id} again`).toBe(false);
          for (const id of due.recovered) expect(belief.has(id), `${target} never knew ${id}`).toBe(true);
          for (const id of due.alerts) belief.add(id);
          for (const id of due.recovered) belief.delete(id);
          heard += due.alerts.length + due.recovered.length;
          state = noteSent(state, target, due, nowMs);
        }
        state = forgetDone(state, targets);
        last = listCauses(facts).map(({ id }) => id);
      }
      for (const [target, belief] of beliefs) expect([...belief].sort(), target).toEqual([...last].sort());
    }
    expect(heard).toBeGreaterThan(600);
  });
});

it('what a store that can be read does not take is on this machine before anything is sent, with its first sight', async () => {
  const path = join(await folder(), 'alerts.json');
  const store = faultStore(await openDirectoryStore(await folder()), at(/^putIfAbsent/, refuse));
  const causes = evening(0, { '2026-11-19': 'degraded' });
  const outbox = await openOutbox(store, 'nightly', path, createSilentLog());
  const noted = await outbox.update((state) => note(state, causes));
  expect(Object.keys(noted.alerts)).toEqual(['nightly/date-degraded/2026-11-19']);
  // A worker that was killed here begins again with what the machine remembers.
  const again = await openOutbox(undefined, 'nightly', path, createSilentLog());
  expect(again.state).toEqual(noted);
  const sent = await outbox.update((state) => noteSent(state, 'a', dueTo(state, 'a'), causes.nowMs));
  expect((await openOutbox(undefined, 'nightly', path, createSilentLog())).state).toEqual(sent);
});
