/**
 * One report of one date: who must still be mailed, whether the day is worth a mail, one rendering per edition, a copy
 * in the store, then the mails. Invariant: the receipt in the store records who received what, not this machine's
 * memory. A day is worth a mail by the conditions of its report (`only_when`, `on_empty`), and for those who were mailed an
 * earlier revision by what a restatement changed since: they get a correction (`templates/correction.*`).
 *
 * Of the mails: this run does not resend a message whose fate is unknown; a message that was certainly not delivered is
 * retried a few times, after all others were tried; no recipient waits behind one who cannot be reached.
 */
import { createHash, randomUUID } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { hostname } from 'node:os';
import { readFileIfExists, writeWholeFile } from '../core/atomic-file.ts';
import { assertNotAborted, isFault } from '../core/errors.ts';
import { formatDuration, listFirst } from '../core/units.ts';
import type { JobReport, ReportCondition, ReportRecipient } from '../job/job.ts';
import { MailFault } from '../mail/message.ts';
import { formatFinely, formatNumber } from '../report/key-numbers.ts';
import type { FlowReport } from '../report/model.ts';
import { findNumber, isUncomputable, readReportNumber } from '../report/number-values.ts';
import { REPORT_NUMBERS, type ReportNumber } from '../report/numbers.ts';
import { listReports } from '../report/text/mail-view.ts';
import { pause, type Run } from '../run/run.ts';
import type { DeliveredRecipient, Delivery } from '../state/run-result.ts';
import type { DatedReport, Outgoing, Reader } from './dated-report.ts';
import {
  claimRecipients,
  countSent,
  findMailedBefore,
  formatRecipientKey,
  isKnownRecipient,
  isOnlyWritten,
  type MailingLease,
  openReceipt,
  openReceiptLog,
  pendingRecipients,
  type Receipt,
  takeTurn,
} from './receipt.ts';
import { readArchivedParts } from './report-copies.ts';
import { isWaiting } from './report-files.ts';

/** Of a date that is not sealed, unless `rest` says otherwise. */
export function createDelivery({ template }: JobReport, date: string, rest: Partial<Delivery>): Delivery {
  return {
    ...{ report: template, date, revision: 0, subject: '', recipients: [], alreadySent: 0, written: 0 },
    ...{ leftToOther: false, late: false, pending: false, skipped: null, error: null },
    ...rest,
  };
}

/**
 * @param asked `past`: a newer session is sealed, and a run returns to this one; `byHand`: an operator chose the date;
 * `only`: mail only this address, even if it received the report
 */
export async function deliverDate(
  run: Run,
  dated: DatedReport,
  asked: { readonly past: boolean; readonly byHand: boolean; readonly only: string | undefined },
): Promise<Delivery> {
  const { past, byHand, only } = asked;
  const { job, report, manifest, late, place } = dated;
  const { date, revision } = manifest;
  const { value: before } = await openReceiptLog(run.ledger.store, place).read();
  const { delivers } = run.mailer;
  const listDue = (receipt: Receipt | undefined) =>
    only === undefined ? listReaders(report, receipt, revision, { past, delivers }) : [chooseReader(report, only)];
  const readers = listDue(before);
  const alreadySent = countSent(before, revision);
  const written = report.to.filter(({ address }) => before && isOnlyWritten(before, address)).length;
  const delivery = createDelivery(report, date, { revision, late, alreadySent, written });
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
    const opened = openReceipt(identity, current, isAsked, delivers);
    return claimRecipients(opened, due, new Date(run.clock.now()).toISOString());
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
    if (!isFault(error) || error.code !== 'MAIL_TAKEN_OVER') throw error;
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

/**
 * Recipients still to be mailed. For a past date that a run reported on: only of those who were recipients then. What was
 * written to a folder when there was no server, only a person sends, unless it is the newest date: nobody is flooded.
 */
function listReaders(
  { to }: JobReport,
  receipt: Receipt | undefined,
  revision: number,
  { past, delivers }: { readonly past: boolean; readonly delivers: boolean },
) {
  const isClosed = past && receipt !== undefined && receipt.by_hand !== true;
  const known = isClosed ? to.filter(({ address }) => isKnownRecipient(receipt, address)) : to;
  const isLeft = (address: string) => past && delivers && receipt !== undefined && isOnlyWritten(receipt, address);
  const recipients = known.filter(({ address }) => !isLeft(address));
  const addresses = recipients.map(({ address }) => address);
  const pending = pendingRecipients(receipt, revision, addresses, delivers);
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
  { report, place }: DatedReport,
  recipients: readonly ReportRecipient[],
  models: readonly FlowReport[],
  isForAll: boolean,
) {
  const { ledger, log, mailer } = turn.run;
  const reason = findReasonToSkip(report, models);
  const readers: Reader[] = [];
  const leftOut = new Map<string, { to: string; messageId: string }[]>();
  const changes = new Map<number, ReturnType<typeof compareReports>>();
  for (const recipient of recipients) {
    const { address: to } = recipient;
    const from = isForAll ? findMailedBefore(turn.receipt, to, mailer.delivers) : undefined;
    let why = reason;
    let correction: Reader['correction'] = null;
    if (from !== undefined && report.template === 'weekly')
      why = `revision ${from} was mailed, and a week has no correction`;
    else if (from !== undefined) {
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

/** Enough to distinguish the few copies of one directory. */
const WORKER_PLACE_DIGITS = 8;

/**
 * The id of this worker: created once and kept in the state directory, plus a hash of where the file is. A copy of the
 * directory, from a backup or an image, is another worker, which may run at the same time.
 */
async function readWorker(path: string): Promise<string> {
  const kept = await readFileIfExists(path);
  const made = kept ? kept.trim() : randomUUID();
  if (!kept) await writeWholeFile(path, made);
  const { dev, ino } = await stat(path);
  const place = createHash('sha256').update(JSON.stringify([hostname(), dev, ino]));
  return `${made}-${place.digest('hex').slice(0, WORKER_PLACE_DIGITS)}`;
}

/**
 * A number that the day does not have (no earlier session, no call traded) fulfills no condition: no mail on a guess. A
 * number that exists but cannot be computed fulfills every condition: readers must know of such a day.
 */
export function isFulfilled({ number, above, below }: ReportCondition, report: FlowReport): boolean {
  if (isUncomputable(report, number)) return true;
  const value = readReportNumber(report, number);
  if (value === null) return false;
  return (above === null || value > above) && (below === null || value < below);
}

/**
 * Why the report is not mailed; `undefined` if it is. A digest is worth a mail if one of its datasets is.
 * @param reports of the sealed datasets, at least one
 */
export function findReasonToSkip(
  { onEmpty, onlyWhen }: Pick<JobReport, 'onEmpty' | 'onlyWhen'>,
  reports: readonly FlowReport[],
): string | undefined {
  if (onEmpty === 'skip' && reports.every(({ headline }) => headline.trades === 0)) return 'no trades (on_empty: skip)';
  const unfulfilled = reports.map((report) => onlyWhen.find((condition) => !isFulfilled(condition, report)));
  const [condition] = unfulfilled;
  const [report] = reports;
  if (condition === undefined || report === undefined || unfulfilled.includes(undefined)) return undefined;
  const { number, above, below } = condition;
  const wanted = [above === null ? '' : `above ${above}`, below === null ? '' : `below ${below}`].filter(Boolean);
  const value = formatNumber(readReportNumber(report, number), findNumber(number).unit);
  return `${number} is ${value}, not ${wanted.join(' and ')} (only_when)`;
}

/**
 * Numbers that changed by more than the threshold; with several datasets, each number has its dataset's name.
 * @param before what was mailed; `undefined` if no copy of it can be read
 * @param threshold fraction of a number's scale; a change of exactly that size does not count
 * @returns `undefined` if the changes cannot be determined: then the whole report is mailed again
 */
export function compareReports(
  before: readonly FlowReport[] | undefined,
  after: readonly FlowReport[],
  threshold: number,
) {
  const changes: ReturnType<typeof describeChange>[] = [];
  for (const report of after) {
    const { dataset } = report.drop;
    const earlier = before?.find(({ drop }) => drop.dataset === dataset);
    // This dataset was pending when the earlier report was mailed: all of it is new.
    if (earlier === undefined) return undefined;
    const title = after.length === 1 ? '' : `${dataset}: `;
    try {
      for (const number of REPORT_NUMBERS)
        if (isChanged(number, earlier, report, threshold)) changes.push(describeChange(title, number, earlier, report));
    } catch (error) {
      // The copy lacks a number: it cannot be compared.
      if (error instanceof TypeError) return undefined;
      throw error;
    }
  }
  return before && changes;
}

/** Sums of the same values in another order differ by less. */
const SUM_ERROR = 1e-9;

function isChanged(name: ReportNumber, before: FlowReport, after: FlowReport, threshold: number): boolean {
  const scale = findScale(name, before, after);
  if (scale === null) return false;
  const [a, b] = [readReportNumber(before, name), readReportNumber(after, name)];
  if (a === null || b === null) return a !== b;
  return Math.abs(b - a) > Math.max(threshold, SUM_ERROR) * scale;
}

/**
 * Scale against which a change is judged. A net of large sums, or a share, can change several times over without
 * meaning anything. Null: the number compares with other days, so its change is no correction of this one.
 */
function findScale(name: ReportNumber, before: FlowReport, after: FlowReport): number | null {
  const { scale, unit } = findNumber(name);
  if (scale === null) return null;
  if (scale === undefined && unit === 'share') return 1;
  const size = scale ?? ((report: FlowReport) => readReportNumber(report, unit === 'net' ? 'premium' : name));
  return Math.max(Math.abs(size(before) ?? 0), Math.abs(size(after) ?? 0));
}

/** `0.30` to `0.30` does not read as a correction: such a pair is shown with the digits in which it differs. */
function describeChange(title: string, number: ReportNumber, from: FlowReport, to: FlowReport) {
  const { label, unit } = findNumber(number);
  const name = `${title}${label}`;
  const [before, after] = [readReportNumber(from, number), readReportNumber(to, number)];
  const texts = { name, before: formatNumber(before, unit), after: formatNumber(after, unit) };
  if (texts.before !== texts.after || before === null || after === null) return texts;
  return { name, before: formatFinely(before, unit), after: formatFinely(after, unit) };
}

/**
 * Total time that a run keeps retrying: longer than greylisting (RFC 6647) usually takes, because the next run of a
 * nightly job is a day away.
 */
const DEFAULT_PATIENCE_MS = 600_000;
/** Wait before the second attempt; four times as long before each further one, capped, and jittered downwards. */
const BACKOFF_MS = 5_000;
const MAX_BACKOFF_MS = 120_000;
/** The shortest wait that may help. */
const MIN_WAIT_MS = 1_000;
/** Most recipients that a line of the log names. */
const MAX_NAMED = 5;
/**
 * After this many messages in a row without an answer the server counts as down; the rest would only wait for it too.
 */
const MAX_SILENCES = 2;

/**
 * Never sends a message again that may have been delivered.
 * @param results what became of each recipient; also when it throws, of those that were settled
 * @throws StoreFault, Fault `INTERRUPTED`, `MAIL_TAKEN_OVER`
 */
async function sendAll(turn: MailingLease, outgoing: readonly Outgoing[], results: Map<string, DeliveredRecipient>) {
  const { run } = turn;
  const code = 'MAIL_FAILED';
  const reasonOf = (to: string) => results.get(to)?.detail ?? '';
  let patienceMs = run.mailPatienceMs ?? DEFAULT_PATIENCE_MS;
  let left = await sendRound(turn, outgoing, results);
  for (let retry = 1; left.length > 0 && patienceMs >= MIN_WAIT_MS; retry += 1) {
    const waitMs = Math.min(patienceMs, backoffMs(retry, Math.random));
    const to = left.map((one) => one.to);
    const reason = reasonOf(to[0] ?? '');
    const next = new Date(run.clock.now() + waitMs).toISOString();
    const when = `next try in ${formatDuration(waitMs)}, the last within ${formatDuration(patienceMs)}`;
    const who = listFirst(to, MAX_NAMED);
    run.log.warn({ event: 'mail-put-off', code, to, reason, next }, `mail to ${who} was deferred; ${when}: ${reason}`);
    patienceMs -= waitMs;
    await pause(run, waitMs);
    left = await sendRound(turn, left, results);
  }
  for (const one of left) {
    const { to } = one;
    const reason = reasonOf(to);
    // To other workers, an undelivered message must not look as if it were still being sent.
    await turn.note([one], 'failed', reason);
    run.log.error({ event: 'mail-failed', code, to, reason }, `mail to ${to} failed: ${reason}`);
  }
}

/** @param retry number of the retry, from 1 @param random in [0, 1), for the jitter */
function backoffMs(retry: number, random: () => number): number {
  return Math.round(Math.min(MAX_BACKOFF_MS, BACKOFF_MS * 4 ** (retry - 1)) * (0.5 + random() / 2));
}

/** @returns the messages that the next round retries */
async function sendRound(turn: MailingLease, outgoing: readonly Outgoing[], results: Map<string, DeliveredRecipient>) {
  const again: Outgoing[] = [];
  let silences = 0;
  for (const [index, next] of outgoing.entries()) {
    assertNotAborted(turn.run.signal);
    const { result, fate } = await sendOne(turn, next, results);
    silences = fate === 'unreachable' || fate === 'unknown' ? silences + 1 : 0;
    if (fate === 'later' || fate === 'unreachable') again.push(next);
    const rest = outgoing.slice(index + 1);
    if (fate === 'settings') {
      // A server that rejects the settings rejects every message.
      for (const { to } of rest) results.set(to, { ...result, to });
      for (const other of [...again, next, ...rest])
        await turn.note([other], 'failed', results.get(other.to)?.detail ?? '');
      return [];
    }
    if (silences >= MAX_SILENCES) {
      for (const { to } of rest) if (!results.has(to)) results.set(to, { ...result, to });
      return [...again, ...rest];
    }
  }
  return again;
}

async function sendOne(turn: MailingLease, message: Outgoing, results: Map<string, DeliveredRecipient>) {
  const { run, receipt } = turn;
  const { date } = receipt;
  const { to } = message;
  await turn.note([message], 'sending', '');
  try {
    const { status, detail, ...written } = await run.mailer.send(message.build(), {
      confirm: async () => await turn.confirm(),
    });
    const result = { to, outcome: status, detail, ...written };
    // The outcome holds, even if the write below fails.
    results.set(to, result);
    await turn.note([message], status, detail);
    run.onEvent({ kind: 'mailed', date, to, outcome: status, ...written });
    return { result, fate: 'answered' as const };
  } catch (error) {
    if (!(error instanceof MailFault)) throw error;
    const { code, fate, message: reason, hint } = error;
    // This run retries deferred mail, and reports it as failed at the end if it stays deferred.
    if (fate === 'settings' || fate === 'unknown')
      run.log.error({ event: 'mail-failed', code, fate, to, reason }, `mail to ${to} failed: ${reason}`);
    run.onEvent({ kind: 'mailed', date, to, outcome: 'failed' });
    const result = { to, outcome: 'failed' as const, detail: [reason, hint].filter(Boolean).join(' ') };
    results.set(to, result);
    return { result, fate };
  }
}
