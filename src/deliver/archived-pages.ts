/**
 * Reads the archive of a job's mailed reports: which copies exist, and the page of one. Read-only; `archive-report.ts`
 * writes it.
 */
import { Fault } from '../core/errors.ts';
import { parseReportCopyKey, reportCopyPrefix, reportsPrefix } from '../ledger/layout.ts';
import type { Store } from '../store/store.ts';

export interface ArchivedReport {
  readonly date: string;
  /** Distinguishes the report from the job's others. */
  readonly report: string;
  readonly revision: number;
}

/** Page of the usual edition; other watchlists, time zones and corrections have a hash in the name. */
const USUAL_PAGE = 'report.html';

/** Most existing copies that the error lists. */
const NAMED_REPORTS = 5;

/** Newest date first; within a date by report, then newest revision first. Costs one listing of the job's reports. */
export async function listArchive(store: Store, job: string, limit: number): Promise<readonly ArchivedReport[]> {
  const found = new Map<string, ArchivedReport>();
  for await (const { key } of store.list(reportsPrefix(job))) {
    const copy = parseReportCopyKey(job, key);
    if (!copy?.filename.endsWith('.html')) continue;
    const { date, report, revision } = copy;
    found.set(`${date} ${report} ${revision}`, { date, report, revision });
  }
  return [...found.values()].sort(compareReports).slice(0, limit);
}

function compareReports(a: ArchivedReport, b: ArchivedReport): number {
  if (a.date !== b.date) return a.date < b.date ? 1 : -1;
  if (a.report !== b.report) return a.report < b.report ? -1 : 1;
  return b.revision - a.revision;
}

interface ArchiveChoice {
  /** Default: the newest date that has a copy. */
  readonly date?: string | undefined;
  /** Default: the only report of the date. */
  readonly report?: string | undefined;
  /** Default: the newest one. */
  readonly revision?: number | undefined;
}

/** @throws Fault `REPORT_NOT_ARCHIVED` (usage), which names the existing copies; `REPORT_AMBIGUOUS` (usage) */
export async function readArchivedPage(
  store: Store,
  job: string,
  choice: ArchiveChoice,
): Promise<ArchivedReport & { readonly html: string }> {
  const all = await listArchive(store, job, Number.POSITIVE_INFINITY);
  const date = choice.date ?? all[0]?.date;
  const ofDate = all.filter((copy) => copy.date === date);
  const matching = ofDate.filter(
    ({ report, revision }) =>
      (choice.report === undefined || report === choice.report) &&
      (choice.revision === undefined || revision === choice.revision),
  );
  const [first] = matching;
  if (!first) throw describeAbsence(store, job, choice, ofDate.length > 0 ? ofDate : all);
  const others = [...new Set(matching.map(({ report }) => report))];
  if (others.length > 1) {
    throw new Fault('REPORT_AMBIGUOUS', `${job} mailed several reports of ${first.date}: ${others.join(', ')}`, {
      kind: 'usage',
      hint: 'Choose one with --report.',
    });
  }
  const html = await readPage(store, job, first);
  if (html === undefined) throw describeAbsence(store, job, choice, all);
  return { ...first, html };
}

/** The page of the usual edition; if there is none, the first of the others. */
async function readPage(store: Store, job: string, place: ArchivedReport): Promise<string | undefined> {
  const keys: string[] = [];
  for await (const { key } of store.list(reportCopyPrefix(job, place.date, place.report, place.revision))) {
    if (key.endsWith('.html')) keys.push(key);
  }
  const key = keys.find((each) => each.endsWith(`/${USUAL_PAGE}`)) ?? keys[0];
  const bytes = key === undefined ? undefined : await store.get(key);
  return bytes && Buffer.from(bytes).toString('utf8');
}

function describeAbsence(
  store: Store,
  job: string,
  { date, report, revision }: ArchiveChoice,
  there: readonly ArchivedReport[],
): Fault {
  const wanted = [
    ...(date === undefined ? [] : [`of ${date}`]),
    ...(report === undefined ? [] : [`named ${report}`]),
    ...(revision === undefined ? [] : [`of revision ${revision}`]),
  ].join(' ');
  const named = there.slice(0, NAMED_REPORTS).map((copy) => `${copy.date} ${copy.report} revision ${copy.revision}`);
  const more = there.length > NAMED_REPORTS ? `, and ${there.length - NAMED_REPORTS} more` : '';
  return new Fault(
    'REPORT_NOT_ARCHIVED',
    `${store.url} has no copy of a report ${wanted === '' ? '' : `${wanted} `}that ${job} mailed`,
    {
      kind: 'usage',
      hint:
        there.length === 0
          ? `Nothing was mailed yet: \`flowdrop report ${job} --preview DIR\` shows what would be.`
          : `Available: ${named.join('; ')}${more}.`,
    },
  );
}
