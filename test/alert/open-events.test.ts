/** What is owed of a job's events. Whole runs: `events.slow.test.ts`. */
import { expect, it } from 'vitest';
import { buildLossEvent } from '../../src/alert/cloud-event.ts';
import { NO_EVENTS, noteEvents, noteFailing, notePosted, sumOwed } from '../../src/alert/open-events.ts';
import { parseJob } from '../../src/job/parse.ts';
import { EVENT_TYPES } from '../../src/job/shape.ts';

const origin = { storeId: 'store', storeUrl: 's3://bucket', job: 'nightly', dataset: 'trades' };
const lossOf = (date: string, time: string) => {
  const happening = { subject: `lost/${date}`, revision: 1 };
  return { happening, event: buildLossEvent(origin, date, time) };
};
const a = lossOf('2026-11-05', '2026-11-20T05:00:00.000Z');
const b = lossOf('2026-11-06', '2026-11-21T05:00:00.000Z');
const note = (state: typeof NO_EVENTS, { happening, event }: typeof a) =>
  noteEvents(state, [happening], [event], EVENT_TYPES);

it('what does not get through is summed up with its reason, which a longer outage does not write again', () => {
  const job = parseJob('a.yaml', 'name: a\nsource: {api: historical}\ndrop: {to: out, dataset: trades}\n');
  const owed = note(note(NO_EVENTS, b), a);
  expect(sumOwed(owed, job)).toEqual({ count: 2, since: a.event.time, reason: null });
  const failing = noteFailing(owed, a.event.id, '2026-11-21T06:00:00.000Z', 'HTTP 500');
  expect(sumOwed(failing, job)).toEqual({ count: 2, since: a.event.time, reason: 'HTTP 500' });
  expect(noteFailing(failing, a.event.id, '2026-11-22T06:00:00.000Z', 'HTTP 500')).toBe(failing);
  expect(sumOwed(notePosted(notePosted(failing, a.event.id), b.event.id), job)).toBeNull();
});
