/**
 * Progress of a run: one line with a bar on a terminal, log lines elsewhere. It only shows events; nothing depends on it.
 * Invariant: the line is never wider than its room, and no part is cut: parts that do not fit are left out whole, the
 * least important first.
 */
import { dirname } from 'node:path';
import { countOf, formatBytes, formatDuration, formatShortCount } from '../../core/units.ts';
import type { Progress, ProgressInput } from '../../run/run.ts';
import type { SourceStats } from '../../source/source.ts';
import type { RunEvent, Totals } from '../../state/run-events.ts';
import type { Terminal } from '../context.ts';

const CLEAR_LINE = '\r\u001b[K';

const REDRAW_MS = 200;

/**
 * Keeps a line the last of the terminal, and redraws it in place: whatever else is written starts on a cleared line.
 * @param write writes to the terminal on which the line is drawn
 */
export function createLineKeeper(write: (text: string) => void) {
  let read: (() => string) | undefined;
  const draw = () => write(`${CLEAR_LINE}${read?.() ?? ''}`);
  return {
    /** Writes above the line, on either stream of the terminal. */
    above: (writeAbove: (text: string) => void) => (text: string) => {
      if (read === undefined) return writeAbove(text);
      write(CLEAR_LINE);
      writeAbove(text.endsWith('\n') ? text : `${text}\n`);
      draw();
    },
    /** Keeps a line, as `line` has it each time, the last of the terminal; returns what ends that. One at a time. */
    keepLine(line: () => string): () => void {
      read = line;
      draw();
      const timer = setInterval(draw, REDRAW_MS).unref();
      return () => {
        clearInterval(timer);
        read = undefined;
        draw();
      };
    },
  };
}

type Stats = Pick<SourceStats, 'retries' | 'rateLimited'>;

const LOG_EVERY_MS = 30_000;

/** For a terminal whose width is unknown, or 0. */
const USUAL_COLUMNS = 80;

export function createProgress(input: ProgressInput, terminal: Terminal): Progress {
  return terminal.columns.err !== undefined ? createLine(input, terminal) : createLog(input);
}

function createLine({ totals, stats }: ProgressInput, terminal: Terminal): Progress {
  // Read at each draw: the terminal may be resized during a run. One column less, because a full line wraps.
  const line = () => formatProgressLine(totals.read(), stats, (terminal.columns.err || USUAL_COLUMNS) - 1);
  let release: (() => void) | undefined;
  return {
    onEvent(event) {
      const { kind } = event;
      if (kind !== 'page' && kind !== 'date' && kind !== 'phase') terminal.err(`${describeEvent(event)}\n`);
      if (totals.read().date !== '') release ??= terminal.keepLine(line);
    },
    stop: () => release?.(),
  };
}

function createLog({ log, clock, totals, stats }: ProgressInput): Progress {
  let loggedAtMs = clock.now();
  return {
    onEvent(event) {
      const { kind, ...rest } = event;
      // The run itself logs a failed date, with its code.
      if (kind === 'failed') return;
      const isDetail = kind === 'page' || kind === 'phase' || kind === 'split';
      log[isDetail ? 'debug' : 'info']({ event: kind, ...rest }, describeEvent(event));
      if (!isDetail || kind === 'split' || clock.now() - loggedAtMs < LOG_EVERY_MS) return;
      loggedAtMs = clock.now();
      const state = totals.read();
      const { retries, rateLimited } = stats;
      log.info({ event: 'progress', ...state, retries, rateLimited }, `${state.date}: ${describeTotals(state, stats)}`);
    },
    stop: () => {},
  };
}

function describeEvent(event: RunEvent): string {
  switch (event.kind) {
    case 'planned': {
      if (event.dates.length === 0) return 'nothing to fetch: every date with rows is sealed';
      const rows = event.rows === undefined ? '' : `: ${countOf(event.rows, 'row')}`;
      return `${countOf(event.dates.length, 'date')} to fetch${rows} in at least ${countOf(event.pages, 'request')}`;
    }
    case 'phase':
      return event.date === '' ? event.phase : `${event.date}: ${event.phase}`;
    case 'date':
      return `${event.date}: ${event.rows === undefined ? countOf(event.pages, 'snapshot') : countOf(event.rows, 'row')}${event.staged > 0 ? `, ${countOf(event.staged, 'row')} already staged` : ''}`;
    case 'page':
      return `${event.date} ${event.window}: ${countOf(event.rows, 'row')}`;
    case 'split':
      return `${event.date} ${event.window}: split (${event.reason})`;
    case 'recounted':
      return event.changed === 0
        ? `${event.date}: recount agrees`
        : `${event.date}: ${countOf(event.changed, 'place')} changed at the source, fetched again`;
    case 'sealed':
      return `${event.date}: sealed, ${countOf(event.rows, 'row')}, ${formatBytes(event.sizeBytes)}, ${countOf(event.requests, 'request')}`;
    case 'failed':
      return `${event.date}: failed: ${event.reason}`;
    case 'mailed':
      return event.file === undefined
        ? `${event.date}: report ${event.outcome} to ${event.to}`
        : `${event.date}: report for ${event.to} written to ${dirname(event.file)}`;
    default:
      return event satisfies never;
  }
}

const BAR_CELLS = 10;

/** @param columns room in characters @returns an empty text if not even the date fits */
export function formatProgressLine(totals: Totals, stats: Stats, columns: number): string {
  const { date, datesDone, datesTotal, share } = totals;
  const full = Math.floor(share * BAR_CELLS);
  const parts = [
    { worth: 13, text: date },
    { worth: 3, text: datesTotal < 2 ? '' : ` ${Math.min(datesTotal, datesDone + 1)}/${datesTotal}` },
    { worth: 12, text: ` ${String(Math.floor(share * 100)).padStart(3)}%` },
    // Characters that every terminal has and draws one cell wide.
    { worth: 2, text: ` [${'='.repeat(full)}${'-'.repeat(BAR_CELLS - full)}]` },
    ...listFigures(totals, stats).map(({ worth, text }) => ({ worth, text: `  ${text}` })),
  ];
  const lines = parts.map(({ worth: least }) => parts.map(({ worth, text }) => (worth < least ? '' : text)).join(''));
  const fitting = lines.filter(({ length }) => length <= columns);
  return fitting.sort((a, b) => b.length - a.length)[0] ?? '';
}

/** For a log: `1.20M/7.00M rows, 9.90K/s, 580 req, 9m46s left`. */
export function describeTotals(totals: Totals, stats: Stats): string {
  return Array.from(listFigures(totals, stats), ({ text }) => text).join(', ');
}

/** In the order of the line. `worth`: where there is no room for all, the least goes first. */
function listFigures(totals: Totals, { retries, rateLimited }: Stats) {
  const { phase, window, totalRows, rows, pagesLeft, rowsPerSecond, leftMs, splits } = totals;
  const left = leftMs ? formatDuration(leftMs).replaceAll(' ', '').replace('min', 'm') : '';
  // Ids in window bounds are long, and useless to people. Symbols come from the API: a character outside plain ASCII
  // could move the cursor, or be wider than counted.
  const place = window.replace(/\+[^.]*/g, '').replace(/[^ -~]/g, '?');
  const figures = [
    // Without a count beforehand there is no total.
    { worth: 1, text: `${formatShortCount(rows)}${totalRows > 0 ? `/${formatShortCount(totalRows)}` : ''} rows` },
    { worth: 10, text: `${formatShortCount(rowsPerSecond)}/s` },
    { worth: 9, text: `${formatShortCount(pagesLeft)} req` },
    // Once all rows are fetched, they do not show how long sealing takes.
    { worth: 11, text: left && `${left} left` },
    // The current phase matters more than the last window.
    { worth: 8, text: phase === 'fetching' ? place : phase },
    { worth: 5, text: splits > 0 ? countOf(splits, 'split') : '' },
    { worth: 7, text: retries > 0 ? countOf(retries, 'retry', 'retries') : '' },
    { worth: 6, text: rateLimited > 0 ? `${rateLimited} x 429` : '' },
  ];
  return figures.filter(({ text }) => text !== '');
}
