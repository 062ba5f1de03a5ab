/**
 * Progress of a run: one line with a bar on a terminal, log lines elsewhere. It only shows events; nothing depends on it.
 */
import { dirname } from 'node:path';
import { SingleBar } from 'cli-progress';
import { formatBytes, formatCount } from '../../core/units.ts';
import type { Progress, ProgressInput } from '../../run/run.ts';
import type { RunEvent } from '../../state/run-events.ts';
import type { Terminal } from '../context.ts';
import { describeTotals, formatProgressLine } from './progress-line.ts';

interface ProgressView extends ProgressInput {
  readonly terminal: Terminal;
}

/** Interval of progress log lines when there is no terminal. */
const LOG_EVERY_MS = 30_000;

/** For a terminal whose width is unknown, or 0. */
const USUAL_COLUMNS = 80;

export function createProgress(input: ProgressView): Progress {
  if (!input.terminal.interactive) return createLines(input);
  const { totals, stats, terminal } = input;
  // Read at each draw: the terminal may be resized during a run. One column less, because a full line wraps.
  const format = () => formatProgressLine(totals.read(), stats, (terminal.columns.err || USUAL_COLUMNS) - 1);
  const look = { hideCursor: true, clearOnComplete: true, fps: 5 } as const;
  // By default the bar draws only a changed line, so it would vanish after text is written above it.
  const bar = new SingleBar({ ...look, format, stream: terminal.stderr, forceRedraw: true });
  return createBar(bar, input);
}

function createBar(bar: SingleBar, { terminal, totals }: ProgressView): Progress {
  const release = terminal.keepLine({ isShown: () => bar.isActive, draw: () => bar.render() });
  let started = false;
  return {
    onEvent(event) {
      if (event.kind !== 'page' && event.kind !== 'date' && event.kind !== 'phase')
        terminal.err(`${describeEvent(event)}\n`);
      const { share, date } = totals.read();
      if (date === '') return;
      if (!started) bar.start(1, 0);
      started = true;
      bar.update(share);
    },
    stop() {
      release();
      if (started) bar.stop();
    },
  };
}

function createLines({ log, clock, totals, stats }: ProgressView): Progress {
  let loggedAtMs = clock.now();
  return {
    onEvent(event) {
      const { kind, ...rest } = event;
      // The run itself logs a failed date, with its code.
      if (kind === 'failed') return;
      if (kind !== 'page' && kind !== 'phase' && kind !== 'split') {
        log.info({ event: kind, ...rest }, describeEvent(event));
        return;
      }
      log.debug({ event: kind, ...rest }, describeEvent(event));
      if (kind === 'split') return;
      if (clock.now() - loggedAtMs < LOG_EVERY_MS) return;
      loggedAtMs = clock.now();
      const state = totals.read();
      log.info(
        { event: 'progress', ...state, retries: stats.retries, rateLimited: stats.rateLimited },
        `${state.date}: ${describeTotals(state, stats)}`,
      );
    },
    stop: () => undefined,
  };
}

function describeEvent(event: RunEvent): string {
  switch (event.kind) {
    case 'planned':
      return event.dates.length === 0
        ? 'nothing to fetch: every date with rows is sealed'
        : `${event.dates.length} date(s) to fetch${event.rows === undefined ? '' : `: ${formatCount(event.rows)} rows`} in at least ${event.pages} requests`;
    case 'phase':
      return event.date === '' ? event.phase : `${event.date}: ${event.phase}`;
    case 'date':
      return `${event.date}: ${event.rows === undefined ? `${event.pages} snapshot(s)` : `${formatCount(event.rows)} rows`}${event.staged > 0 ? `, ${formatCount(event.staged)} rows already staged` : ''}`;
    case 'page':
      return `${event.date} ${event.window}: ${formatCount(event.rows)} rows`;
    case 'split':
      return `${event.date} ${event.window}: split (${event.reason})`;
    case 'recounted':
      return event.changed === 0
        ? `${event.date}: recount agrees`
        : `${event.date}: ${event.changed} place(s) changed at the source, fetched again`;
    case 'sealed':
      return `${event.date}: sealed, ${formatCount(event.rows)} rows, ${formatBytes(event.sizeBytes)}, ${event.requests} requests`;
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
