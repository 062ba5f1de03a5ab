/**
 * From sealed drops to mails: every report of a job, for every date that is due. Invariant: nothing is mailed for a
 * date that is not sealed; a report that fails does not keep the others from their readers.
 */
import { rm } from 'node:fs/promises';
import { assertNotAborted } from '../core/errors.ts';
import { identifyReport, type Job, type JobReport } from '../job/job.ts';
import { assertAllowedRecipients, buildEml, parseAddress } from '../mail/message.ts';
import type { Run } from '../run/run.ts';
import type { Delivery } from '../state/run-result.ts';
import { attempt } from '../store/identity.ts';
import { discardContent, listReports, openContent } from './content.ts';
import { chooseReader, deliverDate } from './deliver-date.ts';
import { chooseDate, type DueDate, listDueDates } from './due-dates.ts';
import { buildEdition, buildMail, type Edition } from './mailed-report.ts';

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

/**
 * The report of a date as this address, or the first recipient, would receive it. Sends no mail.
 * @throws Fault `REPORT_PENDING`
 */
export async function previewReport(
  run: Run,
  job: Job,
  report: JobReport,
  { date, only }: DeliverOptions,
): Promise<(Edition & { readonly eml: Uint8Array }) | undefined> {
  const due = await chooseDate(run, job, date);
  const recipient = only === undefined ? report.to[0] : chooseReader(report, parseAddress('to', only).address);
  if (due === undefined || recipient === undefined) return undefined;
  try {
    const content = openContent(run, job, report, due.manifest);
    const mailed = { job, report, id: identifyReport(report), content, late: due.late };
    if (listReports(await content.parts(recipient.symbols ?? report.symbols)).length === 0) return undefined;
    const edition = await buildEdition(run, mailed, { recipient, correction: null });
    return { ...edition, eml: await buildEml(buildMail(run, mailed, edition, recipient.address)) };
  } finally {
    await discardContent(run);
  }
}

async function deliverReport(
  run: Run,
  job: Job,
  report: JobReport,
  { date, only, restated }: DeliverOptions,
): Promise<readonly Delivery[]> {
  const id = identifyReport(report);
  const task = { job, report, id, only, byHand: date !== undefined };
  if (date !== undefined || only !== undefined) {
    const due = await chooseDate(run, job, date);
    return due === undefined ? [] : [await deliverDate(run, { ...task, ...due })];
  }
  const { due, pending } = await listDueDates(run, job, id, restated);
  const deliveries = pending.map((day) => ({
    ...createDelivery(report, { date: day, late: false, past: false }),
    pending: true,
  }));
  for (const day of due) {
    const delivery = await tryDate(run, day, report, async () => {
      const manifest = await run.ledger.manifest(day.date);
      // It was sealed when the dates were listed; manifests are never removed.
      return manifest && (await deliverDate(run, { ...task, ...day, manifest }));
    });
    // A past date with nothing left to do is no news.
    if (delivery !== undefined && !(day.past && isNothing(delivery))) deliveries.push(delivery);
    if (day.past) await rm(run.state.drop(day.date), { force: true });
  }
  return deliveries;
}

/** Reports a date that fails, and the others go on; a wrong setting, a changed store or an interruption stops all. */
async function tryDate(
  run: Run,
  day: DueDate,
  report: JobReport,
  action: () => Promise<Delivery | undefined>,
): Promise<Delivery | undefined> {
  assertNotAborted(run.signal);
  return await attempt(action, (error) => {
    if (error.kind === 'usage') throw error;
    const { code, hint } = error;
    const message = run.redact(error.message);
    run.log.error(
      { event: 'report-failed', date: day.date, code, reason: message },
      `${day.date}: the report failed: ${message}`,
    );
    const next = hint === undefined ? {} : { hint: run.redact(hint) };
    return { ...createDelivery(report, day), error: { code, message, ...next } };
  });
}

function createDelivery({ template }: JobReport, { date, late }: DueDate): Delivery {
  return {
    ...{ report: template, date, revision: 0, subject: '', recipients: [], alreadySent: 0, leftToOther: false },
    ...{ late, pending: false, skipped: null, error: null },
  };
}

function isNothing({ recipients, leftToOther, pending, skipped, error }: Delivery): boolean {
  return recipients.length === 0 && !leftToOther && !pending && skipped === null && error === null;
}
