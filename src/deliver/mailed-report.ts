/**
 * A report as mails: recipients with the same watchlist, time zone and correction share one rendering, one set of
 * attachments and one copy in the store. The copy is stored before the first of them is mailed.
 */

import { reportPath } from '../core/report-page.ts';
import type { Job, JobReport, ReportRecipient } from '../job/job.ts';
import { dropKeyOf } from '../ledger/layout.ts';
import type { MailAttachment, MailMessage } from '../mail/mailer.ts';
import { buildEml, domainOf } from '../mail/message.ts';
import { buildMessageId } from '../mail/receipt.ts';
import { type RenderedReport, type RenderOptions, renderFullReport } from '../report/render.ts';
import type { DigestPart, FullReportPlace } from '../report/text/mail-view.ts';
import type { Run } from '../run/run.ts';
import { type ArchivePlace, archiveReport, pageKeyOf } from './archive-report.ts';
import { listReports, type ReportContent } from './content.ts';
import type { Outgoing } from './mails.ts';
import { readLook } from './report-look.ts';
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
  /** The full report, HTML. */
  readonly page: string;
  readonly attachments: readonly MailAttachment[];
}

/** Renders and archives the editions of these readers. @returns the mails in the readers' order; a subject to show */
export async function prepareMails(
  run: Run,
  mailed: MailedReport,
  readers: readonly Reader[],
): Promise<{ readonly outgoing: readonly Outgoing[]; readonly subject: string }> {
  const editions = new Map<string, Edition>();
  for (const reader of readers) {
    const variant = describeVariant(mailed.report, reader);
    if (editions.has(variant)) continue;
    const edition = await buildEdition(run, mailed, reader);
    editions.set(variant, edition);
    // Before the mail: everything that a reader receives must also be in the store.
    const eml = await buildEml(buildMail(run, mailed, edition, reader.recipient.address));
    await archiveReport(run, placeOf(mailed), { ...edition, variant, eml });
  }
  const outgoing = readers.flatMap((reader) => {
    const edition = editions.get(describeVariant(mailed.report, reader));
    if (edition === undefined) return [];
    const to = reader.recipient.address;
    return [{ to, messageId: messageIdOf(run, mailed, to), build: () => buildMail(run, mailed, edition, to) }];
  });
  return { outgoing, subject: [...editions.values()][0]?.rendered.subject ?? '' };
}

/** What a recipient receives, with attachments. */
export async function buildEdition(run: Run, mailed: MailedReport, reader: Reader): Promise<Edition> {
  const { report, content, late } = mailed;
  const { recipient, correction } = reader;
  const parts = await content.parts(recipient.symbols ?? report.symbols);
  const options = {
    // Every correction is late, so it is not marked as late.
    ...{
      templatesDir: run.templatesDir,
      look: await readLook(report.look),
      timezone: recipient.timezone,
      correction,
      late: late && correction === null,
    },
    link: await linkDrop(run, report, dropKeyOf(content.manifest)),
  };
  const page = await renderFullReport(parts, options);
  const { full, attachments, leftOut } = await attachAll(run, mailed, reader, { parts, page });
  if (leftOut.length > 0)
    run.log.warn({ event: 'attachment-left-out', leftOut }, 'attachments were left out: the mail would be too large');
  return {
    parts,
    page,
    attachments,
    rendered: await renderReport(report.template, parts, { ...options, full, leftOut }),
  };
}

/** The files of the mail: those that the job asks for, and the full report where no link leads to it and no PDF is it. */
async function attachAll(
  run: Run,
  mailed: MailedReport,
  reader: Reader,
  { parts, page }: Pick<Edition, 'parts' | 'page'>,
): Promise<Pick<Edition, 'attachments'> & Required<Pick<RenderOptions, 'full' | 'leftOut'>>> {
  const { report } = mailed;
  const place = placeOf(mailed);
  const link = await linkFullReport(run, report, { place, variant: describeVariant(report, reader) });
  const own = link === undefined && !report.attach.includes('pdf') ? [attachFullReport(place, page)] : [];
  const asked = await attachReport(listReports(parts), report, reader.recipient.timezone, own);
  const pages = asked.attachments.filter(({ filename }) => /\.(html|pdf)$/.test(filename));
  const [first] = pages;
  return { ...asked, full: link ?? (first && { file: first.filename }) };
}

function placeOf({ job, id, content }: MailedReport): ArchivePlace {
  const { date, revision } = content.manifest;
  return { job: job.name, date, report: id, revision };
}

export function buildMail(run: Run, mailed: MailedReport, edition: Edition, to: string): MailMessage {
  const { subject, html, text, images } = edition.rendered;
  return {
    ...{ from: run.mailFrom, to, subject, html, text, images },
    attachments: edition.attachments,
    listUnsubscribe: mailed.report.unsubscribe,
    messageId: messageIdOf(run, mailed, to),
    date: new Date(run.clock.now()),
  };
}

function messageIdOf(run: Run, { job, id, content }: MailedReport, recipient: string): string {
  const { date, revision } = content.manifest;
  const domain = domainOf(run.mailFrom);
  return buildMessageId({ report: id, job: job.name, date, revision, recipient, domain });
}

/** Empty for the report as the job file has it; a different text for every other edition. */
function describeVariant(report: JobReport, { recipient, correction }: Reader): string {
  const { symbols, timezone } = recipient;
  const isUsual = symbols === null && timezone === report.to[0]?.timezone && correction === null;
  return isUsual ? '' : JSON.stringify([symbols, timezone, correction?.fromRevision ?? null]);
}

async function linkDrop(run: Run, { linkSeconds }: JobReport, key: string): Promise<RenderOptions['link']> {
  if (linkSeconds === null) return null;
  const link = await run.ledger.store.link(key, linkSeconds);
  return link === undefined ? null : { url: link.url, expiresAt: link.expiresAt.toISOString() };
}

interface FullReportCopy {
  readonly place: ArchivePlace;
  /** Empty for the usual edition; the status page shows no other. */
  readonly variant: string;
}

/** A link to the full report; `undefined`: it has to be attached. */
async function linkFullReport(
  { publicUrl, ledger: { store } }: Run,
  { linkSeconds }: JobReport,
  { place, variant }: FullReportCopy,
): Promise<FullReportPlace | undefined> {
  if (publicUrl !== undefined && variant === '')
    return { url: `${publicUrl}${reportPath(place.job, place)}`, expiresAt: null };
  if (linkSeconds === null) return undefined;
  const link = await store.link(pageKeyOf(place, variant), linkSeconds);
  return link && { url: link.url, expiresAt: link.expiresAt.toISOString() };
}

/** The page as a file of the mail. */
function attachFullReport({ job, date }: ArchivePlace, page: string): MailAttachment {
  const filename = `${job}-${date}-full-report.html`.replace(/[^\w.-]/g, '_');
  return { filename, contentType: 'text/html; charset=utf-8', bytes: Buffer.from(page) };
}
