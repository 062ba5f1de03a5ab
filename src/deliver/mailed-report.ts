/**
 * A report as mails: recipients with the same watchlist, time zone and correction share one rendering, one set of
 * attachments and one copy in the store. The copy is stored before the first of them is mailed.
 */
import type { Job, JobReport, ReportRecipient } from '../job/job.ts';
import { dropKeyOf } from '../ledger/sealed-dates.ts';
import { domainOf } from '../mail/domains.ts';
import { buildEml } from '../mail/eml.ts';
import type { MailAttachment, MailMessage } from '../mail/mailer.ts';
import { buildMessageId } from '../mail/receipt.ts';
import type { DigestPart } from '../report/digest.ts';
import type { RenderedReport, RenderOptions } from '../report/render.ts';
import { archiveReport } from './archive-report.ts';
import { listReports, type ReportContent } from './content.ts';
import type { DeliverContext } from './delivery.ts';
import type { Outgoing } from './mails.ts';
import { attachReport, renderReport } from './report-model.ts';

export interface MailedReport {
  readonly job: Job;
  readonly report: JobReport;
  /** Distinguishes the report from the job's others. */
  readonly id: string;
  readonly content: ReportContent;
  readonly late: boolean;
}

/** A recipient, and the correction if an earlier revision was mailed to them. */
export interface Reader {
  readonly recipient: ReportRecipient;
  readonly correction: RenderOptions['correction'];
}

/** One rendering of the report. */
export interface Edition {
  readonly parts: readonly DigestPart[];
  readonly rendered: RenderedReport;
  readonly attachments: readonly MailAttachment[];
}

const NO_ATTACHMENTS = { attachments: [], leftOut: [] } as const;

/** Renders and archives the editions of these readers. @returns the mails in the readers' order; a subject to show */
export async function prepareMails(
  context: DeliverContext,
  mailed: MailedReport,
  readers: readonly Reader[],
): Promise<{ readonly outgoing: readonly Outgoing[]; readonly subject: string }> {
  const editions = new Map<string, Edition>();
  for (const reader of readers) {
    const variant = describeVariant(mailed.report, reader);
    if (editions.has(variant)) continue;
    const edition = await buildEdition(context, mailed, reader);
    editions.set(variant, edition);
    // Before the mail: everything that a reader receives must also be in the store.
    const eml = await buildEml(buildMail(context, mailed, edition, reader.recipient.address));
    const { date, revision } = mailed.content.manifest;
    const place = { job: mailed.job.name, date, report: mailed.id, revision };
    await archiveReport(context, place, { ...edition, variant, eml });
  }
  const outgoing = readers.flatMap((reader) => {
    const edition = editions.get(describeVariant(mailed.report, reader));
    if (edition === undefined) return [];
    const to = reader.recipient.address;
    return [{ to, messageId: messageIdOf(context, mailed, to), build: () => buildMail(context, mailed, edition, to) }];
  });
  return { outgoing, subject: [...editions.values()][0]?.rendered.subject ?? '' };
}

/** What a recipient receives, with attachments. */
export async function buildEdition(
  context: DeliverContext,
  { report, content, late }: MailedReport,
  { recipient, correction }: Reader,
): Promise<Edition> {
  const parts = await content.parts(recipient.symbols ?? report.symbols);
  const { timezone } = recipient;
  const { manifest } = content;
  const [model] = listReports(parts);
  const isAttaching = report.attach.length > 0 && model !== undefined;
  const { attachments, leftOut } = isAttaching ? await attachReport(model, report, timezone) : NO_ATTACHMENTS;
  if (leftOut.length > 0)
    context.log.warn(
      { event: 'attachment-left-out', leftOut },
      'attachments were left out: the mail would be too large',
    );
  const rendered = await renderReport(report.template, parts, {
    // Every correction is late, so it is not marked as late.
    ...{ templatesDir: context.templatesDir, timezone, correction, late: late && correction === null, leftOut },
    link: await linkDrop(context, report, dropKeyOf(manifest)),
  });
  return { parts, rendered, attachments };
}

export function buildMail(context: DeliverContext, mailed: MailedReport, edition: Edition, to: string): MailMessage {
  const { subject, html, text, images } = edition.rendered;
  return {
    ...{ from: context.mailFrom, to, subject, html, text, images },
    attachments: edition.attachments,
    listUnsubscribe: mailed.report.unsubscribe,
    messageId: messageIdOf(context, mailed, to),
    date: new Date(context.clock.now()),
  };
}

function messageIdOf(context: DeliverContext, { job, id, content }: MailedReport, recipient: string): string {
  const { date, revision } = content.manifest;
  const domain = domainOf(context.mailFrom);
  return buildMessageId({ report: id, job: job.name, date, revision, recipient, domain });
}

/** Empty for the report as the job file has it; a different text for every other edition. */
function describeVariant(report: JobReport, { recipient, correction }: Reader): string {
  const { symbols, timezone } = recipient;
  const isUsual = symbols === null && timezone === report.to[0]?.timezone && correction === null;
  return isUsual ? '' : JSON.stringify([symbols, timezone, correction?.fromRevision ?? null]);
}

async function linkDrop(
  context: DeliverContext,
  { linkSeconds }: JobReport,
  key: string,
): Promise<RenderOptions['link']> {
  if (linkSeconds === null) return null;
  const link = await context.store.link(key, linkSeconds);
  return link === undefined ? null : { url: link.url, expiresAt: link.expiresAt.toISOString() };
}
