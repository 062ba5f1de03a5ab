/**
 * A job's open causes in its outbox, and which targets were notified of them. Invariant: each target is notified of a
 * cause once, and once of its end if it was notified of the cause; the next run notifies a target that could not be
 * reached. Pure.
 */
import { type AlertWords, type Cause, judgeCause, type RunFacts } from './cause-table.ts';
import type { AlertEntry, OutboxState } from './outbox.ts';

/** Causes that no run can re-check (such as a recipient removed from the list) end after this time. */
const STALE_MS = 30 * 86_400_000;
/** Losses are kept longer than any run looks back. */
const CLOSED_MS = 60 * 86_400_000;

/** The state after a run: causes that it found are open; causes that ended are recovered or removed. */
export function noteCauses(
  state: OutboxState,
  causes: readonly Cause[],
  facts: RunFacts,
  describe: (cause: Cause) => AlertWords,
): OutboxState {
  const at = new Date(facts.nowMs).toISOString();
  const found = causes.map(({ id }) => id);
  const kept = changeAlerts(state, (entry, id) => (found.includes(id) ? reopen(entry) : settle(entry, facts, found)));
  const alerts: Record<string, AlertEntry> = { ...kept.alerts };
  for (const cause of causes) {
    const known = alerts[cause.id];
    if (known?.status === 'closed') continue;
    const { kind, date, code, report } = cause;
    const fresh = { first_seen: at, status: 'open' as const, sent: {}, recovery_sent: {} };
    alerts[cause.id] = { ...fresh, ...known, kind, date, code, report, ...describe(cause), last_seen: at };
  }
  return { ...state, alerts };
}

/** @param change returns `undefined` to forget the entry */
function changeAlerts(
  state: OutboxState,
  change: (entry: AlertEntry, id: string) => AlertEntry | undefined,
): OutboxState {
  const alerts: Record<string, AlertEntry> = {};
  for (const [id, entry] of Object.entries(state.alerts)) {
    const kept = change(entry, id);
    if (kept) alerts[id] = kept;
  }
  return { ...state, alerts };
}

/** A cause that returned before every target knew of its recovery. Only targets that knew are notified again. */
function reopen(entry: AlertEntry): AlertEntry {
  if (entry.status !== 'recovered') return entry;
  const sent = Object.entries(entry.sent).filter(([target]) => !(target in entry.recovery_sent));
  return { ...entry, status: 'open', sent: Object.fromEntries(sent), recovery_sent: {} };
}

function settle(entry: AlertEntry, facts: RunFacts, found: readonly string[]): AlertEntry | undefined {
  const ageMs = facts.nowMs - Date.parse(entry.last_seen);
  if (entry.status === 'closed') return ageMs > CLOSED_MS ? undefined : entry;
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
    recovered: choose((entry) => isRecoveryDue(entry, target)),
  };
  return due.alerts.length + due.recovered.length > 0 ? due : undefined;
}

function isRecoveryDue({ status, sent, recovery_sent: told }: AlertEntry, target: string): boolean {
  return status === 'recovered' && target in sent && !(target in told);
}

/** Records that the target was notified of these. */
export function noteSent(state: OutboxState, target: string, due: DueAlerts, nowMs: number): OutboxState {
  const now = { [target]: new Date(nowMs).toISOString() };
  return changeAlerts(state, (entry, id) => ({
    ...entry,
    sent: due.alerts.includes(id) ? { ...entry.sent, ...now } : entry.sent,
    recovery_sent: due.recovered.includes(id) ? { ...entry.recovery_sent, ...now } : entry.recovery_sent,
  }));
}

/** Forgets a recovery that no target still waits for; closes a loss that all targets know. */
export function closeDone(state: OutboxState, targets: readonly string[]): OutboxState {
  return changeAlerts(state, (entry) => {
    if (entry.status === 'recovered') return targets.some((target) => isRecoveryDue(entry, target)) ? entry : undefined;
    const isLossKnown = entry.kind === 'date-expired' && targets.every((target) => target in entry.sent);
    return isLossKnown ? { ...entry, status: 'closed' } : entry;
  });
}
