/**
 * From a sealed drop to mails: model, rendering, one message per recipient, a receipt after each. Invariant: nothing is
 * mailed of a date that is not sealed, and the receipt in the store, not this machine's memory, says who has got what.
 */
import { assertNotAborted, describeError } from '../core/errors.ts';
import type { Job, JobReport } from '../job/job.ts';
import type { MailOutcome } from '../mail/mailer.ts';
import {
  buildMessageId,
  createReceipt,
  encodeReceipt,
  parseReceipt,
  pendingRecipients,
  type Receipt,
  recordRecipient,
} from '../mail/receipt.ts';
import { buildFlowReport, type FlowReport } from '../report/flow.ts';
import { type RenderedReport, renderFlowReport } from '../report/render.ts';
import type { Manifest } from '../seal/manifest.ts';
import { reportKey } from '../store/layout.ts';
import type { RunContext } from './context.ts';
import { describeDrop, fetchDrop, findDrop } from './local-drop.ts';

export interface Delivery {
  readonly report: string;
  readonly date: string;
  readonly revision: number;
  readonly subject: string;
  /** One per recipient who was still to be mailed. */
  readonly recipients: readonly {
    readonly to: string;
    readonly outcome: 'sent' | 'refused';
    readonly detail: string;
  }[];
  /** Recipients who had it already. */
  readonly alreadySent: number;
}

export interface DeliverOptions {
  /** Date to report on; default: the newest sealed one. */
  readonly date?: string;
  /** Mail only this recipient, again if need be. */
  readonly only?: string;
}

/** Sends the reports of a job to everybody who has not got them. @throws Fault `REPORT_PENDING` when the date is not sealed, `MAIL_FAILED` */
export async function deliverReports(
  context: RunContext,
  job: Job,
  options: DeliverOptions = {},
): Promise<readonly Delivery[]> {
  if (job.reports.length === 0) return [];
  const drop = await findDrop(context, job, options.date);
  if (drop === undefined) return [];
  const deliveries: Delivery[] = [];
  for (const [index, report] of job.reports.entries())
    deliveries.push(await deliver(context, job, report, index, drop, options.only));
  return deliveries;
}

/** The report of a date as it would be mailed, with its model. @throws Fault `REPORT_PENDING` */
export async function previewReport(
  context: Pick<RunContext, 'engine' | 'store' | 'state' | 'clock' | 'templatesDir' | 'signal'>,
  job: Job,
  report: JobReport,
  date: string | undefined,
): Promise<{ readonly model: FlowReport; readonly rendered: RenderedReport } | undefined> {
  const drop = await findDrop(context, job, date);
  if (drop === undefined) return undefined;
  const path = await fetchDrop(context, job, drop);
  return await render(context, job, report, drop, path);
}

async function deliver(
  context: RunContext,
  job: Job,
  report: JobReport,
  index: number,
  manifest: Manifest,
  only: string | undefined,
): Promise<Delivery> {
  const { date, revision } = manifest;
  const receiptKey = reportKey(job.name, date, index, 'receipt.json');
  const kept = await context.store.get(receiptKey);
  let receipt = kept ? parseReceipt(kept) : undefined;
  const addresses = only === undefined ? pendingRecipients(receipt, revision, report.to) : [only];
  const delivery = { report: report.template, date, revision, alreadySent: report.to.length - addresses.length };
  if (addresses.length === 0) return { ...delivery, subject: '', recipients: [] };
  const path = await fetchDrop(context, job, manifest);
  const { rendered } = await render(context, job, report, manifest, path);
  if (receipt?.revision !== revision)
    receipt = createReceipt({ report: report.template, job: job.name, date, revision });
  const recipients: Delivery['recipients'][number][] = [];
  for (const to of addresses) {
    assertNotAborted(context.signal);
    const messageId = buildMessageId({
      report: `${report.template}-${index}`,
      job: job.name,
      date,
      revision,
      recipient: to,
      domain: domainOf(context.mailFrom),
    });
    receipt = await note(context, receiptKey, receipt, to, 'sending', messageId, '');
    const outcome = await send(context, rendered, to, messageId);
    receipt = await note(context, receiptKey, receipt, to, outcome.status, messageId, outcome.detail);
    context.onEvent({ kind: 'mailed', date, to, outcome: outcome.status });
    recipients.push({ to, outcome: outcome.status, detail: outcome.detail });
  }
  await archive(context, job, date, index, rendered);
  return { ...delivery, subject: rendered.subject, recipients };
}

async function render(
  context: Pick<RunContext, 'engine' | 'store' | 'clock' | 'templatesDir'>,
  job: Job,
  report: JobReport,
  manifest: Manifest,
  path: string,
): Promise<{ readonly model: FlowReport; readonly rendered: RenderedReport }> {
  const model = await buildFlowReport(context.engine, describeDrop(context.store.url, manifest, path), {
    symbols: report.symbols,
    now: new Date(context.clock.now()),
    job: job.name,
  });
  return { model, rendered: await renderFlowReport(model, context.templatesDir) };
}

async function send(
  context: RunContext,
  rendered: RenderedReport,
  to: string,
  messageId: string,
): Promise<MailOutcome> {
  return await context.mailer.send({
    from: context.mailFrom,
    to,
    subject: rendered.subject,
    html: rendered.html,
    text: rendered.text,
    images: rendered.images,
    messageId,
    date: new Date(context.clock.now()),
  });
}

async function note(
  context: RunContext,
  key: string,
  receipt: Receipt,
  to: string,
  status: 'sending' | 'sent' | 'refused',
  messageId: string,
  detail: string,
): Promise<Receipt> {
  const at = new Date(context.clock.now()).toISOString();
  const next = recordRecipient(receipt, to, { status, at, message_id: messageId, detail });
  await context.store.put(key, { bytes: encodeReceipt(next) }, { contentType: 'application/json' });
  return next;
}

/** Keeps what was mailed beside the data. The mail is out already, so a failure here is told but undoes nothing. */
async function archive(
  context: RunContext,
  job: Job,
  date: string,
  index: number,
  rendered: RenderedReport,
): Promise<void> {
  try {
    const put = async (name: string, text: string, contentType: string) =>
      await context.store.put(reportKey(job.name, date, index, name), { bytes: Buffer.from(text) }, { contentType });
    await put('report.html', rendered.html, 'text/html; charset=utf-8');
    await put('report.txt', rendered.text, 'text/plain; charset=utf-8');
    for (const image of rendered.images) {
      await context.store.put(
        reportKey(job.name, date, index, image.filename),
        { bytes: image.png },
        { contentType: 'image/png' },
      );
    }
  } catch (error) {
    context.log.error({ event: 'archive-failed', date, reason: describeError(error) });
  }
}

function domainOf(address: string): string {
  return /@([A-Za-z0-9.-]+)/.exec(address)?.[1] ?? 'flowdrop.invalid';
}
