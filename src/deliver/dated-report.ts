/**
 * One report of one date: its models, its renderings, its mails. Models differ only by watchlist, so each watchlist is
 * computed once; recipients with the same watchlist, time zone and correction share one rendering, one set of attachments
 * and one copy in the store, which is there before the first of them is mailed.
 *
 * The data of a date's report, fetched to this machine. Invariant: only sealed objects with the bytes of their manifests
 * are read.
 */

import { rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { listCompared, previousSessions } from '../calendar/session.ts';
import { addDays } from '../calendar/wall-clock.ts';
import { hashFile, makeFolder } from '../core/atomic-file.ts';
import { describeError, Fault } from '../core/errors.ts';
import { linkReport, reportPath } from '../core/report-page.ts';
import { identifyReport, type Job, type JobReport, type ReportRecipient } from '../job/job.ts';
import { dropKeyOf } from '../ledger/layout.ts';
import { Ledger } from '../ledger/ledger.ts';
import { listDoubts, type Manifest } from '../ledger/manifest.ts';
import { buildEml, domainOf, type MailAttachment, type MailMessage } from '../mail/message.ts';
import { buildAttachments } from '../report/attach/attach.ts';
import { readLevels } from '../report/changes.ts';
import { buildFlowReport, type FlowOptions } from '../report/flow-report.ts';
import type { SealedDrop } from '../report/model.ts';
import { CHAIN_COLUMNS } from '../report/query/exposure-sql.ts';
import { COMPARED_SESSIONS, type PastSession } from '../report/query/past-sessions.ts';
import { type RenderOptions, renderFullReport, renderReport } from '../report/render.ts';
import { type DigestPart, listReports } from '../report/text/mail-view.ts';
import { fillWords } from '../report/text/subject.ts';
import type { Run } from '../run/run.ts';
import { buildMessageId } from './receipt.ts';
import { archiveReport, pageKeyOf, type ReportPlace, readArchivedParts } from './report-copies.ts';
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
        await archiveReport(store, place, variant, { ...edition, eml }, status);
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
    // Sent to a reader, it leads to no other page: the status page has those of the usual edition.
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

/** What is beside the drop of a part. */
type BesideDrop = Omit<FlowOptions, 'symbols' | 'families' | 'now' | 'job' | 'calendar' | 'signal'>;

/** Removes the files that were fetched only for reports. */
export async function discardContent({ state }: Run): Promise<void> {
  await rm(join(state.drops, 'report'), { recursive: true, force: true });
}

/**
 * Fetches the files of the report.
 * @returns its parts; `pending`: of a dataset that is not sealed, the date that it waits for
 * @throws Fault `DROP_RESTATING`, `DROP_DAMAGED`; StoreFault
 */
export async function fetchParts(run: Run, job: Job, report: JobReport, manifest: Manifest) {
  const { store } = run.ledger;
  const { date, revision } = manifest;
  const { marketStructure: structure, chain: chains } = report;
  const structures = await fetchBeside(run, structure === null ? null : { dataset: structure, isNamed: true }, date);
  const chain = await fetchBeside(run, chains, date);
  const datasets = report.template === 'digest' ? report.datasets : [manifest.dataset];
  const parts: ({ title: string; pending: string } | ({ title: string; drop: SealedDrop } & BesideDrop))[] = [];
  for (const title of datasets) {
    const isOwn = title === job.drop.dataset;
    const ledger = new Ledger(store, title);
    const sealed = isOwn ? manifest : await ledger.manifest(date);
    if (sealed === undefined) {
      parts.push({ title, pending: date });
      continue;
    }
    const drop = await fetchDrop(run, sealed, isOwn ? run.state.drop(date) : localPath(run, title, date));
    const before = await fetchSummaries(run, ledger, { job: job.name, date, report: identifyReport(report), revision });
    const { entries } = await ledger.conditions();
    // Sealed or not.
    const known = [...entries.values()].filter((other) => other.date < date && other.condition !== 'empty');
    const dates = known.map((other) => other.date);
    parts.push({ title, drop, before, known: dates, marketStructure: structures, chain });
  }
  return parts;
}

/**
 * Whether a digest has to wait: another of its datasets may still be sealed for this date. A dataset that is known to
 * be missing, empty or expired never will be, so the digest goes out and says so.
 */
export async function isWaiting({ ledger: { store } }: Run, job: Job, report: JobReport, date: string) {
  if (report.template !== 'digest') return false;
  for (const dataset of report.datasets) {
    const ledger = new Ledger(store, dataset);
    if (dataset === job.drop.dataset || (await ledger.manifest(date)) !== undefined) continue;
    const condition = (await ledger.conditions()).entries.get(date)?.condition;
    if (condition !== 'missing' && condition !== 'empty' && condition !== 'expired') return true;
  }
  return false;
}

/** The drop of another dataset for this date. A missing one is logged if the job names the dataset. */
async function fetchBeside(
  run: Run,
  wanted: { readonly dataset: string; readonly isNamed: boolean } | null,
  date: string,
): Promise<NonNullable<BesideDrop['chain']> | null> {
  if (wanted === null) return null;
  const { dataset, isNamed } = wanted;
  const manifest = await new Ledger(run.ledger.store, dataset).manifest(date);
  // A dataset that only has the default name may be anything.
  const isFit = isNamed || CHAIN_COLUMNS.every((name) => manifest?.schema.some((column) => column.name === name));
  if (manifest !== undefined && isFit) {
    const { path, location, condition } = await fetchDrop(run, manifest, localPath(run, dataset, date));
    return { path, location, isDegraded: condition === 'degraded' };
  }
  // The report does without, because its readers would not miss the other dataset. But the operator asked for it.
  if (isNamed) leaveOut(run, dataset, date, `the drop of ${dataset} is not sealed`);
  return null;
}

/**
 * Summaries of the sessions before that are compared, and of the dates since the session before, which have the evening,
 * newest first, each with what is compared of the report that was mailed of it. Leaves out what cannot be read: the report itself
 * does not depend on earlier days.
 */
async function fetchSummaries(run: Run, ledger: Ledger, place: ReportPlace): Promise<readonly PastSession[]> {
  const { dataset } = ledger;
  const { date } = place;
  const { calendar } = run;
  const [previous = date] = previousSessions(addDays(date, -1), 1, calendar);
  const earlier = (await ledger.dates()).filter((other) => other < date);
  const compared = listCompared(date, earlier, calendar).slice(-COMPARED_SESSIONS);
  const found: PastSession[] = [];
  for (const other of earlier.filter((one) => one >= previous || compared.includes(one)).reverse()) {
    const manifest = await ledger.validManifest(other, ({ message }) => leaveOut(run, dataset, other, message));
    const file = manifest?.files.find(({ filename }) => filename === manifest.summary);
    // Drops with their own columns have none.
    if (manifest === undefined || file === undefined) continue;
    const path = localPath(run, dataset, `${other}-summary`);
    await makeFolder(dirname(path));
    if (await ledger.fetchFile(other, file, path, run.signal)) {
      const { condition, revision } = manifest;
      const mailed = await readMailed(run, dataset, { ...place, date: other, revision });
      found.push({ date: other, path, isDegraded: condition === 'degraded', ...mailed });
    } else leaveOut(run, dataset, other, 'the summary does not match its manifest');
  }
  return found;
}

/** Of the newest revision that was mailed; absent without one that has them. */
async function readMailed(run: Run, dataset: string, place: ReportPlace) {
  for (let revision = place.revision; revision > 0; revision -= 1) {
    const parts = await readArchivedParts(run.ledger.store, run.log, { ...place, revision });
    if (parts === undefined) continue;
    try {
      const part = parts.find(({ title }) => title === dataset);
      if (part === undefined || !('report' in part)) return undefined;
      return { levels: readLevels(part.report), contracts: part.report.topContracts };
    } catch (error) {
      leaveOut(run, dataset, place.date, `its mailed report has no exposure that can be read: ${describeError(error)}`);
    }
  }
  return undefined;
}

function leaveOut({ log }: Run, dataset: string, date: string, reason: string): void {
  log.warn({ event: 'comparison-left-out', dataset, date, reason }, `${date} is not compared: ${reason}`);
}

/** Brings the drop's file to `path`, unless it is there already, as after a run. */
async function fetchDrop({ ledger: { store }, signal }: Run, manifest: Manifest, path: string): Promise<SealedDrop> {
  const { dataset, date, files, job_id: job } = manifest;
  const [file] = files;
  const ledger = new Ledger(store, dataset);
  const drop = describeDrop(store.url, manifest, path);
  const kept = await hashFile(path).catch(() => undefined);
  if (kept === drop.sha256) return drop;
  await makeFolder(dirname(path));
  if (await ledger.fetchFile(date, file, path, signal)) return drop;
  const next = await ledger.successor(manifest);
  if (next) {
    throw new Fault('DROP_RESTATING', `${date} is being replaced by revision ${next.revision}`, {
      hint: `Try again in a minute. If nothing changes, the run that began it has died: \`flowdrop run ${job}\` finishes it.`,
    });
  }
  throw new Fault('DROP_DAMAGED', `${drop.location} does not match its manifest`, {
    hint: `Run \`flowdrop verify ${job} --date ${date}\`. No report is made from it.`,
  });
}

function describeDrop(storeUrl: string, manifest: Manifest, path: string): SealedDrop {
  const { dataset, date, revision, condition, filter, rows, ids, sealed_at, degraded_reason, through } = manifest;
  return {
    dataset,
    date,
    revision,
    condition,
    degraded_reason,
    through,
    doubts: listDoubts(manifest),
    filter,
    rows,
    ids,
    min_time: manifest.min_time,
    max_time: manifest.max_time,
    sealed_at,
    sha256: manifest.files[0].hash.replace('sha256:', ''),
    location: `${storeUrl}/${dropKeyOf(manifest)}`,
    path,
  };
}

function localPath({ state }: Run, dataset: string, name: string): string {
  return join(state.drops, 'report', `${dataset}-${name}.parquet`);
}
