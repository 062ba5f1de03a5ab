/**
 * From sealed drops to mails: every report of a job, for every date that is due. Invariant: nothing is mailed for a
 * date that is not sealed; a report that fails does not keep the others from their readers.
 *
 * Which dates a report is due for. A run mails the newest sealed date, and before it the dates of the lookback that
 * were sealed too late for their own evening, oldest first; of a `weekly` report only dates that end their week.
 * Invariant: a run never mails a date before the first one that a run reported on, so that neither a first run nor a
 * backfill floods anyone.
 */
import { rm } from 'node:fs/promises';
import { LOOKBACK_DAYS } from '../api-contract/published-limits.ts';
import { isSession, listRestOfWeek } from '../calendar/session.ts';
import { addDays, mondayOf } from '../calendar/wall-clock.ts';
import { assertNotAborted, Fault, isFault } from '../core/errors.ts';
import { readFailure } from '../core/failure.ts';
import { identifyReport, type Job, type JobReport } from '../job/job.ts';
import { parseReceiptDate, reportsPrefix } from '../ledger/layout.ts';
import { assertAllowedRecipients, buildEml, parseAddress } from '../mail/message.ts';
import { isGone } from '../plan/conditions.ts';
import { listReports } from '../report/text/mail-view.ts';
import type { Run } from '../run/run.ts';
import type { Delivery } from '../state/run-result.ts';
import { attempt } from '../store/identity.ts';
import { createDatedReport } from './dated-report.ts';
import { chooseReader, createDelivery, deliverDate } from './deliver-date.ts';
import { openReceiptLog } from './receipt.ts';
import { discardContent } from './report-files.ts';

export interface DeliverOptions {
  /** Date to report on; default: the newest sealed one, and those of the lookback before it that were never mailed. */
  readonly date?: string | undefined;
  /** Mail only this recipient, even if already mailed. */
  readonly only?: string | undefined;
  /** Of the dates that are due, only these: an audit has restated them since the others were mailed. */
  readonly restated?: ReadonlySet<string> | undefined;
}

/**
 * Sends the reports of a job to all recipients who have not received them.
 * @throws Fault `REPORT_PENDING` if the chosen date is not sealed
 */
export async function deliverReports(run: Run, job: Job, options: DeliverOptions = {}): Promise<readonly Delivery[]> {
  assertMayMail(run, job, options.only);
  // The display name does not make a different recipient.
  const bare = options.only === undefined ? {} : { only: parseAddress('to', options.only).address };
  const deliveries: Delivery[] = [];
  if (job.reports.length > 0) run.onEvent({ kind: 'phase', date: '', phase: 'mailing' });
  try {
    for (const report of job.reports)
      deliveries.push(...(await deliverReport(run, job, report, { ...options, ...bare })));
  } finally {
    await discardContent(run);
  }
  return deliveries;
}

/**
 * Checks the addresses before anything is requested, sealed or sent.
 * @throws Fault `MAIL_DOMAIN_REFUSED`, `MAIL_ADDRESS_INVALID` (usage)
 */
export function assertMayMail(run: Pick<Run, 'mailer' | 'mailFrom'>, job: Job, only?: string): void {
  if (job.reports.length === 0) return;
  const addresses = only === undefined ? job.reports.flatMap(({ to }) => to.map(({ address }) => address)) : [only];
  parseAddress('from', run.mailFrom);
  for (const address of addresses) parseAddress('to', address);
  assertAllowedRecipients(run.mailer, addresses);
}

/** The report of a date as this address, or the first recipient, would receive it. @throws Fault `REPORT_PENDING` */
export async function previewReport(run: Run, job: Job, report: JobReport, { date, only }: DeliverOptions) {
  const chosen = await chooseDate(run, job, date);
  const recipient = only === undefined ? report.to[0] : chooseReader(report, parseAddress('to', only).address);
  if (chosen === undefined || recipient === undefined) return undefined;
  try {
    const dated = createDatedReport(run, job, report, chosen.manifest, chosen.late);
    if (listReports(await dated.parts(recipient)).length === 0) return undefined;
    const edition = await dated.edition({ recipient, correction: null });
    return { ...edition, eml: await buildEml(dated.mail(edition, recipient.address)) };
  } finally {
    await discardContent(run);
  }
}

async function deliverReport(run: Run, job: Job, report: JobReport, { date, only, restated }: DeliverOptions) {
  if (date !== undefined || only !== undefined) {
    const chosen = await chooseDate(run, job, date);
    if (chosen === undefined) return [];
    const { manifest, late, rest } = chosen;
    if (report.template === 'weekly' && rest.length > 0)
      return [createDelivery(report, manifest.date, { skipped: describeRest(job, rest) })];
    const dated = createDatedReport(run, job, report, manifest, late);
    return [await deliverDate(run, dated, { past: false, byHand: date !== undefined, only })];
  }
  const { due, pending } = await listDueDates(run, job, report, restated);
  const deliveries = pending.map((day) => createDelivery(report, day, { pending: true }));
  for (const { date: day, late, past } of due) {
    assertNotAborted(run.signal);
    const delivery = await attempt(
      async () => {
        const manifest = await run.ledger.manifest(day);
        // It was sealed when the dates were listed; manifests are never removed.
        if (manifest === undefined) return undefined;
        const dated = createDatedReport(run, job, report, manifest, late);
        return await deliverDate(run, dated, { past, byHand: false, only: undefined });
      },
      (fault) => {
        // A wrong setting stops all; after any other fault the other dates go on.
        if (fault.kind === 'usage') throw fault;
        const { code, message, hint } = readFailure(fault, run.redact);
        run.log.error(
          { event: 'report-failed', date: day, code, reason: message },
          `${day}: the report failed: ${message}`,
        );
        return createDelivery(report, day, { late, error: { code, message, ...(hint && { hint }) } });
      },
    );
    // A past date with nothing left to do is no news; what a folder has, a server is owed until a person sends it.
    const isLeft = run.mailer.delivers && (delivery?.written ?? 0) > 0;
    if (delivery !== undefined && !(past && isNothing(delivery) && !isLeft)) deliveries.push(delivery);
    if (past) await rm(run.state.drop(day), { force: true });
  }
  return deliveries;
}

function describeRest({ name }: Job, rest: readonly string[]): string {
  const last = rest.at(-1) ?? '';
  return `a weekly report is mailed with the last session of its week, ${last}; \`flowdrop report ${name} --preview DIR\` shows the week so far`;
}

function isNothing({ recipients, leftToOther, pending, skipped, error }: Delivery): boolean {
  return recipients.length === 0 && !leftToOther && !pending && skipped === null && error === null;
}

/**
 * The dates that a run must report on. Costs a listing and the receipts of the lookback.
 * @param wanted only these; default: all that are due
 * @returns `due`, oldest first, with `late`: a newer session is over, sealed or not; `past`: a newer session is sealed, and
 * the run returns to this one. `pending`: sessions that are over but not sealed; no mail is sent for them
 */
async function listDueDates(run: Run, job: Job, report: JobReport, wanted: ReadonlySet<string> | undefined) {
  const { sealed, pending, isLate, listRest } = await readSessions(run);
  const newest = sealed.at(-1);
  if (newest === undefined) return { due: [], pending: [] };
  const isOwn = (date: string) => report.template !== 'weekly' || listRest(date).length === 0;
  const from = (await findFirstDate(run, job, identifyReport(report))) ?? sealed.findLast(isOwn) ?? newest;
  // The last day of a week may be lost when the lookback has passed it: then another one ends the week.
  const oldest = addDays(newest, -LOOKBACK_DAYS - (report.template === 'weekly' ? 7 : 0));
  const isDue = (date: string) =>
    (wanted === undefined || wanted.has(date)) && date >= from && date >= oldest && isOwn(date);
  const mailed = report.template === 'weekly' ? await listReported(run, job, identifyReport(report)) : [];
  // A session that came after its week was mailed makes no second mail.
  const isRepeated = (date: string) => mailed.some((other) => other !== date && mondayOf(other) === mondayOf(date));
  return {
    due: sealed
      .filter((date) => isDue(date) && !isRepeated(date))
      .map((date) => ({ date, late: isLate(date), past: date !== newest })),
    pending: pending.filter(isDue),
  };
}

/**
 * The date that the operator chose, or the newest sealed one; `undefined` if nothing is sealed yet.
 * @throws Fault `REPORT_PENDING`
 */
async function chooseDate(run: Run, job: Job, date: string | undefined) {
  const { sealed, isLate, listRest } = await readSessions(run);
  const chosen = date ?? sealed.at(-1);
  if (chosen === undefined) return undefined;
  const manifest = await run.ledger.manifest(chosen);
  if (manifest) return { manifest, late: isLate(chosen), rest: listRest(chosen) };
  throw new Fault(
    'REPORT_PENDING',
    `${chosen} of ${job.drop.dataset} is not sealed, so there is nothing to report on yet`,
    { hint: `Run \`flowdrop run ${job.name}\` first; \`flowdrop status\` shows what is sealed.` },
  );
}

/** @returns sealed sessions, ascending, and those that are over but not sealed. What Sundays have is in Monday's report. */
async function readSessions({ ledger, calendar }: Run) {
  const sealed = (await ledger.dates()).filter((date) => isSession(date, calendar));
  const { entries } = await ledger.conditions();
  const pending = [...entries.values()].flatMap(({ date, condition }) =>
    condition === 'pending' && !sealed.includes(date) && isSession(date, calendar) ? [date] : [],
  );
  /** Whether a newer session is over. */
  const isLate = (date: string) => [...sealed, ...pending].some((other) => other > date);
  /** Sessions after it in its week, without those of which nothing will be sealed. */
  const listRest = (date: string) =>
    listRestOfWeek(date, calendar).filter((day) => {
      const condition = entries.get(day)?.condition;
      // A source that loads a session late is without rows at first.
      const isSoon = condition === 'missing' && !sealed.some((other) => other > day);
      return sealed.includes(day) || isSoon || !isGone(condition);
    });
  return { sealed, pending, isLate, listRest };
}

/** Dates with a receipt of this report. */
async function listReported({ ledger: { store } }: Run, { name: job }: Job, report: string) {
  const dates = new Set<string>();
  for await (const { key } of store.list(reportsPrefix(job))) {
    const date = parseReceiptDate(job, report, key);
    if (date !== undefined) dates.add(date);
  }
  return [...dates];
}

/** The first date that a run reported on. Keys are sorted by date, so it is found early. */
async function findFirstDate({ ledger: { store } }: Run, { name: job }: Job, report: string) {
  for await (const { key } of store.list(reportsPrefix(job))) {
    const date = parseReceiptDate(job, report, key);
    if (date === undefined) continue;
    try {
      const { value: receipt } = await openReceiptLog(store, { job, date, report }).read();
      if (receipt !== undefined && receipt.by_hand !== true) return date;
    } catch (error) {
      if (!isFault(error) || !UNREADABLE_CODES.includes(error.code)) throw error;
      // It counts as one of a run: its own date fails, and the others are mailed.
      return date;
    }
  }
  return undefined;
}

const UNREADABLE_CODES = ['RECEIPT_INVALID', 'OBJECT_TOO_LARGE'];
