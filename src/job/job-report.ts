/** Resolves the reports of a job file: fills in defaults and checks rules across reports. Pure. */
import { createHash } from 'node:crypto';
import type { JobReport, ReportRecipient } from './job.ts';
import { resolveLook } from './look-shape.ts';
import { parseDurationSeconds, parseSizeBytes } from './plain-shape.ts';
import { REPORT_DEFAULTS, type ReportFile } from './report-shape.ts';
import { ResolveFault } from './resolve-fault.ts';
import { assertOnce } from './trade-columns.ts';

/**
 * @param folder that paths are relative to
 * @throws ResolveFault if two reports, or two recipients of one report, cannot be distinguished
 */
export function resolveReports(written: readonly ReportFile[], folder: string): readonly JobReport[] {
  const reports = written.map((report, index) => resolveReport(report, index, folder));
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
  return reports;
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

function resolveReport(written: ReportFile, index: number, folder: string): JobReport {
  assertOnce(written.attach ?? [], ['reports', index, 'attach']);
  assertOnce(written.datasets ?? [], ['reports', index, 'datasets']);
  const to = written.to.map(resolveRecipient);
  const keys = to.map(({ address }) => address.toLowerCase());
  assertOnce(keys, ['reports', index, 'to']);
  return {
    template: written.template,
    name: written.name ?? null,
    to,
    symbols: written.symbols ?? [],
    datasets: written.datasets ?? [],
    marketStructure: written.market_structure ?? null,
    chain:
      written.chain === 'off'
        ? null
        : { dataset: written.chain ?? REPORT_DEFAULTS.chain, isNamed: written.chain !== undefined },
    keepsExpiring: (written.zero_gamma ?? REPORT_DEFAULTS.zeroGamma) === 'keep-expiring',
    attach: written.attach ?? [],
    attachLimitBytes: parseSizeBytes(written.attach_limit ?? REPORT_DEFAULTS.attachLimit),
    linkSeconds: written.link === undefined ? null : parseDurationSeconds(written.link.expires),
    onlyWhen: (written.only_when ?? []).map(({ number, above = null, below = null }) => ({ number, above, below })),
    onEmpty: (written.on_empty ?? REPORT_DEFAULTS.onEmpty) === 'note' ? 'send' : 'skip',
    correctionThreshold: written.correct_above ?? REPORT_DEFAULTS.correctAbove,
    unsubscribe: written.unsubscribe ?? null,
    look: resolveLook(written, folder, ['reports', index]),
    post: written.post ?? null,
  };
}

function resolveRecipient(written: ReportFile['to'][number]): ReportRecipient {
  if (typeof written === 'string') return { address: written, symbols: null, timezone: REPORT_DEFAULTS.timezone };
  const { address, symbols = null, timezone = REPORT_DEFAULTS.timezone } = written;
  return { address, symbols, timezone };
}
