/**
 * Whether the newest session whose deadline has passed is sealed, and its reports are accepted by the mail server. It asks
 * for the result in the store alone, so it finds a late date whatever the cause: a refused key, a daemon that was stopped,
 * a mail server that does not answer. Invariant: a store that is away for a moment makes no date late that was not.
 */
import { EXCHANGE_TIME_ZONE } from '../api-contract/published-limits.ts';
import { type CalendarOverride, listRestOfWeek } from '../calendar/session.ts';
import { formatInstant } from '../core/date-text.ts';
import { isFault } from '../core/errors.ts';
import { countOf } from '../core/units.ts';
import { identifyReport, type Job, type JobReport } from '../job/job.ts';
import { type Condition, isSealed } from '../plan/conditions.ts';
import { createDeadlines } from '../plan/deadline.ts';
import type { JobStatus } from '../state/documents.ts';
import type { RunHistory } from '../state/run-history.ts';
import type { Store } from '../store/store.ts';
import { isKnownRecipient, openReceiptLog, pendingRecipients, type Receipt } from './receipt.ts';

type LateDate = NonNullable<JobStatus['late']>;

interface LateFacts {
  /** `undefined` if it cannot be read. */
  readonly store: Store | undefined;
  readonly history: Pick<RunHistory, 'find'>;
  readonly nowMs: number;
  readonly calendar: CalendarOverride | undefined;
  /** Those that are known; of a gap that a person accepted, by whom. */
  readonly dates: readonly { readonly date: string; readonly condition: Condition; readonly accepted: unknown }[];
}

/** Costs a read of each report's receipt. A job of which nothing is known yet is late only for what its runs could do. */
export async function findLate(job: Job, facts: LateFacts): Promise<LateDate | null> {
  const { store, history, nowMs, calendar } = facts;
  const due = createDeadlines(job, calendar)?.last(nowMs);
  if (!due) return null;
  const { date, atMs } = due;
  // Of a schedule that machines share, only the store knows what the others did.
  if (store === undefined && job.schedule?.distributed) return null;
  const known = facts.dates.find((one) => one.date === date);
  if (known?.accepted || known?.condition === 'empty') return null;
  const late = { date, deadline: new Date(atMs).toISOString() };
  if (!known) {
    const tried = await history.find(({ started_at: at }) => Date.parse(at) < atMs);
    return tried ? { ...late, lacks: 'nothing is known of it' } : null;
  }
  if (!isSealed(known.condition)) return { ...late, lacks: `it is not sealed (${known.condition})` };
  let owed = 0;
  for (const report of job.reports) {
    if (report.template === 'weekly' && listRestOfWeek(date, calendar).length > 0) continue;
    const receipts = store && openReceiptLog(store, { job: job.name, date, report: identifyReport(report) });
    // Nobody is mailed by a damaged one; what cannot be read now is not known to be late.
    const read = await receipts?.read().catch((error: unknown) => {
      return isFault(error) && error.code === 'RECEIPT_INVALID' ? { value: undefined } : undefined;
    });
    // Without a receipt and after a newer session: a report that is new, which begins with the newest.
    const isNew = read?.value === undefined && facts.dates.some((one) => one.date > date && isSealed(one.condition));
    if (read && !isNew) owed += countOwed(report, read.value);
  }
  const lacks = `the mail server has not accepted its report for ${countOf(owed, 'recipient')}`;
  return owed === 0 ? null : { ...late, lacks };
}

/** Recipients who are still to be mailed. One that was added after the others were mailed is owed no past date. */
function countOwed({ to }: JobReport, receipt: Receipt | undefined): number {
  const addresses = to.map(({ address }) => address);
  const isOpen = receipt === undefined || receipt.by_hand === true;
  const owed = isOpen ? addresses : addresses.filter((address) => isKnownRecipient(receipt, address));
  return pendingRecipients(receipt, receipt?.revision ?? 0, owed, true).length;
}

/** `2026-11-20 was to be sealed and mailed by Nov 20, 17:30 ET, but it is not sealed (pending)`. */
export function describeLate({ date, deadline, lacks }: LateDate, { reports, schedule }: Job, nowMs: number): string {
  const what = reports.length === 0 ? 'sealed' : 'sealed and mailed';
  const at = formatInstant(deadline, schedule?.timezone ?? EXCHANGE_TIME_ZONE, nowMs);
  return `${date} was to be ${what} by ${at}, but ${lacks}`;
}
