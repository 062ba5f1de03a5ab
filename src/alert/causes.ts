/**
 * Derives the causes for alerts from a run's facts, and decides which earlier causes are over. Invariant: a cause keeps
 * its id while it lasts, even if its message changes; a cause that this run could not check stays as it was. Pure;
 * `alert-text.ts` has the texts, `open-causes.ts` and `alert-memory.ts` the state.
 */

import { LOOKBACK_DAYS } from '../api-contract/published-limits.ts';
import { addDays } from '../calendar/wall-clock.ts';
import { isSealed } from '../plan/conditions.ts';
import { computeLookback, expiresAt } from '../plan/dates.ts';
import { API_DOWN_CODES } from '../source/source.ts';
import { isInVain } from '../state/run-result.ts';
import type { RunFacts } from './run-facts.ts';

export const CAUSE_KINDS = [
  'run-failed',
  'run-died',
  'job-invalid',
  'key-refused',
  'clocks-differ',
  'date-failed',
  'date-held',
  'date-degraded',
  'date-doubtful',
  'date-differs',
  'date-missing',
  'date-expired',
  'gap-expires-soon',
  'report-failed',
  'report-refused',
  'report-pending',
] as const;

export type CauseKind = (typeof CAUSE_KINDS)[number];

export interface Cause {
  /** Job, kind, and the date, code or recipient concerned. */
  readonly id: string;
  readonly kind: CauseKind;
  readonly date: string | null;
  readonly code: string | null;
  /** Template and recipient of a report. */
  readonly report: { readonly template: string; readonly to: string } | null;
  /** The original message, such as that of an error or a mail server. */
  readonly said: string;
  readonly hint: string;
}

/** Warn this long before a gap expires and becomes a loss; two days leave room for a run at the weekend. */
export const GAP_WARNING_MS = 48 * 3_600_000;

/** API error codes for a refused key. */
const KEY_REFUSED_CODES: ReadonlySet<string> = new Set(['UNAUTHORIZED', 'SUBSCRIPTION_REQUIRED']);

/** Not an API error: the API answers, but has no data for anything that the job names. */
const NOTHING_FOUND = 'NOTHING_FOUND';
const NOTHING = {
  code: NOTHING_FOUND,
  said: 'The source has no rows for this job on any date.',
  hint: 'Check the symbols, the table and the condition in the job file.',
};

/** For a date that was complete when sealed: its object is now missing or different. */
export const DROP_DAMAGED = 'DROP_DAMAGED';

/**
 * For how many days a lost date is still reported, in case the run that found the loss was killed before it could send
 * the alert.
 */
const LOSS_DAYS = LOOKBACK_DAYS;

/** Lists each cause once: failures, then dates, then reports. */
export function listCauses(facts: RunFacts): readonly Cause[] {
  const all = [...listFailures(facts), ...listDates(facts), ...listReports(facts)];
  return [...new Map(all.map((cause) => [cause.id, cause])).values()];
}

function listFailures(facts: RunFacts): readonly Cause[] {
  const { failure, result } = facts;
  const causes: Cause[] = [];
  // One cause each, even if it happens several times in a row with different messages.
  if (facts.died !== undefined) causes.push(createCause(facts, 'run-died', '', { said: facts.died }));
  if (facts.jobFault !== undefined) causes.push(createCause(facts, 'job-invalid', '', { said: facts.jobFault }));
  if (failure) {
    const { code, message: said, hint = '' } = failure;
    const about = { code, said, hint };
    // The export finished, so a report failed.
    if (result) causes.push(createCause(facts, 'report-failed', code, about));
    else if (KEY_REFUSED_CODES.has(code)) causes.push(createCause(facts, 'key-refused', code, about));
    // The person who typed a manual command sees its usage error; a scheduled run has no reader.
    else if (!failure.isUsage || facts.command === 'run') causes.push(createCause(facts, 'run-failed', code, about));
  }
  for (const { date, error, doubts = [] } of result?.dates ?? []) {
    if (doubts.length > 0) causes.push(createCause(facts, 'date-doubtful', date, { date, said: doubts.join('; ') }));
    if (!error) continue;
    const { code, message: said, hint = '' } = error;
    // An API outage is one cause, whichever date met it.
    if (API_DOWN_CODES.has(code)) causes.push(createCause(facts, 'run-failed', code, { code, said, hint }));
    else causes.push(createCause(facts, 'date-failed', `${date}/${code}`, { date, code, said, hint }));
  }
  const conflict = result?.clocks.conflict ?? null;
  // Dates held back by a clock conflict share one cause. A date whose session end the source does not show has its own.
  if (conflict !== null)
    causes.push(createCause(facts, 'clocks-differ', '', { said: describeClocks(facts, conflict) }));
  for (const { date, reason } of conflict === null ? (result?.held ?? []) : []) {
    causes.push(createCause(facts, 'date-held', date, { date, said: reason }));
  }
  if (result && isInVain(result)) {
    causes.push(createCause(facts, 'run-failed', NOTHING_FOUND, NOTHING));
  }
  return causes;
}

function listDates(facts: RunFacts): readonly Cause[] {
  const { conditions, accepted, result, nowMs, isExpiring } = facts;
  const { clipped } = computeLookback(nowMs);
  const gaps = new Set(result?.gaps);
  const lost = new Set(result?.lost);
  const causes: Cause[] = [];
  for (const [date, condition] of Object.entries(conditions)) {
    const add = (kind: CauseKind, said = '') => causes.push(createCause(facts, kind, date, { date, said }));
    const isGap = gaps.has(date) || date >= clipped;
    const damage = result?.damaged[date];
    if (damage !== undefined) {
      causes.push(createCause(facts, 'date-degraded', date, { date, code: DROP_DAMAGED, said: damage }));
    }
    if (accepted.has(date)) continue;
    const audit = result?.audits[date];
    if (audit?.result === 'differs') add('date-differs', audit.reason);
    if (damage === undefined && condition === 'degraded' && isGap) add('date-degraded', describeLacking(facts, date));
    if (condition === 'missing' && isGap) add('date-missing');
    if (condition === 'expired' && (lost.has(date) || date >= addDays(clipped, -LOSS_DAYS))) add('date-expired');
    if (condition === 'pending' && isExpiring && expiresAt(date) - nowMs < GAP_WARNING_MS) add('gap-expires-soon');
  }
  return causes;
}

function listReports(facts: RunFacts): readonly Cause[] {
  const causes: Cause[] = [];
  for (const { report: template, date, recipients, error, pending } of facts.deliveries ?? []) {
    if (error) {
      const { code, message: said, hint = '' } = error;
      causes.push(createCause(facts, 'report-failed', `${template}/${code}`, { date, code, said, hint }));
    }
    if (pending) causes.push(createCause(facts, 'report-pending', date, { date }));
    for (const { to, outcome, detail: said } of recipients) {
      const about = { date, said, report: { template, to } };
      if (outcome === 'failed') causes.push(createCause(facts, 'report-failed', `${template}/${to}`, about));
      if (outcome === 'refused') causes.push(createCause(facts, 'report-refused', `${template}/${to}`, about));
    }
  }
  const newest = Object.keys(facts.conditions).sort().at(-1);
  if (newest && facts.hasReports && facts.withReports && facts.conditions[newest] === 'pending') {
    causes.push(createCause(facts, 'report-pending', newest, { date: newest }));
  }
  return causes;
}

/** `over`: it ended without a recovery worth reporting, or another cause replaces it. */
export type CauseOutcome = 'open' | 'recovered' | 'over';

/** Judges an earlier cause that this run did not find again. @param found ids of the causes that it found */
export function judgeCause(
  cause: Pick<Cause, 'kind' | 'date' | 'report'>,
  facts: RunFacts,
  found: readonly string[],
): CauseOutcome {
  const condition = cause.date === null ? undefined : facts.conditions[cause.date];
  const isAccepted = cause.date !== null && facts.accepted.has(cause.date);
  const isDateSealed = condition !== undefined && isSealed(condition);
  switch (cause.kind) {
    case 'run-failed':
    case 'key-refused':
      // An export that sent no request says nothing about the API.
      return facts.result && facts.result.requests > 0 ? 'recovered' : 'open';
    case 'run-died':
      return facts.result ? 'recovered' : 'open';
    case 'job-invalid':
      // A run may have read the last valid copy of the file, which the daemon keeps using.
      return facts.isJobFileRead && facts.jobFault === undefined ? 'recovered' : 'open';
    case 'date-failed': {
      if (condition === 'available') return 'recovered';
      const failsOtherwise = found.some((id) => id.startsWith(`${facts.job}/date-failed/${cause.date}/`));
      return condition === undefined || (condition === 'pending' && !failsOtherwise) ? 'open' : 'over';
    }
    case 'clocks-differ':
      return facts.result?.clocks.conflict === null ? 'recovered' : 'open';
    case 'date-held':
    case 'date-missing':
    case 'gap-expires-soon':
      if (condition === 'available') return 'recovered';
      return condition === undefined || condition === 'pending' ? 'open' : 'over';
    case 'date-degraded':
      if (condition === 'available') return 'recovered';
      return condition === undefined ? 'open' : 'over';
    case 'date-doubtful':
      // Said once: the next run seals other dates, and only a restatement checks this one again.
      return facts.result ? 'over' : 'open';
    case 'date-differs':
      // A run that did not compare the date does not know.
      if (isAccepted) return 'over';
      if (cause.date !== null && facts.result?.audits[cause.date]?.result === 'equal') return 'recovered';
      return cause.date !== null && cause.date < computeLookback(facts.nowMs).clipped ? 'over' : 'open';
    case 'date-expired':
      return isDateSealed || isAccepted ? 'over' : 'open';
    case 'report-failed':
    case 'report-refused':
      return cause.report === null ? judgeReports(facts) : judgeDelivery(cause, cause.report, facts);
    case 'report-pending':
      if (condition === 'missing' || condition === 'empty' || condition === 'expired') return 'over';
      return isDateSealed ? judgeReports(facts) : 'open';
    default:
      return cause.kind satisfies never;
  }
}

/** Finished reports show that reports can be built again. */
function judgeReports({ deliveries }: RunFacts): CauseOutcome {
  return deliveries ? 'recovered' : 'open';
}

function judgeDelivery(
  { kind, date }: Pick<Cause, 'kind' | 'date'>,
  report: NonNullable<Cause['report']>,
  { deliveries = [] }: RunFacts,
): CauseOutcome {
  for (const delivery of deliveries.filter((one) => one.report === report.template && !one.leftToOther)) {
    const outcome = delivery.recipients.find(({ to }) => to === report.to)?.outcome;
    if (outcome === 'sent') return 'recovered';
    // Another cause replaces this one: a failed recipient is now refused, or a refused one now fails.
    if (outcome !== undefined) return 'over';
    // No recipient is left: `flowdrop report` mailed them in the meantime. Refused recipients stay on their list.
    if (kind === 'report-failed' && delivery.date === date && delivery.alreadySent > 0) return 'recovered';
  }
  return 'open';
}

function createCause(
  { job }: RunFacts,
  kind: CauseKind,
  about: string,
  rest: Partial<Pick<Cause, 'date' | 'code' | 'report' | 'said' | 'hint'>>,
): Cause {
  return {
    date: null,
    code: null,
    report: null,
    said: '',
    hint: '',
    ...rest,
    id: [job, kind, about].filter(Boolean).join('/'),
    kind,
  };
}

function describeClocks({ result }: RunFacts, conflict: string): string {
  const dates = result?.held.map(({ date }) => date) ?? [];
  const held = dates.length === 0 ? 'No date was held back' : `Held back: ${dates.join(', ')}`;
  return `${conflict[0]?.toUpperCase()}${conflict.slice(1)}. ${held}.`;
}

/** What the date lacks, if its export recorded that: the manifest's reason, or the windows that the source lacks. */
function describeLacking({ result }: RunFacts, date: string): string {
  const { missing = [], degraded_reason: reason } = result?.dates.find((one) => one.date === date) ?? {};
  return reason ?? missing.map(({ window, reason: why }) => `${window}: ${why}`).join('; ');
}
