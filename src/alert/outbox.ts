/**
 * The outbox of a job, its memory of alerts: the open causes with who was sent them, and the events that are owed. It
 * sends nothing. What is due is written before it is sent, and each sending after it; so a killed process repeats at most
 * one message, under the same id. It is a document of the store, so that no other worker sends the same again. While the
 * store cannot be read or written, which is itself a cause, a file in the state folder remembers the causes instead; it
 * moves into the store when that is back. Invariants: each target is notified of a cause once, and of its end if it was
 * notified of the cause and a run sees the end; what happened is noted in the same write that owes its event.
 */
import { rm } from 'node:fs/promises';
import { z } from 'zod';
import { readFileIfExists, writeWholeFile } from '../core/atomic-file.ts';
import { describeError } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import { identifyReport, type Job } from '../job/job.ts';
import { EVENT_TYPES } from '../job/shape.ts';
import { alertsPrefix } from '../ledger/layout.ts';
import type { JobStatus } from '../state/documents.ts';
import { Document } from '../store/document.ts';
import type { Store } from '../store/store.ts';
import { type AlertWords, CAUSE_KINDS, type Cause, judgeCause, type RunFacts } from './cause-table.ts';

const alertSchema = z.object({
  kind: z.enum(CAUSE_KINDS),
  date: z.string().nullable(),
  code: z.string().nullable(),
  report: z.object({ template: z.string(), to: z.string() }).nullable(),
  title: z.string(),
  what: z.string(),
  next: z.string(),
  first_seen: z.iso.datetime(),
  last_seen: z.iso.datetime(),
  status: z.enum(['open', 'recovered']),
  /** When each target was notified, by target; without those that were notified of the recovery since. */
  sent: z.record(z.string(), z.iso.datetime()),
});

/** CloudEvents 1.0 in structured JSON (https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/spec.md). */
export const cloudEventSchema = z.object({
  specversion: z.literal('1.0'),
  id: z.string(),
  source: z.string(),
  /** The job chooses among the first five; a report's summary goes to the address that the report names. */
  type: z.enum([...EVENT_TYPES, 'report.posted']),
  /** When it happened, ISO 8601 in UTC. */
  time: z.iso.datetime(),
  /** The trading date. */
  subject: z.string(),
  datacontenttype: z.literal('application/json'),
  data: z.record(z.string(), z.json()),
});

export type CloudEvent = Readonly<z.infer<typeof cloudEventSchema>>;

/** The target of a job's own events; a report's summaries have the report's id as target. */
export const JOB_EVENTS = 'events';

const owedSchema = z.object({
  target: z.string(),
  /** Never changed, so a repetition has the same bytes. */
  event: cloudEventSchema,
  /** Why it failed at last, if it was tried. */
  reason: z.string().optional(),
});

const eventsSchema = z.object({
  /** The targets that there has been an address for: they get what happened since. */
  begun: z.array(z.string()),
  /** The latest noted revision of each subject (see `Happening`): one a date, never removed. */
  noted: z.record(z.string(), z.number().int()),
  /** By id: not yet accepted by the receiver. Noted in the same write. */
  owed: z.record(z.string(), owedSchema),
});

const outboxSchema = z.object({
  version: z.literal(1),
  job: z.string(),
  /** By cause id. */
  alerts: z.record(z.string(), alertSchema),
  events: eventsSchema.default({ begun: [], noted: {}, owed: {} }),
});

type AlertEntry = Readonly<z.infer<typeof alertSchema>>;
export type EventState = Readonly<z.infer<typeof eventsSchema>>;
export type OutboxState = Readonly<z.infer<typeof outboxSchema>>;

export function createOutboxState(job: string): OutboxState {
  return outboxSchema.parse({ version: 1, job, alerts: {} });
}

export type Outbox = Awaited<ReturnType<typeof openOutbox>>;

/** @param path of the file in the state folder */
export async function openOutbox(store: Store | undefined, job: string, path: string, log: Log) {
  /** As in the file on this machine. */
  let local = parseState(await readFileIfExists(path), job, log);
  /** As it was known last. */
  let state = local ?? createOutboxState(job);
  /** `undefined` if the store could not be opened, read or written. */
  let document = store && openDocument(store, job, log);

  const join = (stored: OutboxState = createOutboxState(job)): OutboxState => {
    return { ...stored, alerts: { ...stored.alerts, ...local?.alerts } };
  };
  /** @returns whether the store did it */
  const inStore = async (about: object, text: string, act: (document: Document<OutboxState>) => Promise<void>) => {
    try {
      if (document) await act(document);
    } catch (error) {
      const reason = describeError(error);
      log.warn({ ...about, reason }, `${text}: ${reason}`);
      document = undefined;
    }
    return document !== undefined;
  };
  return {
    get state() {
      return state;
    },
    /** As it is now, with what other workers have changed since. Never throws: then it is what was known last. */
    async read(): Promise<OutboxState> {
      await inStore({ event: 'alerts-unread' }, 'the store cannot say which alerts were sent', async (found) => {
        state = join((await found.read()).value);
      });
      return state;
    },
    /** Changes it, in the store or else in the file. `change` may be called twice. Never throws: then it is sent again. */
    async update(change: (state: OutboxState) => OutboxState): Promise<OutboxState> {
      const text = 'sent alerts are recorded on this machine, not in the store';
      const isWritten = await inStore({ event: 'alerts-unwritten' }, text, async (found) => {
        let next = state;
        await found.update((stored) => {
          state = join(stored);
          next = change(state);
          return stored === undefined && isSame(next, createOutboxState(job)) ? undefined : next;
        });
        state = next;
        if (local) await rm(path, { force: true });
        local = undefined;
      });
      const next = isWritten ? state : change(state);
      if (isSame(next, state)) return state;
      state = next;
      local = next;
      // Without a file that can be written, sending twice is better than silence.
      await writeWholeFile(path, format(next)).catch((error: unknown) => {
        const reason = describeError(error);
        log.error(
          { event: 'alerts-forgotten', reason },
          `sent alerts could not be recorded and will be sent again: ${reason}`,
        );
      });
      return state;
    },
  };
}

function openDocument(store: Store, job: string, log?: Log): Document<OutboxState> {
  return new Document(store, {
    prefix: alertsPrefix(job),
    suffix: '.json',
    kept: 10,
    parse: (bytes) => parseState(Buffer.from(bytes).toString('utf8'), job, log),
    format: (state) => Buffer.from(format(state)),
  });
}

/** Starts anew if the text is unreadable: sending again does less harm than sending nothing. */
function parseState(text: string | undefined, job: string, log?: Log): OutboxState | undefined {
  if (text === undefined) return undefined;
  try {
    return outboxSchema.parse(JSON.parse(text));
  } catch (error) {
    const reason = describeError(error).replaceAll('\n', ' ');
    log?.warn(
      { event: 'alerts-invalid', job, reason },
      `${job}: the record of sent alerts is invalid; open alerts are sent again: ${reason}`,
    );
    return undefined;
  }
}

function isSame(a: OutboxState, b: OutboxState): boolean {
  return format(a) === format(b);
}

function format(state: OutboxState): string {
  return `${JSON.stringify(state, undefined, 2)}\n`;
}

/** Causes that no run finds or can re-check, as an old loss or a recipient who was removed from the list, end after this time. */
const STALE_MS = 30 * 86_400_000;
/** The state after a run: causes that it found are open; causes that ended are recovered or removed. */
export function noteCauses(
  state: OutboxState,
  causes: readonly Cause[],
  facts: RunFacts,
  describe: (cause: Cause) => AlertWords,
): OutboxState {
  const at = new Date(facts.nowMs).toISOString();
  const found = causes.map(({ id }) => id);
  const kept = changeAlerts(state, (entry, id) => (found.includes(id) ? entry : settle(entry, facts, found)));
  const alerts: Record<string, AlertEntry> = { ...kept.alerts };
  for (const cause of causes) {
    const known = alerts[cause.id];
    const { kind, date, code, report } = cause;
    // One that returned before every target knew of its recovery: only targets that knew are notified again.
    const same = { first_seen: at, sent: {}, ...known, status: 'open' as const };
    alerts[cause.id] = { ...same, kind, date, code, report, ...describe(cause), last_seen: at };
  }
  return { ...state, alerts };
}

/** @param change returns `undefined` to forget the entry */
function changeAlerts(state: OutboxState, change: (entry: AlertEntry, id: string) => AlertEntry | undefined) {
  const alerts: Record<string, AlertEntry> = {};
  for (const [id, entry] of Object.entries(state.alerts)) {
    const kept = change(entry, id);
    if (kept) alerts[id] = kept;
  }
  return { ...state, alerts };
}

function settle(entry: AlertEntry, facts: RunFacts, found: readonly string[]): AlertEntry | undefined {
  const ageMs = facts.nowMs - Date.parse(entry.last_seen);
  if (ageMs > STALE_MS) return undefined;
  if (entry.status === 'recovered') return entry;
  const verdict = judgeCause(entry, facts, found);
  if (verdict === 'over') return undefined;
  return verdict === 'recovered' ? { ...entry, status: 'recovered' } : entry;
}

/** Ids of causes. */
export interface DueAlerts {
  readonly alerts: readonly string[];
  readonly recovered: readonly string[];
}

/** What the target must still be notified of; `undefined`: nothing. */
export function listDue({ alerts }: OutboxState, target: string): DueAlerts | undefined {
  const choose = (isChosen: (entry: AlertEntry) => boolean) =>
    Object.entries(alerts).flatMap(([id, entry]) => (isChosen(entry) ? [id] : []));
  const due = {
    alerts: choose(({ status, sent }) => status === 'open' && !(target in sent)),
    recovered: choose(({ status, sent }) => status === 'recovered' && target in sent),
  };
  return due.alerts.length + due.recovered.length > 0 ? due : undefined;
}

/** Records that the target was notified of these. */
export function noteSent(state: OutboxState, target: string, due: DueAlerts, nowMs: number): OutboxState {
  return changeAlerts(state, (entry, id) => {
    const { [target]: before, ...sent } = entry.sent;
    if (due.recovered.includes(id)) return { ...entry, sent };
    return due.alerts.includes(id) ? { ...entry, sent: { ...sent, [target]: new Date(nowMs).toISOString() } } : entry;
  });
}

/** Forgets a recovery that no target still waits for. */
export function forgetDone(state: OutboxState, targets: readonly string[]): OutboxState {
  return changeAlerts(state, (entry) => {
    const isWaitedFor = entry.status === 'open' || targets.some((target) => target in entry.sent);
    return isWaitedFor ? entry : undefined;
  });
}

/**
 * Open alerts by id, as the store and this machine remember them. Never writes.
 * @param store `undefined`: this machine alone @param path as above @throws StoreFault
 */
export async function listOpenAlerts(store: Store | undefined, job: string, path: string) {
  const stored = store && (await openDocument(store, job).read()).value;
  const local = parseState(await readFileIfExists(path), job);
  return Object.entries({ ...stored?.alerts, ...local?.alerts }).filter(([, { status }]) => status === 'open');
}

/** In the order in which it happened. */
export function listOwed({ owed }: EventState) {
  return Object.values(owed).sort(({ event: a }, { event: b }) => (a.time === b.time ? 0 : a.time < b.time ? -1 : 1));
}

/** Whether it is the target of a report that is no longer posted. */
export function isAbandoned({ reports }: Job, target: string): boolean {
  return target !== JOB_EVENTS && !reports.some((one) => one.post !== null && identifyReport(one) === target);
}

/** Null if nothing is owed. */
export function sumOwed(state: EventState, job: Job): JobStatus['owed_events'] {
  const owed = listOwed(state).filter(({ target }) => !isAbandoned(job, target));
  const [first] = owed;
  if (first === undefined) return null;
  const reason = owed.map((one) => one.reason).find((one) => one !== undefined) ?? null;
  return { count: owed.length, since: first.event.time, reason };
}

/** The owed events of a job, for a status. Never writes; an unreadable record owes nothing. @throws StoreFault */
export async function readOwedEvents(store: Store, job: Job): Promise<JobStatus['owed_events']> {
  const { value } = await openDocument(store, job.name).read();
  return value ? sumOwed(value.events, job) : null;
}
