/**
 * The causes for alerts that a run found at its end. Invariant: a cause keeps its id while it lasts, even if its message
 * changes. Pure; `cause-table.ts` has the kinds, `alerts.ts` sends.
 */
import { LOOKBACK_DAYS } from '../api-contract/published-limits.ts';
import { addDays } from '../calendar/wall-clock.ts';
import { readFailure } from '../core/failure.ts';
import { computeLookback, expires, expiresAt } from '../plan/dates.ts';
import { API_DOWN_CODES } from '../source/source.ts';
import { isInVain, type RunResult } from '../state/run-result.ts';
import { type Cause, type CauseKind, DROP_DAMAGED, type RunFacts } from './cause-table.ts';

/** Warn this long before a gap expires and becomes a loss; two days leave room for a run at the weekend. */
export const GAP_WARNING_MS = 48 * 3_600_000;

/** API error codes for a refused key. */
const KEY_REFUSED_CODES: ReadonlySet<string> = new Set(['UNAUTHORIZED', 'SUBSCRIPTION_REQUIRED']);

/** Not an API error: the API answers, but has no data for anything that the job names. */
const NOTHING_FOUND = {
  code: 'NOTHING_FOUND',
  said: 'The source has no rows for this job on any date.',
  hint: 'Check the symbols, the table and the condition in the job file.',
};

/**
 * For how many days a lost date is still reported, in case the run that found the loss was killed before it could send
 * the alert.
 */
const LOSS_DAYS = LOOKBACK_DAYS;

/** Lists each cause once: failures, then dates, then reports. */
export function listCauses(facts: RunFacts): readonly Cause[] {
  const causes = new Map<string, Cause>();
  /** @param about the date, code or recipient concerned */
  const add = (kind: CauseKind, about: string, rest: Partial<Omit<Cause, 'id' | 'kind'>> = {}) => {
    const id = [facts.job.name, kind, about].filter(Boolean).join('/');
    causes.set(id, { ...{ date: null, code: null, report: null, said: '', hint: '' }, ...rest, id, kind });
  };
  addFailures(facts, add);
  addDates(facts, (kind, date, rest) => add(kind, date, { date, ...rest }));
  addReports(facts, add);
  return [...causes.values()];
}

type AddCause = (kind: CauseKind, about: string, rest?: Partial<Omit<Cause, 'id' | 'kind'>>) => void;

function addFailures({ command, result, error, died, jobFault }: RunFacts, add: AddCause): void {
  // One cause each, even if it happens several times in a row with different messages.
  if (died !== undefined) add('run-died', '', { said: died });
  if (jobFault !== undefined) add('job-invalid', '', { said: jobFault });
  if (error !== undefined) {
    const { code, message: said, hint = '', kind } = readFailure(error);
    const about = { code, said, hint };
    // The export finished, so a report failed.
    if (result) add('report-failed', code, about);
    else if (KEY_REFUSED_CODES.has(code)) add('key-refused', code, about);
    // The person who typed a manual command sees its usage error; a scheduled run has no reader.
    else if (kind !== 'usage' || command === 'run') add('run-failed', code, about);
  }
  if (result === undefined) return;
  for (const { date, error: failed, doubts = [] } of result.dates) {
    if (doubts.length > 0) add('date-doubtful', date, { date, said: doubts.join('; ') });
    if (!failed) continue;
    const { code, message: said, hint = '' } = failed;
    // An API outage is one cause, whichever date met it.
    if (API_DOWN_CODES.has(code)) add('run-failed', code, { code, said, hint });
    else add('date-failed', `${date}/${code}`, { date, code, said, hint });
  }
  const { held, clocks } = result;
  // Dates held back by a clock conflict share one cause. A date whose session end the source does not show has its own.
  if (clocks.conflict !== null) add('clocks-differ', '', { said: describeClocks(held, clocks.conflict) });
  else for (const { date, reason } of held) add('date-held', date, { date, said: reason });
  if (isInVain(result)) add('run-failed', NOTHING_FOUND.code, NOTHING_FOUND);
}

function addDates({ job, conditions, accepted, result, nowMs }: RunFacts, add: AddCause): void {
  const { clipped } = computeLookback(nowMs);
  for (const [date, condition] of Object.entries(conditions)) {
    const isGap = result?.gaps.includes(date) || date >= clipped;
    const damage = result?.damaged[date];
    if (damage !== undefined) add('date-degraded', date, { code: DROP_DAMAGED, said: damage });
    if (accepted.has(date)) continue;
    const audit = result?.audits[date];
    if (audit?.result === 'differs') add('date-differs', date, { said: audit.reason ?? '' });
    if (damage === undefined && condition === 'degraded' && isGap)
      add('date-degraded', date, { said: describeLacking(result, date) });
    if (condition === 'missing' && isGap) add('date-missing', date);
    if (condition === 'expired' && (result?.lost.includes(date) || date >= addDays(clipped, -LOSS_DAYS)))
      add('date-expired', date);
    if (condition === 'pending' && expires(job.source) && expiresAt(date) - nowMs < GAP_WARNING_MS)
      add('gap-expires-soon', date);
  }
}

function addReports({ job, conditions, deliveries = [], withReports }: RunFacts, add: AddCause): void {
  for (const { report: template, date, recipients, error, pending } of deliveries) {
    if (error) {
      const { code, message: said, hint = '' } = error;
      add('report-failed', `${template}/${code}`, { date, code, said, hint });
    }
    if (pending) add('report-pending', date, { date });
    for (const { to, outcome, detail: said } of recipients) {
      if (outcome !== 'sent') add(`report-${outcome}`, `${template}/${to}`, { date, said, report: { template, to } });
    }
  }
  const newest = Object.keys(conditions).sort().at(-1);
  if (newest && job.reports.length > 0 && withReports && conditions[newest] === 'pending')
    add('report-pending', newest, { date: newest });
}

function describeClocks(held: RunResult['held'], conflict: string): string {
  const dates = held.map(({ date }) => date).join(', ');
  const effect = dates === '' ? 'No date was held back' : `Held back: ${dates}`;
  return `${conflict[0]?.toUpperCase()}${conflict.slice(1)}. ${effect}.`;
}

/** What the date lacks, if its export recorded that: the manifest's reason, or the windows that the source lacks. */
function describeLacking(result: RunResult | undefined, date: string): string {
  const { missing = [], degraded_reason: reason } = result?.dates.find((one) => one.date === date) ?? {};
  return reason ?? missing.map(({ window, reason: why }) => `${window}: ${why}`).join('; ');
}
