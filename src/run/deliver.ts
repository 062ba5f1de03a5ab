/**
 * From a sealed drop to mails: model, rendering, one message per recipient, a receipt after each. Invariant: nothing is
 * mailed of a date that is not sealed, and the receipt in the store, not this machine's memory, says who has got what.
 */
import { createHash, randomUUID } from 'node:crypto';
import { readFileIfExists, writeFileAtomic } from '../core/atomic-file.ts';
import { assertNotAborted, isFault } from '../core/errors.ts';
import type { Job, JobReport } from '../job/job.ts';
import type { MailOutcome } from '../mail/mailer.ts';
import {
  buildMessageId,
  countRecipients,
  createReceipt,
  encodeReceipt,
  isLeasedToOther,
  parseReceipt,
  pendingRecipients,
  type Receipt,
  type RecipientReceipt,
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
  /** One per recipient who was still to be mailed. `failed` ones are mailed by the next run, `refused` ones never again. */
  readonly recipients: readonly {
    readonly to: string;
    readonly outcome: 'sent' | 'refused' | 'failed';
    readonly detail: string;
  }[];
  /** Recipients who had it already. */
  readonly alreadySent: number;
  /** Another worker is mailing it at the moment. */
  readonly leftToOther: boolean;
}

export interface DeliverOptions {
  /** Date to report on; default: the newest sealed one. */
  readonly date?: string;
  /** Mail only this recipient, again if need be. */
  readonly only?: string;
}

/** What delivery needs of a run: no source, because it reads only what is sealed. */
export type DeliverContext = Omit<RunContext, 'source' | 'learnt'>;

/** Sends the reports of a job to everybody who has not got them. @throws Fault `REPORT_PENDING` when the date is not sealed */
export async function deliverReports(
  context: DeliverContext,
  job: Job,
  options: DeliverOptions = {},
): Promise<readonly Delivery[]> {
  if (job.reports.length === 0) return [];
  const drop = await findDrop(context, job, options.date);
  if (drop === undefined) return [];
  const deliveries: Delivery[] = [];
  for (const report of job.reports) deliveries.push(await deliver(context, job, report, drop, options.only));
  return deliveries;
}

/** Stable text of what tells one report of a job from another: template and watchlist, not its place in the file. */
function identifyReport(report: JobReport): string {
  const identity = JSON.stringify([report.template, [...report.symbols].sort()]);
  return `${report.template}-${createHash('sha256').update(identity).digest('hex').slice(0, 8)}`;
}

/** The report of a date as it would be mailed, with its model. @throws Fault `REPORT_PENDING` */
export async function previewReport(
  context: DeliverContext,
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
  context: DeliverContext,
  job: Job,
  report: JobReport,
  manifest: Manifest,
  only: string | undefined,
): Promise<Delivery> {
  const { date, revision } = manifest;
  const id = identifyReport(report);
  const key = reportKey(job.name, date, id, 'receipt.json');
  const worker = await readWorker(context.state.worker);
  const kept = await context.store.get(key);
  const receipt = kept ? parseReceipt(kept) : undefined;
  const leftToOther = isLeasedToOther(receipt, revision, worker, context.clock.now());
  const pending = only === undefined ? pendingRecipients(receipt, revision, report.to) : [only];
  const addresses = leftToOther ? [] : pending;
  const alreadySent = countRecipients(receipt, revision, 'sent');
  const delivery = { report: report.template, date, revision, alreadySent, leftToOther };
  if (addresses.length === 0) return { ...delivery, subject: '', recipients: [] };
  const { rendered } = await render(context, job, report, manifest, await fetchDrop(context, job, manifest));
  // Before the mail: what a reader has in hand must be in the store too.
  await archive(context, job, date, id, rendered);
  const fresh = createReceipt({ report: report.template, job: job.name, date, revision, worker });
  const ledger: Ledger = { context, key, receipt: { ...(receipt?.revision === revision ? receipt : fresh), worker } };
  const recipients: Delivery['recipients'][number][] = [];
  for (const to of addresses) {
    assertNotAborted(context.signal);
    const domain = domainOf(context.mailFrom);
    const messageId = buildMessageId({ report: id, job: job.name, date, revision, recipient: to, domain });
    const sent = await sendTo(ledger, rendered, to, messageId);
    context.onEvent({ kind: 'mailed', date, to, outcome: sent.outcome });
    recipients.push({ to, ...sent });
  }
  return { ...delivery, subject: rendered.subject, recipients };
}

/** The receipt while it is written, entry by entry. */
interface Ledger {
  readonly context: DeliverContext;
  readonly key: string;
  receipt: Receipt;
}

/** One recipient that cannot be reached now must not keep the mail from the next. */
async function sendTo(
  ledger: Ledger,
  rendered: RenderedReport,
  to: string,
  messageId: string,
): Promise<Pick<Delivery['recipients'][number], 'outcome' | 'detail'>> {
  await note(ledger, to, 'sending', messageId, '');
  try {
    const outcome = await send(ledger.context, rendered, to, messageId);
    await note(ledger, to, outcome.status, messageId, outcome.detail);
    return { outcome: outcome.status, detail: outcome.detail };
  } catch (error) {
    if (!isFault(error) || error.code !== 'MAIL_FAILED') throw error;
    ledger.context.log.error({ event: 'mail-failed', code: error.code, to, reason: error.message });
    // The receipt still says `sending`, so the next run tries again.
    return { outcome: 'failed', detail: [error.message, error.hint].filter(Boolean).join(' ') };
  }
}

async function render(
  context: DeliverContext,
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
  context: DeliverContext,
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
  ledger: Ledger,
  to: string,
  status: RecipientReceipt['status'],
  message_id: string,
  detail: string,
): Promise<void> {
  const at = new Date(ledger.context.clock.now()).toISOString();
  ledger.receipt = recordRecipient(ledger.receipt, to, { status, at, message_id, detail });
  await ledger.context.store.put(
    ledger.key,
    { bytes: encodeReceipt(ledger.receipt) },
    { contentType: 'application/json' },
  );
}

/** Keeps what is mailed beside the data. @throws StoreFault */
async function archive(
  context: DeliverContext,
  job: Job,
  date: string,
  id: string,
  rendered: RenderedReport,
): Promise<void> {
  const put = async (name: string, bytes: Uint8Array, contentType: string) =>
    await context.store.put(reportKey(job.name, date, id, name), { bytes }, { contentType });
  await put('report.html', Buffer.from(rendered.html), 'text/html; charset=utf-8');
  await put('report.txt', Buffer.from(rendered.text), 'text/plain; charset=utf-8');
  for (const image of rendered.images) await put(image.filename, image.png, 'image/png');
}

/** Who this worker is: made once, kept in the state directory. */
async function readWorker(path: string): Promise<string> {
  const kept = await readFileIfExists(path);
  if (kept) return kept.trim();
  const worker = randomUUID();
  await writeFileAtomic(path, worker);
  return worker;
}

function domainOf(address: string): string {
  return /@([A-Za-z0-9.-]+)/.exec(address)?.[1] ?? 'flowdrop.invalid';
}
