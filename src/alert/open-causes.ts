/**
 * A job's open causes, and which targets were notified of them. Invariant: each target is notified of a cause once, and
 * once of its end if it was notified of the cause; the next run notifies a target that could not be reached. Pure.
 */
import { z } from 'zod';
import type { AlertWords } from './alert-text.ts';
import { CAUSE_KINDS, type Cause, judgeCause } from './causes.ts';
import { eventStateSchema } from './open-events.ts';
import type { RunFacts } from './run-facts.ts';

const entrySchema = z.object({
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

export const alertStateSchema = z.object({
  version: z.literal(1),
  job: z.string(),
  /** By cause id. */
  alerts: z.record(z.string(), entrySchema),
  /** Absent until a run with an address for events has begun. */
  events: eventStateSchema.optional(),
});

export type AlertEntry = Readonly<z.infer<typeof entrySchema>>;
export type AlertState = Readonly<z.infer<typeof alertStateSchema>>;

/** Causes that no run can re-check (such as a recipient removed from the list) end after this time. */
const STALE_MS = 30 * 86_400_000;
/** Losses are kept longer than any run looks back. */
const CLOSED_MS = 60 * 86_400_000;

export function createAlertState(job: string): AlertState {
  return { version: 1, job, alerts: {} };
}

/** The state after a run: causes that it found are open; causes that ended are recovered or removed. */
export function noteCauses(
  state: AlertState,
  causes: readonly Cause[],
  facts: RunFacts,
  describe: (cause: Cause) => AlertWords,
): AlertState {
  const at = new Date(facts.nowMs).toISOString();
  const found = causes.map(({ id }) => id);
  const alerts: Record<string, AlertEntry> = {};
  for (const [id, entry] of Object.entries(state.alerts)) {
    const kept = found.includes(id) ? reopen(entry) : settle(entry, facts, found);
    if (kept) alerts[id] = kept;
  }
  for (const cause of causes) {
    const known = alerts[cause.id];
    if (known?.status === 'closed') continue;
    const { kind, date, code, report } = cause;
    const fresh = { first_seen: at, status: 'open' as const, sent: {}, recovery_sent: {} };
    alerts[cause.id] = { ...fresh, ...known, kind, date, code, report, ...describe(cause), last_seen: at };
  }
  return { ...state, alerts };
}

/** A cause that returned before every target knew of its recovery. Only targets that knew are notified again. */
function reopen(entry: AlertEntry): AlertEntry {
  if (entry.status !== 'recovered') return entry;
  const sent = Object.entries(entry.sent).filter(([target]) => !(target in entry.recovery_sent));
  return { ...entry, status: 'open', sent: Object.fromEntries(sent), recovery_sent: {} };
}

/** @returns `undefined` to forget the entry */
function settle(entry: AlertEntry, facts: RunFacts, found: readonly string[]): AlertEntry | undefined {
  const ageMs = facts.nowMs - Date.parse(entry.last_seen);
  if (entry.status === 'closed') return ageMs > CLOSED_MS ? undefined : entry;
  if (ageMs > STALE_MS) return undefined;
  if (entry.status === 'recovered') return entry;
  const verdict = judgeCause(entry, facts, found);
  if (verdict === 'over') return undefined;
  return verdict === 'recovered' ? { ...entry, status: 'recovered' } : entry;
}

export interface DueAlerts {
  readonly alerts: readonly string[];
  readonly recovered: readonly string[];
}

/** What the target must still be notified of, by cause id. */
export function listDue(state: AlertState, target: string): DueAlerts {
  const entries = Object.entries(state.alerts);
  const isSent = ({ sent }: AlertEntry) => target in sent;
  return {
    alerts: entries.filter(([, entry]) => entry.status === 'open' && !isSent(entry)).map(([id]) => id),
    recovered: entries
      .filter(([, entry]) => entry.status === 'recovered' && isSent(entry) && !(target in entry.recovery_sent))
      .map(([id]) => id),
  };
}

/** Records that the target was notified of these. */
export function noteSent(state: AlertState, target: string, due: DueAlerts, nowMs: number): AlertState {
  const at = new Date(nowMs).toISOString();
  const alerts: Record<string, AlertEntry> = {};
  for (const [id, entry] of Object.entries(state.alerts)) {
    const sent = due.alerts.includes(id) ? { ...entry.sent, [target]: at } : entry.sent;
    const recoverySent = due.recovered.includes(id) ? { ...entry.recovery_sent, [target]: at } : entry.recovery_sent;
    alerts[id] = { ...entry, sent, recovery_sent: recoverySent };
  }
  return { ...state, alerts };
}

/** Forgets a recovery that no target still waits for; closes a loss that all targets know. */
export function closeDone(state: AlertState, targets: readonly string[]): AlertState {
  const alerts: Record<string, AlertEntry> = {};
  for (const [id, entry] of Object.entries(state.alerts)) {
    const isSent = targets.every((target) => target in entry.sent);
    if (entry.kind === 'date-expired' && entry.status === 'open' && isSent) alerts[id] = { ...entry, status: 'closed' };
    else if (entry.status !== 'recovered' || targets.some((target) => listDue(state, target).recovered.includes(id))) {
      alerts[id] = entry;
    }
  }
  return { ...state, alerts };
}
