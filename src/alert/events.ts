/**
 * The events of a job: what the store shows and was not noted before -> owed in the outbox -> posted, until accepted.
 * Nothing is taken from the memory of a run, so a run that was killed between a seal and its event is made up for by the
 * next one. Invariants: never throws, never changes how a run ends, and costs nothing without an address; an event that
 * cannot be posted stays owed. An id depends only on what happened, never on who reports it or when, so that a receiver can
 * drop repetitions by `source` and `id`; no event contains a secret, a signed link or a mail address.
 */

import { LOOKBACK_DAYS } from '../api-contract/published-limits.ts';
import { addDays } from '../calendar/wall-clock.ts';
import { assertNotAborted, describeError, isFault } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import { findMailedBefore, formatRecipientKey, openReceiptLog, type Receipt } from '../deliver/receipt.ts';
import { identifyReport, type Job, type JobReport } from '../job/job.ts';
import { dropKeyOf, historyKey } from '../ledger/layout.ts';
import { Ledger } from '../ledger/ledger.ts';
import type { Manifest } from '../ledger/manifest.ts';
import type { Webhook } from '../mail/webhook.ts';
import type { RunEnv } from '../run/run.ts';
import { openJobState } from '../state/job-state.ts';
import type { RunResult } from '../state/run-result.ts';
import { readStoreId } from '../store/identity.ts';
import type { Store } from '../store/store.ts';
import { readKnownConditions } from './alerts.ts';
import {
  type CloudEvent,
  type EventState,
  isAbandoned,
  JOB_EVENTS,
  listOwed,
  type Outbox,
  type OutboxState,
  openOutbox,
  sumOwed,
} from './outbox.ts';
import { addressOf, summarizeReport } from './report-post.ts';

/** A slow receiver must not hold the end of a run for long; the next run goes on. */
const MAX_POSTING_MS = 120_000;

/**
 * Before the first run that has an address for a target seals or mails anything: notes what is there, so that an old store
 * does not flood the receiver. Later it costs one read.
 * @param opened default: its own store
 */
export async function beginEvents(env: RunEnv, job: Job, opened?: Store): Promise<void> {
  await withEvents(env, job, opened, async (jobEvents) => {
    const { outbox, targets } = jobEvents;
    const listNew = ({ events }: OutboxState) => [...targets.keys()].filter((one) => !events.begun.includes(one));
    if (listNew(await outbox.read()).length === 0) return;
    const seen = await look(env, job, jobEvents, undefined);
    await outbox.update((state) => {
      // What another worker seals after its own beginning must not count as known.
      const added = listNew(state);
      const known = seen.filter(({ target }) => added.includes(target));
      const { begun, noted } = state.events;
      return changeEvents(state, { begun: [...begun, ...added], noted: { ...noted, ...listNoted(known) } });
    });
  });
}

function changeEvents(state: OutboxState, change: Partial<EventState>): OutboxState {
  return { ...state, events: { ...state.events, ...change } };
}

/** The latest revisions by subject. */
function listNoted(happenings: readonly Happening[]): EventState['noted'] {
  return Object.fromEntries(happenings.map(({ subject, revision }) => [subject, revision]));
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
    const { outbox, log, targets } = jobEvents;
    const { events: before } = await outbox.read();
    const isNews = ({ subject, revision }: Happening, { noted }: EventState) => revision > (noted[subject] ?? 0);
    const built = new Map<Happening, readonly CloudEvent[]>();
    for (const happening of seen) {
      const { target, subject } = happening;
      // What has no address is not noted: it is posted when there is one. Without a beginning it is not known what is new.
      if (!targets.has(target) || !before.begun.includes(target) || !isNews(happening, before)) continue;
      try {
        built.set(happening, await happening.build(before.noted[subject] ?? 0));
      } catch (error) {
        // One damaged manifest must not hold back the events of all other dates.
        tellFailure(env, log, error);
      }
    }
    await outbox.update((state) => {
      // Another worker may have noted some in the meantime.
      const news = [...built].filter(([happening]) => isNews(happening, state.events));
      const added = news.flatMap(([{ target }, events]) =>
        events.map((event) => [event.id, { target, event }] as const),
      );
      const wanted = added.filter(([, { event }]) => event.type === 'report.posted' || job.events.includes(event.type));
      return changeEvents(state, {
        noted: { ...state.events.noted, ...listNoted(news.map(([happening]) => happening)) },
        owed: { ...state.events.owed, ...Object.fromEntries(wanted) },
      });
    });
    return await postOwed(env, job, jobEvents);
  });
  return summary ?? nothing;
}

/** A job's events and where they go. */
interface JobEvents {
  readonly ledger: Ledger;
  readonly log: Log;
  readonly outbox: Outbox;
  /** Those with an address: `JOB_EVENTS`, if the job wants any, and reports whose summaries are posted. */
  readonly targets: ReadonlyMap<string, Webhook>;
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
    const wanted = job.reports.map((report) => [identifyReport(report), report.post] as const);
    if (job.events.length > 0) wanted.unshift([JOB_EVENTS, 'events']);
    // One receiver for each address, so that what does not answer is tried once.
    const receivers = new Map<string, Webhook | undefined>();
    const targets = new Map<string, Webhook>();
    for (const [target, post] of wanted) {
      if (post === null) continue;
      if (!receivers.has(post))
        receivers.set(post, await env.openWebhook('event', post === 'events' ? undefined : post));
      const receiver = receivers.get(post);
      if (receiver) targets.set(target, receiver);
    }
    if (targets.size === 0) return undefined;
    if (opened === undefined) own = await env.openStore(job.drop.to, { objects: job.drop.s3 });
    const store = opened ?? own;
    if (store === undefined) return undefined;
    const outbox = await openOutbox(store, job.name, openJobState(env.stateDir, job.name).alerts, log);
    return await action({ ledger: new Ledger(store, job.drop.dataset), log, outbox, targets });
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

async function postOwed(env: RunEnv, job: Job, { outbox, log, targets }: JobEvents) {
  const { clock, signal } = env;
  const deadlineMs = clock.now() + MAX_POSTING_MS;
  /** Receivers that do not answer: what else they are to get waits. */
  const away = new Set<Webhook>();
  /** @param reason why it stays owed; without one, it does not */
  const settle = async (id: string, reason?: string) =>
    await outbox.update((now) => {
      const { [id]: one, ...others } = now.events.owed;
      if (one === undefined) return now;
      return changeEvents(now, { owed: reason ? { ...now.events.owed, [id]: { ...one, reason } } : others });
    });
  let posted = 0;
  for (const { event, target } of listOwed(outbox.state.events)) {
    if (clock.now() > deadlineMs) break;
    const { id, type } = event;
    // Another worker may have posted it in the meantime.
    if ((await outbox.read()).events.owed[id] === undefined) continue;
    const receiver = targets.get(target);
    if (receiver === undefined) {
      // Without an address it waits for one, unless its report is no longer posted.
      if (isAbandoned(job, target)) await settle(id);
      continue;
    }
    if (away.has(receiver)) continue;
    try {
      await receiver.post(event, signal);
    } catch (error) {
      assertNotAborted(signal);
      const reason = env.redact(describeError(error));
      log.error({ event: 'event-unsent', id, type, reason }, `event not sent: ${id}: ${reason}`);
      // Any other failure concerns all events of the receiver, not only this one.
      if (!isFault(error) || error.code !== 'WEBHOOK_REFUSED') away.add(receiver);
      // A longer outage changes nothing, so it costs no writes.
      await settle(id, reason);
      continue;
    }
    posted += 1;
    log.info({ event: 'event-sent', id, type }, `event sent: ${id}`);
    await settle(id);
  }
  return { posted, owed: sumOwed(outbox.state.events, job) };
}

/** What the store shows: a drop, a loss, or a mailed report of a date, up to this revision. */
interface Happening {
  readonly target: string;
  /** `drop/DATE`, `lost/DATE`, `report/ID/DATE` or `post/ID/DATE`. */
  readonly subject: string;
  readonly revision: number;
  /** The events since a noted revision. */
  build(noted: number): Promise<readonly CloudEvent[]>;
}

/**
 * Two reads of the store, and one for each report and date of the lookback. @param result of a run, with its conditions
 * @throws StoreFault
 */
async function look(env: RunEnv, job: Job, { ledger, log }: JobEvents, result: RunResult | undefined) {
  const { store, dataset } = ledger;
  const nowMs = env.clock.now();
  const { conditions } = result ?? (await readKnownConditions(ledger, log, job, nowMs, await env.readCalendar()));
  const { entries } = await ledger.conditions();
  const { id: storeId = 'unknown' } = await readStoreId(store);
  const origin = { storeId, storeUrl: store.url, job: job.name, dataset };
  const seen: Happening[] = [];
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
    seen.push({ target: JOB_EVENTS, subject: `drop/${date}`, revision, build });
  }
  for (const date of Object.keys(conditions).filter((one) => conditions[one] === 'expired')) {
    const build = async () => [buildLossEvent(origin, date, new Date(nowMs).toISOString())];
    seen.push({ target: JOB_EVENTS, subject: `lost/${date}`, revision: 1, build });
  }
  for await (const { report, date, revision, sent, isLate } of listMailed(store, log, job, sealed)) {
    const { id, isCorrection: corrected } = sent;
    const build = async (summarize?: () => ReturnType<typeof summarizeReport>) => {
      const found = await readRevision(ledger, date, revision);
      const summary = found && (await summarize?.());
      return found && (summary || !summarize) ? [buildReportEvent(origin, found.manifest, sent, summary)] : [];
    };
    // What is only in a folder can be posted, but nobody was sent it.
    if (sent.recipients > 0)
      seen.push({ target: JOB_EVENTS, subject: `report/${id}/${date}`, revision, build: () => build() });
    if (report.post === null) continue;
    const place = { job: job.name, date, report: id, revision };
    const occasion = { late: isLate && !corrected, corrected, publicUrl: env.readSetting('FLOWDROP_PUBLIC_URL') };
    const summarize = () => summarizeReport(store, log, report, place, occasion);
    seen.push({ target: id, subject: `post/${id}/${date}`, revision, build: () => build(summarize) });
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

/** `undefined` without a mail, in a folder or sent: a test mail to somebody else is not the report. */
function sumReceipt({ template, to }: JobReport, id: string, receipt: Receipt) {
  const addresses = to.map(({ address }) => formatRecipientKey(address));
  const ofReport = Object.entries(receipt.recipients).filter(([address]) => addresses.includes(address));
  const listTimes = (wanted: string) =>
    ofReport.flatMap(([, { status, at }]) => (status === wanted ? [at] : [])).sort();
  const times = listTimes('sent');
  const [time] = [...times, ...listTimes('written')];
  if (time === undefined) return undefined;
  // One of the recipients was mailed an earlier revision.
  const isCorrection = addresses.some((address) => findMailedBefore(receipt, address, false) !== undefined);
  return { id, template, recipients: times.length, time, isCorrection };
}

/** Whose events they are: the store's id is the same on every machine that uses it. */
type EventOrigin = Readonly<Record<'storeId' | 'storeUrl' | 'job' | 'dataset', string>>;

/** @param isReplaced whether a later revision has replaced this one: its file is in the history */
export function buildDropEvent(origin: EventOrigin, manifest: Manifest, isReplaced: boolean): CloudEvent {
  const { date, revision, sealed_at: time, changes } = manifest;
  const type = revision === 1 ? 'drop.sealed' : changes?.extended ? 'drop.extended' : 'drop.restated';
  return buildEvent(origin, type, date, time, `r${revision}`, describeDrop(origin, manifest, isReplaced));
}

/** @param time when the loss was found */
export function buildLossEvent(origin: EventOrigin, date: string, time: string): CloudEvent {
  return buildEvent(origin, 'date.lost', date, time, 'r0', { revision: null, condition: 'expired' });
}

/**
 * @param manifest of the revision that was mailed @param sent when the first recipient was mailed, and how many so far
 * @param summary what `report-post.ts` makes of the report, to be posted; without it, the event says that it was mailed
 */
export function buildReportEvent(
  origin: EventOrigin,
  manifest: Manifest,
  { time, template, recipients, id }: NonNullable<ReturnType<typeof sumReceipt>>,
  summary?: CloudEvent['data'],
): CloudEvent {
  const { date, revision, condition } = manifest;
  const data = summary
    ? { revision, condition, report: template, ...summary }
    : { ...describeDrop(origin, manifest, false), report: template, recipients };
  const type = summary ? 'report.posted' : 'report.sent';
  return buildEvent(origin, type, date, time, `r${revision}/${origin.job}/${id}`, data);
}

function buildEvent(
  { storeId, job, dataset }: EventOrigin,
  type: CloudEvent['type'],
  date: string,
  time: string,
  about: string,
  data: CloudEvent['data'],
): CloudEvent {
  return {
    specversion: '1.0',
    id: `${dataset}/${date}/${about}/${type}`,
    source: `urn:flowdrop:${encodeURIComponent(storeId)}:${encodeURIComponent(dataset)}`,
    ...{ type, time: new Date(time).toISOString(), subject: date, datacontenttype: 'application/json' },
    data: { job, dataset, date, ...data },
  };
}

function describeDrop({ storeUrl }: EventOrigin, manifest: Manifest, isReplaced: boolean): CloudEvent['data'] {
  const { dataset, date, revision, condition, rows, supersedes, files } = manifest;
  const [{ filename, size, hash }] = files;
  const key =
    isReplaced && manifest.table === undefined ? historyKey(dataset, date, revision, filename) : dropKeyOf(manifest);
  return {
    ...{ revision, condition, rows, supersedes, size },
    object: addressOf(storeUrl, key),
    sha256: hash.replace(/^sha256:/, ''),
  };
}
