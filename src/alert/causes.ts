/**
 * Which causes for an alert a run has found, and which of those told earlier are over. Invariant: a cause keeps its
 * identity for as long as it lasts, whatever the message says this time; a cause of which this run could learn nothing
 * stays as it was. Pure; `text.ts` has the words, `state.ts` the memory.
 */

import { LOOKBACK_DAYS } from '../api-contract/published-limits.ts';
import { addDays } from '../calendar/wall-clock.ts';
import { API_DOWN_CODES } from '../export/api-down.ts';
import { isSealed } from '../plan/conditions.ts';
import { computeLookback, expiresAt } from '../plan/dates.ts';
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
  'date-missing',
  'date-expired',
  'gap-expires-soon',
  'report-failed',
  'report-refused',
  'report-pending',
] as const;

export type CauseKind = (typeof CAUSE_KINDS)[number];

export interface Cause {
  /** Job, kind, and the date, code or recipient that it is about. */
  readonly id: string;
  readonly kind: CauseKind;
  readonly date: string | null;
  readonly code: string | null;
  /** Template and recipient of a report. */
  readonly report: { readonly template: string; readonly to: string } | null;
  /** What was said, in the words of whoever said it. */
  readonly said: string;
  readonly hint: string;
}

/** A gap that nobody closes within this time becomes a loss; two days leave room for a weekend's run. */
export const GAP_WARNING_MS = 48 * 3_600_000;

/** Codes by which the API says that it does not accept the key. */
const KEY_REFUSED_CODES: ReadonlySet<string> = new Set(['UNAUTHORIZED', 'SUBSCRIPTION_REQUIRED']);

/** Not an error of the API: it answers, and has nothing of all that the job names. */
const NOTHING_FOUND = 'NOTHING_FOUND';
const NOTHING = {
  code: NOTHING_FOUND,
  said: 'The source has nothing of what the job names, on no date.',
  hint: 'Look at the symbols, the table and the condition in the job file.',
};

/** Of a date that was complete when it was sealed: its object is gone, or another one. */
export const DROP_DAMAGED = 'DROP_DAMAGED';

/** How long after its loss a date is still news, should the run that found it have been killed before it could tell. */
const LOSS_DAYS = LOOKBACK_DAYS;

/** Every cause once, in the order of `CAUSE_KINDS`' families. */
export function listCauses(facts: RunFacts): readonly Cause[] {
  const all = [...listFailures(facts), ...listDates(facts), ...listReports(facts)];
  return [...new Map(all.map((cause) => [cause.id, cause])).values()];
}

function listFailures(facts: RunFacts): readonly Cause[] {
  const { failure, result } = facts;
  const causes: Cause[] = [];
  // One cause each, however often it happens in a row and whatever is said of it.
  if (facts.died !== undefined) causes.push(createCause(facts, 'run-died', '', { said: facts.died }));
  if (facts.jobFault !== undefined) causes.push(createCause(facts, 'job-invalid', '', { said: facts.jobFault }));
  if (failure) {
    const { code, message: said, hint = '' } = failure;
    const about = { code, said, hint };
    // The export had finished: what failed is a report.
    if (result) causes.push(createCause(facts, 'report-failed', code, about));
    else if (KEY_REFUSED_CODES.has(code)) causes.push(createCause(facts, 'key-refused', code, about));
    // A person who types wrong dates reads the answer; a schedule reads nothing.
    else if (!failure.isUsage || facts.command === 'run') causes.push(createCause(facts, 'run-failed', code, about));
  }
  for (const { date, error } of result?.dates ?? []) {
    if (!error) continue;
    const { code, message: said, hint = '' } = error;
    // An API that is down is one cause, whichever date it was asked for.
    if (API_DOWN_CODES.has(code)) causes.push(createCause(facts, 'run-failed', code, { code, said, hint }));
    else causes.push(createCause(facts, 'date-failed', `${date}/${code}`, { date, code, said, hint }));
  }
  const conflict = result?.clocks?.conflict ?? null;
  // What the clocks hold back is one cause; a source that shows no end of a session is one a date.
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
  const { conditions, result, nowMs, isExpiring } = facts;
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
    } else if (condition === 'degraded' && isGap) add('date-degraded', describeLacking(facts, date));
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

/** `over`: it ended, and there is nothing good to tell, or another cause tells it. */
export type CauseOutcome = 'open' | 'recovered' | 'over';

/** What became of a cause that this run has not found again. @param found identities of those that it found */
export function judgeCause(
  cause: Pick<Cause, 'kind' | 'date' | 'report'>,
  facts: RunFacts,
  found: readonly string[],
): CauseOutcome {
  const condition = cause.date === null ? undefined : facts.conditions[cause.date];
  const isDateSealed = condition !== undefined && isSealed(condition);
  switch (cause.kind) {
    case 'run-failed':
    case 'key-refused':
      // A finished export that asked nothing has learnt nothing of the API.
      return facts.result && facts.result.requests > 0 ? 'recovered' : 'open';
    case 'run-died':
      return facts.result ? 'recovered' : 'open';
    case 'job-invalid':
      // A run may have read the copy of the file that the daemon goes on with.
      return facts.isJobFileRead && facts.jobFault === undefined ? 'recovered' : 'open';
    case 'date-failed': {
      if (condition === 'available') return 'recovered';
      const failsOtherwise = found.some((id) => id.startsWith(`${facts.job}/date-failed/${cause.date}/`));
      return condition === undefined || (condition === 'pending' && !failsOtherwise) ? 'open' : 'over';
    }
    case 'clocks-differ':
      return facts.result?.clocks?.conflict === null ? 'recovered' : 'open';
    case 'date-held':
    case 'date-missing':
    case 'gap-expires-soon':
      if (condition === 'available') return 'recovered';
      return condition === undefined || condition === 'pending' ? 'open' : 'over';
    case 'date-degraded':
      if (condition === 'available') return 'recovered';
      return condition === undefined ? 'open' : 'over';
    case 'date-expired':
      return isDateSealed ? 'over' : 'open';
    case 'report-failed':
    case 'report-refused':
      return cause.report === null ? judgeReports(facts) : judgeDelivery(cause, cause.report, facts);
    case 'report-pending':
      if (condition === 'missing' || condition === 'expired') return 'over';
      return isDateSealed ? judgeReports(facts) : 'open';
    default:
      return cause.kind satisfies never;
  }
}

/** Reports that came to their end can be made again. */
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
    // One that is refused now is told so; one that fails now was refused before.
    if (outcome !== undefined) return 'over';
    // Nobody is left to mail: `flowdrop report` has done it in between. Who refused stays on the list of those who did.
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

/** What is lacking, where the date's export said so: in its manifest's words, or what the source has nothing of. */
function describeLacking({ result }: RunFacts, date: string): string {
  const { missing = [], degraded_reason: reason } = result?.dates.find((one) => one.date === date) ?? {};
  return reason ?? missing.map(({ window, reason: why }) => `${window}: ${why}`).join('; ');
}
