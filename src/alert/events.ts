/**
 * Events of a job: what the store shows and was not noted before -> owed in the store -> posted, until accepted. Nothing
 * is taken from the memory of a run, so a run that was killed between a seal and its event is made up for by the next
 * one. Invariant: never throws, and never changes how a run ends; an event that cannot be posted stays owed.
 */
import { LOOKBACK_DAYS } from '../api-contract/published-limits.ts';
import { addDays } from '../calendar/wall-clock.ts';
import { assertNotAborted, describeError, isFault } from '../core/errors.ts';
import { identifyReport } from '../deliver/deliver.ts';
import type { Job } from '../job/job.ts';
import { readConditionDocument } from '../ledger/condition-file.ts';
import { historyKey, MANIFEST_FILENAME, receiptKey } from '../ledger/layout.ts';
import { type Manifest, parseManifest } from '../ledger/manifest.ts';
import { readManifest } from '../ledger/sealed-dates.ts';
import { formatRecipientKey, parseReceipt } from '../mail/receipt.ts';
import type { Webhook } from '../mail/webhook.ts';
import type { Condition } from '../plan/conditions.ts';
import { readStoreId } from '../store/identity.ts';
import type { Store } from '../store/store.ts';
import { openAlertMemory } from './alert-memory.ts';
import type { AlertContext } from './alerts.ts';
import {
  buildDropEvent,
  buildLossEvent,
  buildReportEvent,
  type CloudEvent,
  type EventOrigin,
  type SentReport,
} from './cloud-event.ts';
import { readKnownConditions } from './known-conditions.ts';
import { type Happening, isNews, listOwed, NO_EVENTS, noteEvents, notePosted } from './open-events.ts';

export interface EventContext
  extends Pick<AlertContext, 'clock' | 'log' | 'redact' | 'calendar' | 'statePath' | 'signal'> {
  readonly store: Store;
  readonly webhook: Webhook;
}

/** A slow receiver must not hold the end of a run for long; the next run goes on. */
const MAX_POSTING_MS = 120_000;

/**
 * Before the first run with events seals anything: notes what is there, so that an old store does not flood the
 * receiver. Costs one read later. Never throws.
 */
export async function beginEvents(context: EventContext, job: Job): Promise<void> {
  await attempt(context, async () => {
    // Looked at before the memory is read: what another worker seals after its own beginning is not in it.
    const seen = await look(context, job, undefined);
    const memory = await openAlertMemory({ store: context.store, path: context.statePath, log: context.log }, job.name);
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
    const seen = await look(context, job, conditions);
    const { store, statePath: path, log } = context;
    const memory = await openAlertMemory({ store, path, log }, job.name);
    const before = memory.state.events;
    // Without a beginning: it is not known what is new.
    if (before === undefined) return;
    const news = seen.filter(({ happening }) => isNews(before, happening));
    const events: CloudEvent[] = [];
    for (const { happening, build } of news) events.push(...(await build(before.noted[happening.subject] ?? 0)));
    const noted = noteEvents(
      before,
      news.map(({ happening }) => happening),
      events,
      job.events,
    );
    let state = { ...memory.state, events: noted };
    await memory.write(state);
    const deadlineMs = context.clock.now() + MAX_POSTING_MS;
    for (const event of listOwed(noted)) {
      if (context.clock.now() > deadlineMs) break;
      const outcome = await postOne(context, event);
      if (outcome === 'away') break;
      if (outcome === 'refused') continue;
      state = { ...state, events: notePosted(state.events, event.id) };
      await memory.write(state);
    }
  });
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

interface Seen {
  readonly happening: Happening;
  /** The events since a noted revision. */
  build(noted: number): Promise<readonly CloudEvent[]>;
}

/** Costs one read of the store, and one for each report and date of the lookback. @throws StoreFault */
async function look(
  context: EventContext,
  job: Job,
  known: Readonly<Record<string, Condition>> | undefined,
): Promise<readonly Seen[]> {
  const { store, clock } = context;
  const { dataset } = job.drop;
  const { id = 'unknown' } = await readStoreId(store);
  const origin = { storeId: id, storeUrl: store.url, job: job.name, dataset };
  const nowMs = clock.now();
  const conditions = known ?? Object.fromEntries((await readKnownConditions(context, job, nowMs)).conditions);
  const { entries } = await readConditionDocument(store, dataset);
  const sealed = [...entries.values()].flatMap(({ date, revision }) => (revision === null ? [] : [{ date, revision }]));
  const lost = Object.keys(conditions).filter((date) => conditions[date] === 'expired');
  const at = new Date(nowMs).toISOString();
  return [
    ...sealed.map(({ date, revision }) => ({
      happening: { subject: `drop/${date}`, revision },
      build: async (noted: number) => await buildDropEvents(store, origin, { date, revision, noted }),
    })),
    ...lost.map((date) => ({
      happening: { subject: `lost/${date}`, revision: 1 },
      build: async () => [buildLossEvent(origin, date, at)],
    })),
    ...(await lookAtReports(
      store,
      origin,
      job,
      sealed.map(({ date }) => date),
    )),
  ];
}

/** One for each revision since the noted one: a run that was killed may have sealed two. */
async function buildDropEvents(
  store: Store,
  origin: EventOrigin,
  { date, revision, noted }: { readonly date: string; readonly revision: number; readonly noted: number },
): Promise<readonly CloudEvent[]> {
  const events: CloudEvent[] = [];
  const newest = await readManifest(store, origin.dataset, date);
  for (let one = noted + 1; one <= revision; one += 1) {
    const isReplaced = newest?.revision !== one;
    const manifest = isReplaced ? await readKept(store, origin.dataset, date, one) : newest;
    // Numbers of revisions may have gaps, and an operator may have removed a date.
    if (manifest) events.push(buildDropEvent(origin, manifest, isReplaced));
  }
  return events;
}

async function readKept(store: Store, dataset: string, date: string, revision: number): Promise<Manifest | undefined> {
  const key = historyKey(dataset, date, revision, MANIFEST_FILENAME);
  const bytes = await store.get(key);
  return bytes && parseManifest(bytes, `${store.url}/${key}`);
}

/** Of the lookback: runs mail no older date. */
async function lookAtReports(
  store: Store,
  origin: EventOrigin,
  job: Job,
  sealed: readonly string[],
): Promise<readonly Seen[]> {
  const newest = [...sealed].sort().at(-1);
  if (newest === undefined) return [];
  const recent = sealed.filter((date) => date >= addDays(newest, -LOOKBACK_DAYS));
  const seen: Seen[] = [];
  for (const report of job.reports) {
    const id = identifyReport(report);
    const addresses = report.to.map(({ address }) => formatRecipientKey(address));
    for (const date of recent) {
      const bytes = await store.get(receiptKey(job.name, date, id));
      const receipt = bytes && parseReceipt(bytes);
      if (!receipt) continue;
      const { revision, recipients } = receipt;
      // A test mail to somebody else is not the report.
      const times = Object.entries(recipients).flatMap(([address, { status, at }]) =>
        status === 'sent' && addresses.includes(address) ? [at] : [],
      );
      const [time] = times.sort();
      if (time === undefined) continue;
      const sent: SentReport = { id, template: report.template, recipients: times.length, time };
      seen.push({
        happening: { subject: `report/${id}/${date}`, revision },
        build: async () => await buildReportEvents(store, origin, { date, revision }, sent),
      });
    }
  }
  return seen;
}

async function buildReportEvents(
  store: Store,
  origin: EventOrigin,
  { date, revision }: { readonly date: string; readonly revision: number },
  sent: SentReport,
): Promise<readonly CloudEvent[]> {
  const newest = await readManifest(store, origin.dataset, date);
  const manifest = newest?.revision === revision ? newest : await readKept(store, origin.dataset, date, revision);
  return manifest ? [buildReportEvent(origin, manifest, sent)] : [];
}
