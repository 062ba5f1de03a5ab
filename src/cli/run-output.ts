/** The end of `run` and `backfill`: a summary for people or one JSON document, and the exit code. */
import { EXCHANGE_TIME_ZONE } from '../api-contract/published-limits.ts';
import { formatInstant } from '../core/date-text.ts';
import { EXIT_CODES } from '../core/errors.ts';
import { formatBytes, formatCount, formatDuration } from '../core/units.ts';
import type { FinishedRun } from '../export/run-job.ts';
import type { RunEnv } from '../run/run.ts';
import type { DateResult, Delivery, NamedDates, RunResult } from '../state/run-result.ts';
import type { CliContext, GlobalOptions } from './context.ts';
import { createProgress } from './terminal/show-progress.ts';
import { formatTable, right } from './terminal/text-table.ts';
import { hangText } from './terminal/text-width.ts';

/** The parts that the commands that run a job need. */
export type RunCli = Pick<CliContext, 'openers' | 'signal' | 'terminal'>;

/** What a run gets from the command line: its openers, its signal, and a progress line on the terminal. */
export function createRunEnv({ openers, signal, terminal }: RunCli): RunEnv {
  return { ...openers, signal, showProgress: (input) => createProgress({ ...input, terminal }) };
}

/** @returns the exit code @throws the error that ended the run early */
export function printRun(
  { terminal, openers }: Pick<CliContext, 'openers' | 'terminal'>,
  globals: GlobalOptions,
  { result, deliveries, error, shortfall }: FinishedRun,
): number {
  if (error !== undefined || result === undefined) throw error;
  const log = shortfall === undefined ? '' : `Log lines of this run: ${openers.runId}\n`;
  if (globals.json) terminal.out(`${JSON.stringify({ ...result, reports: deliveries }, undefined, 2)}\n`);
  else terminal.out(hangText(`${describeRun(result, deliveries)}${log}`, terminal.columns.out));
  return shortfall === undefined ? 0 : EXIT_CODES[shortfall];
}

function describeRun(result: RunResult, deliveries: readonly Delivery[]): string {
  const lines: string[] = [];
  if (result.dates.length > 0) {
    const columns = ['date', 'result', right('rows'), right('size'), right('requests')];
    const rows = result.dates.map((date) => [
      date.date,
      describeStatus(date),
      formatCount(date.rows),
      date.size === undefined ? '' : formatBytes(date.size),
      formatCount(date.requests),
    ]);
    lines.push(formatTable(columns, rows), '');
  }
  for (const { date, error } of result.dates) {
    if (error)
      lines.push(`${date}: ${withoutPrefix(error.message, `${date}: `)}${error.hint ? `\n  -> ${error.hint}` : ''}`);
  }
  const sealed = result.dates.filter(({ status }) => status === 'sealed');
  const rows = sealed.reduce((sum, date) => sum + date.rows, 0);
  const took = Date.parse(result.finished_at) - Date.parse(result.started_at);
  const passed = describePassed(result.named, result.dates.length === 0);
  const open = describeOpen(result);
  const isAllSealed = passed.length === 0 && result.held.length === 0 && open.length === 0;
  lines.push(
    sealed.length === 0 && result.dates.length === 0
      ? `Nothing to seal${isAllSealed ? ': every date with rows is sealed' : ''} (${result.requests} request(s)).`
      : `Sealed ${sealed.length} of ${result.dates.length} date(s), ${formatCount(rows)} rows, ${result.requests} requests, ${formatDuration(took)}, into ${result.store}/${result.dataset}`,
  );
  lines.push(...passed, ...open, ...describeAudits(result), ...describeHeld(result));
  for (const [date, condition] of Object.entries(result.conditions)) {
    if (condition !== 'available' && condition !== 'empty') {
      const expires = result.expires[date];
      const why = result.damaged[date] ?? result.dates.find((one) => one.date === date)?.degraded_reason;
      const more = why === undefined ? '' : `, because ${why}`;
      lines.push(
        `${date}: ${condition}${expires ? `, begins to expire ${formatInstant(expires, EXCHANGE_TIME_ZONE, result.finished_at)}` : more}`,
      );
    }
  }
  for (const delivery of deliveries) lines.push(...describeDelivery(delivery));
  return `${lines.join('\n')}\n`;
}

/** Most dates that are listed by name; the `--json` document has them all. */
const MAX_NAMED = 10;

/**
 * Named dates that were not exported, and why.
 * @param inFull whether no date was exported, so that every named date must be explained
 */
function describePassed(named: NamedDates | undefined, inFull: boolean): readonly string[] {
  if (named === undefined) return [];
  const { sealed, no_session, no_rows, not_over } = named;
  const kinds: readonly (readonly [string, readonly string[]])[] = [
    ['No rows at the source', no_rows],
    ['Not over yet', not_over],
    ['No session', inFull ? no_session : []],
  ];
  const lines = kinds.flatMap(([what, dates]) => (dates.length === 0 ? [] : [`${what}: ${listDates(dates)}`]));
  return lines.length > 0 && inFull && sealed.length > 0 ? [...lines, `Sealed before: ${listDates(sealed)}`] : lines;
}

/** What the comparison of sealed dates with the source found. */
function describeAudits({ audits }: RunResult): readonly string[] {
  const all = Object.entries(audits);
  const differing = all.filter(([, { result }]) => result === 'differs');
  if (all.length === 0) return [];
  const equal = `${formatCount(all.length - differing.length)} of ${formatCount(all.length)} sealed date(s) compared with the source are equal.`;
  return [equal, ...differing.map(([date, { reason = '' }]) => `${date} differs from the source: ${reason}`)];
}

function describeOpen({ open, named, finished_at: now }: RunResult): readonly string[] {
  if (named !== undefined) return [];
  return Object.entries(open).map(
    ([date, at]) =>
      `${date}: not over yet, its last rows are too recent until ${formatInstant(at, EXCHANGE_TIME_ZONE, now)}`,
  );
}

/** A clock conflict is printed once, not with every date. */
function describeHeld({ held, clocks }: RunResult): readonly string[] {
  const conflict = clocks.conflict ?? undefined;
  const dates = held.map(({ date, reason }) => `${date}: held back, ${withoutSuffix(reason, `: ${conflict}`)}`);
  if (conflict !== undefined) {
    return [...dates, `The clocks differ: ${conflict}`, `  -> ${CLOCK_HINT}`];
  }
  return dates.length === 0 ? [] : [...dates, '  -> Nothing is lost: run the same command again later.'];
}

const CLOCK_HINT =
  'Set the clock of this machine by NTP (timedatectl, chrony), then run `flowdrop doctor`; if it is right, contact the provider.';

function withoutSuffix(text: string, suffix: string): string {
  return text.endsWith(suffix) ? text.slice(0, -suffix.length) : text;
}

function listDates(dates: readonly string[]): string {
  const more = dates.length - MAX_NAMED;
  return `${dates.slice(0, MAX_NAMED).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

/** `restated (revision 2: 3 added, 1 removed, 2 altered)`. */
function describeStatus({ status, revision = 1, changes }: DateResult): string {
  if (status === 'missing') return 'no rows';
  if (status !== 'sealed' || revision === 1) return status;
  // Without the replaced object there is nothing to compare.
  if (!changes) return `restated (revision ${revision})`;
  const { rekeyed } = changes;
  const more = [
    ...(rekeyed === undefined ? [] : [`${formatCount(rekeyed)} under other ids`]),
    ...changes.columns_added.map((name) => `column ${name} added`),
    ...changes.columns_removed.map((name) => `column ${name} removed`),
  ];
  const counts = `${formatCount(changes.added)} added, ${formatCount(changes.removed)} removed, ${formatCount(changes.altered)} altered`;
  return `restated (revision ${revision}: ${[counts, ...more].join(', ')})`;
}

/** Some messages contain their date, because they are also read elsewhere. */
function withoutPrefix(text: string, prefix: string): string {
  return text.startsWith(prefix) ? text.slice(prefix.length) : text;
}

export function describeDelivery(delivery: Delivery): readonly string[] {
  const { report, date, recipients, skipped, error } = delivery;
  const what = `${report === 'digest' ? 'Digest' : 'Report'} of ${date}`;
  if (delivery.pending) return [`${what}: pending, because not all the data it needs is sealed; nothing was mailed.`];
  if (delivery.leftToOther) return [`${what}: another worker is mailing it at the moment.`];
  if (error) return [`${what}: ${error.message}${error.hint ? `\n  -> ${error.hint}` : ''}`];
  const notMailed = skipped === null ? [] : [`${what}: not mailed to everybody: ${skipped}`];
  if (recipients.length === 0) {
    if (skipped !== null) return [`${what}: not mailed: ${skipped}`];
    return [`${what}: nothing left to mail (${delivery.alreadySent} already received it).`];
  }
  return [
    ...notMailed,
    `${what}${delivery.late ? ', late' : ''}: ${delivery.subject}`,
    ...recipients.map(({ to, outcome, detail, file }) =>
      file === undefined ? `  ${outcome} ${to}: ${detail}` : `  written for ${to}, not sent: ${file}`,
    ),
  ];
}
