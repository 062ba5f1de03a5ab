/**
 * A job's events: what was noted, and what is owed to the receiver until it is accepted. Invariant: what happened is
 * noted in the same write that owes its event, and the owed document never changes; so a repetition has the same bytes.
 * Pure; `alert-memory.ts` keeps the state beside that of the alerts.
 */
import { z } from 'zod';
import type { EventType } from '../job/job.ts';
import { type CloudEvent, cloudEventSchema } from './cloud-event.ts';
import { mergeRecords } from './merge-records.ts';

export const eventStateSchema = z.object({
  /** The latest noted revision of each subject (see `Happening`). It grows by one line a date, as `condition.json`. */
  noted: z.record(z.string(), z.number().int()),
  /** By id: not yet accepted by the receiver. */
  owed: z.record(z.string(), cloudEventSchema),
});

export interface EventState {
  readonly noted: Readonly<Record<string, number>>;
  readonly owed: Readonly<Record<string, CloudEvent>>;
}

/** What the store shows: a drop, a loss, or a mailed report of a date, up to this revision. */
export interface Happening {
  /** `drop/DATE`, `lost/DATE` or `report/ID/DATE`. */
  readonly subject: string;
  readonly revision: number;
}

export const NO_EVENTS: EventState = { noted: {}, owed: {} };

/** Notes what happened. @param events those of the happenings, of which the job wants `types` */
export function noteEvents(
  state: EventState,
  happenings: readonly Happening[],
  events: readonly CloudEvent[],
  types: readonly EventType[],
): EventState {
  const wanted = events.filter(({ type }) => types.includes(type));
  return {
    noted: { ...state.noted, ...Object.fromEntries(happenings.map(({ subject, revision }) => [subject, revision])) },
    owed: { ...state.owed, ...Object.fromEntries(wanted.map((event) => [event.id, event])) },
  };
}

/** Whether the subject is new, or has a later revision than noted. */
export function isNews({ noted }: EventState, { subject, revision }: Happening): boolean {
  return revision > (noted[subject] ?? 0);
}

/** In the order in which it happened. */
export function listOwed({ owed }: EventState): readonly CloudEvent[] {
  return Object.values(owed).sort((a, b) => (a.time === b.time ? 0 : a.time < b.time ? -1 : 1));
}

export function notePosted(state: EventState, id: string): EventState {
  const { [id]: _, ...owed } = state.owed;
  return { ...state, owed };
}

/** Two records of the same job, of unknown order: what either owes is owed. */
export function joinEvents(a: EventState | undefined, b: EventState | undefined): EventState | undefined {
  return mergeEvents(a, NO_EVENTS, b);
}

/** Applies our changes from `before` to `after` to what another worker has written since. */
export function mergeEvents(
  now: EventState | undefined,
  before: EventState | undefined,
  after: EventState | undefined,
): EventState | undefined {
  if (now === undefined || after === undefined) return after ?? now;
  return {
    noted: mergeRecords(now.noted, before?.noted ?? {}, after.noted, (theirs = 0, _, ours = 0) =>
      Math.max(theirs, ours),
    ),
    owed: mergeRecords(now.owed, before?.owed ?? {}, after.owed, (_theirs, _base, ours) => ours),
  };
}
