/**
 * Remembers which alerts were sent, and which events are owed: a document of the store, so that no other worker sends
 * them again. While the store cannot be read or written, which is itself a cause, a file in the state directory
 * remembers instead. It moves into the store when the store is back.
 */
import { rm } from 'node:fs/promises';
import { readFileIfExists, writeWholeFile } from '../core/atomic-file.ts';
import { describeError } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import type { Job } from '../job/job.ts';
import { alertsPrefix } from '../ledger/layout.ts';
import { Document } from '../store/document.ts';
import type { Store } from '../store/store.ts';
import { type AlertState, alertStateSchema, createAlertState } from './open-causes.ts';
import { type OwedEvents, sumOwed } from './open-events.ts';

export interface AlertMemory {
  /** As it is now, with what other workers have changed since. Never throws: then it is what was known last. */
  read(): Promise<AlertState>;
  /** Changes it. Never throws: an unrecorded alert is sent again. */
  update(change: (state: AlertState) => AlertState): Promise<AlertState>;
}

interface AlertMemoryDeps {
  /** `undefined` if the store could not be opened. */
  readonly store: Store | undefined;
  /** File in the state directory. */
  readonly path: string;
  readonly log: Log;
}

export async function openAlertMemory({ store, path, log }: AlertMemoryDeps, job: string): Promise<AlertMemory> {
  let document = store && openDocument(store, job, log);
  let local = parseState(await readFileIfExists(path), job, log);
  let known = local ?? createAlertState(job);
  const join = (stored: AlertState = createAlertState(job)): AlertState =>
    local ? { ...stored, alerts: { ...stored.alerts, ...local.alerts } } : stored;
  return {
    async read() {
      try {
        const found = await document?.read();
        if (found) known = join(found.value);
      } catch (error) {
        const reason = describeError(error);
        log.warn({ event: 'alerts-unread', reason }, `the store cannot say which alerts were sent: ${reason}`);
        document = undefined;
      }
      return known;
    },
    async update(change) {
      try {
        const written = await document?.update((stored) => {
          known = change(join(stored));
          const isNothing = stored === undefined && isSame(known, createAlertState(job));
          return isNothing ? undefined : known;
        });
        if (written) {
          if (local) await rm(path, { force: true });
          local = undefined;
          return known;
        }
      } catch (error) {
        const reason = describeError(error);
        log.warn(
          { event: 'alerts-unwritten', reason },
          `sent alerts are recorded on this machine, not in the store: ${reason}`,
        );
        document = undefined;
      }
      const before = known;
      known = change(known);
      if (isSame(known, before)) return known;
      local = known;
      try {
        await writeWholeFile(path, encode(known));
      } catch (error) {
        // Neither store nor disk can be written: sending twice is better than silence.
        const reason = describeError(error);
        log.error(
          { event: 'alerts-forgotten', reason },
          `sent alerts could not be recorded and will be sent again: ${reason}`,
        );
      }
      return known;
    },
  };
}

/** The owed events of a job, for a status. Never writes; an unreadable record owes nothing. @throws StoreFault */
export async function readOwedEvents(store: Store, job: Job): Promise<OwedEvents | null> {
  const { value } = await openDocument(store, job.name).read();
  return sumOwed(value?.events, job);
}

function openDocument(store: Store, job: string, log?: Log): Document<AlertState> {
  return new Document(store, {
    prefix: alertsPrefix(job),
    suffix: '.json',
    kept: 10,
    parse: (bytes) => parseState(Buffer.from(bytes).toString('utf8'), job, log),
    format: (state) => Buffer.from(encode(state)),
  });
}

/** Starts anew if the text is unreadable: sending again does less harm than sending nothing. */
function parseState(text: string | undefined, job: string, log?: Log): AlertState | undefined {
  if (text === undefined) return undefined;
  try {
    return alertStateSchema.parse(JSON.parse(text));
  } catch (error) {
    const reason = describeError(error).replaceAll('\n', ' ');
    log?.warn(
      { event: 'alerts-invalid', job, reason },
      `${job}: the record of sent alerts is invalid; open alerts are sent again: ${reason}`,
    );
    return undefined;
  }
}

function isSame(a: AlertState, b: AlertState): boolean {
  return encode(a) === encode(b);
}

function encode(state: AlertState): string {
  return `${JSON.stringify(state, undefined, 2)}\n`;
}
