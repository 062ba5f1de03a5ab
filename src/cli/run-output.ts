/** The end of `run` and `backfill`: a summary for people or one JSON document, and the exit code. */
import { EXCHANGE_TIME_ZONE } from '../api-contract/published-limits.ts';
import { formatInstant } from '../core/date-text.ts';
import { EXIT_CODES } from '../core/errors.ts';
import { countOf, formatBytes, formatCount, formatDuration, listFirst } from '../core/units.ts';
import type { FinishedRun } from '../export/run-job.ts';
import { sumSealed } from '../state/run-record.ts';
import type { DateResult, Delivery, NamedDates, RunResult } from '../state/run-result.ts';
import type { Cli } from './context.ts';
import { formatTable, right } from './terminal/text.ts';

/** @returns the exit code @throws the error that ended the run early */
export function printRun({ print, openers }: Pick<Cli, 'print' | 'openers'>, finished: FinishedRun): number {
  const { result, deliveries, error, shortfall } = finished;
  if (error !== undefined || result === undefined) throw error;
  const log = shortfall !== undefined && `Log lines of this run: ${openers.runId}`;
  print({ ...result, reports: deliveries }, [
    ...describeRun(result, openers.clock.now()),
    ...describeDeliveries(result.job, deliveries, openers.deliversMail()),
    log,
  ]);
  return shortfall === undefined ? 0 : EXIT_CODES[shortfall];
}

/** @param nowMs when the run is over, mails and alerts too: as long as it takes in `status` */
function describeRun(result: RunResult, nowMs: number): readonly (string | false)[] {
  const { dates, named, held, clocks, conditions, requests, finished_at: now } = result;
  const columns = ['date', 'result', right('rows'), right('size'), right('requests')];
  const rows = dates.map((date) => [
    date.date,
    describeStatus(date),
    formatCount(date.rows),
    date.size === undefined ? '' : formatBytes(date.size),
    formatCount(date.requests),
  ]);
  const sealed = sumSealed(result);
  const took = formatDuration(nowMs - Date.parse(result.started_at));
  const timeOf = (at: string) => formatInstant(at, EXCHANGE_TIME_ZONE, now);
  const open = Object.entries(result.open).map(
    ([date, at]) => `${date}: not over yet, its last rows are too recent until ${timeOf(at)}`,
  );
  const passed = named === undefined ? open : describePassed(named, dates.length === 0);
  const isAllSealed = passed.length === 0 && held.length === 0;
  const explain = (date: string) => {
    const at = result.expires[date];
    const why = result.damaged[date] ?? dates.find((one) => one.date === date)?.degraded_reason;
    if (at) return `, begins to expire ${timeOf(at)}`;
    return why === undefined ? '' : `, because ${why}`;
  };
  return [
    ...(dates.length === 0 ? [] : [formatTable(columns, rows), '']),
    ...dates.flatMap(({ date, error }) => {
      // Some messages contain their date, because they are also read elsewhere.
      const isNamed = error?.message.startsWith(`${date}: `);
      return error ? [`${isNamed ? '' : `${date}: `}${error.message}${error.hint ? `\n  -> ${error.hint}` : ''}`] : [];
    }),
    dates.length === 0
      ? `Nothing to seal${isAllSealed ? ': every date with rows is sealed' : ''} (${countOf(requests, 'request')}).`
      : `Sealed ${sealed.dates} of ${countOf(dates.length, 'date')}, ${countOf(sealed.rows, 'row')}, ${countOf(requests, 'request')}, ${took}, into ${result.store}/${result.dataset}`,
    ...passed,
    ...describeAudits(result),
    ...describeHeld(held),
    clocks.conflict !== null && `The clocks differ: ${clocks.conflict}`,
    clocks.conflict !== null && `  -> ${CLOCK_HINT}`,
    held.length > 0 && clocks.conflict === null && '  -> Nothing is lost: run the same command again later.',
    ...Object.entries(conditions)
      .filter(([, condition]) => condition !== 'available' && condition !== 'empty')
      .map(([date, condition]) => `${date}: ${condition}${explain(date)}`),
  ];
}

/** Most held dates of one reason that are listed by name. */
const MAX_HELD = 3;

/** One line for each reason: when clocks differ, it is the same for every date. */
export function describeHeld(held: RunResult['held']): readonly string[] {
  return [...new Set(held.map(({ reason }) => reason))].map((reason) => {
    const dates = held.flatMap((one) => (one.reason === reason ? [one.date] : []));
    const few = dates.length <= MAX_HELD ? dates.join(', ') : `${dates[0]} to ${dates.at(-1)}, ${dates.length} dates`;
    return `${few}: held back, ${reason}`;
  });
}

const CLOCK_HINT =
  'Set the clock of this machine by NTP (timedatectl, chrony), then run `flowdrop doctor`; if it is right, contact the provider.';

/** Most dates that are listed by name; the `--json` document has them all. */
const MAX_NAMED = 10;

/**
 * Named dates that were not exported, and why.
 * @param inFull whether no date was exported, so that every named date must be explained
 */
function describePassed({ sealed, no_session, no_rows, not_over }: NamedDates, inFull: boolean): readonly string[] {
  const list = (what: string, dates: readonly string[]) =>
    dates.length === 0 ? [] : [`${what}: ${listFirst(dates, MAX_NAMED)}`];
  const lines = [
    ...list('No rows at the source', no_rows),
    ...list('Not over yet', not_over),
    ...list('No session', inFull ? no_session : []),
  ];
  return [...lines, ...list('Sealed before', inFull && lines.length > 0 ? sealed : [])];
}

function describeAudits({ audits }: RunResult): readonly string[] {
  const all = Object.entries(audits);
  const differing = all.filter(([, { result }]) => result === 'differs');
  if (all.length === 0) return [];
  const equal = `Compared ${countOf(all.length, 'sealed date')} with the source: ${formatCount(all.length - differing.length)} equal.`;
  return [equal, ...differing.map(([date, { reason = '' }]) => `${date} differs from the source: ${reason}`)];
}

/** `restated (revision 2: 3 added, 1 removed, 2 altered)`. */
function describeStatus({ status, revision = 1, changes }: DateResult): string {
  if (status === 'missing') return 'no rows';
  if (status !== 'sealed' || revision === 1) return status;
  // Without the replaced object there is nothing to compare.
  if (!changes) return `restated (revision ${revision})`;
  if (changes.extended) return `extended (revision ${revision}): ${countOf(changes.added, 'row')} of later hours`;
  const { rekeyed } = changes;
  const more = [
    ...(rekeyed === undefined ? [] : [`${formatCount(rekeyed)} under other ids`]),
    ...changes.columns_added.map((name) => `column ${name} added`),
    ...changes.columns_removed.map((name) => `column ${name} removed`),
  ];
  const counts = `${formatCount(changes.added)} added, ${formatCount(changes.removed)} removed, ${formatCount(changes.altered)} altered`;
  return `restated (revision ${revision}: ${[counts, ...more].join(', ')})`;
}

/** By template. */
const NAMES: Readonly<Record<string, string>> = { digest: 'Digest', weekly: 'Weekly report' };

/** What became of the reports of a job. @param delivers whether there is a mail server, or the folder is the recipient */
export function describeDeliveries(job: string, deliveries: readonly Delivery[], delivers: boolean): readonly string[] {
  const owed = [...new Set(deliveries.filter(isOnlyWritten).map(({ date }) => date))];
  const lines = deliveries.filter((delivery) => !isOnlyWritten(delivery)).flatMap(describeDelivery);
  if (deliveries.some(({ recipients }) => recipients.some(({ outcome }) => outcome === 'failed')))
    lines.push(`  -> To try again: \`flowdrop report ${job}\`. With --wait 10m it keeps trying for as long.`);
  if (owed.length > 0) lines.push(`Written to a folder and not sent: ${listFirst(owed, MAX_NAMED)}`);
  if (owed.length > 0 && delivers) lines.push(`  -> To send one: \`flowdrop report ${job} --date ${owed.at(-1)}\``);
  const isWritten = owed.length > 0 || deliveries.some(({ recipients }) => recipients.some(isWrittenFor));
  if (isWritten && !delivers)
    lines.push(
      `  -> To send it, set FLOWDROP_SMTP_URL, then \`flowdrop report ${job}\`. If mail belongs into the folder: FLOWDROP_SMTP_URL=folder`,
    );
  return lines;
}

function isWrittenFor({ outcome }: Delivery['recipients'][number]): boolean {
  return outcome === 'written';
}

/** Nothing was done about what is in a folder. */
function isOnlyWritten({ recipients, written, leftToOther, pending, skipped, error }: Delivery): boolean {
  return written > 0 && recipients.length === 0 && !leftToOther && !pending && skipped === null && error === null;
}

function describeDelivery(delivery: Delivery): readonly string[] {
  const { report, date, recipients, skipped, error } = delivery;
  const what = `${NAMES[report] ?? 'Report'} of ${date}`;
  if (delivery.pending) return [`${what}: pending, because not all the data it needs is sealed; nothing was mailed.`];
  if (delivery.leftToOther) return [`${what}: another worker is mailing it at the moment.`];
  if (error) return [`${what}: ${error.message}${error.hint ? `\n  -> ${error.hint}` : ''}`];
  if (recipients.length === 0)
    return [
      `${what}: ${skipped === null ? `nothing left to mail (${delivery.alreadySent} already received it).` : `not mailed: ${skipped}`}`,
    ];
  return [
    ...(skipped === null ? [] : [`${what}: not mailed to everybody: ${skipped}`]),
    `${what}${delivery.late ? ', late' : ''}: ${delivery.subject}`,
    ...recipients.flatMap(({ to, outcome, detail, file }) => {
      if (file === undefined) return [`  ${outcome} ${to}: ${detail}`];
      const page = file.replace(/eml$/, 'html');
      return [`  written for ${to}${outcome === 'written' ? ', not sent' : ''}: ${file}`, `    to read it: ${page}`];
    }),
  ];
}
