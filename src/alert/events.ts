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
import type { CloudEvent } from './cloud-event.ts';
import { type LookContext, listHappenings } from './happenings.ts';
import type { AlertState } from './open-causes.ts';
import { type Happening, isNews, listOwed, NO_EVENTS, noteEvents, notePosted } from './open-events.ts';

export interface EventContext extends LookContext, Pick<AlertContext, 'redact' | 'statePath' | 'signal'> {
  readonly webhook: Webhook;
}

/** A slow receiver must not hold the end of a run for long; the next run goes on. */
const MAX_POSTING_MS = 120_000;

/**
 * Before the first run with events seals anything: notes what is there, so that an old store does not flood the
 * receiver. Later it costs one read. Never throws.
 */
export async function beginEvents(context: EventContext, job: Job): Promise<void> {
  await attempt(context, async () => {
    if ((await openMemory(context, job)).state.events !== undefined) return;
    const seen = await listHappenings(context, job, undefined);
    // Read again: what another worker seals after its own beginning must not count as known.
    const memory = await openMemory(context, job);
    if (memory.state.events !== undefined) return;
    const happenings = seen.map(({ happening }) => happening);
    await memory.write({ ...memory.state, events: noteEvents(NO_EVENTS, happenings, [], []) });
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
): Promise<void> {
  await attempt(context, async () => {
    const seen = await listHappenings(context, job, conditions);
    const memory = await openMemory(context, job);
    const before = memory.state.events;
    // Without a beginning: it is not known what is new.
    if (before === undefined) return;
    const news = seen.filter(({ happening }) => isNews(before, happening));
    const noted: Happening[] = [];
    const events: CloudEvent[] = [];
    for (const { happening, build } of news) {
      // One damaged manifest must not hold back the events of all other dates.
      await attempt(context, async () => {
        events.push(...(await build(before.noted[happening.subject] ?? 0)));
        noted.push(happening);
      });
    }
    const owed = noteEvents(before, noted, events, job.events);
    await memory.write({ ...memory.state, events: owed });
    await postOwed(context, memory, { ...memory.state, events: owed });
  });
}

async function openMemory({ store, statePath: path, log }: EventContext, job: Job): Promise<AlertMemory> {
  return await openAlertMemory({ store, path, log }, job.name);
}

async function postOwed(context: EventContext, memory: AlertMemory, noted: AlertState): Promise<void> {
  const deadlineMs = context.clock.now() + MAX_POSTING_MS;
  let state = noted;
  for (const event of listOwed(noted.events ?? NO_EVENTS)) {
    if (context.clock.now() > deadlineMs) break;
    // Another worker may have posted it in the meantime.
    state = await memory.refresh(state);
    if (state.events?.owed[event.id] === undefined) continue;
    const outcome = await postOne(context, event);
    if (outcome === 'away') break;
    if (outcome === 'refused') continue;
    state = { ...state, events: notePosted(state.events, event.id) };
    await memory.write(state);
  }
}

/** `refused` concerns this event only; `away` also those after it. */
async function postOne({ webhook, log, redact, signal }: EventContext, event: CloudEvent) {
  const { id, type } = event;
  try {
    await webhook.post(event, signal);
    log.info({ event: 'event-sent', id, type }, `event sent: ${id}`);
    return 'sent';
  } catch (error) {
    assertNotAborted(signal);
    const reason = redact(describeError(error));
    log.error({ event: 'event-unsent', id, type, reason }, `event not sent: ${id}: ${reason}`);
    return isFault(error) && error.code === 'WEBHOOK_REFUSED' ? 'refused' : 'away';
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
