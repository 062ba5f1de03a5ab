/**
 * Whether a day is worth a mail: by the conditions of its report (`only_when`, `on_empty`), and for those who were mailed an
 * earlier revision by what a restatement changed since. Pure.
 */
import type { JobReport, ReportCondition } from '../job/job.ts';
import { formatFinely, formatNumber } from '../report/key-numbers.ts';
import type { FlowReport } from '../report/model.ts';
import { findNumber, isUncomputable, readReportNumber } from '../report/number-values.ts';
import { REPORT_NUMBERS, type ReportNumber } from '../report/numbers.ts';

/**
 * A number that the day does not have (no earlier session, no call traded) fulfills no condition: no mail on a guess. A
 * number that exists but cannot be computed fulfills every condition: readers must know of such a day.
 */
export function isFulfilled({ number, above, below }: ReportCondition, report: FlowReport): boolean {
  if (isUncomputable(report, number)) return true;
  const value = readReportNumber(report, number);
  if (value === null) return false;
  return (above === null || value > above) && (below === null || value < below);
}

/** The numbers in the conditions that cannot be computed, by name: the report is mailed because of them. */
export function listUncomputable(
  { onlyWhen }: Pick<JobReport, 'onlyWhen'>,
  reports: readonly FlowReport[],
): readonly string[] {
  const numbers = onlyWhen.map(({ number }) => number);
  return [...new Set(numbers)].filter((number) => reports.some((report) => isUncomputable(report, number)));
}

/**
 * Why the report is not mailed; `undefined` if it is. A digest is worth a mail if one of its datasets is.
 * @param reports of the sealed datasets, at least one
 */
export function findReasonToSkip(
  { onEmpty, onlyWhen }: Pick<JobReport, 'onEmpty' | 'onlyWhen'>,
  reports: readonly FlowReport[],
): string | undefined {
  if (onEmpty === 'skip' && reports.every(({ headline }) => headline.trades === 0)) return 'no trades (on_empty: skip)';
  const unfulfilled = reports.map((report) => onlyWhen.find((condition) => !isFulfilled(condition, report)));
  const [condition] = unfulfilled;
  const [report] = reports;
  if (condition === undefined || report === undefined || unfulfilled.includes(undefined)) return undefined;
  const { number, above, below } = condition;
  const wanted = [above === null ? '' : `above ${above}`, below === null ? '' : `below ${below}`].filter(Boolean);
  const value = formatNumber(readReportNumber(report, number), findNumber(number).unit);
  return `${number} is ${value}, not ${wanted.join(' and ')} (only_when)`;
}

interface ChangedNumber {
  /** Label for readers. */
  readonly name: string;
  readonly before: string;
  readonly after: string;
}

/**
 * Numbers that changed by more than the threshold; with several datasets, each number has its dataset's name.
 * @param before what was mailed; `undefined` if no copy of it can be read
 * @param threshold fraction of a number's scale; a change of exactly that size does not count
 * @returns `undefined` if the changes cannot be determined: then the whole report is mailed again
 */
export function compareReports(
  before: readonly FlowReport[] | undefined,
  after: readonly FlowReport[],
  threshold: number,
): readonly ChangedNumber[] | undefined {
  const changes: ChangedNumber[] = [];
  for (const report of after) {
    const { dataset } = report.drop;
    const earlier = before?.find(({ drop }) => drop.dataset === dataset);
    // This dataset was pending when the earlier report was mailed: all of it is new.
    if (earlier === undefined) return undefined;
    const title = after.length === 1 ? '' : `${dataset}: `;
    try {
      for (const number of REPORT_NUMBERS)
        if (isChanged(number, earlier, report, threshold)) changes.push(describeChange(title, number, earlier, report));
    } catch (error) {
      // The copy lacks a number: it cannot be compared.
      if (error instanceof TypeError) return undefined;
      throw error;
    }
  }
  return before && changes;
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
function describeChange(title: string, number: ReportNumber, from: FlowReport, to: FlowReport): ChangedNumber {
  const { label, unit } = findNumber(number);
  const name = `${title}${label}`;
  const [before, after] = [readReportNumber(from, number), readReportNumber(to, number)];
  const texts = { name, before: formatNumber(before, unit), after: formatNumber(after, unit) };
  if (texts.before !== texts.after || before === null || after === null) return texts;
  return { name, before: formatFinely(before, unit), after: formatFinely(after, unit) };
}
