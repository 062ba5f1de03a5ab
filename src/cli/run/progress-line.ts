/**
 * One line on how far a run is, as wide as there is room and never wider: what matters least gives way first. Pure.
 */
import { formatCount, formatDuration, formatShortCount } from '../../core/units.ts';
import type { Tally } from '../../run/tally.ts';
import type { SourceStats } from '../../source/source.ts';

/** What the line says of the requests beside the tally. */
export type LineStats = Pick<SourceStats, 'retries' | 'rateLimited'>;

interface Layout {
  readonly bar: number;
  readonly isShort: boolean;
  readonly withWindow: boolean;
}

/** From the most to the least; the first that fits is taken. */
const LAYOUTS: readonly Layout[] = [
  { bar: 20, isShort: false, withWindow: true },
  { bar: 12, isShort: true, withWindow: true },
  { bar: 6, isShort: true, withWindow: true },
  { bar: 12, isShort: true, withWindow: false },
  { bar: 6, isShort: true, withWindow: false },
  { bar: 0, isShort: true, withWindow: false },
];

/** @param columns characters there is room for; what does not fit even in the shortest layout is cut off */
export function formatProgressLine(tally: Tally, stats: LineStats, columns: number): string {
  for (const layout of LAYOUTS) {
    const line = formatLine(tally, stats, layout);
    if (line.length <= columns) return line;
  }
  return formatLine(tally, stats, { bar: 0, isShort: true, withWindow: false }).slice(0, Math.max(0, columns));
}

function formatLine(tally: Tally, stats: LineStats, { bar, isShort, withWindow }: Layout): string {
  const { date, datesDone, datesTotal, share } = tally;
  const turn = Math.min(datesTotal, datesDone + 1);
  const place = datesTotal < 2 ? '' : isShort ? ` ${turn}/${datesTotal}` : ` (${turn} of ${datesTotal})`;
  const percent = `${String(Math.floor(share * 100)).padStart(3)} %`;
  const head = [`${date}${place}`, percent, ...(bar === 0 ? [] : [drawBar(share, bar)])].join(' ');
  return [head, ...describeParts(tally, stats, { isShort, withWindow })].join('  ');
}

function describeParts(
  tally: Tally,
  { retries, rateLimited }: LineStats,
  { isShort, withWindow }: Pick<Layout, 'isShort' | 'withWindow'>,
): readonly string[] {
  const count = isShort ? formatShortCount : formatCount;
  const { phase, window, totalRows, rows, pagesLeft, rowsPerSecond, leftMs, splits } = tally;
  // Where rows are not counted beforehand there is no total.
  const counted = totalRows > 0 ? `${count(rows)}${isShort ? '/' : ' of '}${count(totalRows)}` : count(rows);
  return [
    `${counted} rows`,
    `${count(rowsPerSecond)}${isShort ? '/s' : ' rows/s'}`,
    `${count(pagesLeft)} ${isShort ? 'req' : 'requests left'}`,
    // Rows that are all there say nothing of how long sealing takes.
    ...(leftMs === undefined || leftMs === 0 ? [] : [`${formatDuration(leftMs)}${isShort ? '' : ' left'}`]),
    // What it does matters more than where it was.
    ...(phase === 'fetching' ? (withWindow && window !== '' ? [printable(window)] : []) : [phase]),
    ...plural(splits, 'split', 'splits'),
    ...plural(retries, 'retry', 'retries'),
    ...(rateLimited > 0 ? [`${rateLimited} x 429`] : []),
  ];
}

/** Symbols come from the API: what is not one plain character would move the cursor, or be wider than it counts. */
function printable(window: string): string {
  return window.replace(/[^ -~]/g, '?');
}

function plural(count: number, one: string, many: string): readonly string[] {
  return count === 0 ? [] : [`${count} ${count === 1 ? one : many}`];
}

/** In characters that every terminal has, and draws one column wide. */
function drawBar(share: number, width: number): string {
  const full = Math.floor(share * width);
  return `[${'='.repeat(full)}${'-'.repeat(width - full)}]`;
}

/** For a log, where there is room: `1,200,000 of 7,000,000 rows, 9,900 rows/s, 580 requests left, 9 min 46 s left`. */
export function describeTally(tally: Tally, stats: LineStats): string {
  return describeParts(tally, stats, { isShort: false, withWindow: true }).join(', ');
}
