/**
 * Remembers which alerts were sent, and which events are owed: `_flowdrop/alerts/<job>.json` in the store, so that another worker does
 * not send them again.
 * A store has no compare-and-swap. So a write applies our changes since the last write to what the store holds by then.
 * If two workers write at the same moment, the later write wins, and an alert may be sent twice. Such a moment could
 * also lose a cause that no later run finds again; for these, the exit code of `flowdrop alert` reports that someone
 * was not notified. While the store cannot be written, which is itself a cause, a file in the state directory remembers
 * instead. It moves into the store when the store is back.
 */
import { rm } from 'node:fs/promises';
import { readFileIfExists, writeFileAtomic } from '../core/atomic-file.ts';
import { describeError } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import type { Job } from '../job/job.ts';
import { alertsKey } from '../ledger/layout.ts';
import type { Store } from '../store/store.ts';
import { type AlertState, alertStateSchema, applyChanges, createAlertState } from './open-causes.ts';
import { joinEvents, type OwedEvents, sumOwed } from './open-events.ts';

export interface AlertMemory {
  readonly state: AlertState;
  /** Merges in what another worker has written since: it may have notified someone. Never throws. */
  refresh(state: AlertState): Promise<AlertState>;
  /**
   * Writes the state if it differs from the last one read or written. Never throws: an unrecorded alert is sent again.
   */
  write(state: AlertState): Promise<void>;
}

interface AlertMemoryDeps {
  /** `undefined` if the store could not be opened. */
  readonly store: Store | undefined;
  /** File in the state directory. */
  readonly path: string;
  readonly log: Log;
}

/** Reads one object of the store, and the local file if it exists. */
export async function openAlertMemory(deps: AlertMemoryDeps, job: string): Promise<AlertMemory> {
  const { store, path, log } = deps;
  let isStoreDown = store === undefined;
  const stored = await readStored(store, job, log).catch((error: unknown) => {
    const reason = describeError(error);
    log.warn({ event: 'alerts-unread', reason }, `the store cannot say which alerts were sent: ${reason}`);
    isStoreDown = true;
    return undefined;
  });
  const local = parseState(await readFileIfExists(path), job, log);
  const alerts = { ...stored?.alerts, ...local?.alerts };
  const events = joinEvents(stored?.events, local?.events);
  const state = { ...createAlertState(job), alerts, events };
  /** The state that our changes are compared with. */
  let base: AlertState = { ...createAlertState(job), alerts: { ...stored?.alerts }, events: stored?.events };
  /** The text in the store; empty while the local file must still be moved there. */
  let written = local && !isStoreDown ? '' : encode(state);
  return {
    state,
    async refresh(ours) {
      if (!store || isStoreDown) return ours;
      try {
        const now = await readStored(store, job, log);
        if (!now) return ours;
        const merged = applyChanges(now, base, ours);
        base = now;
        written = encode(now);
        return merged;
      } catch {
        // The due alerts are known; sending them twice does less harm than not sending them.
        return ours;
      }
    },
    async write(next) {
      const text = encode(next);
      if (text === written) return;
      written = text;
      const before = base;
      base = next;
      try {
        if (store && !isStoreDown) {
          const now = await readStored(store, job, log);
          const merged = now ? applyChanges(now, before, next) : next;
          await store.put(alertsKey(job), { bytes: Buffer.from(encode(merged)) }, { contentType: 'application/json' });
          if (local) await rm(path, { force: true });
          return;
        }
      } catch (error) {
        const reason = describeError(error);
        log.warn(
          { event: 'alerts-unwritten', reason },
          `sent alerts are recorded on this machine, not in the store: ${reason}`,
        );
      }
      try {
        await writeFileAtomic(path, text);
      } catch (error) {
        // Neither store nor disk can be written: sending twice is better than silence.
        const reason = describeError(error);
        log.error(
          { event: 'alerts-forgotten', reason },
          `sent alerts could not be recorded and will be sent again: ${reason}`,
        );
      }
    },
  };
}

/** The owed events of a job, for a status. Never writes; an unreadable record owes nothing. @throws StoreFault */
export async function readOwedEvents(
  { store, path }: { readonly store: Store; readonly path: string },
  job: Job,
): Promise<OwedEvents | null> {
  const stored = await readStored(store, job.name);
  const local = parseState(await readFileIfExists(path), job.name);
  return sumOwed(joinEvents(stored?.events, local?.events), job);
}

async function readStored(store: Store | undefined, job: string, log?: Log): Promise<AlertState | undefined> {
  const bytes = await store?.get(alertsKey(job));
  return parseState(bytes && Buffer.from(bytes).toString('utf8'), job, log);
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

function encode(state: AlertState): string {
  return `${JSON.stringify(state, undefined, 2)}\n`;
}
