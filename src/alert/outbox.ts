/**
 * The outbox of a job: the open causes with who was sent them, and the events that are owed. What is due is written
 * before it is sent, and each sending after it; so a killed process repeats at most one message, under the same id. It is
 * a document of the store, so that no other worker sends the same again. While the store cannot be read or written, which
 * is itself a cause, a file in the state folder remembers the causes instead; it moves into the store when that is back.
 */
import { rm } from 'node:fs/promises';
import { z } from 'zod';
import { readFileIfExists, writeWholeFile } from '../core/atomic-file.ts';
import { describeError } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import { alertsPrefix } from '../ledger/layout.ts';
import { Document } from '../store/document.ts';
import type { Store } from '../store/store.ts';
import { CAUSE_KINDS } from './cause-table.ts';
import { cloudEventSchema } from './cloud-event.ts';

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
  /** `closed`: sent, and nothing more will follow; kept so that it is not sent again. */
  status: z.enum(['open', 'recovered', 'closed']),
  /** When each target was notified, by target. */
  sent: z.record(z.string(), z.iso.datetime()),
  /** When each target was notified of the recovery. */
  recovery_sent: z.record(z.string(), z.iso.datetime()),
});

const eventsSchema = z.object({
  /** The latest noted revision of each subject (see `Happening`). It grows by one line a date, as `condition.json`. */
  noted: z.record(z.string(), z.number().int()),
  /** By id: not yet accepted by the receiver. Noted in the same write; never changed, so a repetition has the same bytes. */
  owed: z.record(z.string(), cloudEventSchema),
  /** Owed events that were tried: since when they fail, and why at last. */
  failing: z.record(z.string(), z.object({ since: z.iso.datetime(), reason: z.string() })).optional(),
});

export const outboxSchema = z.object({
  version: z.literal(1),
  job: z.string(),
  /** By cause id. */
  alerts: z.record(z.string(), alertSchema),
  /** Absent until a run with an address for events has begun. */
  events: eventsSchema.optional(),
});

export type AlertEntry = Readonly<z.infer<typeof alertSchema>>;
export type EventState = Readonly<z.infer<typeof eventsSchema>>;
export type OutboxState = Readonly<z.infer<typeof outboxSchema>>;

export function createOutboxState(job: string): OutboxState {
  return { version: 1, job, alerts: {} };
}

export class Outbox {
  /** As it was known last. */
  state: OutboxState;
  readonly #job: string;
  readonly #path: string;
  readonly #log: Log;
  /** `undefined` if the store could not be opened, read or written. */
  #document: Document<OutboxState> | undefined;
  /** As in the file on this machine. */
  #local: OutboxState | undefined;

  private constructor(store: Store | undefined, job: string, path: string, log: Log, local: OutboxState | undefined) {
    this.#document = store && openOutboxDocument(store, job, log);
    this.#job = job;
    this.#path = path;
    this.#log = log;
    this.#local = local;
    this.state = local ?? createOutboxState(job);
  }

  /** @param path of the file in the state folder */
  static async open(store: Store | undefined, job: string, path: string, log: Log): Promise<Outbox> {
    return new Outbox(store, job, path, log, parseState(await readFileIfExists(path), job, log));
  }

  /** As it is now, with what other workers have changed since. Never throws: then it is what was known last. */
  async read(): Promise<OutboxState> {
    try {
      const found = await this.#document?.read();
      if (found) this.state = this.#join(found.value);
    } catch (error) {
      const reason = describeError(error);
      this.#log.warn({ event: 'alerts-unread', reason }, `the store cannot say which alerts were sent: ${reason}`);
      this.#document = undefined;
    }
    return this.state;
  }

  /** Changes it. Never throws: an unrecorded alert is sent again. */
  async update(change: (state: OutboxState) => OutboxState): Promise<OutboxState> {
    const log = this.#log;
    try {
      const written = await this.#document?.update((stored) => {
        this.state = change(this.#join(stored));
        const isNothing = stored === undefined && isSame(this.state, createOutboxState(this.#job));
        return isNothing ? undefined : this.state;
      });
      if (written) {
        if (this.#local) await rm(this.#path, { force: true });
        this.#local = undefined;
        return this.state;
      }
    } catch (error) {
      const reason = describeError(error);
      log.warn(
        { event: 'alerts-unwritten', reason },
        `sent alerts are recorded on this machine, not in the store: ${reason}`,
      );
      this.#document = undefined;
    }
    const before = this.state;
    this.state = change(before);
    if (isSame(this.state, before)) return before;
    this.#local = this.state;
    try {
      await writeWholeFile(this.#path, format(this.state));
    } catch (error) {
      // Neither store nor disk can be written: sending twice is better than silence.
      const reason = describeError(error);
      log.error(
        { event: 'alerts-forgotten', reason },
        `sent alerts could not be recorded and will be sent again: ${reason}`,
      );
    }
    return this.state;
  }

  #join(stored: OutboxState = createOutboxState(this.#job)): OutboxState {
    return { ...stored, alerts: { ...stored.alerts, ...this.#local?.alerts } };
  }
}

export function openOutboxDocument(store: Store, job: string, log?: Log): Document<OutboxState> {
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
