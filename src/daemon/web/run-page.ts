/** The page of one run: how it ended and why, its windows as a chart, its log; live while it runs. Pure. */

import { EXCHANGE_TIME_ZONE } from '../../api-contract/published-limits.ts';
import { formatExactTime, formatInstant, formatRelative, formatSpan } from '../../core/date-text.ts';
import { formatBytes, formatCount, formatDuration } from '../../core/units.ts';
import { renderActionForm, renderRunActions } from './action-form.ts';
import type { LogDocument, RunDetail, RunSummary, RunsDocument } from './api-shape.ts';
import { html, type Markup, renderTime } from './html.ts';

import { type PageContext, renderFrame } from './page-frame.ts';
import { dropPath, jobPath, runPath } from './page-path.ts';
import { CALM_MS, LIVE_MS } from './page-script.ts';
import { REASON_WORDS, renderOutcome, renderProgress, renderRuns } from './run-list.ts';
import { renderWindowChart } from './window-chart.ts';

/** Windows in the table below the chart; the API has all. */
const SHOWN_WINDOWS = 100;
export const LOG_LEVELS = ['all', 'info', 'warn', 'error'] as const;

export interface LogChoice {
  readonly level: string;
  readonly text: string;
}

export function renderRunPage(
  { run, windows }: RunDetail,
  log: LogDocument,
  choice: LogChoice,
  context: PageContext,
): string {
  const { nowMs } = context;
  const { job, id, args, started_at, outcome } = run;
  const startedAtMs = Date.parse(started_at);
  const endMs = run.finished_at === null ? nowMs : Date.parse(run.finished_at);
  const main = html`<article class="job" aria-labelledby="run-title">
<header data-live="run-head"><p class="small"><a href="${jobPath(job)}">${job}</a></p><h1 id="run-title"><code>flowdrop ${args.join(' ')}</code></h1>
<p class="line">${renderOutcome(outcome)} ${REASON_WORDS[run.reason]}, started ${formatRelative(startedAtMs, nowMs)} <span class="quiet small">${renderTime(startedAtMs, formatInstant(startedAtMs, EXCHANGE_TIME_ZONE, nowMs))}</span></p>
${renderError(run)}</header>
${context.canAct && html`<div class="acts" data-live="acts">${renderRunActions(run, context)}</div>`}
<div data-live="run-facts">${outcome === null && html`<div class="running">${renderProgress(run)}</div>`}${renderFacts(run, endMs - startedAtMs)}</div>
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

function renderFacts(run: RunSummary, tookMs: number): Markup {
  const planned = run.planned_pages;
  const facts: readonly (readonly [string, string])[] = [
    ['took', formatDuration(Math.max(0, tookMs))],
    ['rows', formatCount(run.rows)],
    ['requests', formatCount(run.requests)],
    ['pages', `${formatCount(run.pages)}${planned === null ? '' : `, ${formatCount(planned)} planned`}`],
    ['splits', formatCount(run.splits)],
    ['retries', formatCount(run.retries)],
    ['429s', formatCount(run.rate_limited)],
    ['received', formatBytes(run.bytes)],
  ];
  return html`<dl class="facts even">${facts.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
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
      html`<li><a href="${dropPath(job, date)}">${date}</a> ${status}, ${formatCount(rows)} rows, ${formatCount(requests)} requests${revision !== undefined && `, revision ${revision}`}${renderError({ error: error ?? null })}</li>`,
  )}${reports.map(({ report, date, sent, unsent }) => html`<li>Report ${report} of ${date}: ${formatCount(sent)} sent${unsent > 0 && `, ${formatCount(unsent)} not`}</li>`)}</ul>`;
}

function renderLogForm({ job, id }: RunSummary, { level, text }: LogChoice): Markup {
  return html`<form method="get" action="${runPath(job, id)}#log" class="filter"><label>Level <select name="level">${LOG_LEVELS.map((each) => html`<option${each === level && html` selected`}>${each}</option>`)}</select></label><label>Find <input type="search" name="text" value="${text}"></label><button>Show</button></form>`;
}

function renderLog({ lines, size, is_cut: isCut }: LogDocument, { job, id }: RunSummary): Markup {
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

/** All remembered runs, newest first. @param jobs names to choose from */
export function renderRunsPage(
  { runs, next }: RunsDocument,
  choice: Readonly<Record<string, string>>,
  jobs: readonly string[],
  { nowMs }: PageContext,
): string {
  const select = (name: string, words: string, options: readonly string[]) =>
    html`<label>${words} <select name="${name}"><option value="">all</option>${options.map((option) => html`<option${option === choice[name] && html` selected`}>${option}</option>`)}</select></label>`;
  const query = (before: string) => `/runs?${new URLSearchParams({ ...choice, before })}`;
  const main = html`<section class="job" aria-labelledby="runs-title"><header class="row"><h1 id="runs-title">Runs</h1><form class="filter" method="get" action="/runs">${select('job', 'Job', jobs)}${select('command', 'Command', ['run', 'backfill', 'stage', 'report', 'verify'])}${select('outcome', 'Outcome', ['running', 'done', 'failed', 'usage', 'incomplete', 'active', 'interrupted', 'died', 'timed-out'])}<button>Show</button></form></header>
<div data-live="runs">${renderRuns(runs, nowMs, EXCHANGE_TIME_ZONE)}${next !== null && html`<p><a href="${query(next)}">Older</a></p>`}</div>
<p class="quiet small">The same on the command line: <code>flowdrop runs</code>. The newest is ${runs[0] ? formatSpan(nowMs - Date.parse(runs[0].started_at)) : 'none'} old.</p></section>`;
  return renderFrame({ title: 'flowdrop: runs', path: '/runs', nowMs, main, everyMs: CALM_MS });
}
