/**
 * One line that shows how far a run is. Invariant: it is never wider than its room, and no part is cut: parts that do
 * not fit are left out whole, the least important first. Pure.
 */
import { formatCount, formatDuration, formatShortCount } from '../../core/units.ts';
import type { SourceStats } from '../../source/source.ts';
import type { Totals } from '../../state/run-events.ts';

/** Request figures that the line shows beside the totals. */
type LineStats = Pick<SourceStats, 'retries' | 'rateLimited'>;

/** Bar width if every part fits in full. */
const FULL_BAR = 20;

/** A shorter bar shows less than the percentage beside it. */
const SHORTEST_BAR = 6;
const BRACKETS = 2;

const SEPARATOR = '  ';

type PartName = 'rows' | 'pace' | 'requests' | 'left' | 'activity' | 'splits' | 'retries' | 'rateLimited';
type Parts = Readonly<Partial<Record<PartName, string | undefined>>>;

/** Order in the line, after the date, the percentage and the bar. */
const PLACES: readonly PartName[] = [
  'rows',
  'pace',
  'requests',
  'left',
  'activity',
  'splits',
  'retries',
  'rateLimited',
];

/** From the most to the least important: each part is taken if it fits into the room that is left. */
const WORTH: readonly (PartName | 'turn' | 'bar')[] = [
  'left',
  'pace',
  'requests',
  'activity',
  'retries',
  'rateLimited',
  'splits',
  'turn',
  'bar',
  'rows',
];

/** @param columns room in characters @returns an empty text if not even the date fits */
export function formatProgressLine(totals: Totals, stats: LineStats, columns: number): string {
  const full = formatFullLine(totals, stats);
  return full.length <= columns ? full : formatShortLine(totals, stats, columns);
}

function formatFullLine(totals: Totals, stats: LineStats): string {
  const { datesDone, datesTotal, share } = totals;
  const turn = datesTotal < 2 ? '' : ` (${Math.min(datesTotal, datesDone + 1)} of ${datesTotal})`;
  const head = `${totals.date}${turn} ${formatShare(share)} ${drawBar(share, FULL_BAR)}`;
  return [head, ...listParts(describeParts(totals, stats))].join(SEPARATOR);
}

function formatShortLine(totals: Totals, stats: LineStats, columns: number): string {
  const { date, datesDone, datesTotal, share } = totals;
  if (date.length > columns) return '';
  const percent = ` ${formatShare(share)}`;
  let room = columns - date.length - percent.length;
  if (room < 0) return date;
  const all = describeParts(totals, stats, SHORT);
  const taken: Partial<Record<PartName, string>> = {};
  let turn = '';
  let bar = 0;
  for (const name of WORTH) {
    if (name === 'bar') {
      if (room > SHORTEST_BAR + BRACKETS) bar = SHORTEST_BAR;
      if (bar > 0) room -= bar + BRACKETS + 1;
    } else if (name === 'turn') {
      const text = datesTotal < 2 ? '' : ` ${Math.min(datesTotal, datesDone + 1)}/${datesTotal}`;
      if (text.length <= room) turn = text;
      room -= turn.length;
    } else {
      const text = all[name];
      if (text === undefined || text.length + SEPARATOR.length > room) continue;
      taken[name] = text;
      room -= text.length + SEPARATOR.length;
    }
  }
  const drawn = bar === 0 ? '' : ` ${drawBar(share, Math.min(FULL_BAR, bar + room))}`;
  return [`${date}${turn}${percent}${drawn}`, ...listParts(taken)].join(SEPARATOR);
}

function listParts(parts: Parts): readonly string[] {
  return PLACES.flatMap((name) => parts[name] ?? []);
}

/** The words of the whole line, and those where there is little room. */
const FULL = {
  rows: (rows: number, total: number) => `${formatCount(rows)}${total > 0 ? ` of ${formatCount(total)}` : ''} rows`,
  pace: (perSecond: number) => `${formatCount(perSecond)} rows/s`,
  requests: (left: number) => `${formatCount(left)} requests left`,
  left: (ms: number) => `${formatDuration(ms)} left`,
  window: (window: string) => window,
};
const SHORT: typeof FULL = {
  rows: (rows, total) => `${formatShortCount(rows)}${total > 0 ? `/${formatShortCount(total)}` : ''} rows`,
  pace: (perSecond) => `${formatShortCount(perSecond)}/s`,
  requests: (left) => `${formatShortCount(left)} req`,
  left: (ms) => `${formatDuration(ms).replaceAll(' ', '').replace('min', 'm')} left`,
  // Ids in window bounds are long, and useless to people.
  window: (window) => window.replace(/\+[^.]*/g, ''),
};

function describeParts(totals: Totals, { retries, rateLimited }: LineStats, words = FULL): Parts {
  const { phase, window, totalRows, rows, pagesLeft, rowsPerSecond, leftMs, splits } = totals;
  return {
    // Without a count beforehand there is no total.
    rows: words.rows(rows, totalRows),
    pace: words.pace(rowsPerSecond),
    requests: words.requests(pagesLeft),
    // Once all rows are fetched, they do not show how long sealing takes.
    left: leftMs ? words.left(leftMs) : undefined,
    // The current phase matters more than the last window.
    activity: phase === 'fetching' ? printable(words.window(window)) || undefined : phase,
    splits: splits === 0 ? undefined : splits === 1 ? '1 split' : `${splits} splits`,
    retries: retries === 0 ? undefined : retries === 1 ? '1 retry' : `${retries} retries`,
    rateLimited: rateLimited === 0 ? undefined : `${rateLimited} x 429`,
  };
}

/** Symbols come from the API: a character outside plain ASCII could move the cursor, or be wider than counted. */
function printable(window: string): string {
  return window.replace(/[^ -~]/g, '?');
}

function formatShare(share: number): string {
  return `${String(Math.floor(share * 100)).padStart(3)}%`;
}

/** Uses characters that every terminal has and draws one cell wide. */
function drawBar(share: number, width: number): string {
  const full = Math.floor(share * width);
  return `[${'='.repeat(full)}${'-'.repeat(width - full)}]`;
}

/** For a log, where there is room: `1,200,000 of 7,000,000 rows, 9,900 rows/s, 580 requests left, 9 min 46 s left`. */
export function describeTotals(totals: Totals, stats: LineStats): string {
  return listParts(describeParts(totals, stats)).join(', ');
}
