/** The active run with its progress, and the ended runs, newest first, with their results. */
import { basename } from 'node:path';
import { explainAbort } from '../../core/process-end.ts';
import { formatCount, formatDuration } from '../../core/units.ts';
import type { JobView, RunReason, RunRecord, RunView } from '../job-view.ts';
import { isRun, parseInstant } from './date-gap.ts';
import { OUTCOME_WORDS } from './health-text.ts';
import { html, type Markup } from './html.ts';
import { findOtherEnd } from './last-end.ts';
import { formatInstant, formatRelative, formatSpan, renderTime } from './time-text.ts';

/** Older runs are in the logs. */
const SHOWN_RUNS = 8;
/** Longer messages are cut; the log has the full text. */
const MAX_MESSAGE_CHARACTERS = 600;

const REASON_WORDS: Readonly<Record<RunReason, string>> = {
  scheduled: 'on schedule',
  'catch-up': 'to catch up',
  retry: 'as a retry',
  'take-over': 'taken over from another daemon',
  gap: 'for a gap',
  stage: 'to stage the running session',
  asked: 'asked for on this page',
};

/** Visual style of each outcome. */
const TONES: Readonly<Record<RunRecord['outcome'], 'good' | 'fair' | 'bad' | 'calm'>> = {
  done: 'good',
  incomplete: 'fair',
  interrupted: 'fair',
  failed: 'bad',
  usage: 'bad',
  died: 'bad',
  'timed-out': 'bad',
  active: 'calm',
  'no-session': 'calm',
};

export function renderRunning(run: RunView, nowMs: number): Markup {
  const { progress } = run;
  const head = html`<p class="line"><b>Running</b> ${REASON_WORDS[run.reason]}, for ${formatSpan(nowMs - run.startedAtMs)}</p>`;
  if (!progress) return html`<div class="running">${head}<p class="quiet">No progress yet.</p></div>`;
  const { date, phase, rows, total_rows: total, dates_done: done, dates_total: dates } = progress;
  const share = total > 0 ? Math.min(1, rows / total) : 0;
  const facts: readonly (readonly [string, string])[] = [
    ['rows', total > 0 ? `${formatCount(rows)} of ${formatCount(total)}` : formatCount(rows)],
    ['rows a second', formatCount(progress.rows_per_second)],
    ['window', progress.window || 'none yet'],
    ['requests', formatCount(progress.requests)],
    ['dates', `${formatCount(done)} of ${formatCount(dates)}`],
    ['pages left', formatCount(progress.pages_left)],
    ['splits', formatCount(progress.splits)],
    ['retries', formatCount(progress.retries)],
    ['429s', formatCount(progress.rate_limited)],
  ];
  const left =
    progress.seconds_left === null ? 'time left unknown' : `about ${formatSpan(progress.seconds_left * 1000)} left`;
  return html`<div class="running">${head}
<p class="line stage">${phase}${date && ` ${date}`}<span class="eta">${left}</span></p>
<progress aria-label="Rows fetched" max="1" value="${share.toFixed(3)}">${Math.round(share * 100)}%</progress>
<dl class="facts">${facts.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl></div>`;
}

export function renderFinished(job: JobView, nowMs: number): Markup {
  const { finished, schedule } = job;
  const timeZone = schedule?.timezone ?? 'UTC';
  const runs =
    finished.length === 0
      ? html`<p class="quiet">No runs since the daemon started.</p>`
      : html`<ol class="runs">${finished.slice(0, SHOWN_RUNS).map((run) => renderRun(run, nowMs, timeZone))}</ol>`;
  return html`${runs}${renderScope(job, nowMs, timeZone)}`;
}

/** States which runs are listed, and when the newest other run ended according to the job's record on this machine. */
function renderScope(job: JobView, nowMs: number, timeZone: string): Markup {
  const { finished, status } = job;
  const end = findOtherEnd(job);
  // A run writes its record before its process ends; a run by an older version left only the record.
  const lastMs = end?.finishedAtMs ?? parseInstant(status?.document.last_run ?? null);
  const ownMs = finished.find(isRun)?.finishedAtMs ?? Number.NEGATIVE_INFINITY;
  const isOther = lastMs !== undefined && lastMs > ownMs;
  return html`<p class="quiet small">This list has the runs of this daemon since it started, not manual runs or those of other daemons.${
    isOther &&
    html` The last run on record here ended ${formatRelative(lastMs, nowMs)}, ${renderTime(lastMs, formatInstant(lastMs, timeZone))}${end && `: ${OUTCOME_WORDS[end.outcome]}`}.`
  }</p>${end?.error && html`<div class="error"><p><code>${end.error.code}</code> ${cut(end.error.message)}</p></div>`}`;
}

function renderRun(run: RunRecord, nowMs: number, timeZone: string): Markup {
  const { outcome, startedAtMs, finishedAtMs, result, error, logFile, code, signal } = run;
  const started = formatInstant(startedAtMs, timeZone);
  const rows = result?.dates.reduce((sum, date) => sum + (date.status === 'sealed' ? date.rows : 0), 0);
  const facts = [
    REASON_WORDS[run.reason],
    ...(outcome === 'no-session' ? [] : [`took ${formatDuration(finishedAtMs - startedAtMs)}`]),
    ...(result ? [`${formatCount(result.requests)} requests`, `${formatCount(rows ?? 0)} rows sealed`] : []),
    ...(signal === undefined ? [] : [`ended by ${signal}`]),
    ...(code === undefined || code === 0 ? [] : [`exit code ${code}`]),
    ...(logFile === undefined ? [] : [`log ${basename(logFile)}`]),
  ];
  const abort = explainAbort({ code, signal });
  return html`<li><p class="line"><span class="badge ${TONES[outcome]}">${OUTCOME_WORDS[outcome]}</span> ${renderTime(startedAtMs, started)} <span class="quiet">${formatRelative(startedAtMs, nowMs)}</span></p>
<p class="quiet small">${facts.join(' · ')}</p>
${abort !== '' && html`<div class="error"><p>${abort}</p></div>`}${error && html`<div class="error"><p><code>${error.code}</code> ${cut(error.message)}</p>${error.hint !== undefined && html`<p class="hint">${cut(error.hint)}</p>`}</div>`}</li>
`;
}

function cut(text: string): string {
  return text.length > MAX_MESSAGE_CHARACTERS ? `${text.slice(0, MAX_MESSAGE_CHARACTERS)}…` : text;
}
