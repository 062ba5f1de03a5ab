/** Addresses of archived reports: made and read here only. What an address names counts only if the archive lists it. */
import type { DaemonView } from '../job-view.ts';

export interface ReportName {
  readonly date: string;
  readonly report: string;
  readonly revision: number;
}

const PREFIX = '/reports/';

/** `/reports/<job>/<date>/<report>/<revision>` */
export function reportPath(job: string, { date, report, revision }: ReportName): string {
  return PREFIX + [job, date, report, String(revision)].map(encodeURIComponent).join('/');
}

export function isReportPath(path: string): boolean {
  return path.startsWith(PREFIX);
}

/**
 * The report of an address. It is compared with the addresses of those that the archive lists, so that no other text,
 * however it is encoded, reaches whoever reads the archive.
 */
export function findReport(view: DaemonView, path: string): (ReportName & { readonly job: string }) | undefined {
  for (const { name: job, status } of view.jobs) {
    const found = status?.document.reports.find((report) => reportPath(job, report) === path);
    if (found) return { job, date: found.date, report: found.report, revision: found.revision };
  }
  return undefined;
}
