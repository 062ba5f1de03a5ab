/**
 * Events of a job: what the store shows and was not noted before -> owed in the store -> posted, until accepted. Nothing
 * is taken from the memory of a run, so a run that was killed between a seal and its event is made up for by the next
 * one. Invariant: never throws, and never changes how a run ends; an event that cannot be posted stays owed.
 */
import { assertNotAborted, describeError, isFault } from '../core/errors.ts';
import type { Job } from '../job/job.ts';
import type { Webhook } from '../mail/webhook.ts';
import type { Condition } from '../plan/conditions.ts';
import { type AlertMemory, openAlertMemory } from './alert-memory.ts';
import type { AlertContext } from './alerts.ts';
import { type CloudEvent, isPostOf } from './cloud-event.ts';
import { type LookContext, listHappenings } from './happenings.ts';
import type { AlertState } from './open-causes.ts';
import {
  type EventState,
  type Happening,
  isAbandoned,
  isNews,
  listOwed,
  NO_EVENTS,
  noteEvents,
  noteFailing,
  notePosted,
  type OwedEvents,
  sumOwed,
} from './open-events.ts';

/** Where a job's events go. */
export interface EventTargets {
  /** `undefined`: no address, or the job wants none. */
  readonly events: Webhook | undefined;
  /** Of the reports whose summaries are posted, by the report's id. */
  readonly posts: ReadonlyMap<string, Webhook>;
}

export interface EventContext extends LookContext, Pick<AlertContext, 'redact' | 'statePath' | 'signal'> {
  readonly targets: EventTargets;
}

export interface EventSummary {
  /** Events that were accepted now. */
  readonly posted: number;
  /** Null: none is owed, or the store could not be read. */
  readonly owed: OwedEvents | null;
}

/** A slow receiver must not hold the end of a run for long; the next run goes on. */
const MAX_POSTING_MS = 120_000;

/**
 * Before the first run with events seals anything, and before the first that posts a report: notes what is there, so that
 * an old store does not flood the receiver. Later it costs one read. Never throws.
 */
export async function beginEvents(context: EventContext, job: Job): Promise<void> {
  await attempt(context, async () => {
    const isBegun = ({ events }: AlertState) => events !== undefined && listNewPosts(context, events).length === 0;
    const memory = await openMemory(context, job);
    if (isBegun(await memory.read())) return;
    const seen = await listHappenings(context, job, undefined);
    await memory.update((state) => {
      // What another worker seals after its own beginning must not count as known.
      if (isBegun(state)) return state;
      const before = state.events;
      const posts = listNewPosts(context, before);
      const isNew = ({ subject }: Happening) =>
        before === undefined || posts.some((post) => subject.startsWith(`${post.subject}/`));
      const known = seen.map(({ happening }) => happening).filter(isNew);
      return { ...state, events: noteEvents(before ?? NO_EVENTS, [...known, ...posts], [], []) };
    });
  });
}

/**
 * Posts what happened since the last call, and what is still owed. Never throws.
 * @param conditions of the dates, if a run derived them
 */
export async function postEvents(
  context: EventContext,
  job: Job,
  conditions: Readonly<Record<string, Condition>> | undefined,
): Promise<EventSummary> {
  let summary: EventSummary = { posted: 0, owed: null };
  await attempt(context, async () => {
    const seen = await listHappenings(context, job, conditions);
    const memory = await openMemory(context, job);
    const before = (await memory.read()).events;
    // Without a beginning: it is not known what is new.
    if (before === undefined) return;
    const built: { readonly happening: Happening; readonly events: readonly CloudEvent[] }[] = [];
    for (const { happening, build } of seen) {
      if (!isNews(before, happening) || !isWanted(context, before, happening)) continue;
      // One damaged manifest must not hold back the events of all other dates.
      await attempt(context, async () => {
        built.push({ happening, events: await build(before.noted[happening.subject] ?? 0) });
      });
    }
    const noted = await memory.update((state) => {
      const events = state.events ?? before;
      // Another worker may have noted some in the meantime.
      const news = built.filter(({ happening }) => isNews(events, happening));
      const happenings = news.map(({ happening }) => happening);
      const owed = news.flatMap((each) => each.events);
      return { ...state, events: noteEvents(events, happenings, owed, [...job.events, 'report.posted']) };
    });
    summary = await postOwed(context, memory, noted, job);
  });
  return summary;
}

/** A subject for each report whose summaries are posted from now on. */
function listNewPosts({ targets }: EventContext, events: EventState | undefined): readonly Happening[] {
  return [...targets.posts.keys()]
    .map((id) => ({ subject: `post/${id}`, revision: 0 }))
    .filter(({ subject }) => events?.noted[subject] === undefined);
}

/** What has no address is not noted: it is posted when there is one. */
function isWanted({ targets }: EventContext, { noted }: EventState, { subject }: Happening): boolean {
  const [kind = '', id = ''] = subject.split('/');
  if (kind !== 'post') return targets.events !== undefined;
  return targets.posts.has(id) && noted[`post/${id}`] !== undefined;
}

async function openMemory({ store, statePath: path, log }: EventContext, job: Job): Promise<AlertMemory> {
  return await openAlertMemory({ store, path, log }, job.name);
}

async function postOwed(
  context: EventContext,
  memory: AlertMemory,
  noted: AlertState,
  job: Job,
): Promise<EventSummary> {
  const { clock, targets } = context;
  const deadlineMs = clock.now() + MAX_POSTING_MS;
  /** Receivers that do not answer: what else they are to get waits. */
  const away = new Set<Webhook>();
  let state = noted;
  let posted = 0;
  for (const { id } of listOwed(noted.events ?? NO_EVENTS)) {
    if (clock.now() > deadlineMs) break;
    // Another worker may have posted it in the meantime.
    state = await memory.read();
    const event = state.events?.owed[id];
    if (event === undefined) continue;
    const target = findTarget(targets, event);
    if (target !== undefined && away.has(target)) continue;
    if (target === undefined) {
      // Without an address it waits for one, unless its report is no longer posted.
      if (isAbandoned(job, event)) await change((events) => notePosted(events, id));
      continue;
    }
    const failure = await postOne(context, target, event);
    if (failure === undefined) posted += 1;
    else if (failure.isAway) away.add(target);
    const since = new Date(clock.now()).toISOString();
    await change((events) => (failure ? noteFailing(events, id, { since, ...failure }) : notePosted(events, id)));
  }
  return { posted, owed: sumOwed(state.events, job) };

  async function change(act: (events: EventState) => EventState): Promise<void> {
    state = await memory.update((now) => (now.events ? { ...now, events: act(now.events) } : now));
  }
}

function findTarget({ events, posts }: EventTargets, event: CloudEvent): Webhook | undefined {
  if (event.type !== 'report.posted') return events;
  return [...posts].find(([id]) => isPostOf(event, id))?.[1];
}

interface Failure {
  readonly reason: string;
  /** It concerns all events of the receiver, not only this one. */
  readonly isAway: boolean;
}

/** @returns `undefined` if it was accepted */
async function postOne(
  { log, redact, signal }: EventContext,
  target: Webhook,
  event: CloudEvent,
): Promise<Failure | undefined> {
  const { id, type } = event;
  try {
    await target.post(event, signal);
    log.info({ event: 'event-sent', id, type }, `event sent: ${id}`);
    return undefined;
  } catch (error) {
    assertNotAborted(signal);
    const reason = redact(describeError(error));
    log.error({ event: 'event-unsent', id, type, reason }, `event not sent: ${id}: ${reason}`);
    return { reason, isAway: !isFault(error) || error.code !== 'WEBHOOK_REFUSED' };
  }
}

async function attempt({ log, redact, signal }: EventContext, action: () => Promise<void>): Promise<void> {
  try {
    await action();
  } catch (error) {
    if (signal?.aborted) return;
    // The run's own result counts; what could not be read now, the next run finds.
    const reason = redact(describeError(error));
    log.error({ event: 'events-failed', reason }, `the events failed: ${reason}`);
  }
}
