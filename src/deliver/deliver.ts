/**
 * From sealed drops to mails: every report of a job, for every date that is due. Invariant: nothing is mailed for a
 * date that is not sealed; a report that fails does not keep the others from their readers.
 */
import { rm } from 'node:fs/promises';
import { assertNotAborted } from '../core/errors.ts';
import type { Job, JobReport } from '../job/job.ts';
import { assertAllowedRecipients, buildEml, parseAddress } from '../mail/message.ts';
import type { Run } from '../run/run.ts';
import type { Delivery } from '../state/run-result.ts';
import { attempt } from '../store/identity.ts';
import { discardContent, listReports } from './content.ts';
import { DatedReport, type Edition } from './dated-report.ts';
import { chooseReader, createDelivery, deliverDate } from './deliver-date.ts';
import { chooseDate, listDueDates } from './due-dates.ts';

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
  const chosen = await chooseDate(run, job, date);
  const recipient = only === undefined ? report.to[0] : chooseReader(report, parseAddress('to', only).address);
  if (chosen === undefined || recipient === undefined) return undefined;
  try {
    const dated = new DatedReport(run, job, report, chosen.manifest, chosen.late);
    if (listReports(await dated.parts(recipient)).length === 0) return undefined;
    const edition = await dated.edition({ recipient, correction: null });
    return { ...edition, eml: await buildEml(dated.mail(edition, recipient.address)) };
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
  if (date !== undefined || only !== undefined) {
    const chosen = await chooseDate(run, job, date);
    if (chosen === undefined) return [];
    const dated = new DatedReport(run, job, report, chosen.manifest, chosen.late);
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
        const dated = new DatedReport(run, job, report, manifest, late);
        return await deliverDate(run, dated, { past, byHand: false, only: undefined });
      },
      (fault) => {
        // A wrong setting stops all; after any other fault the other dates go on.
        if (fault.kind === 'usage') throw fault;
        const { code, hint } = fault;
        const message = run.redact(fault.message);
        run.log.error(
          { event: 'report-failed', date: day, code, reason: message },
          `${day}: the report failed: ${message}`,
        );
        const next = hint === undefined ? {} : { hint: run.redact(hint) };
        return createDelivery(report, day, { late, error: { code, message, ...next } });
      },
    );
    // A past date with nothing left to do is no news.
    if (delivery !== undefined && !(past && isNothing(delivery))) deliveries.push(delivery);
    if (past) await rm(run.state.drop(day), { force: true });
  }
  return deliveries;
}

function isNothing({ recipients, leftToOther, pending, skipped, error }: Delivery): boolean {
  return recipients.length === 0 && !leftToOther && !pending && skipped === null && error === null;
}
