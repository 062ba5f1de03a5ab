/** Conditions on the numbers of a report (`only_when`): whether a day is worth a mail. Pure. */
import type { JobReport, ReportCondition } from '../job/job.ts';
import { formatNumber } from '../report/key-numbers.ts';
import type { FlowReport } from '../report/model.ts';
import { findNumber, isUncomputable, readReportNumber } from '../report/number-values.ts';

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
