/**
 * What operators were told of a job, and what is still open. Invariant: each target is told of a cause once, and that it is
 * over once, if it was told of the cause; a target that could not be reached is told by the next run. Pure.
 */
import { z } from 'zod';
import type { AlertWords } from './alert-text.ts';
import { CAUSE_KINDS, type Cause, judgeCause } from './causes.ts';
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
  /** `closed`: told, and nothing more will come of it; kept so that it is not told again. */
  status: z.enum(['open', 'recovered', 'closed']),
  /** When each target was told, by target. */
  told: z.record(z.string(), z.iso.datetime()),
  /** When each target was told that it is over. */
  recovery_told: z.record(z.string(), z.iso.datetime()),
});

export const alertStateSchema = z.object({
  version: z.literal(1),
  job: z.string(),
  /** By identity of the cause. */
  alerts: z.record(z.string(), entrySchema),
});

export type AlertEntry = Readonly<z.infer<typeof entrySchema>>;

export interface AlertState {
  readonly version: 1;
  readonly job: string;
  readonly alerts: Readonly<Record<string, AlertEntry>>;
}

/** Causes of which no run can learn anything any more (a recipient who was taken off the list) end after this time. */
const STALE_MS = 30 * 86_400_000;
/** Losses are kept longer than any run looks back at them. */
const CLOSED_MS = 60 * 86_400_000;

export function createAlertState(job: string): AlertState {
  return { version: 1, job, alerts: {} };
}

/** The state after a run: what it found is open, what it found to be over is recovered or gone. */
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
    const fresh = { first_seen: at, status: 'open' as const, told: {}, recovery_told: {} };
    alerts[cause.id] = { ...fresh, ...known, kind, date, code, report, ...describe(cause), last_seen: at };
  }
  return { ...state, alerts };
}

/** A cause that came back before everybody knew that it was over: whoever does not know need not be told again. */
function reopen(entry: AlertEntry): AlertEntry {
  if (entry.status !== 'recovered') return entry;
  const told = Object.entries(entry.told).filter(([target]) => !(target in entry.recovery_told));
  return { ...entry, status: 'open', told: Object.fromEntries(told), recovery_told: {} };
}

/** @returns `undefined` when it is to be forgotten */
function settle(entry: AlertEntry, facts: RunFacts, found: readonly string[]): AlertEntry | undefined {
  const ageMs = facts.nowMs - Date.parse(entry.last_seen);
  if (entry.status === 'closed') return ageMs > CLOSED_MS ? undefined : entry;
  if (ageMs > STALE_MS) return undefined;
  if (entry.status === 'recovered') return entry;
  const verdict = judgeCause(entry, facts, found);
  if (verdict === 'over') return undefined;
  return verdict === 'recovered' ? { ...entry, status: 'recovered' } : entry;
}

/**
 * What another worker has written since, with our changes from `before` to `after`. An entry that both changed is ours,
 * with those added whom the other has told; one that we forgot stays where the other has news of it.
 */
export function applyChanges(now: AlertState, before: AlertState, after: AlertState): AlertState {
  const alerts: Record<string, AlertEntry> = {};
  for (const id of new Set([...Object.keys(now.alerts), ...Object.keys(after.alerts)])) {
    const [theirs, base, ours] = [now.alerts[id], before.alerts[id], after.alerts[id]];
    const kept = isSame(ours, base) ? theirs : mergeEntry(theirs, base, ours);
    if (kept) alerts[id] = kept;
  }
  return { ...after, alerts };
}

function mergeEntry(
  theirs: AlertEntry | undefined,
  base: AlertEntry | undefined,
  ours: AlertEntry | undefined,
): AlertEntry | undefined {
  if (!ours) return isSame(theirs, base) ? undefined : theirs;
  if (theirs?.first_seen !== ours.first_seen) return ours;
  const told = ours.status === 'open' && theirs.status === 'recovered' ? ours.told : { ...theirs.told, ...ours.told };
  return { ...ours, told, recovery_told: { ...theirs.recovery_told, ...ours.recovery_told } };
}

function isSame(a: AlertEntry | undefined, b: AlertEntry | undefined): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

export interface DueAlerts {
  readonly alerts: readonly string[];
  readonly recovered: readonly string[];
}

/** What a target has still to be told, by identity. */
export function listDue(state: AlertState, target: string): DueAlerts {
  const entries = Object.entries(state.alerts);
  const isTold = ({ told }: AlertEntry) => target in told;
  return {
    alerts: entries.filter(([, entry]) => entry.status === 'open' && !isTold(entry)).map(([id]) => id),
    recovered: entries
      .filter(([, entry]) => entry.status === 'recovered' && isTold(entry) && !(target in entry.recovery_told))
      .map(([id]) => id),
  };
}

/** The target has been told of these. */
export function noteTold(state: AlertState, target: string, due: DueAlerts, nowMs: number): AlertState {
  const at = new Date(nowMs).toISOString();
  const alerts: Record<string, AlertEntry> = {};
  for (const [id, entry] of Object.entries(state.alerts)) {
    const told = due.alerts.includes(id) ? { ...entry.told, [target]: at } : entry.told;
    const overTold = due.recovered.includes(id) ? { ...entry.recovery_told, [target]: at } : entry.recovery_told;
    alerts[id] = { ...entry, told, recovery_told: overTold };
  }
  return { ...state, alerts };
}

/** Forgets what is over and told to all targets; a loss that all know of is closed. */
export function closeDone(state: AlertState, targets: readonly string[]): AlertState {
  const alerts: Record<string, AlertEntry> = {};
  for (const [id, entry] of Object.entries(state.alerts)) {
    const isTold = targets.every((target) => target in entry.told);
    if (entry.kind === 'date-expired' && entry.status === 'open' && isTold) alerts[id] = { ...entry, status: 'closed' };
    else if (entry.status !== 'recovered' || targets.some((target) => listDue(state, target).recovered.includes(id))) {
      alerts[id] = entry;
    }
  }
  return { ...state, alerts };
}
