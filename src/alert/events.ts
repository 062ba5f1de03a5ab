/**
 * The events of a job: what the store shows and was not noted before -> owed in the outbox -> posted, until accepted.
 * Nothing is taken from the memory of a run, so a run that was killed between a seal and its event is made up for by the
 * next one. Invariant: never throws, never changes how a run ends, and costs nothing without an address; an event that
 * cannot be posted stays owed.
 */

import { LOOKBACK_DAYS } from '../api-contract/published-limits.ts';
import { addDays } from '../calendar/wall-clock.ts';
import { assertNotAborted, describeError, isFault } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import { formatRecipientKey, openReceiptLog, type Receipt } from '../deliver/receipt.ts';
import { identifyReport, type Job, type JobReport } from '../job/job.ts';
import { Ledger } from '../ledger/ledger.ts';
import type { Webhook } from '../mail/webhook.ts';
import type { Condition } from '../plan/conditions.ts';
import type { RunEnv } from '../run/run.ts';
import { openJobState } from '../state/job-state.ts';
import type { RunResult } from '../state/run-result.ts';
import { readStoreId } from '../store/identity.ts';
import type { Store } from '../store/store.ts';
import { readKnownConditions } from './alerts.ts';
import {
  buildDropEvent,
  buildLossEvent,
  buildReportEvent,
  type CloudEvent,
  isPostOf,
  type SentReport,
} from './cloud-event.ts';
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
  type Outbox,
  openOutbox,
  sumOwed,
} from './outbox.ts';
import { summarizeReport } from './report-post.ts';

/** A slow receiver must not hold the end of a run for long; the next run goes on. */
const MAX_POSTING_MS = 120_000;

/** A job's events and where they go. */
interface JobEvents {
  readonly ledger: Ledger;
  readonly log: Log;
  readonly outbox: Outbox;
  /** `undefined`: no address, or the job wants none. */
  readonly receiver: Webhook | undefined;
  /** Of the reports whose summaries are posted, by the report's id. */
  readonly posts: ReadonlyMap<string, Webhook>;
}

/**
 * Before the first run with events seals or mails anything, and before the first that posts a report: notes what is there,
 * so that an old store does not flood the receiver. Later it costs one read.
 * @param opened default: its own store
 */
export async function beginEvents(env: RunEnv, job: Job, opened?: Store): Promise<void> {
  await withEvents(env, job, opened, async (jobEvents) => {
    const { outbox } = jobEvents;
    /** A subject for each report whose summaries are posted from now on. */
    const listNewPosts = (events: EventState | undefined): readonly Happening[] =>
      [...jobEvents.posts.keys()]
        .map((id) => ({ subject: `post/${id}`, revision: 0 }))
        .filter(({ subject }) => events?.noted[subject] === undefined);
    const isBegun = (events: EventState | undefined) => events !== undefined && listNewPosts(events).length === 0;
    if (isBegun((await outbox.read()).events)) return;
    const seen = await look(env, job, jobEvents, undefined);
    await outbox.update((state) => {
      const { events } = state;
      // What another worker seals after its own beginning must not count as known.
      if (isBegun(events)) return state;
      const posts = listNewPosts(events);
      const known = seen.filter(
        ({ subject }) => events === undefined || posts.some((post) => subject.startsWith(`${post.subject}/`)),
      );
      return { ...state, events: noteEvents(events ?? NO_EVENTS, [...known, ...posts], [], []) };
    });
  });
}

/**
 * At the end of a run, and between runs: posts what happened since the last call, and what is still owed. Opens its own
 * store: opening the run's may be what failed.
 * @returns how many were accepted now, and what is owed; null: nothing, or the store could not be read
 */
export async function postEvents(env: RunEnv, job: Job, result: RunResult | undefined) {
  const nothing = { posted: 0, owed: null };
  if (env.signal.aborted) return nothing;
  const summary = await withEvents(env, job, undefined, async (jobEvents) => {
    const seen = await look(env, job, jobEvents, result);
    const { outbox, log } = jobEvents;
    const { events: before } = await outbox.read();
    // Without a beginning: it is not known what is new.
    if (before === undefined) return nothing;
    const built = new Map<Happening, readonly CloudEvent[]>();
    for (const happening of seen) {
      if (!isNews(before, happening) || !isWanted(jobEvents, before, happening)) continue;
      try {
        built.set(happening, await happening.build(before.noted[happening.subject] ?? 0));
      } catch (error) {
        // One damaged manifest must not hold back the events of all other dates.
        tellFailure(env, log, error);
      }
    }
    await outbox.update((state) => {
      const events = state.events ?? before;
      // Another worker may have noted some in the meantime.
      const news = [...built].filter(([happening]) => isNews(events, happening));
      const happenings = news.map(([happening]) => happening);
      const owed = news.flatMap(([, each]) => each);
      return { ...state, events: noteEvents(events, happenings, owed, [...job.events, 'report.posted']) };
    });
    return await postOwed(env, job, jobEvents);
  });
  return summary ?? nothing;
}

async function withEvents<T>(
  env: RunEnv,
  job: Job,
  opened: Store | undefined,
  action: (jobEvents: JobEvents) => Promise<T>,
): Promise<T | undefined> {
  const log = (await env.openLog()).child({ job: job.name });
  let own: Store | undefined;
  try {
    const shared = await env.openWebhook('event');
    // One receiver for each address, so that what does not answer is tried once.
    const byAddress = new Map([['events', shared]]);
    const posts = new Map<string, Webhook>();
    for (const report of job.reports) {
      const { post } = report;
      if (post === null) continue;
      if (!byAddress.has(post)) byAddress.set(post, await env.openWebhook('event', post));
      const target = byAddress.get(post);
      if (target) posts.set(identifyReport(report), target);
    }
    const receiver = job.events.length > 0 ? shared : undefined;
    if (receiver === undefined && posts.size === 0) return undefined;
    if (opened === undefined) own = await env.openStore(job.drop.to, { objects: job.drop.s3 });
    const store = opened ?? own;
    if (store === undefined) return undefined;
    const outbox = await openOutbox(store, job.name, openJobState(env.stateDir, job.name).alerts, log);
    return await action({ ledger: new Ledger(store, job.drop.dataset), log, outbox, receiver, posts });
  } catch (error) {
    tellFailure(env, log, error);
    return undefined;
  } finally {
    await own?.close().catch(() => undefined);
  }
}

/** The run's own result counts; what could not be read now, the next run finds. */
function tellFailure(env: RunEnv, log: Log, error: unknown): void {
  if (env.signal.aborted) return;
  const reason = env.redact(describeError(error));
  log.error({ event: 'events-failed', reason }, `the events failed: ${reason}`);
}

/** @param result of a run, with the conditions that it derived */
async function look(env: RunEnv, job: Job, { ledger, log }: JobEvents, result: RunResult | undefined) {
  const nowMs = env.clock.now();
  const { conditions } = result ?? (await readKnownConditions(ledger, log, job, nowMs, await env.readCalendar()));
  return await listHappenings(ledger, log, job, conditions, nowMs, env.readPublicUrl());
}

/** What has no address is not noted: it is posted when there is one. */
function isWanted({ receiver, posts }: JobEvents, { noted }: EventState, { subject }: Happening): boolean {
  const [kind = '', id = ''] = subject.split('/');
  if (kind !== 'post') return receiver !== undefined;
  return posts.has(id) && noted[`post/${id}`] !== undefined;
}

async function postOwed(env: RunEnv, job: Job, { outbox, log, receiver, posts }: JobEvents) {
  const { clock, signal } = env;
  const deadlineMs = clock.now() + MAX_POSTING_MS;
  /** Receivers that do not answer: what else they are to get waits. */
  const away = new Set<Webhook>();
  const change = async (act: (events: EventState) => EventState) =>
    await outbox.update((now) => (now.events ? { ...now, events: act(now.events) } : now));
  let posted = 0;
  for (const { id, type } of listOwed(outbox.state.events ?? NO_EVENTS)) {
    if (clock.now() > deadlineMs) break;
    // Another worker may have posted it in the meantime.
    const event = (await outbox.read()).events?.owed[id];
    if (event === undefined) continue;
    const target = type === 'report.posted' ? [...posts].find(([report]) => isPostOf(event, report))?.[1] : receiver;
    if (target === undefined) {
      // Without an address it waits for one, unless its report is no longer posted.
      if (isAbandoned(job, event)) await change((events) => notePosted(events, id));
      continue;
    }
    if (away.has(target)) continue;
    try {
      await target.post(event, signal);
    } catch (error) {
      assertNotAborted(signal);
      const reason = env.redact(describeError(error));
      log.error({ event: 'event-unsent', id, type, reason }, `event not sent: ${id}: ${reason}`);
      // Any other failure concerns all events of the receiver, not only this one.
      if (!isFault(error) || error.code !== 'WEBHOOK_REFUSED') away.add(target);
      await change((events) => noteFailing(events, id, new Date(clock.now()).toISOString(), reason));
      continue;
    }
    posted += 1;
    log.info({ event: 'event-sent', id, type }, `event sent: ${id}`);
    await change((events) => notePosted(events, id));
  }
  return { posted, owed: sumOwed(outbox.state.events, job) };
}

interface SeenHappening extends Happening {
  /** The events since a noted revision. */
  build(noted: number): Promise<readonly CloudEvent[]>;
}

/**
 * Costs two reads of the store, and one for each report and date of the lookback.
 * @param foundMs when the losses were found
 * @param publicUrl address of the status page for readers; `undefined` if they cannot reach it
 * @throws StoreFault
 */
async function listHappenings(
  ledger: Ledger,
  log: Log,
  job: Job,
  conditions: Readonly<Record<string, Condition>>,
  foundMs: number,
  publicUrl: string | undefined,
): Promise<readonly SeenHappening[]> {
  const { store, dataset } = ledger;
  const { id: storeId = 'unknown' } = await readStoreId(store);
  const origin = { storeId, storeUrl: store.url, job: job.name, dataset };
  const seen: SeenHappening[] = [];
  const { entries } = await ledger.conditions();
  const sealed = [...entries.values()].flatMap(({ date, revision }) => (revision === null ? [] : [{ date, revision }]));
  for (const { date, revision } of sealed) {
    const build = async (noted: number) => {
      const events: CloudEvent[] = [];
      // A run that was killed may have sealed two. Numbers of revisions may have gaps, and an operator may have removed a date.
      for (let one = noted + 1; one <= revision; one += 1) {
        const found = await readRevision(ledger, date, one);
        if (found) events.push(buildDropEvent(origin, found.manifest, found.isReplaced));
      }
      return events;
    };
    seen.push({ subject: `drop/${date}`, revision, build });
  }
  for (const [date, condition] of Object.entries(conditions)) {
    const build = async () => [buildLossEvent(origin, date, new Date(foundMs).toISOString())];
    if (condition === 'expired') seen.push({ subject: `lost/${date}`, revision: 1, build });
  }
  for await (const { report, date, revision, sent, isLate } of listMailed(store, log, job, sealed)) {
    const { id, isCorrection } = sent;
    seen.push({
      ...{ subject: `report/${id}/${date}`, revision },
      build: async () => {
        const found = await readRevision(ledger, date, revision);
        return found ? [buildReportEvent(origin, found.manifest, sent)] : [];
      },
    });
    if (report.post === null) continue;
    seen.push({
      ...{ subject: `post/${id}/${date}`, revision },
      build: async () => {
        const found = await readRevision(ledger, date, revision);
        const place = { job: job.name, date, report: id, revision };
        const occasion = { late: isLate && !isCorrection, corrected: isCorrection };
        const summary = found && (await summarizeReport(store, log, report, place, { ...occasion, publicUrl }));
        return summary ? [buildReportEvent(origin, found.manifest, sent, summary)] : [];
      },
    });
  }
  return seen;
}

/** The published revision or one of the history; `undefined` if it is gone or damaged. @throws Fault `MANIFEST_INVALID` */
async function readRevision(ledger: Ledger, date: string, revision: number) {
  const newest = await ledger.manifest(date);
  if (newest?.revision === revision) return { manifest: newest, isReplaced: false };
  const kept = await ledger.kept(date, revision);
  return kept?.manifest && { manifest: kept.manifest, isReplaced: true };
}

/** The mailed reports of the lookback: runs mail no older date. */
async function* listMailed(
  store: Store,
  log: Log,
  { name: job, reports }: Job,
  sealed: readonly { readonly date: string }[],
) {
  const dates = sealed.map(({ date }) => date).sort();
  const newest = dates.at(-1) ?? '';
  for (const report of reports) {
    const id = identifyReport(report);
    for (const date of dates) {
      if (date < addDays(newest, -LOOKBACK_DAYS)) continue;
      try {
        const { value: receipt } = await openReceiptLog(store, { job, date, report: id }).read();
        const sent = receipt && sumReceipt(report, id, receipt);
        if (sent) yield { report, date, revision: receipt.revision, sent, isLate: date < newest };
      } catch (error) {
        if (!isFault(error) || error.code !== 'RECEIPT_INVALID') throw error;
        // Delivery alerts the operators; the events of other dates go on.
        log.warn({ event: 'receipt-unread', date }, `${date}: no event of its report: ${error.message}`);
      }
    }
  }
}

/** `undefined` if nobody was mailed: a test mail to somebody else is not the report. */
function sumReceipt({ template, to }: JobReport, id: string, receipt: Receipt): SentReport | undefined {
  const addresses = to.map(({ address }) => formatRecipientKey(address));
  const times = Object.entries(receipt.recipients).flatMap(([address, { status, at }]) =>
    status === 'sent' && addresses.includes(address) ? [at] : [],
  );
  const [time] = times.sort();
  if (time === undefined) return undefined;
  const isCorrection = addresses.some((address) => receipt.mailed_before?.[address] !== undefined);
  return { id, template, recipients: times.length, time, isCorrection };
}
