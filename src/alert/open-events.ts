/**
 * A job's events in its outbox: what was noted, and what is owed to a receiver until it is accepted. Invariant: what
 * happened is noted in the same write that owes its event. Pure, except for one reader.
 */
import { identifyReport, type Job } from '../job/job.ts';
import type { Store } from '../store/store.ts';
import { type CloudEvent, type CloudEventType, isPostOf } from './cloud-event.ts';
import { type EventState, openOutboxDocument } from './outbox.ts';

/** The owed events in short, for people. */
export interface OwedEvents {
  readonly count: number;
  /** When the oldest of them happened. */
  readonly since: string;
  /** Why the oldest that was tried did not get through; null: none was tried. */
  readonly reason: string | null;
}

/** What the store shows: a drop, a loss, or a mailed report of a date, up to this revision. */
export interface Happening {
  /** `drop/DATE`, `lost/DATE`, `report/ID/DATE` or `post/ID/DATE`. */
  readonly subject: string;
  readonly revision: number;
}

export const NO_EVENTS: EventState = { noted: {}, owed: {} };

/** Notes what happened. @param events those of the happenings, of which the job wants `types` */
export function noteEvents(
  state: EventState,
  happenings: readonly Happening[],
  events: readonly CloudEvent[],
  types: readonly CloudEventType[],
): EventState {
  const wanted = events.filter(({ type }) => types.includes(type));
  return {
    ...state,
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
  const { [id]: __, ...failing } = state.failing ?? {};
  return { ...state, owed, failing: Object.keys(failing).length > 0 ? failing : undefined };
}

/** Notes that an owed event did not get through. A longer outage changes nothing, so that it costs no writes. */
export function noteFailing(state: EventState, id: string, since: string, reason: string): EventState {
  const known = state.failing?.[id];
  if (known?.reason === reason) return state;
  return { ...state, failing: { ...state.failing, [id]: { since: known?.since ?? since, reason } } };
}

/** Whether it is the summary of a report that is no longer posted. */
export function isAbandoned({ reports }: Job, event: CloudEvent): boolean {
  const isPosted = reports.some((report) => report.post !== null && isPostOf(event, identifyReport(report)));
  return event.type === 'report.posted' && !isPosted;
}

/** Null if nothing is owed. */
export function sumOwed(state: EventState = NO_EVENTS, job: Job): OwedEvents | null {
  const owed = listOwed(state).filter((event) => !isAbandoned(job, event));
  const [first] = owed;
  if (first === undefined) return null;
  const reason = owed.map(({ id }) => state.failing?.[id]?.reason).find((one) => one !== undefined) ?? null;
  return { count: owed.length, since: first.time, reason };
}

/** The owed events of a job, for a status. Never writes; an unreadable record owes nothing. @throws StoreFault */
export async function readOwedEvents(store: Store, job: Job): Promise<OwedEvents | null> {
  const { value } = await openOutboxDocument(store, job.name).read();
  return sumOwed(value?.events, job);
}
