/**
 * Where is kept what operators were told: `_alerts/<job>.json` in the store, so that another worker does not tell it again.
 * A store has no "replace if it is still what I read". So a write applies what has changed since the last one to what the
 * store holds by then; of two that write in the same moment the later one wins, which makes something be told twice. What
 * such a moment could lose for good, a cause that no later run finds again, is what `flowdrop alert` reports by its exit
 * code when somebody has not been told. While the store cannot be written, which is itself a cause to tell,
 * a file in the state directory remembers instead, and moves into the store when that is back.
 */
import { rm } from 'node:fs/promises';
import { readFileIfExists, writeFileAtomic } from '../core/atomic-file.ts';
import { describeError } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import { alertsKey } from '../ledger/layout.ts';
import type { Store } from '../store/store.ts';
import { type AlertState, alertStateSchema, applyChanges, createAlertState } from './open-causes.ts';

interface AlertMemory {
  readonly state: AlertState;
  /** The state with what another worker has written since: it may have told somebody. Never throws. */
  refresh(state: AlertState): Promise<AlertState>;
  /** Writes it when it differs from what was read or written last. Never throws: what is not remembered is told again. */
  write(state: AlertState): Promise<void>;
}

interface AlertMemoryDeps {
  /** `undefined` when it could not be opened. */
  readonly store: Store | undefined;
  /** File of the state directory. */
  readonly path: string;
  readonly log: Log;
}

/** Reads one object of the store and, where there is one, the local file. */
export async function openAlertMemory(deps: AlertMemoryDeps, job: string): Promise<AlertMemory> {
  const { store, path, log } = deps;
  let isStoreDown = store === undefined;
  const stored = await readStored(store, job, log).catch((error: unknown) => {
    const reason = describeError(error);
    log.warn({ event: 'alerts-unread', reason }, `what was told is not known from the store: ${reason}`);
    isStoreDown = true;
    return undefined;
  });
  const local = parseState(await readFileIfExists(path), job, log);
  const alerts = { ...stored?.alerts, ...local?.alerts };
  const state = { ...createAlertState(job), alerts };
  /** What changes are taken against. */
  let base: AlertState = { ...createAlertState(job), alerts: { ...stored?.alerts } };
  /** What is in the store already; with a local file it is yet to be brought there. */
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
        // What is to be told is known; that it was told twice does less harm than that it was not.
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
        log.warn({ event: 'alerts-unwritten', reason }, `what was told is kept here, not in the store: ${reason}`);
      }
      try {
        await writeFileAtomic(path, text);
      } catch (error) {
        // Neither store nor disk: telling twice is better than silence.
        const reason = describeError(error);
        log.error({ event: 'alerts-forgotten', reason }, `what was told will be told again: ${reason}`);
      }
    },
  };
}

async function readStored(store: Store | undefined, job: string, log: Log): Promise<AlertState | undefined> {
  const bytes = await store?.get(alertsKey(job));
  return parseState(bytes && Buffer.from(bytes).toString('utf8'), job, log);
}

/** What cannot be read is begun anew: telling again does less harm than telling nothing. */
function parseState(text: string | undefined, job: string, log: Log): AlertState | undefined {
  if (text === undefined) return undefined;
  try {
    return alertStateSchema.parse(JSON.parse(text));
  } catch (error) {
    const reason = describeError(error).replaceAll('\n', ' ');
    log.warn({ event: 'alerts-invalid', job, reason }, `${job}: what was told begins anew: ${reason}`);
    return undefined;
  }
}

function encode(state: AlertState): string {
  return `${JSON.stringify(state, undefined, 2)}\n`;
}
