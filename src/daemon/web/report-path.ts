/** Finds the archived report at a path. A path is valid only if the archive lists its report. */
import { REPORT_PREFIX, type ReportName, reportPath } from '../../core/report-page.ts';
import type { DaemonView } from '../job-view.ts';

export function isReportPath(path: string): boolean {
  return path.startsWith(REPORT_PREFIX);
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
