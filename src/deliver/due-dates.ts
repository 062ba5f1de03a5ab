/**
 * Which dates a report is due for. A run mails the newest sealed date, and before it the dates of the lookback that
 * were sealed too late for their own evening, oldest first. Invariant: a run never mails a date before the first one
 * that a run reported on, so that neither a first run nor a backfill floods anyone.
 */

import { LOOKBACK_DAYS } from '../api-contract/published-limits.ts';
import { addDays } from '../calendar/wall-clock.ts';
import { isFault } from '../core/errors.ts';
import type { Job, JobReport } from '../job/job.ts';
import { parseReceiptDate, reportsPrefix } from '../ledger/layout.ts';
import type { Manifest } from '../ledger/manifest.ts';
import { isKnownRecipient, type Receipt } from '../mail/receipt.ts';
import type { Run } from '../run/run.ts';
import { findDrop } from './local-drop.ts';
import { openReceiptLog } from './receipt-log.ts';

export interface DueDate {
  readonly date: string;
  /** A newer session is over, sealed or not. */
  readonly late: boolean;
  /** A newer session is sealed, and a run returns to this one. */
  readonly past: boolean;
}

interface DueDates {
  /** Oldest first. */
  readonly due: readonly DueDate[];
  /** Sessions that are over but not sealed; no mail is sent for them. */
  readonly pending: readonly string[];
}

/**
 * The dates that a run must report on. Costs a listing and the receipts of the lookback.
 * @param wanted only these; default: all that are due
 */
export async function listDueDates(run: Run, job: Job, id: string, wanted?: ReadonlySet<string>): Promise<DueDates> {
  const { sealed, pending } = await readSessions(run, job);
  const newest = sealed.at(-1);
  const from = (await findFirstDate(run, job, id)) ?? newest;
  const oldest = newest === undefined ? undefined : addDays(newest, -LOOKBACK_DAYS);
  const isWanted = (date: string) => wanted === undefined || wanted.has(date);
  const isDue = (date: string) =>
    isWanted(date) && from !== undefined && oldest !== undefined && date >= from && date >= oldest;
  return {
    due: sealed.filter(isDue).map((date) => ({ date, late: isLate(date, sealed, pending), past: date !== newest })),
    pending: pending.filter(isDue),
  };
}

/** The date that the operator chose, or the newest one. @throws Fault `REPORT_PENDING` */
export async function chooseDate(
  run: Run,
  job: Job,
  date: string | undefined,
): Promise<(DueDate & { readonly manifest: Manifest }) | undefined> {
  const manifest = await findDrop(run, job, date);
  if (manifest === undefined) return undefined;
  const { sealed, pending } = await readSessions(run, job);
  return { date: manifest.date, late: isLate(manifest.date, sealed, pending), past: false, manifest };
}

interface Sessions {
  /** Ascending. */
  readonly sealed: readonly string[];
  /** Over, but not sealed. */
  readonly pending: readonly string[];
}

async function readSessions(run: Run, _job: Job): Promise<Sessions> {
  const sealed = await run.ledger.dates();
  const { entries } = await run.ledger.conditions();
  const pending = [...entries.values()].filter(({ condition }) => condition === 'pending').map(({ date }) => date);
  return { sealed, pending: pending.filter((date) => !sealed.includes(date)) };
}

/** Whether a newer session is over. */
function isLate(date: string, sealed: readonly string[], pending: readonly string[]): boolean {
  return [...sealed, ...pending].some((other) => other > date);
}

/** Recipients of a date. For a past date that a run reported on: only those who were recipients then. */
export function listRecipients(report: JobReport, receipt: Receipt | undefined, past: boolean): JobReport['to'] {
  if (!past || receipt === undefined || receipt.by_hand === true) return report.to;
  return report.to.filter(({ address }) => isKnownRecipient(receipt, address));
}

/** The first date that a run reported on. Keys are sorted by date, so it is found early. */
async function findFirstDate(run: Run, job: Job, id: string): Promise<string | undefined> {
  for await (const { key } of run.ledger.store.list(reportsPrefix(job.name))) {
    const date = parseReceiptDate(job.name, id, key);
    if (date === undefined) continue;
    if (await isOfRun(run, job, date, id)) return date;
  }
  return undefined;
}

/** A receipt that cannot be read counts as one of a run: its own date fails, and the others are mailed. */
async function isOfRun(run: Run, job: Job, date: string, id: string): Promise<boolean> {
  try {
    const { value: receipt } = await openReceiptLog(run.ledger.store, { job: job.name, date, report: id }).read();
    return receipt !== undefined && receipt.by_hand !== true;
  } catch (error) {
    if (!isFault(error) || !UNREADABLE_CODES.includes(error.code)) throw error;
    return true;
  }
}

const UNREADABLE_CODES = ['RECEIPT_INVALID', 'OBJECT_TOO_LARGE'];
