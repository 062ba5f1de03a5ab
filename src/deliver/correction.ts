/** Corrections: what a restatement changed since the mail of an earlier revision. Pure. */

import { formatFinely, formatNumber } from '../report/key-numbers.ts';
import type { FlowReport } from '../report/model.ts';
import { findNumber, readReportNumber } from '../report/number-values.ts';
import { REPORT_NUMBERS, type ReportNumber } from '../report/numbers.ts';

interface ChangedNumber {
  /** Label for readers. */
  readonly name: string;
  readonly before: string;
  readonly after: string;
}

/**
 * Numbers that changed by more than the threshold; with several datasets, each number has its dataset's name.
 * @param before what was mailed; `undefined` if no copy of it can be read
 * @returns `undefined` if the changes cannot be determined: then the whole report is mailed again
 */
export function compareReports(
  before: readonly FlowReport[] | undefined,
  after: readonly FlowReport[],
  threshold: number,
): readonly ChangedNumber[] | undefined {
  if (before === undefined) return undefined;
  const changes: ChangedNumber[] = [];
  for (const report of after) {
    const { dataset } = report.drop;
    const earlier = before.find(({ drop }) => drop.dataset === dataset);
    // This dataset was pending when the earlier report was mailed: all of it is new.
    if (earlier === undefined) return undefined;
    const found = readChanges(earlier, report, threshold);
    if (found === undefined) return undefined;
    changes.push(...found.map((one) => (after.length === 1 ? one : { ...one, name: `${dataset}: ${one.name}` })));
  }
  return changes;
}

function readChanges(before: FlowReport, after: FlowReport, threshold: number): readonly ChangedNumber[] | undefined {
  try {
    return listChanges(before, after, threshold);
  } catch (error) {
    // The copy lacks a number: it cannot be compared.
    if (error instanceof TypeError) return undefined;
    throw error;
  }
}

/**
 * The numbers that a restatement changed.
 * @param threshold fraction of a number's scale; a change of exactly that size does not count
 */
export function listChanges(before: FlowReport, after: FlowReport, threshold: number): readonly ChangedNumber[] {
  return REPORT_NUMBERS.filter((name) => isChanged(name, before, after, threshold)).map((name) =>
    describeChange(name, readReportNumber(before, name), readReportNumber(after, name)),
  );
}

/** Sums of the same values in another order differ by less. */
const SUM_ERROR = 1e-9;

function isChanged(name: ReportNumber, before: FlowReport, after: FlowReport, threshold: number): boolean {
  const scale = findScale(name, before, after);
  if (scale === null) return false;
  const [a, b] = [readReportNumber(before, name), readReportNumber(after, name)];
  if (a === null || b === null) return a !== b;
  return Math.abs(b - a) > Math.max(threshold, SUM_ERROR) * scale;
}

/**
 * Scale against which a change is judged. A net of large sums, or a share, can change several times over without
 * meaning anything. Null: the number compares with other days, so its change is no correction of this one.
 */
function findScale(name: ReportNumber, before: FlowReport, after: FlowReport): number | null {
  const { scale, unit } = findNumber(name);
  if (scale === null) return null;
  if (scale === undefined && unit === 'share') return 1;
  const size = scale ?? ((report: FlowReport) => readReportNumber(report, unit === 'net' ? 'premium' : name));
  return Math.max(Math.abs(size(before) ?? 0), Math.abs(size(after) ?? 0));
}

/** `0.30` to `0.30` does not read as a correction: such a pair is shown with the digits in which it differs. */
function describeChange(number: ReportNumber, before: number | null, after: number | null): ChangedNumber {
  const { label: name, unit } = findNumber(number);
  const texts = { name, before: formatNumber(before, unit), after: formatNumber(after, unit) };
  if (texts.before !== texts.after || before === null || after === null) return texts;
  return { name, before: formatFinely(before, unit), after: formatFinely(after, unit) };
}
