/** Owed events when two workers change one record. Whole runs: `events.slow.test.ts`. */
import { expect, it } from 'vitest';
import { buildLossEvent } from '../../src/alert/cloud-event.ts';
import {
  isNews,
  listOwed,
  mergeEvents,
  NO_EVENTS,
  noteEvents,
  noteFailing,
  notePosted,
  sumOwed,
} from '../../src/alert/open-events.ts';
import { EVENT_TYPES } from '../../src/job/job.ts';
import { parseJob } from '../../src/job/parse.ts';

const origin = { storeId: 'store', storeUrl: 's3://bucket', job: 'nightly', dataset: 'trades' };
const lossOf = (date: string, time: string) => {
  const happening = { subject: `lost/${date}`, revision: 1 };
  return { happening, event: buildLossEvent(origin, date, time) };
};
const a = lossOf('2026-11-05', '2026-11-20T05:00:00.000Z');
const b = lossOf('2026-11-06', '2026-11-21T05:00:00.000Z');
const note = (state: typeof NO_EVENTS, { happening, event }: typeof a) =>
  noteEvents(state, [happening], [event], EVENT_TYPES);

it('an event that the other worker noted meanwhile stays owed, and one that we posted does not', () => {
  const before = note(NO_EVENTS, a);
  const ours = notePosted(before, a.event.id);
  const merged = mergeEvents(note(before, b), before, ours);
  expect(Object.keys(merged?.owed ?? {})).toEqual([b.event.id]);
  expect([a, b].map(({ happening }) => merged && isNews(merged, happening))).toEqual([false, false]);
});

it('an event that the other worker posted is not owed again', () => {
  const before = note(NO_EVENTS, a);
  const merged = mergeEvents(notePosted(before, a.event.id), before, note(before, b));
  expect(Object.keys(merged?.owed ?? {})).toEqual([b.event.id]);
});

it('a later revision that one worker noted is not forgotten by the other', () => {
  const at = (revision: number) => noteEvents(NO_EVENTS, [{ subject: 'drop/2026-11-20', revision }], [], EVENT_TYPES);
  for (const [now, ours] of [
    [2, 3],
    [3, 2],
  ] as const) {
    expect(mergeEvents(at(now), at(1), at(ours))?.noted).toEqual({ 'drop/2026-11-20': 3 });
  }
});

it('owed events are posted in the order in which they happened, and only those that the job chose', () => {
  expect(listOwed(note(note(NO_EVENTS, b), a)).map(({ id }) => id)).toEqual([a.event.id, b.event.id]);
  expect(noteEvents(NO_EVENTS, [a.happening], [a.event], ['drop.sealed'])).toEqual({
    ...{ noted: { 'lost/2026-11-05': 1 }, owed: {} },
  });
});

it('what does not get through is summed up with its reason, which a longer outage does not write again', () => {
  const job = parseJob('a.yaml', 'name: a\nsource: {api: historical}\ndrop: {to: out, dataset: trades}\n');
  const owed = note(note(NO_EVENTS, b), a);
  expect(sumOwed(owed, job)).toEqual({ count: 2, since: a.event.time, reason: null });
  const failing = noteFailing(owed, a.event.id, { since: '2026-11-21T06:00:00.000Z', reason: 'HTTP 500' });
  expect(sumOwed(failing, job)).toEqual({ count: 2, since: a.event.time, reason: 'HTTP 500' });
  expect(noteFailing(failing, a.event.id, { since: '2026-11-22T06:00:00.000Z', reason: 'HTTP 500' })).toBe(failing);
  // The other worker posted it meanwhile.
  const merged = mergeEvents(notePosted(owed, a.event.id), owed, failing);
  expect(merged && sumOwed(merged, job)).toEqual({ count: 1, since: b.event.time, reason: null });
  expect(sumOwed(notePosted(notePosted(failing, a.event.id), b.event.id), job)).toBeNull();
});
