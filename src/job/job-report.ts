/** What tells the reports of a job apart. Pure. */
import { createHash } from 'node:crypto';
import type { JobReport } from './job.ts';
import { ResolveFault } from './resolve-fault.ts';

/** @throws ResolveFault if two reports cannot be distinguished */
export function assertReportsDiffer(reports: readonly JobReport[]): void {
  const seen = new Map<string, number>();
  reports.map(formatReportIdentity).forEach((identity, index) => {
    const first = seen.get(identity);
    seen.set(identity, index);
    if (first === undefined) return;
    throw new ResolveFault(
      ['reports', index],
      `has the same template and symbols as reports.${first}, so the two cannot be distinguished; give one of them a \`name\`, or put all recipients into one`,
    );
  });
}

/**
 * Identifies a report within its job in the store, whatever its place in the file. If it changes, the report counts as
 * new and unsent. So it excludes what may be edited without mailing again: recipients, attachments, conditions.
 */
function formatReportIdentity({ template, name, symbols, datasets }: JobReport): string {
  if (name !== null) return JSON.stringify([template, { name }]);
  return JSON.stringify([template, [...symbols].sort(), ...(datasets.length === 0 ? [] : [datasets])]);
}

/** A short text that distinguishes the job's reports, as part of a key. */
export function identifyReport(report: JobReport): string {
  const hash = createHash('sha256').update(formatReportIdentity(report)).digest('hex').slice(0, 8);
  return `${report.template}-${hash}`;
}
