/** Corrections: what a restated day says otherwise than the mail of an earlier revision did. Pure. */
import type { FlowReport } from '../report/model.ts';
import { type ChangedNumber, listChanges } from './number.ts';

/**
 * Numbers that changed by more than the threshold; of several datasets each number with the name of its own.
 * @param before what was mailed; `undefined` when no copy of it can be read
 * @returns `undefined` when it cannot be said what changed: then the whole report is mailed again
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
    // It was pending when the earlier one was mailed: all of it is news.
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
    // A copy of another version, which lacks a number: it cannot be compared.
    if (error instanceof TypeError) return undefined;
    throw error;
  }
}
