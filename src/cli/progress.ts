/**
 * Progress of a run: a bar with rows, pages and ETA on a terminal, log lines elsewhere. It only shows events; nothing
 * depends on it.
 */
import type { SingleBar } from 'cli-progress';
import type { Log } from '../core/log.ts';
import { formatBytes, formatCount } from '../core/units.ts';
import type { OnRunEvent, RunEvent } from '../run/events.ts';
import type { Terminal } from './context.ts';

export interface Progress {
  readonly onEvent: OnRunEvent;
  stop(): void;
}

export async function createProgress(terminal: Terminal, log: Log): Promise<Progress> {
  if (!terminal.interactive) return { onEvent: (event) => logEvent(log, event), stop: () => undefined };
  const { SingleBar } = await import('cli-progress');
  const bar = new SingleBar({
    format: '{date} [{bar}] {percentage} % | {rowsText} of {totalText} rows | {pages} pages | ETA {eta_formatted}',
    stream: terminal.stderr,
    hideCursor: true,
    clearOnComplete: true,
    fps: 5,
  });
  return createBar(bar, terminal);
}

function createBar(bar: SingleBar, terminal: Terminal): Progress {
  let rows = 0;
  let pages = 0;
  let total = 0;
  let started = false;
  const note = (text: string) => {
    // The bar's line is cleared first, so that notes stay above it.
    if (started) terminal.err('\r\u001b[K');
    terminal.err(`${text}\n`);
  };
  return {
    onEvent(event) {
      if (event.kind === 'planned') {
        total = event.rows;
        note(describeEvent(event));
        if (total > 0) {
          bar.start(total, 0, { date: event.dates[0] ?? '', rowsText: '0', totalText: formatCount(total), pages: 0 });
          started = true;
        }
        return;
      }
      if (event.kind === 'date') rows += event.staged;
      if (event.kind === 'page') {
        rows += event.rows;
        pages += 1;
      } else if (event.kind !== 'date') note(describeEvent(event));
      if (started) bar.update(Math.min(rows, total), { date: event.date, rowsText: formatCount(rows), pages });
    },
    stop() {
      if (started) bar.stop();
    },
  };
}

function logEvent(log: Log, event: RunEvent): void {
  const { kind, ...rest } = event;
  if (kind === 'page') log.debug({ event: kind, ...rest });
  else log.info({ event: kind, ...rest }, describeEvent(event));
}

export function describeEvent(event: RunEvent): string {
  switch (event.kind) {
    case 'planned':
      return event.dates.length === 0
        ? 'nothing to fetch: every date with rows is sealed'
        : `${event.dates.length} date(s) to fetch: ${formatCount(event.rows)} rows in at least ${event.pages} pages`;
    case 'date':
      return `${event.date}: ${formatCount(event.rows)} rows${event.staged > 0 ? `, ${formatCount(event.staged)} of them already staged` : ''}`;
    case 'page':
      return `${event.date} ${event.window}: ${formatCount(event.rows)} rows`;
    case 'split':
      return `${event.date} ${event.window}: split (${event.reason})`;
    case 'recounted':
      return event.changed === 0
        ? `${event.date}: recount agrees`
        : `${event.date}: ${event.changed} second(s) changed at the source, fetched again`;
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
