/**
 * Copies in the store of what was mailed, per revision: the full report as a page, the message, and the model as JSON. The
 * usual edition has a plain name; those of other watchlists, time zones or corrections have a hash in their names.
 */
import { createHash } from 'node:crypto';
import { describeError, Fault } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import { linkReport, type ReportName } from '../core/report-page.ts';
import { parseReportCopyKey, reportCopyPrefix, reportsPrefix } from '../ledger/layout.ts';
import type { DigestPart } from '../report/text/mail-view.ts';
import type { Store } from '../store/store.ts';

export interface ReportPlace extends ReportName {
  readonly job: string;
}

/** Most existing copies that the error lists. */
const NAMED_REPORTS = 5;

/**
 * Idempotent: the same copy has the same keys.
 * @param variant empty for the usual edition, else text that distinguishes this copy from the others of the revision
 * @param status address of the status page
 * @throws StoreFault
 */
export async function archiveReport(
  store: Store,
  place: ReportPlace,
  variant: string,
  { page, eml, parts }: { readonly page: string; readonly eml: Uint8Array; readonly parts: readonly DigestPart[] },
): Promise<void> {
  const put = async (extension: string, bytes: Uint8Array) =>
    await store.put(copyKeyOf(place, variant, extension), { bytes });
  await put('html', Buffer.from(page));
  await put('eml', eml);
  await put('json', Buffer.from(`${JSON.stringify(parts, undefined, 2)}\n`));
}

/** Key of the full report. */
export function pageKeyOf(place: ReportPlace, variant: string): string {
  return copyKeyOf(place, variant, 'html');
}

function copyKeyOf({ job, date, report, revision }: ReportPlace, variant: string, extension: string): string {
  const suffix = variant === '' ? '' : `-${createHash('sha256').update(variant).digest('hex').slice(0, 8)}`;
  return `${reportCopyPrefix(job, date, report, revision)}report${suffix}.${extension}`;
}

/** Keys of a revision's copies, the usual edition first. */
async function listCopies(store: Store, place: ReportPlace, extension: string): Promise<readonly string[]> {
  const keys: string[] = [];
  const { job, date, report, revision } = place;
  for await (const { key } of store.list(reportCopyPrefix(job, date, report, revision)))
    if (key.endsWith(`.${extension}`)) keys.push(key);
  const usual = copyKeyOf(place, '', extension);
  return keys.sort((a, b) => Number(b === usual) - Number(a === usual));
}

/** What was mailed for a revision, for any watchlist: the day's numbers are the same. `undefined` without a readable copy. */
export async function readArchivedParts(store: Store, log: Log, place: ReportPlace) {
  for (const key of await listCopies(store, place, 'json')) {
    const bytes = await store.get(key);
    try {
      // Our own document; one that lacks a number fails when that is read.
      return JSON.parse(Buffer.from(bytes ?? []).toString('utf8')) as readonly DigestPart[];
    } catch (error) {
      const reason = describeError(error);
      log.warn({ event: 'report-copy-invalid', key, reason }, `${key} cannot be read: ${reason}`);
    }
  }
  return undefined;
}

/** Newest date first; within a date by report, then newest revision first. Costs one listing of the job's reports. */
export async function listArchive(store: Store, job: string, limit: number): Promise<readonly ReportName[]> {
  const found = new Map<string, ReportName>();
  for await (const { key } of store.list(reportsPrefix(job))) {
    const copy = parseReportCopyKey(job, key);
    if (!copy?.filename.endsWith('.html')) continue;
    const { date, report, revision } = copy;
    found.set(`${date} ${report} ${revision}`, { date, report, revision });
  }
  const compare = (a: string, b: string) => (a === b ? 0 : a < b ? -1 : 1);
  return [...found.values()]
    .sort((a, b) => compare(b.date, a.date) || compare(a.report, b.report) || b.revision - a.revision)
    .slice(0, limit);
}

/** Default: the newest date that has a copy, its only report, and the newest revision. */
export type ArchiveChoice = { readonly [Name in keyof ReportName]?: ReportName[Name] | undefined };

/** @throws Fault `REPORT_NOT_ARCHIVED` (usage), which names the existing copies; `REPORT_AMBIGUOUS` (usage) */
export async function findArchived(store: Store, job: string, choice: ArchiveChoice): Promise<ReportName> {
  const all = await listArchive(store, job, Number.POSITIVE_INFINITY);
  const date = choice.date ?? all[0]?.date;
  const ofDate = all.filter((copy) => copy.date === date);
  const matching = ofDate.filter(
    (copy) => copy.report === (choice.report ?? copy.report) && copy.revision === (choice.revision ?? copy.revision),
  );
  const reports = [...new Set(matching.map(({ report }) => report))];
  if (reports.length > 1) {
    throw new Fault('REPORT_AMBIGUOUS', `${job} mailed several reports of ${date}: ${reports.join(', ')}`, {
      kind: 'usage',
      hint: 'Choose one with --report.',
    });
  }
  const [first] = matching;
  if (first) return first;
  const there = ofDate.length > 0 ? ofDate : all;
  const { report, revision } = choice;
  const wanted = [choice.date && `of ${date} `, report && `named ${report} `, revision && `of revision ${revision} `];
  const named = there.slice(0, NAMED_REPORTS).map((copy) => `${copy.date} ${copy.report} revision ${copy.revision}`);
  const more = there.length > NAMED_REPORTS ? `, and ${there.length - NAMED_REPORTS} more` : '';
  const what = `${store.url} has no copy of a report ${wanted.filter(Boolean).join('')}that ${job} mailed`;
  const hint =
    there.length === 0
      ? `Nothing was mailed yet: \`flowdrop report ${job} --preview DIR\` shows what would be.`
      : `Available: ${named.join('; ')}${more}.`;
  throw new Fault('REPORT_NOT_ARCHIVED', what, { kind: 'usage', hint });
}

/** The full report, HTML. @throws those of `findArchived` */
export async function readArchivedPage(store: Store, job: string, choice: ArchiveChoice) {
  const found = await findArchived(store, job, choice);
  const [key = ''] = await listCopies(store, { job, ...found }, 'html');
  const html = Buffer.from((await store.get(key)) ?? []).toString('utf8');
  // Elsewhere its links to neighbors in its folder would lead nowhere.
  return { ...found, html: linkReport(html, found, [], String, undefined) };
}
