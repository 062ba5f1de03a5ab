/**
 * `flowdrop plan [JOB]`: which dates, how many rows, requests and seconds, and what expires before its turn. Without a
 * job: all jobs of the folder, one after the other if they share a budget. Changes nothing. Its tables fit into 80 cells,
 * and have the facts of the document; a date that would be lost is marked by a word, not only by a color.
 */
import { EXCHANGE_TIME_ZONE } from '../api-contract/published-limits.ts';
import { type DateRange, formatSecond, formatWallDate } from '../calendar/wall-clock.ts';
import { formatDayTime, formatInstant, formatSpan, formatTime } from '../core/date-text.ts';
import { EXIT_CODES, isFault } from '../core/errors.ts';
import { countOf, formatBytes, formatCount, formatDuration } from '../core/units.ts';
import type { PlannedDate } from '../export/date-source.ts';
import { openDates } from '../export/export.ts';
import { type BackfillMode, readStoredDates, selectDates } from '../export/select-dates.ts';
import { planSpans } from '../export/trades/scan.ts';
import type { Job } from '../job/job.ts';
import { assertDistinct, listJobFiles, readJob } from '../job/job-folder.ts';
import type { OpenedSource } from '../run/open-source.ts';
import { describeThrough, type PlanDate, type PlanDocument, type PlanTotal } from '../state/documents.ts';
import { openJobState } from '../state/job-state.ts';
import { RunHistory } from '../state/run-history.ts';
import { type Call, type Cli, withLedger, withSource } from './context.ts';
import { describeHeld } from './run-output.ts';
import { formatTable, PLAIN_STYLE, right, type Style } from './terminal/text.ts';

export async function printPlan(cli: Cli, job: Job, ...dates: [BackfillMode?, DateRange?]) {
  const document = await planJob(cli, job, 0, ...dates);
  return cli.print(document, describePlan(document, cli.terminal.style.out));
}

/** Of all jobs of the folder, one that cannot be planned is reported, and the others go on. */
export async function plan(cli: Cli, { argument }: Call<'plan'>) {
  const { terminal, globals, print } = cli;
  if (argument !== undefined) return await printPlan(cli, await readJob(argument, globals.jobs));
  const style = terminal.style.out;
  const files = await listJobFiles(globals.jobs);
  if (files.length === 0) terminal.err(`There are no job files in ${globals.jobs}; \`flowdrop init\` writes one.\n`);
  const plans: PlanDocument[] = [];
  const failures: object[] = [];
  const jobs: Job[] = [];
  /** Seconds that earlier jobs take of each budget. */
  const taken = new Map<string, number>();
  let exitCode: number | undefined;
  for (const file of files) {
    try {
      const job = await readJob(file, globals.jobs);
      jobs.push(job);
      // Jobs of one budget wait for each other; both SQL entry points share one.
      const budget = job.source.api === 'portal' ? 'historical' : job.source.api;
      const before = taken.get(budget) ?? 0;
      const document = await planJob(cli, job, before);
      taken.set(budget, before + document.total.seconds);
      plans.push(document);
      if (!globals.json) print(document, `${describePlan(document, style)}\n`);
    } catch (error) {
      if (!isFault(error) || error.kind === 'interrupted') throw error;
      exitCode ??= EXIT_CODES[error.kind];
      const { text, json } = cli.describe(error);
      failures.push({ file, ...json.error });
      if (!globals.json) terminal.err(`${style.bold(file)}\n${text}\n`);
    }
  }
  assertDistinct(jobs);
  const total = totalDates(plans.flatMap(({ dates }) => dates));
  print({ jobs: plans, failures, total }, plans.length > 1 ? describePlans(plans, total, style) : '');
  return exitCode;
}

/** @param afterSeconds that earlier jobs take of the same budget */
async function planJob(cli: Cli, job: Job, afterSeconds: number, mode?: BackfillMode, range?: DateRange) {
  const { openers } = cli;
  const calendar = await openers.readCalendar();
  const state = openJobState(openers.stateDir, job.name);
  const history = new RunHistory(openers.stateDir, job.name);
  const planWith = async (opened: OpenedSource) => {
    const { source, limits } = opened;
    const facts = await withLedger(openers, job, (ledger) => readStoredDates(ledger, state, history));
    const {
      dates: work,
      lookback,
      empty,
      held,
    } = await openDates(opened).plan(selectDates(mode ?? 'unsealed', facts, range));
    const nowMs = source.serverNow();
    const isSql = opened.kind === 'sql';
    const dates = priceDates(work, {
      nowMs,
      waitMs: afterSeconds * 1000,
      intervalMs: source.intervalMs(),
      countRequests: isSql ? planSpans(opened).length : 0,
      rowBytes: isSql ? limits.rowBytes : 0,
    });
    return {
      job: job.name,
      server_time: new Date(nowMs).toISOString(),
      lookback_edge: lookback.edge,
      earliest_date: lookback.edge === '' ? '' : lookback.firstWhole,
      row_limit: isSql ? limits.rowLimit : null,
      sealed: facts.sealed.size,
      in_part: facts.inPart,
      dates: [...dates],
      total: totalDates(dates),
      without_rows: [...empty],
      held,
    };
  };
  return await withSource(cli, job, planWith, { calendar });
}

/**
 * The dates of the document, with what each costs.
 * @param work in the order of the run; those without counts are estimated
 * @param terms the time until it begins, for earlier jobs of the same budget; the time between two request starts; the
 *   requests for counting a date once; the bytes of a row in transfer, before compression
 */
export function priceDates(
  work: readonly Pick<PlannedDate, 'date' | 'rows' | 'pages' | 'counts' | 'expiresAtMs'>[],
  terms: Readonly<Record<'nowMs' | 'waitMs' | 'intervalMs' | 'countRequests' | 'rowBytes', number>>,
): readonly PlanDate[] {
  const { nowMs, waitMs, intervalMs, countRequests, rowBytes } = terms;
  let doneAtMs = nowMs + waitMs;
  return work.map(({ date, rows, pages, counts, expiresAtMs }) => {
    // A date is counted and counted again; an existing count costs nothing more.
    const requests = pages + (counts === undefined ? 2 : 1) * countRequests;
    doneAtMs += requests * intervalMs;
    const mayExpire = Number.isFinite(expiresAtMs);
    const leftMs = Math.max(0, expiresAtMs - nowMs);
    return {
      ...{ date, rows: rows ?? null, estimated: counts === undefined, requests },
      seconds: (requests * intervalMs) / 1000,
      bytes: Math.round((rows ?? 0) * rowBytes),
      done_at: new Date(doneAtMs).toISOString(),
      expires: mayExpire ? new Date(expiresAtMs).toISOString() : null,
      share_of_budget: mayExpire ? (leftMs > 0 ? (doneAtMs - nowMs) / leftMs : 1) : null,
      // It could no longer be proved complete.
      expires_before_turn: doneAtMs >= expiresAtMs,
    };
  });
}

export function totalDates(dates: readonly PlanDate[]): PlanTotal {
  const sum = (name: 'rows' | 'requests' | 'seconds' | 'bytes') =>
    dates.reduce((total, date) => total + (date[name] ?? 0), 0);
  const shares = dates.flatMap(({ share_of_budget: share }) => share ?? []);
  return {
    dates: dates.length,
    rows: dates.every(({ rows }) => rows !== null) ? sum('rows') : null,
    estimated: dates.some(({ estimated }) => estimated),
    requests: sum('requests'),
    seconds: sum('seconds'),
    bytes: sum('bytes'),
    done_at:
      dates
        .map(({ done_at: at }) => at)
        .sort()
        .at(-1) ?? null,
    share_of_budget: shares.length > 0 ? Math.max(...shares) : null,
    too_late: dates.filter(({ expires_before_turn: isLost }) => isLost).length,
  };
}

const NUMBERS = ['rows', 'requests', 'time', 'done (ET)', 'budget'].map(right);

const TOO_LATE = 'TOO LATE';

export function describePlan(plan: PlanDocument, style: Style = PLAIN_STYLE): string {
  const { job, dates, total, lookback_edge: edge, earliest_date: earliest, row_limit, without_rows: empty } = plan;
  const nowMs = Date.parse(plan.server_time);
  const rows = dates.map((date) => [
    date.date,
    formatRows(date.rows, date.estimated),
    formatCount(date.requests),
    formatClock(date.seconds),
    formatDone(date.done_at, nowMs),
    date.expires_before_turn ? style.red(TOO_LATE) : formatShare(date.share_of_budget),
    date.expires === null ? 'never' : `in ${formatSpan(Date.parse(date.expires) - nowMs)}`,
  ]);
  const last = ['total', ...formatTotal(total, nowMs, style), ''].map((cell) => style.bold(cell));
  const first = dates.flatMap(({ expires }) => expires ?? []).sort()[0];
  const size = total.bytes === 0 ? '' : `, ${formatBytes(total.bytes)} of JSON before compression`;
  const some = `${countOf(empty.length, 'date')}, ${empty[0]} to ${empty.at(-1)}`;
  const lines = [
    style.bold(job),
    edge !== '' && `  lookback from ${formatDayTime(`${edge.replace(' ', 'T')}Z`, 'UTC')} ET`,
    row_limit !== null && `  ${countOf(row_limit, 'row')} per page`,
    `  ${countOf(plan.sealed, 'date')} sealed already`,
    ...plan.in_part.map(({ date, through }) => `  ${date} is sealed in part: ${describeThrough(through)}`),
    earliest !== '' && `  dates before ${earliest} have expired or are incomplete`,
    empty.length > 0 && `  no rows at the source: ${empty.length <= MAX_NAMED ? empty.join(', ') : some}`,
    ...describeHeld(plan.held).map((line) => `  ${line}`),
    '',
    dates.length === 0 ? 'Nothing to fetch.' : `${formatTable(['date', ...NUMBERS, 'expires'], [...rows, last])}\n`,
    dates.length > 0 && `${countOf(total.dates, 'date')} in ${formatDuration(total.seconds * 1000)}${size}.`,
    first !== undefined && 'budget: share of the requests available before the date expires.',
    first && `The first date begins to expire ${formatInstant(first, EXCHANGE_TIME_ZONE, plan.server_time)}.`,
    total.estimated && '~ estimate: as many as on the last date.',
    total.too_late > 0 &&
      style.red(
        `${TOO_LATE}: ${countOf(total.too_late, 'date')} would begin to expire before it is completely fetched.`,
      ),
    total.too_late > 0 &&
      'A run fetches the soonest expiry first: start it now, or raise FLOWDROP_REQUESTS_PER_SECOND if the key allows it.',
  ];
  return `${lines.filter((line) => typeof line === 'string').join('\n')}\n`;
}

/** Most dates that are listed one by one; above that, only the first and the last. */
const MAX_NAMED = 4;

export function describePlans(plans: readonly PlanDocument[], total: PlanTotal, style: Style = PLAIN_STYLE): string {
  const nowMs = Date.parse(plans[0]?.server_time ?? '');
  const row = (name: string, sums: PlanTotal) => [name, formatCount(sums.dates), ...formatTotal(sums, nowMs, style)];
  const last = row('total', total).map((cell) => style.bold(cell));
  const rows = [...plans.map((plan) => row(plan.job, plan.total)), last];
  return `${formatTable(['job', right('dates'), ...NUMBERS], rows, { width: TABLE_WIDTH })}\n`;
}

/** Every terminal has this width. */
const TABLE_WIDTH = 80;

function formatTotal(total: PlanTotal, nowMs: number, style: Style): readonly string[] {
  return [
    total.dates === 0 ? '' : formatRows(total.rows, total.estimated),
    formatCount(total.requests),
    formatClock(total.seconds),
    total.done_at === null ? '' : formatDone(total.done_at, nowMs),
    total.too_late > 0 ? style.red(`${total.too_late} LATE`) : formatShare(total.share_of_budget),
  ];
}

function formatRows(rows: number | null, estimated: boolean): string {
  return rows === null ? '?' : `${estimated ? '~' : ''}${formatCount(rows)}`;
}

/** `0:07`, `12:30`, `2:05:10`: narrower than words, in a column of its own. */
function formatClock(seconds: number): string {
  const whole = seconds > 0 ? Math.max(1, Math.round(seconds)) : 0;
  return formatSecond(whole).replace(/^00:/, '').replace(/^0/, '');
}

/** `06:55`, or on another day `Nov 23, 02:10`. */
function formatDone(instant: string, nowMs: number): string {
  const isToday = formatWallDate(Date.parse(instant)) === formatWallDate(nowMs);
  return (isToday ? formatTime : formatDayTime)(instant, EXCHANGE_TIME_ZONE);
}

function formatShare(share: number | null): string {
  if (share === null) return '';
  const percent = share * 100;
  return percent > 0 && percent < 1 ? '<1%' : `${Math.round(percent)}%`;
}
