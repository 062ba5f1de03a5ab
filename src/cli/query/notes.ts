/** What `flowdrop query` says beside the answer: what it rests on, and what it does not. Pure. */
import type { ArchiveAnswer } from '../../archive/archive.ts';
import { formatBytes, formatCount, formatDuration } from '../../core/units.ts';

/** Dates that are named; of more the number is said. */
const MAX_NAMED = 20;

/** @param sealed all sealed dates of the dataset @param ms how long it took */
export function describeNotes({ coverage, cost }: ArchiveAnswer, sealed: readonly string[], ms: number): string {
  const { dates, missing, degraded, lacking } = coverage;
  const read = [
    `${formatCount(cost.rowGroups)} of ${formatCount(cost.rowGroups + cost.prunedRowGroups)} row groups read`,
    ...(cost.s3Bytes > 0 ? [`${formatBytes(cost.s3Bytes)} from S3`] : []),
    formatDuration(ms),
  ];
  const lines = [
    ...(missing.length > 0 ? [`missing, not in the answer: ${nameDates(missing)}`] : []),
    ...(degraded.length > 0 ? [`degraded, known to be incomplete: ${nameDates(degraded)}`] : []),
    ...Array.from(
      lacking,
      ([name, without]) => `without the column ${name}, which reads as empty: ${nameDates(without)}`,
    ),
    `${formatCount(dates.length)} of ${formatCount(sealed.length)} sealed dates, ${read.join(', ')}`,
  ];
  return `${lines.join('\n')}\n`;
}

function nameDates(dates: readonly string[]): string {
  const named = dates.slice(0, MAX_NAMED).join(', ');
  const more = dates.length - MAX_NAMED;
  return more > 0 ? `${named} and ${formatCount(more)} more` : named;
}
