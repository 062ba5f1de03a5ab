/**
 * One report of one date: its models, its renderings, its mails. Models differ only by watchlist, so each watchlist is
 * computed once; recipients with the same watchlist, time zone and correction share one rendering, one set of attachments
 * and one copy in the store, which is there before the first of them is mailed.
 */
import { reportPath } from '../core/report-page.ts';
import { identifyReport, type Job, type JobReport, type ReportRecipient } from '../job/job.ts';
import { dropKeyOf } from '../ledger/layout.ts';
import type { Manifest } from '../ledger/manifest.ts';
import type { MailAttachment, MailMessage } from '../mail/mailer.ts';
import { buildEml, domainOf } from '../mail/message.ts';
import { buildAttachments } from '../report/attach/attach.ts';
import { buildFlowReport } from '../report/flow-report.ts';
import { type RenderedReport, type RenderOptions, renderFullReport } from '../report/render.ts';
import type { DigestPart } from '../report/text/mail-view.ts';
import { fillWords } from '../report/text/subject.ts';
import type { Run } from '../run/run.ts';
import { fetchParts, listReports } from './content.ts';
import type { Outgoing } from './mails.ts';
import { buildMessageId } from './receipt.ts';
import { archiveReport, pageKeyOf, type ReportPlace } from './report-copies.ts';
import { readLook, renderReport } from './report-look.ts';

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

export class DatedReport {
  readonly job: Job;
  readonly report: JobReport;
  readonly manifest: Manifest;
  /** A newer session is over, sealed or not. */
  readonly late: boolean;
  readonly place: ReportPlace;
  readonly #run: Run;
  readonly #made = new Map<string, Promise<readonly DigestPart[]>>();
  #files: ReturnType<typeof fetchParts> | undefined;

  constructor(run: Run, job: Job, report: JobReport, manifest: Manifest, late: boolean) {
    const { date, revision } = manifest;
    this.#run = run;
    this.job = job;
    this.report = report;
    this.manifest = manifest;
    this.late = late;
    this.place = { job: job.name, date, report: identifyReport(report), revision };
  }

  /** Its parts for this reader's watchlist. @throws Fault, EngineFault */
  async parts({ symbols }: Pick<ReportRecipient, 'symbols'>): Promise<readonly DigestPart[]> {
    const watched = symbols ?? this.report.symbols;
    const key = JSON.stringify(watched);
    const parts = this.#made.get(key) ?? this.#compute(watched);
    this.#made.set(key, parts);
    return await parts;
  }

  async #compute(symbols: readonly string[]): Promise<readonly DigestPart[]> {
    const { engine, clock, signal } = this.#run;
    this.#files ??= fetchParts(this.#run, this.job, this.report, this.manifest);
    const parts: DigestPart[] = [];
    for (const file of await this.#files) {
      if ('pending' in file) parts.push(file);
      else {
        const { title, drop, ...beside } = file;
        const now = new Date(clock.now());
        const options = { ...beside, symbols, now, job: this.job.name, signal };
        parts.push({ title, report: await buildFlowReport(engine, drop, options) });
      }
    }
    return parts;
  }

  /** Renders and archives the editions of these readers. @returns the mails in the readers' order; a subject to show */
  async prepare(
    readers: readonly Reader[],
  ): Promise<{ readonly outgoing: readonly Outgoing[]; readonly subject: string }> {
    const editions = new Map<string, Edition>();
    const outgoing: Outgoing[] = [];
    for (const reader of readers) {
      const to = reader.recipient.address;
      const variant = this.#variantOf(reader);
      const edition = editions.get(variant) ?? (await this.edition(reader));
      if (!editions.has(variant)) {
        // Before the mail: everything that a reader receives must also be in the store.
        const eml = await buildEml(this.mail(edition, to));
        await archiveReport(this.#run.ledger.store, this.place, variant, { ...edition, eml });
        editions.set(variant, edition);
      }
      outgoing.push({ to, messageId: this.#messageIdOf(to), build: () => this.mail(edition, to) });
    }
    return { outgoing, subject: [...editions.values()][0]?.rendered.subject ?? '' };
  }

  /** What a recipient receives, with attachments. */
  async edition(reader: Reader): Promise<Edition> {
    const { report, place } = this;
    const { templatesDir, publicUrl, log } = this.#run;
    const { recipient, correction } = reader;
    const { timezone } = recipient;
    const parts = await this.parts(recipient);
    const look = await readLook(report.look);
    const link = await this.#link(dropKeyOf(this.manifest));
    // Every correction is late, so it is not marked as late.
    const options = { templatesDir, look, timezone, correction, late: this.late && correction === null, link };
    const page = await renderFullReport(parts, options);
    const variant = this.#variantOf(reader);
    // The status page shows the usual edition only.
    const isShown = publicUrl !== undefined && variant === '';
    const linked = isShown
      ? { url: `${publicUrl}${reportPath(place.job, place)}`, expiresAt: null }
      : await this.#link(pageKeyOf(place, variant));
    const { attachments, leftOut } = await this.#attach(parts, timezone, linked === null ? page : null);
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

  mail({ rendered, attachments }: Edition, to: string): MailMessage {
    const { mailFrom: from, clock } = this.#run;
    return {
      ...{ ...rendered, from, to, attachments },
      listUnsubscribe: this.report.unsubscribe,
      messageId: this.#messageIdOf(to),
      date: new Date(clock.now()),
    };
  }

  #messageIdOf(to: string): string {
    return buildMessageId(this.place, to, domainOf(this.#run.mailFrom));
  }

  /** Empty for the report as the job file has it; a different text for every other edition. */
  #variantOf({ recipient: { symbols, timezone }, correction }: Reader): string {
    const isUsual = symbols === null && timezone === this.report.to[0]?.timezone && correction === null;
    return isUsual ? '' : JSON.stringify([symbols, timezone, correction?.fromRevision ?? null]);
  }

  /** The files that the job asks for. @param page the full report, where no link leads to it; a PDF replaces it */
  async #attach(parts: readonly DigestPart[], timezone: string, page: string | null) {
    const { attach, attachLimitBytes: limitBytes, look } = this.report;
    const { job, date } = this.place;
    const own: MailAttachment[] = [];
    if (page !== null && !attach.includes('pdf')) {
      const filename = `${job}-${date}-full-report.html`.replace(/[^\w.-]/g, '_');
      own.push({ filename, contentType: 'text/html; charset=utf-8', bytes: Buffer.from(page) });
    }
    const [report] = listReports(parts);
    if (report === undefined) return { attachments: own, leftOut: [] };
    const title = look.title === null ? '' : fillWords(look.title, [report], report.drop.date);
    return await buildAttachments(report, attach, { own, limitBytes, timezone, look: { ...look, title } });
  }

  /** Presigned, for as long as the job says; null: it allows none, or the store has none. */
  async #link(key: string): Promise<RenderOptions['link']> {
    const { linkSeconds } = this.report;
    const link = linkSeconds === null ? undefined : await this.#run.ledger.store.link(key, linkSeconds);
    return link === undefined ? null : { url: link.url, expiresAt: link.expiresAt.toISOString() };
  }
}
