/**
 * One report of one date: who must still be mailed, whether the day is worth a mail, one rendering per edition, a copy
 * in the store, then the mails. Invariant: the receipt in the store records who received what, not this machine's
 * memory.
 */
import { createHash, randomUUID } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { hostname } from 'node:os';
import { readFileIfExists, writeWholeFile } from '../core/atomic-file.ts';
import type { Job, JobReport, ReportRecipient } from '../job/job.ts';
import type { Manifest } from '../ledger/manifest.ts';
import { assertAllowedRecipients } from '../mail/message.ts';
import {
  claimRecipients,
  countRecipients,
  findMailedBefore,
  formatRecipientKey,
  openReceipt,
  pendingRecipients,
  type Receipt,
} from '../mail/receipt.ts';
import type { Run } from '../run/run.ts';
import type { Delivery } from '../state/run-result.ts';
import { readArchivedReports } from './archive-report.ts';
import { isWaiting, listReports, openContent } from './content.ts';
import { compareReports } from './correction.ts';
import { listRecipients } from './due-dates.ts';
import { findReasonToSkip, listUncomputable } from './mail-condition.ts';
import { type MailedReport, prepareMails, type Reader } from './mailed-report.ts';
import { isTakenOver, takeTurn } from './mailing-lease.ts';
import { type MailTurn, noteAll, sendAll } from './mails.ts';
import { openReceiptLog } from './receipt-log.ts';

interface DateTask {
  readonly job: Job;
  readonly report: JobReport;
  /** Distinguishes the report from the job's others. */
  readonly id: string;
  readonly manifest: Manifest;
  readonly late: boolean;
  readonly past: boolean;
  /** An operator chose the date. */
  readonly byHand: boolean;
  /** Mail only this address, even if it received the report. */
  readonly only: string | undefined;
}

export async function deliverDate(run: Run, task: DateTask): Promise<Delivery> {
  const { job, report, id, manifest, late, past, byHand, only } = task;
  const { date, revision } = manifest;
  const place = { job: job.name, date, report: id };
  const { value: before } = await openReceiptLog(run.ledger.store, place).read();
  const listDue = (receipt: Receipt | undefined) => listReaders(report, receipt, revision, past, only);
  const readers = listDue(before);
  const delivery = {
    ...{ report: report.template, date, revision, subject: '', recipients: [], late, pending: false, skipped: null },
    ...{ alreadySent: countRecipients(before, revision, 'sent'), leftToOther: false, error: null },
  };
  if (readers.length === 0) return delivery;
  const known = before?.revision ?? 0;
  // If the date was exported anew from revision 1 on, the store still has this manifest: then go on.
  if (known > revision && (await isReplaced(run, manifest))) return { ...delivery, leftToOther: true };
  const isAsked = byHand || only !== undefined;
  if (!isAsked && (await isWaiting(run, job, report, date))) return { ...delivery, pending: true };
  assertAllowedRecipients(
    run.mailer,
    readers.map(({ address }) => address),
  );
  const worker = await readWorker(run.state.worker);
  const identity = { report: report.template, job: job.name, date, revision, worker };
  const turn = await takeTurn(run, place, worker, (current) => {
    const due = listDue(current).map(({ address }) => address);
    const isOutdated = current !== undefined && current.revision > Math.max(revision, known);
    if (due.length === 0 || isOutdated) return undefined;
    return claimRecipients(openReceipt(identity, current, isAsked), due, new Date(run.clock.now()).toISOString());
  });
  if (turn === 'other') return { ...delivery, leftToOther: true };
  if (turn === 'nothing') return delivery;
  try {
    const due = only === undefined ? listDue(turn.receipt) : readers;
    return await mailDate({ run, turn }, task, due, delivery);
  } catch (error) {
    if (isTakenOver(error)) return { ...delivery, leftToOther: true };
    throw error;
  } finally {
    await turn.end();
  }
}

async function mailDate(
  mailing: MailTurn,
  { job, report, id, manifest, late, only }: DateTask,
  readers: readonly ReportRecipient[],
  delivery: Delivery,
): Promise<Delivery> {
  const { run } = mailing;
  const content = openContent(run, job, report, manifest);
  const models = listReports(await content.parts(readers[0]?.symbols ?? report.symbols));
  if (models.length === 0) return { ...delivery, pending: true };
  const mailed: MailedReport = { job, report, id, content, late };
  const chosen =
    only === undefined
      ? await chooseReaders(mailing, mailed, readers, models)
      : wholeReport(readers, findReasonToSkip(report, models));
  const { skipped } = chosen;
  if (chosen.readers.length === 0) return { ...delivery, skipped };
  const { outgoing, subject } = await prepareMails(run, mailed, chosen.readers);
  const { recipients, isTakenOver } = await sendAll(mailing, outgoing);
  return { ...delivery, skipped, subject, recipients, leftToOther: isTakenOver };
}

/** Whether this process fell behind: it slept since it read the manifest, and another one mailed a later revision. */
async function isReplaced({ ledger }: Run, { date, revision }: Manifest): Promise<boolean> {
  return (await ledger.manifest(date))?.revision !== revision;
}

/** The recipient with this address. An unknown address gets the job's watchlist and the first recipient's time zone. */
export function chooseReader(report: JobReport, address: string): ReportRecipient {
  const key = formatRecipientKey(address);
  const known = report.to.find((recipient) => formatRecipientKey(recipient.address) === key);
  return known ?? { address, symbols: null, timezone: report.to[0]?.timezone ?? 'UTC' };
}

/** Recipients still to be mailed, as in the job file; a test mail may go to any address. */
function listReaders(
  report: JobReport,
  receipt: Receipt | undefined,
  revision: number,
  past: boolean,
  only: string | undefined,
): readonly ReportRecipient[] {
  if (only !== undefined) return [chooseReader(report, only)];
  const recipients = listRecipients(report, receipt, past);
  const addresses = recipients.map(({ address }) => address);
  const pending = pendingRecipients(receipt, revision, addresses);
  return recipients.filter(({ address }) => pending.includes(address));
}

interface Chosen {
  readonly readers: readonly Reader[];
  /** Why some are left out, else null. */
  readonly skipped: string | null;
}

/** @param reason why the day is not worth a mail */
function wholeReport(recipients: readonly ReportRecipient[], reason: string | undefined): Chosen {
  if (reason !== undefined) return { readers: [], skipped: reason };
  return { readers: recipients.map((recipient) => ({ recipient, correction: null })), skipped: null };
}

/**
 * Who receives what: recipients of an earlier revision get a correction if it differs; all others get the report if the
 * day is worth a mail. Those left out are recorded, and not considered again.
 */
async function chooseReaders(
  mailing: MailTurn,
  mailed: MailedReport,
  recipients: readonly ReportRecipient[],
  models: ReturnType<typeof listReports>,
): Promise<Chosen> {
  const { report } = mailed;
  const readers: Reader[] = [];
  const leftOut = new Map<string, string[]>();
  const skip = (address: string, why: string) => leftOut.set(why, [...(leftOut.get(why) ?? []), address]);
  const reason = findReasonToSkip(report, models);
  const numbers = listUncomputable(report, models);
  if (numbers.length > 0 && reason === undefined) {
    const { date } = mailed.content.manifest;
    const list = numbers.join(', ');
    mailing.run.log.warn(
      { event: 'condition-uncomputable', date, numbers },
      `${date}: mailed although only_when asks for ${list}, which cannot be computed`,
    );
  }
  const changesSince = createComparison(mailing, mailed, models);
  for (const recipient of recipients) {
    const { address } = recipient;
    const from = findMailedBefore(mailing.turn.receipt, address);
    if (from === undefined) {
      if (reason === undefined) readers.push({ recipient, correction: null });
      else skip(address, reason);
      continue;
    }
    const changes = await changesSince(from);
    if (changes === undefined) readers.push({ recipient, correction: { fromRevision: from, changes: [] } });
    else if (changes.length > 0) readers.push({ recipient, correction: { fromRevision: from, changes } });
    else skip(address, `no number differs from revision ${from} by more than ${report.correctionThreshold * 100}%`);
  }
  for (const [why, addresses] of leftOut) {
    await noteAll(
      mailing,
      addresses.map((to) => ({ to, messageId: '' })),
      'skipped',
      why,
    );
  }
  return { readers, skipped: leftOut.size === 0 ? null : [...leftOut.keys()].join('; ') };
}

/** Returns the changes since an earlier revision; reads each revision once. */
function createComparison(
  mailing: MailTurn,
  { job, id, report, content }: MailedReport,
  models: ReturnType<typeof listReports>,
) {
  const known = new Map<number, ReturnType<typeof compareReports>>();
  return async (revision: number): Promise<ReturnType<typeof compareReports>> => {
    if (!known.has(revision)) {
      const place = { job: job.name, date: content.manifest.date, report: id, revision };
      const before = await readArchivedReports(mailing.run, place);
      known.set(revision, compareReports(before, models, report.correctionThreshold));
    }
    return known.get(revision);
  };
}

/**
 * The id of this worker: created once and kept in the state directory, plus a hash of where the file is. A copy of the
 * directory, from a backup or an image, is another worker, which may run at the same time.
 */
async function readWorker(path: string): Promise<string> {
  const kept = await readFileIfExists(path);
  const made = kept ? kept.trim() : randomUUID();
  if (!kept) await writeWholeFile(path, made);
  const { dev, ino } = await stat(path);
  const place = createHash('sha256')
    .update(JSON.stringify([hostname(), dev, ino]))
    .digest('hex');
  return `${made}-${place.slice(0, WORKER_PLACE_DIGITS)}`;
}

/** Enough to distinguish the few copies of one directory. */
const WORKER_PLACE_DIGITS = 8;
