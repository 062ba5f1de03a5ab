/**
 * Progress of a run: a bar with rows, pages and ETA on a terminal, log lines elsewhere. It only shows events; nothing
 * depends on it.
 */
import type { SingleBar } from 'cli-progress';
import type { Clock } from '../core/clock.ts';
import type { Log } from '../core/log.ts';
import { formatBytes, formatCount } from '../core/units.ts';
import type { OnRunEvent, RunEvent } from '../run/events.ts';
import type { Terminal } from './context.ts';
import { describeTally, ProgressTally } from './progress-tally.ts';

export interface Progress {
  readonly onEvent: OnRunEvent;
  stop(): void;
}

/** Without a terminal a line is logged so often. */
const LOG_EVERY_MS = 30_000;

export async function createProgress(terminal: Terminal, log: Log, clock: Clock): Promise<Progress> {
  if (!terminal.interactive) return createLines(log, clock);
  const { SingleBar } = await import('cli-progress');
  const bar = new SingleBar({
    format: '{date} [{bar}] {percentage} % | {text}',
    stream: terminal.stderr,
    hideCursor: true,
    clearOnComplete: true,
    fps: 5,
  });
  return createBar(bar, terminal, clock);
}

function createBar(bar: SingleBar, terminal: Terminal, clock: Clock): Progress {
  const tally = new ProgressTally(clock);
  let started = false;
  const note = (text: string) => {
    // The bar's line is cleared first, so that notes stay above it.
    if (started) terminal.err('\r\u001b[K');
    terminal.err(`${text}\n`);
  };
  return {
    onEvent(event) {
      tally.note(event);
      const state = tally.read();
      if (event.kind !== 'page' && event.kind !== 'date') note(describeEvent(event));
      if (state.totalRows === 0) return;
      if (!started) bar.start(state.totalRows, 0, { date: state.date, text: '' });
      started = true;
      bar.setTotal(state.totalRows);
      bar.update(Math.min(state.rows, state.totalRows), { date: state.date, text: describeTally(state) });
    },
    stop() {
      if (started) bar.stop();
    },
  };
}

function createLines(log: Log, clock: Clock): Progress {
  const tally = new ProgressTally(clock);
  let loggedAtMs = clock.now();
  return {
    onEvent(event) {
      tally.note(event);
      const { kind, ...rest } = event;
      if (kind !== 'page') {
        log.info({ event: kind, ...rest }, describeEvent(event));
        return;
      }
      log.debug({ event: kind, ...rest });
      if (clock.now() - loggedAtMs < LOG_EVERY_MS) return;
      loggedAtMs = clock.now();
      const state = tally.read();
      log.info({ event: 'progress', ...state }, `${state.date}: ${describeTally(state)}`);
    },
    stop: () => undefined,
  };
}

export function describeEvent(event: RunEvent): string {
  switch (event.kind) {
    case 'planned':
      return event.dates.length === 0
        ? 'nothing to fetch: every date with rows is sealed'
        : `${event.dates.length} date(s) to fetch${event.rows === undefined ? '' : `: ${formatCount(event.rows)} rows`} in at least ${event.pages} requests`;
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
      return `${event.date}: report ${event.outcome} to ${event.to}`;
    default:
      return event satisfies never;
  }
}
