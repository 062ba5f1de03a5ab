/**
 * One report of one date: who must still be mailed, whether the day is worth a mail, one rendering per edition, a copy
 * in the store, then the mails. Invariant: the receipt in the store records who received what, not this machine's
 * memory.
 */
import { createHash, randomUUID } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { hostname } from 'node:os';
import { readFileIfExists, writeWholeFile } from '../core/atomic-file.ts';
import type { JobReport, ReportRecipient } from '../job/job.ts';
import type { FlowReport } from '../report/model.ts';
import type { Run } from '../run/run.ts';
import type { DeliveredRecipient, Delivery } from '../state/run-result.ts';
import { isWaiting, listReports } from './content.ts';
import type { DatedReport, Reader } from './dated-report.ts';
import { compareReports, findReasonToSkip, listUncomputable } from './mail-worth.ts';
import { isTakenOver, type MailingLease, takeTurn } from './mailing-lease.ts';
import { sendAll } from './mails.ts';
import {
  claimRecipients,
  countSent,
  findMailedBefore,
  formatRecipientKey,
  isKnownRecipient,
  openReceipt,
  openReceiptLog,
  pendingRecipients,
  type Receipt,
} from './receipt.ts';
import { readArchivedParts } from './report-copies.ts';

/** Who asks for the mails. */
interface Asked {
  /** A newer session is sealed, and a run returns to this one. */
  readonly past: boolean;
  /** An operator chose the date. */
  readonly byHand: boolean;
  /** Mail only this address, even if it received the report. */
  readonly only: string | undefined;
}

/** Of a date that is not sealed, unless `rest` says otherwise. */
export function createDelivery({ template }: JobReport, date: string, rest: Partial<Delivery>): Delivery {
  return {
    ...{ report: template, date, revision: 0, subject: '', recipients: [], alreadySent: 0, leftToOther: false },
    ...{ late: false, pending: false, skipped: null, error: null },
    ...rest,
  };
}

export async function deliverDate(run: Run, dated: DatedReport, { past, byHand, only }: Asked): Promise<Delivery> {
  const { job, report, manifest, late, place } = dated;
  const { date, revision } = manifest;
  const { value: before } = await openReceiptLog(run.ledger.store, place).read();
  const listDue = (receipt: Receipt | undefined) =>
    only === undefined ? listReaders(report, receipt, revision, past) : [chooseReader(report, only)];
  const readers = listDue(before);
  const delivery = createDelivery(report, date, { revision, late, alreadySent: countSent(before, revision) });
  if (readers.length === 0) return delivery;
  const known = before?.revision ?? 0;
  // This process may have slept since it read the manifest, and another one mailed a later revision. But if the date was
  // exported anew from revision 1 on, the store still has this manifest: then go on.
  if (known > revision && (await run.ledger.manifest(date))?.revision !== revision)
    return { ...delivery, leftToOther: true };
  const isAsked = byHand || only !== undefined;
  if (!isAsked && (await isWaiting(run, job, report, date))) return { ...delivery, pending: true };
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
  const results = new Map<string, DeliveredRecipient>();
  let [skipped, subject]: [string | null, string] = [null, ''];
  try {
    const due = only === undefined ? listDue(turn.receipt) : readers;
    const models = listReports(await dated.parts(due[0] ?? { symbols: null }));
    if (models.length === 0) return { ...delivery, pending: true };
    const chosen = await chooseReaders(turn, dated, due, models, only === undefined);
    ({ skipped } = chosen);
    if (chosen.readers.length === 0) return { ...delivery, skipped };
    const prepared = await dated.prepare(chosen.readers);
    ({ subject } = prepared);
    await sendAll(turn, prepared.outgoing, results);
    return { ...delivery, skipped, subject, recipients: prepared.outgoing.flatMap(({ to }) => results.get(to) ?? []) };
  } catch (error) {
    if (!isTakenOver(error)) throw error;
    run.log.warn({ event: 'mail-taken-over', date }, `${date}: another worker has taken over, and mails the rest`);
    const settled = [...results.values()].filter(({ outcome }) => outcome !== 'failed');
    return { ...delivery, skipped, subject, recipients: settled, leftToOther: true };
  } finally {
    await turn.end();
  }
}

/** The recipient with this address. An unknown address gets the job's watchlist and the first recipient's time zone. */
export function chooseReader(report: JobReport, address: string): ReportRecipient {
  const key = formatRecipientKey(address);
  const known = report.to.find((recipient) => formatRecipientKey(recipient.address) === key);
  return known ?? { address, symbols: null, timezone: report.to[0]?.timezone ?? 'UTC' };
}

/** Recipients still to be mailed. For a past date that a run reported on: only of those who were recipients then. */
function listReaders(
  { to }: JobReport,
  receipt: Receipt | undefined,
  revision: number,
  past: boolean,
): readonly ReportRecipient[] {
  const isClosed = past && receipt !== undefined && receipt.by_hand !== true;
  const recipients = isClosed ? to.filter(({ address }) => isKnownRecipient(receipt, address)) : to;
  const addresses = recipients.map(({ address }) => address);
  const pending = pendingRecipients(receipt, revision, addresses);
  return recipients.filter(({ address }) => pending.includes(address));
}

/**
 * Who receives what: recipients of an earlier revision get a correction if it differs; all others get the report if the
 * day is worth a mail. Those left out are recorded, and not considered again; a test send is neither a correction nor
 * recorded.
 * @returns `skipped`: why some are left out, else null
 */
async function chooseReaders(
  turn: MailingLease,
  { report, place, manifest: { date } }: DatedReport,
  recipients: readonly ReportRecipient[],
  models: readonly FlowReport[],
  isForAll: boolean,
): Promise<{ readonly readers: readonly Reader[]; readonly skipped: string | null }> {
  const { ledger, log } = turn.run;
  const reason = findReasonToSkip(report, models);
  const numbers = listUncomputable(report, models);
  if (isForAll && numbers.length > 0 && reason === undefined) {
    log.warn(
      { event: 'condition-uncomputable', date, numbers },
      `${date}: mailed although only_when asks for ${numbers.join(', ')}, which cannot be computed`,
    );
  }
  const readers: Reader[] = [];
  const leftOut = new Map<string, { to: string; messageId: string }[]>();
  const changes = new Map<number, ReturnType<typeof compareReports>>();
  for (const recipient of recipients) {
    const { address: to } = recipient;
    const from = isForAll ? findMailedBefore(turn.receipt, to) : undefined;
    let why = reason;
    let correction: Reader['correction'] = null;
    if (from !== undefined) {
      if (!changes.has(from)) {
        const parts = await readArchivedParts(ledger.store, log, { ...place, revision: from });
        changes.set(from, compareReports(parts && listReports(parts), models, report.correctionThreshold));
      }
      const changed = changes.get(from);
      correction = { fromRevision: from, changes: changed ?? [] };
      const threshold = `${report.correctionThreshold * 100}%`;
      why = changed?.length === 0 ? `no number differs from revision ${from} by more than ${threshold}` : undefined;
    }
    if (why === undefined) readers.push({ recipient, correction });
    else leftOut.set(why, [...(leftOut.get(why) ?? []), { to, messageId: '' }]);
  }
  if (isForAll) for (const [why, left] of leftOut) await turn.note(left, 'skipped', why);
  return { readers, skipped: leftOut.size === 0 ? null : [...leftOut.keys()].join('; ') };
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
