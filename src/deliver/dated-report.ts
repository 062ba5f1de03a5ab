/**
 * One report of one date: its models, its renderings, its mails. Models differ only by watchlist, so each watchlist is
 * computed once; recipients with the same watchlist, time zone and correction share one rendering, one set of attachments
 * and one copy in the store, which is there before the first of them is mailed.
 */

import { linkReport, reportPath } from '../core/report-page.ts';
import { identifyReport, type Job, type JobReport, type ReportRecipient } from '../job/job.ts';
import { dropKeyOf } from '../ledger/layout.ts';
import type { Manifest } from '../ledger/manifest.ts';
import { buildEml, domainOf, type MailAttachment, type MailMessage } from '../mail/message.ts';
import { buildAttachments } from '../report/attach/attach.ts';
import { buildFlowReport } from '../report/flow-report.ts';
import { type RenderOptions, renderFullReport, renderReport } from '../report/render.ts';
import { type DigestPart, listReports } from '../report/text/mail-view.ts';
import { fillWords } from '../report/text/subject.ts';
import type { Run } from '../run/run.ts';
import { buildMessageId } from './receipt.ts';
import { archiveReport, pageKeyOf, type ReportPlace } from './report-copies.ts';
import { fetchParts } from './report-files.ts';
import { readLook } from './report-look.ts';

/** A recipient, and the correction if an earlier revision was mailed to them. */
export interface Reader {
  readonly recipient: ReportRecipient;
  readonly correction: RenderOptions['correction'];
}

export interface Outgoing {
  readonly to: string;
  readonly messageId: string;
  /** Built when it is sent: a message with attachments is large, and many recipients share its parts. */
  build(): MailMessage;
}

/** One rendering of the report; `page`: the full report, HTML. */
export type Edition = Awaited<ReturnType<DatedReport['edition']>>;

export type DatedReport = ReturnType<typeof createDatedReport>;

/** @param late a newer session is over, sealed or not */
export function createDatedReport(run: Run, job: Job, report: JobReport, manifest: Manifest, late: boolean) {
  const { date, revision } = manifest;
  const place: ReportPlace = { job: job.name, date, report: identifyReport(report), revision };
  const made = new Map<string, Promise<readonly DigestPart[]>>();
  const { store } = run.ledger;
  let files: ReturnType<typeof fetchParts> | undefined;
  /** Address of the status page. */
  const status = run.publicUrl && `${run.publicUrl}/`;
  return { job, report, manifest, late, place, parts: readParts, prepare, edition: makeEdition, mail: buildMail };

  /** Its parts for this reader's watchlist. @throws Fault, EngineFault */
  async function readParts({ symbols }: Pick<ReportRecipient, 'symbols'>): Promise<readonly DigestPart[]> {
    const watched = symbols ?? report.symbols;
    const key = JSON.stringify(watched);
    const parts = made.get(key) ?? compute(watched);
    made.set(key, parts);
    return await parts;
  }

  async function compute(symbols: readonly string[]): Promise<readonly DigestPart[]> {
    const { engine, clock, calendar, signal } = run;
    files ??= fetchParts(run, job, report, manifest);
    const parts: DigestPart[] = [];
    for (const file of await files) {
      if ('pending' in file) parts.push(file);
      else {
        const { title, drop, ...beside } = file;
        const now = new Date(clock.now());
        const { name, families } = job;
        const options = { ...beside, symbols, families, now, job: name, calendar, signal };
        parts.push({ title, report: await buildFlowReport(engine, drop, options) });
      }
    }
    return parts;
  }

  /** Renders and archives the editions of these readers. @returns the mails in the readers' order; a subject to show */
  async function prepare(readers: readonly Reader[]) {
    const editions = new Map<string, Edition>();
    const outgoing: Outgoing[] = [];
    for (const reader of readers) {
      const to = reader.recipient.address;
      const variant = variantOf(reader);
      const edition = editions.get(variant) ?? (await makeEdition(reader));
      if (!editions.has(variant)) {
        // Before the mail: everything that a reader receives must also be in the store.
        const eml = await buildEml(buildMail(edition, to));
        await archiveReport(store, place, variant, { ...edition, eml });
        editions.set(variant, edition);
      }
      outgoing.push({ to, messageId: messageIdOf(to), build: () => buildMail(edition, to) });
    }
    return { outgoing, subject: [...editions.values()][0]?.rendered.subject ?? '' };
  }

  /** What a recipient receives, with attachments. */
  async function makeEdition(reader: Reader) {
    const { templatesDir, publicUrl, log } = run;
    const { recipient, correction } = reader;
    const { timezone } = recipient;
    const parts = await readParts(recipient);
    const look = await readLook(report.look);
    const link = await makeLink(dropKeyOf(manifest));
    // Every correction is late, so it is not marked as late.
    const options = { templatesDir, look, timezone, correction, late: late && correction === null, link };
    // The status page puts the links to other reports there: only it knows their addresses.
    const page = linkReport(await renderFullReport(parts, options), place, [], String, status);
    const variant = variantOf(reader);
    // The status page shows the usual edition only.
    const isShown = publicUrl !== undefined && variant === '';
    const linked = isShown
      ? { url: `${publicUrl}${reportPath(place.job, place)}`, expiresAt: null }
      : await makeLink(pageKeyOf(place, variant));
    const { attachments, leftOut } = await makeFiles(parts, timezone, linked === null ? page : null);
    if (leftOut.length > 0)
      log.warn({ event: 'attachment-left-out', leftOut }, 'attachments were left out: the mail would be too large');
    const first = attachments.find(({ filename }) => /\.(html|pdf)$/.test(filename));
    const full = linked ?? (first && { file: first.filename });
    return {
      parts,
      page,
      attachments,
      rendered: await renderReport(report.template, parts, { ...options, full, leftOut }),
    };
  }

  function buildMail({ rendered, attachments }: Edition, to: string): MailMessage {
    const { mailFrom: from, clock } = run;
    return {
      ...{ ...rendered, from, to, attachments },
      listUnsubscribe: report.unsubscribe,
      messageId: messageIdOf(to),
      date: new Date(clock.now()),
    };
  }

  function messageIdOf(to: string): string {
    return buildMessageId(place, to, domainOf(run.mailFrom));
  }

  /** Empty for the report as the job file has it; a different text for every other edition. */
  function variantOf({ recipient: { symbols, timezone }, correction }: Reader): string {
    const isUsual = symbols === null && timezone === report.to[0]?.timezone && correction === null;
    return isUsual ? '' : JSON.stringify([symbols, timezone, correction?.fromRevision ?? null]);
  }

  /** The files that the job asks for. @param page the full report, where no link leads to it */
  async function makeFiles(parts: readonly DigestPart[], timezone: string, page: string | null) {
    const { attach, attachLimitBytes: limitBytes, look } = report;
    const own: MailAttachment[] = [];
    if (page !== null) {
      const filename = `${job.name}-${date}-full-report.html`.replace(/[^\w.-]/g, '_');
      own.push({ filename, contentType: 'text/html; charset=utf-8', bytes: Buffer.from(page) });
    }
    const [model] = listReports(parts);
    if (model === undefined) return { attachments: own, leftOut: [] };
    const title = look.title === null ? '' : fillWords(look.title, [model], model.drop.date);
    return await buildAttachments(model, attach, { own, limitBytes, timezone, look: { ...look, title } });
  }

  /** Presigned, for as long as the job says; null: it allows none, or the store has none. */
  async function makeLink(key: string): Promise<RenderOptions['link']> {
    const { linkSeconds } = report;
    const link = linkSeconds === null ? undefined : await store.link(key, linkSeconds);
    return link === undefined ? null : { url: link.url, expiresAt: link.expiresAt.toISOString() };
  }
}
