/**
 * Runs as people read them: in a list, and each on a page of its own with how it ended and why, its windows as a chart,
 * its log; live while it runs. Pure. The chart stretches with the page, so its words are outside of it.
 */
import { EXCHANGE_TIME_ZONE } from '../../api-contract/published-limits.ts';
import { formatExactTime, formatInstant, formatRelative, formatSpan, formatTime } from '../../core/date-text.ts';
import { countOf, formatBytes, formatCount, formatDuration } from '../../core/units.ts';
import type { RunLog } from '../../state/run-log.ts';
import {
  describeMailed,
  OUTCOME_WORDS,
  RUN_COMMANDS,
  RUN_OUTCOMES,
  type RunRecord,
  type RunWindow,
} from '../../state/run-record.ts';
import type { RunDetail, RunSummary, RunsDocument } from '../shapes.ts';
import { renderActionForm, renderRunActions } from './action-form.ts';
import { firstLine, OUTCOME_TONES } from './describe-job.ts';
import { dropPath, html, jobPath, type Markup, renderFacts, renderTime, runPath } from './html.ts';
import { type PageContext, renderFrame } from './page-frame.ts';
import { CALM_MS, LIVE_MS } from './page-script.ts';

/** Windows in the table below the chart; the API has all. */
const SHOWN_WINDOWS = 100;
/** Of a message in a list; the run's page has all of it. */
const MAX_CHARACTERS = 200;
export const LOG_LEVELS = ['all', 'info', 'warn', 'error'] as const;

interface LogChoice {
  readonly level: string;
  readonly text: string;
}

export function renderRunPage(
  { run, windows }: RunDetail,
  log: RunLog,
  choice: LogChoice,
  context: PageContext,
): string {
  const { nowMs } = context;
  const { job, id, args, started_at, outcome } = run;
  const startedAtMs = Date.parse(started_at);
  const endMs = run.finished_at === null ? nowMs : Date.parse(run.finished_at);
  const planned = run.planned_pages === null ? '' : `, ${formatCount(run.planned_pages)} planned`;
  const facts = {
    took: formatDuration(Math.max(0, endMs - startedAtMs)),
    rows: formatCount(run.rows),
    requests: formatCount(run.requests),
    pages: `${formatCount(run.pages)}${planned}`,
    splits: formatCount(run.splits),
    retries: formatCount(run.retries),
    '429s': formatCount(run.rate_limited),
    received: formatBytes(run.bytes),
  };
  const main = html`<article class="job" aria-labelledby="run-title">
<header data-live="run-head"><p class="small"><a href="${jobPath(job)}">${job}</a></p><h1 id="run-title"><code>flowdrop ${args.join(' ')}</code></h1>
<p class="line">${renderOutcome(outcome)} ${REASON_WORDS[run.reason]}, started ${formatRelative(startedAtMs, nowMs)} <span class="quiet small">${renderTime(startedAtMs, formatInstant(startedAtMs, EXCHANGE_TIME_ZONE, nowMs))}</span></p>
${renderError(run)}</header>
${context.canAct && html`<div class="acts" data-live="acts">${renderRunActions(run, context)}</div>`}
<div data-live="run-facts">${outcome === null && html`<div class="running">${renderProgress(run)}</div>`}${renderFacts(facts)}</div>
<section aria-labelledby="windows-title"><h2 id="windows-title">Windows</h2><div data-live="chart">${renderWindowChart(windows, startedAtMs, endMs)}</div>
${windows.length > 0 && html`<details data-key="windows"><summary>The last ${Math.min(SHOWN_WINDOWS, windows.length)} as a table</summary><div data-live="windows" class="scroll" tabindex="0" role="region" aria-label="Windows">${renderWindows(windows)}</div></details>`}</section>
<section aria-labelledby="dates-title" data-live="dates">${renderDates(run)}</section>
<section aria-labelledby="log-title" id="log"><h2 id="log-title">Log, in ET</h2>${renderLogForm(run, choice)}<div data-live="log">${renderLog(log, run)}</div></section>
<footer class="quiet small">Run ${id}${id !== run.run_id && `, ${run.run_id}`}.</footer></article>${renderActionForm(context)}`;
  return renderFrame({
    title: `flowdrop: ${args.join(' ')}`,
    path: runPath(job, id),
    ...{ nowMs, main },
    everyMs: outcome === null ? LIVE_MS : CALM_MS,
  });
}

function renderError({ error }: Pick<RunSummary, 'error'>): Markup {
  if (!error) return html``;
  return html`<div class="error"><p><code>${error.code}</code></p><pre class="message" tabindex="0">${error.message}</pre>${error.hint !== undefined && html`<p class="hint">${error.hint}</p>`}</div>`;
}

function renderWindows(windows: RunDetail['windows']): Markup {
  const rows = windows
    .slice(-SHOWN_WINDOWS)
    .toReversed()
    .map(
      ({ at, kind, date, window, rows: count, requests, reason }) =>
        html`<tr><td>${formatExactTime(at, EXCHANGE_TIME_ZONE)}</td><td>${kind}${reason !== undefined && `: ${reason}`}</td><td>${date}</td><td>${window}</td><td class="number">${formatCount(count)}</td><td class="number">${formatCount(requests)}</td></tr>`,
    );
  return html`<table class="rows plain"><thead><tr><th scope="col">ET</th><th scope="col">what</th><th scope="col">date</th><th scope="col">window</th><th scope="col">rows</th><th scope="col">requests</th></tr></thead><tbody>${rows}</tbody></table>`;
}

function renderDates({ job, dates, reports }: RunSummary): Markup {
  if (dates.length === 0 && reports.length === 0)
    return html`<h2 id="dates-title">Dates</h2><p class="quiet">None.</p>`;
  return html`<h2 id="dates-title">Dates</h2><ul class="dates">${dates.map(
    ({ date, status, rows, requests, revision, error }) =>
      html`<li><a href="${dropPath(job, date)}">${date}</a> ${status}, ${countOf(rows, 'row')}, ${countOf(requests, 'request')}${revision !== undefined && `, revision ${revision}`}${renderError({ error: error ?? null })}</li>`,
  )}${reports.map((one) => html`<li>Report ${one.report} of ${one.date}: ${describeMailed(one)}</li>`)}</ul>`;
}

function renderLogForm({ job, id }: RunSummary, { level, text }: LogChoice): Markup {
  return html`<form method="get" action="${runPath(job, id)}#log" class="filter"><label>Level <select name="level">${LOG_LEVELS.map((each) => html`<option${each === level && html` selected`}>${each}</option>`)}</select></label><label>Find <input type="search" name="text" value="${text}"></label><button>Show</button></form>`;
}

function renderLog({ lines, size, is_cut: isCut }: RunLog, { job, id }: RunSummary): Markup {
  const cut =
    isCut &&
    html`<p class="quiet small">Only the last lines are shown; <a href="${`${runPath(job, id)}/log`}">the whole log</a> has ${formatBytes(size)}.</p>`;
  if (lines.length === 0) return html`${cut}<p class="quiet">No lines.</p>`;
  return html`${cut}<ol class="log" tabindex="0" aria-label="Lines of the log, newest last; times are ET">${lines.map(
    ({ at, level, text, event, fields }) =>
      html`<li class="level-${level}"><span class="quiet">${at !== null && formatExactTime(at, EXCHANGE_TIME_ZONE)}</span> <b>${level}</b> ${text || event}${renderFields(fields)}</li>`,
  )}</ol>`;
}

function renderFields(fields: Readonly<Record<string, unknown>>): Markup {
  const entries = Object.entries(fields);
  if (entries.length === 0) return html``;
  const words = entries.map(([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`);
  return html` <span class="quiet fields-of-line">${words.join(' ')}</span>`;
}

/** Remembered runs, newest first. */
export function renderRunsPage(
  { runs, next }: RunsDocument,
  choice: Readonly<Record<string, string>>,
  { nowMs, jobs }: PageContext,
): string {
  const select = (name: string, words: string, options: readonly string[]) =>
    html`<label>${words} <select name="${name}"><option value="">all</option>${options.map((option) => html`<option${option === choice[name] && html` selected`}>${option}</option>`)}</select></label>`;
  const query = (before: string) => `/runs?${new URLSearchParams({ ...choice, before })}`;
  const main = html`<section class="job" aria-labelledby="runs-title"><header class="row"><h1 id="runs-title">Runs</h1><form class="filter" method="get" action="/runs">${select('job', 'Job', jobs)}${select('command', 'Command', RUN_COMMANDS)}${select('outcome', 'Outcome', ['running', ...RUN_OUTCOMES])}<button>Show</button></form></header>
<div data-live="runs">${renderRuns(runs, nowMs, EXCHANGE_TIME_ZONE)}${next !== null && html`<p><a href="${query(next)}">Older</a></p>`}</div>
<p class="quiet small">The same on the command line: <code>flowdrop runs</code>. The newest is ${runs[0] ? formatSpan(nowMs - Date.parse(runs[0].started_at)) : 'none'} old.</p></section>`;
  return renderFrame({ title: 'flowdrop: runs', path: '/runs', nowMs, main, everyMs: CALM_MS });
}

export const REASON_WORDS: Readonly<Record<RunRecord['reason'], string>> = {
  scheduled: 'on schedule',
  'catch-up': 'to catch up',
  retry: 'as a retry',
  'take-over': 'taken over from another daemon',
  gap: 'for a gap',
  stage: 'to stage the running session',
  asked: 'asked for on this page',
  hand: 'by hand',
};

function renderOutcome(outcome: RunRecord['outcome']): Markup {
  if (outcome === null) return html`<span class="badge pending">running</span>`;
  const [words, tone] = [OUTCOME_WORDS[outcome], OUTCOME_TONES[outcome]];
  return html`<span class="badge ${tone}">${words}</span>`;
}

export function renderProgress(run: RunSummary | null): Markup {
  if (!run?.progress) return html`<p class="quiet">No progress yet.</p>`;
  const { rows, progress } = run;
  const { date, phase, total_rows: total, dates_done: done, dates_total: dates } = progress;
  const share = total > 0 ? Math.min(1, rows / total) : 0;
  const facts = {
    rows: total > 0 ? `${formatCount(rows)} of ${formatCount(total)}` : formatCount(rows),
    'rows a second': formatCount(progress.rows_per_second),
    window: progress.window || 'none yet',
    requests: formatCount(run.requests),
    dates: `${formatCount(done)} of ${formatCount(dates)}`,
    'pages left': formatCount(progress.pages_left),
    splits: formatCount(run.splits),
    retries: formatCount(run.retries),
    '429s': formatCount(run.rate_limited),
  };
  const left =
    progress.seconds_left === null ? 'time left unknown' : `about ${formatSpan(progress.seconds_left * 1000)} left`;
  return html`<p class="line stage">${phase}${date && ` ${date}`}<span class="eta">${left}</span></p>
<progress aria-label="Rows fetched" max="1" value="${share.toFixed(3)}">${Math.round(share * 100)}%</progress>
${renderFacts(facts, 'facts')}`;
}

/** @param timeZone of the times shown */
export function renderRuns(runs: readonly RunSummary[], nowMs: number, timeZone: string): Markup {
  if (runs.length === 0) return html`<p class="quiet">No runs on record.</p>`;
  return html`<ol class="runs">${runs.map((run) => renderRun(run, nowMs, timeZone))}</ol>`;
}

function renderRun(run: RunSummary, nowMs: number, timeZone: string): Markup {
  const { id, job, args, outcome, reason, error, started_at, finished_at, requests, rows } = run;
  const startedAtMs = Date.parse(started_at);
  const facts = [
    REASON_WORDS[reason],
    ...(finished_at === null ? [] : [`took ${formatDuration(Date.parse(finished_at) - startedAtMs)}`]),
    ...(outcome === null ? [] : [countOf(requests, 'request'), countOf(rows, 'row')]),
  ];
  return html`<li><p class="line">${renderOutcome(outcome)} <a href="${runPath(job, id)}" data-key="${`run/${id}`}">${renderTime(startedAtMs, formatInstant(startedAtMs, timeZone, nowMs))}</a> <span class="quiet">${formatRelative(startedAtMs, nowMs)}</span></p>
<p class="quiet small"><code>flowdrop ${args.join(' ')}</code> ${facts.join(' · ')}</p>
${error && outcome !== 'done' && html`<p class="small bad-text"><code>${error.code}</code> ${firstLine(error.message, MAX_CHARACTERS)}</p>`}</li>
`;
}

const WIDTH = 1000;
const HEIGHT = 160;
/** More points than pixels are not seen. */
const MAX_POINTS = 500;
/** More marks would be a surface. */
const MAX_MARKS = 200;

/** @param endMs of the run, or now */
function renderWindowChart(windows: readonly RunWindow[], startMs: number, endMs: number): Markup {
  if (windows.length === 0) return html`<p class="quiet">No window was fetched.</p>`;
  let rows = 0;
  const rowSums = windows.map((window) => {
    rows += window.kind === 'page' ? window.rows : 0;
    return rows;
  });
  const requests = windows.at(-1)?.requests ?? 0;
  const spanMs = Math.max(1, endMs - startMs);
  const x = (at: string) => ((Math.min(Math.max(Date.parse(at), startMs), endMs) - startMs) / spanMs) * WIDTH;
  const y = (share: number) => HEIGHT - 4 - share * (HEIGHT - 12);
  const line = (values: readonly number[], most: number) => {
    const points = windows.map(({ at }, index) => ({ at, share: (values[index] ?? 0) / Math.max(1, most) }));
    return thin(points, MAX_POINTS).map(({ at, share }) => `L${x(at).toFixed(1)} ${y(share).toFixed(1)}`);
  };
  const mark = (name: string, some: readonly RunWindow[], top: number) =>
    thin(some, MAX_MARKS).map(({ at }) => html`<path class="${name}" d="M${x(at).toFixed(1)} ${top}v8"/>`);
  const rowLine = line(rowSums, rows).join('');
  const requestLine = line(
    windows.map((window) => window.requests),
    requests,
  ).join('');
  const start = `M0 ${HEIGHT - 4}`;
  const splits = windows.filter(({ kind }) => kind === 'split');
  const retries = windows.filter((window, index) => window.retries > (windows[index - 1]?.retries ?? 0));
  const seals = windows.filter(({ kind }) => kind === 'sealed' || kind === 'failed');
  const sealed = seals.filter(({ kind }) => kind === 'sealed').length;
  const failed = seals.length - sealed;
  const words = `${countOf(rows, 'row')} in ${countOf(windows.filter(({ kind }) => kind === 'page').length, 'window')}, ${countOf(requests, 'request')}, ${countOf(splits.length, 'split')}, ${countOf(windows.at(-1)?.retries ?? 0, 'retry', 'retries')}`;
  return html`<figure class="chart"><svg viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" role="img" aria-label="${words}">
${seals.slice(-MAX_MARKS).map((seal) => html`<path class="${seal.kind === 'sealed' ? 'seal' : 'fail'}" d="M${x(seal.at).toFixed(1)} 0V${HEIGHT}"/>`)}
<path class="area" d="${start}${rowLine}V${HEIGHT - 4}Z"/><path class="line-rows" d="${start}${rowLine}"/><path class="line-requests" d="${start}${requestLine}"/>
${mark('mark-split', splits, HEIGHT - 24)}${mark('mark-retry', retries, HEIGHT - 14)}</svg>
<figcaption class="quiet small"><span class="ends"><span>${formatTime(startMs, EXCHANGE_TIME_ZONE)} ET</span><span>${formatTime(endMs, EXCHANGE_TIME_ZONE)} ET</span></span>
<ul class="legend"><li><span class="key line-rows"></span>${countOf(rows, 'row')}</li><li><span class="key line-requests"></span>${countOf(requests, 'request')}</li><li><span class="key mark-split"></span>${countOf(splits.length, 'split')}</li><li><span class="key mark-retry"></span>${countOf(retries.length, 'retry', 'retries')}</li><li><span class="key seal"></span>${countOf(sealed, 'date')} sealed</li>${failed > 0 && html`<li><span class="key fail"></span>${formatCount(failed)} failed</li>`}</ul></figcaption></figure>`;
}

/** About so many of them, and the last. */
function thin<T>(list: readonly T[], most: number): readonly T[] {
  const step = Math.ceil(list.length / most);
  return list.filter((_, index) => index % step === 0 || index === list.length - 1);
}
