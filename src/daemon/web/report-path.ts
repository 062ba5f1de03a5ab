/**
 * URL paths of archived reports: only this module builds and parses them. A path is valid only if the archive lists its
 * report.
 */
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
 * The report at a path. The path is compared with those of all listed reports, so that no other text, in any encoding,
 * reaches the archive.
 */
export function findReport(view: DaemonView, path: string): (ReportName & { readonly job: string }) | undefined {
  for (const { name: job, status } of view.jobs) {
    const found = status?.document.reports.find((report) => reportPath(job, report) === path);
    if (found) return { job, date: found.date, report: found.report, revision: found.revision };
  }
  return undefined;
}
