/**
 * The page of one job: what it does now and next, its calendar, gaps, runs and archived reports; and the page of all
 * reports by date. Pure. Invariant: a report is read only when someone unfolds it, because each reading starts a
 * process. `loading="lazy"` does not guarantee that: without scripts, or for printing, a browser loads every frame. So
 * the frame is in a `template`, which the page's script takes out; without scripts there is the link. Also the
 * overview: what is wrong in one sentence each with what helps, then one row a job; sorting and filtering need a script.
 */
import { EXCHANGE_TIME_ZONE } from '../../api-contract/published-limits.ts';
import { formatInstant, formatRelative, formatSpan, formatTime, formatWeekDate } from '../../core/date-text.ts';
import { countOf, formatShortCount } from '../../core/units.ts';
import { describeAccepted } from '../../state/documents.ts';
import { OUTCOME_WORDS } from '../../state/run-record.ts';
import {
  JOB_STATES,
  type JobDocument,
  type JobStateWord,
  type JobSummary,
  type JobsDocument,
  type Problem,
  parseInstant,
  type ReportLink,
  type ReportsDocument,
} from '../shapes.ts';
import { renderActionForm, renderHelp, renderJobActions } from './action-form.ts';
import { nameKind, renderCalendar, renderShape, SHAPES } from './drop-page.ts';
import { dropPath, html, jobPath, type Markup, renderTime, runPath } from './html.ts';
import { type PageContext, renderFrame } from './page-frame.ts';
import { CALM_MS, LIVE_MS } from './page-script.ts';
import { REASON_WORDS, renderProgress, renderRuns } from './run-page.ts';

/** Gaps listed; the others are only counted. */
const SHOWN_GAPS = 20;
/** Older runs are one link away. */
const SHOWN_RUNS = 8;
/** Distinguishes the elements of this page. */
const KEY = 'job-1';

export function renderJobPage(document: JobDocument, context: PageContext): string {
  const { nowMs, calendar } = context;
  const { name, problems, status_read_at: read } = document;
  const main = html`<section class="job" id="${KEY}" aria-labelledby="${KEY}-name">
<header data-live="${KEY}-head"><h1 id="${KEY}-name">${name}</h1>
<p class="quiet small">${document.dataset !== null ? html`${document.dataset} in ${document.store}` : 'status not read yet'}</p>
${problems.length > 0 && html`<div class="verdict plain ${problems[0]?.level}">${renderProblems(problems, context, name)}</div>`}
${renderFaults(document, nowMs)}</header>
${renderJobActions(document, context)}
<div class="columns"><div class="left">
<div data-live="${KEY}-now">${renderRunning(document, nowMs)}${renderNext(document, nowMs)}</div>
<div data-live="${KEY}-calendar">${document.dates.length > 0 ? renderCalendar(document.dates, nowMs, calendar, KEY, name) : html`<p class="quiet">No date is known yet.</p>`}</div>
</div><div class="right">
<div data-live="${KEY}-gaps"><h2>Gaps</h2>${renderGaps(document, nowMs)}</div>
<div data-live="${KEY}-runs"><h2>Last runs</h2>${renderRuns(document.runs.slice(0, SHOWN_RUNS), nowMs, document.schedule?.timezone ?? EXCHANGE_TIME_ZONE)}<p class="small"><a href="/runs?job=${encodeURIComponent(name)}">All runs of this job</a></p></div>
</div>
<div class="whole">${renderReports(document.reports, KEY)}</div>
</div>
<footer data-live="${KEY}-read" class="quiet small">Job file ${document.file}. ${read === null ? 'Status not read yet.' : html`Status read ${formatRelative(Date.parse(read), nowMs)}.`}</footer>
</section>${renderActionForm(context)}`;
  return renderFrame({
    title: `flowdrop: ${name}`,
    path: jobPath(name),
    ...{ nowMs, main, extras: SHAPES },
    everyMs: document.running ? LIVE_MS : CALM_MS,
  });
}

function renderFaults({ fault, status_fault: reason }: JobDocument, nowMs: number): Markup {
  return html`${fault && html`<div class="error"><p><b>The current job file is not in use</b>, for ${formatSpan(nowMs - Date.parse(fault.since))}; the last valid version is.</p><p class="message">${fault.message}</p></div>`}
${reason !== null && html`<div class="error"><p><b>The status cannot be read.</b></p><p class="message">${reason}</p></div>`}`;
}

function renderRunning({ name, running, active }: JobDocument, nowMs: number): Markup {
  if (!running) return html``;
  return html`<div class="running"><p class="line"><a href="${runPath(name, running.id)}"><b>Running</b></a> ${REASON_WORDS[running.reason]}, for ${formatSpan(nowMs - Date.parse(running.started_at))}</p>
${renderProgress(active)}</div>`;
}

function renderNext(document: JobDocument, nowMs: number): Markup {
  const { schedule, waiting_since: waiting, next_run: next, retry_at: retry, last_success: success } = document;
  const timeZone = schedule?.timezone ?? EXCHANGE_TIME_ZONE;
  const tell = (at: string) => {
    const atMs = Date.parse(at);
    return html`<b>${formatRelative(atMs, nowMs)}</b> <span class="quiet">${renderTime(atMs, formatInstant(atMs, timeZone, nowMs))}</span>`;
  };
  return html`<dl class="plan">
${waiting !== null && html`<div><dt>waiting</dt><dd>for a free slot, for ${formatSpan(nowMs - Date.parse(waiting))}</dd></div>`}
${retry !== null && html`<div><dt>retry</dt><dd>${tell(retry)}</dd></div>`}
<div><dt>next run</dt><dd>${next === null ? 'by hand' : tell(next)}</dd></div>
${schedule && html`<div><dt>schedule</dt><dd><code>${schedule.cron}</code>${schedule.distributed && ', shared with other daemons'}</dd></div>`}
${success !== null && html`<div><dt>last success</dt><dd>${tell(success)}</dd></div>`}
</dl>`;
}

function renderGaps({ name, dates, gap_dates: gaps, status_read_at: read }: JobDocument, nowMs: number): Markup {
  if (read === null) return html`<p class="quiet">Unknown until the status is read.</p>`;
  // Without dates it is unknown whether there are gaps.
  if (dates.length === 0) return html`<p class="quiet">Unknown until a run finds the first date.</p>`;
  const accepted = dates.flatMap(({ date, condition, accepted: gap }) =>
    gap ? [html`<p class="quiet small"><b>${date}</b> ${condition}, ${describeAccepted(gap)}</p>`] : [],
  );
  if (gaps.length === 0) return html`<p class="quiet">None.</p>${accepted.slice(-SHOWN_GAPS)}`;
  const more = gaps.length - SHOWN_GAPS;
  return html`<ol class="gaps">${gaps.slice(0, SHOWN_GAPS).map(({ date, condition, begins_to_expire: expires }) => {
    const atMs = parseInstant(expires);
    const leftMs = (atMs ?? nowMs) - nowMs;
    const left = leftMs > 0 ? `begins to expire in ${formatSpan(leftMs)}` : 'expires now';
    return html`<li class="${condition}"><p class="line">${renderShape(condition)}<a href="${dropPath(name, date)}"><b>${date}</b></a> ${condition}, ${atMs === undefined ? 'does not expire' : left}</p>
${atMs !== undefined && html`<p class="quiet small">${renderTime(atMs, formatInstant(atMs, EXCHANGE_TIME_ZONE, nowMs))}</p>`}</li>`;
  })}</ol>${more > 0 && html`<p class="quiet">and ${more} more</p>`}${accepted.slice(-SHOWN_GAPS)}`;
}

/** Dates of one page; the search narrows them. */
const SHOWN_DATES = 60;

export function renderReportsPage(
  { reports }: ReportsDocument,
  { job: chosen, from, to }: Readonly<Record<string, string>>,
  { nowMs, jobs }: PageContext,
): string {
  const dates = [...new Set(reports.map(({ date }) => date))];
  const more = dates.length - SHOWN_DATES;
  const main = html`<section class="job" aria-labelledby="reports-title"><header class="row"><h1 id="reports-title">Reports</h1><form class="filter" method="get" action="/reports"><label>Job <select name="job"><option value="">all</option>${jobs.map((job) => html`<option${job === chosen && html` selected`}>${job}</option>`)}</select></label><label>From <input type="date" name="from" value="${from}"></label><label>To <input type="date" name="to" value="${to}"></label><button>Show</button></form></header>
${dates.length === 0 ? html`<p class="quiet">No report was mailed for these dates.</p>` : html`<dl class="by-date">${dates.slice(0, SHOWN_DATES).map((date) => renderDate(date, reports))}</dl>`}${more > 0 && html`<p class="quiet">and ${more} older dates: choose an earlier “To”.</p>`}
<p class="quiet small">The list has the newest reports of each job; older ones are in the store. On the command line: <code>flowdrop report JOB --date DATE --show</code>.</p></section>`;
  return renderFrame({ title: 'flowdrop: reports', path: '/reports', nowMs, main });
}

function renderDate(date: string, reports: readonly ReportLink[]): Markup {
  const some = reports.filter((report) => report.date === date);
  return html`<div><dt>${formatWeekDate(date)}</dt>${some.map(({ job, report, revision, href }) => html`<dd><a href="${href}">${nameKind(report)}</a> <span class="quiet small">of <a href="${jobPath(job)}">${job}</a>${revision > 1 && `, revision ${revision}`}</span></dd>`)}</div>`;
}

/** A week of one report; each preview can contain a whole mail with images. */
const PREVIEWS = 5;
/** Links listed below the previews; the others are folded. */
const SHOWN_LINKS = 12;

/**
 * @param reports newest first
 * @param key identifies the job within the page; letters, digits and hyphens only
 */
function renderReports(reports: readonly ReportLink[], key: string): Markup {
  const links = reports.slice(PREVIEWS, PREVIEWS + SHOWN_LINKS);
  const older = reports.slice(PREVIEWS + SHOWN_LINKS);
  const list = (some: readonly ReportLink[]) => html`<ul class="reports">${some.map(renderLink)}</ul>`;
  return html`<div class="previews" data-live="${key}-previews">${reports.length > 0 && html`<h3>Reports</h3>`}${reports.slice(0, PREVIEWS).map(renderPreview)}</div>
<div data-live="${key}-reports">${links.length > 0 && list(links)}${older.length > 0 && html`<details data-key="${key}-older"><summary>${older.length} older</summary>${list(older)}</details>`}</div>`;
}

/** `data-stays`: the script does not move it while it is unfolded, because a moved frame loads its page again. */
function renderPreview({ href, date, report, revision }: ReportLink): Markup {
  const title = `${nameKind(report)} of ${date}${revision > 0 ? `, revision ${revision}` : ''}`;
  return html`<details data-key="${href}" data-stays><summary data-key="${href}#"><b>${date}</b> ${nameKind(report)} <span class="quiet small">${report}${revision > 0 && `, revision ${revision}`}</span></summary>
<template><iframe loading="lazy" sandbox title="${`Preview: ${title}`}" src="${`${href}?preview=1`}"></iframe></template>
<p><a href="${href}" aria-label="${`Whole page: ${title}`}">Whole page</a></p></details>`;
}

function renderLink({ href, date, report, revision }: ReportLink): Markup {
  return html`<li><a href="${href}">${date} <span>${report}</span></a>${revision > 0 && html` <span class="quiet small">revision ${revision}</span>`}</li>`;
}

/** Jobs in the table; use the API for a daemon with more. */
const SHOWN_JOBS = 500;
/** Problems in sentences: whoever has more begins with these. */
const SHOWN_PROBLEMS = 12;

const STATE_TONES: Readonly<Record<JobStateWord, 'good' | 'fair' | 'bad' | 'calm' | 'pending'>> = {
  broken: 'bad',
  failed: 'bad',
  unread: 'bad',
  gaps: 'fair',
  running: 'pending',
  waiting: 'pending',
  new: 'calm',
  well: 'good',
};

export function renderOverview(document: JobsDocument, context: PageContext): string {
  const { jobs, daemon, problems } = document;
  const { nowMs } = context;
  const running = jobs.filter((job) => job.running).length;
  const head = html`<p class="quiet small facts-line" data-live="top">${daemon.version}, daemon ${daemon.id}, up for ${formatSpan(nowMs - Date.parse(daemon.started_at))}, ${countOf(jobs.length, 'job')}, ${running === 0 ? 'none running' : `${running} running`}</p>`;
  const main = html`<h1 class="unseen">Overview</h1>
<div class="verdict ${problems[0]?.level}" role="status" data-live="verdict">${renderProblems(problems, context)}</div>
<section class="job wide" aria-labelledby="jobs-title"><header class="row"><h2 id="jobs-title">Jobs</h2>${renderFilter(jobs)}</header>
${renderTable(jobs, context)}
${jobs.length > SHOWN_JOBS && html`<p class="quiet">and ${jobs.length - SHOWN_JOBS} more jobs</p>`}</section>${renderActionForm(context)}`;
  return renderFrame({
    title: `flowdrop: ${problems[0]?.text}`,
    path: '/',
    ...{ nowMs, head, main, extras: SHAPES },
    everyMs: running > 0 ? LIVE_MS : CALM_MS,
  });
}

/**
 * Sentences, the worst first, each with its job and what helps.
 * @param page the job whose page it is, if it is one: it needs no link to itself
 */
function renderProblems(problems: readonly Problem[], context: PageContext, page?: string): Markup {
  const [worst, ...others] = problems;
  const more = others.length + 1 - SHOWN_PROBLEMS;
  const tell = (problem: Problem) =>
    html`${problem.text}.${problem.job !== null && problem.job !== page && html` <a class="small" href="${jobPath(problem.job)}">${problem.job}</a>`}${problem.job !== null && problem.run !== null && html` <a class="small" href="${runPath(problem.job, problem.run)}">See why</a>`} ${renderHelp(problem, context)}`;
  return html`<p class="first">${worst && tell(worst)}</p>${others.length > 0 && html`<ul>${others.slice(0, SHOWN_PROBLEMS - 1).map((problem) => html`<li>${tell(problem)}</li>`)}</ul>`}${more > 0 && html`<p class="quiet">and ${more} more</p>`}`;
}

/** Hidden until the script shows it. */
function renderFilter(jobs: readonly JobSummary[]): Markup {
  const states = JOB_STATES.filter((state) => jobs.some((job) => job.state === state));
  return html`<form class="filter" data-filter="jobs" hidden><label>Find <input type="search" name="text" autocomplete="off"></label><label>State <select name="state"><option value="">all</option>${states.map((state) => html`<option>${state}</option>`)}</select></label></form>`;
}

function renderTable(jobs: readonly JobSummary[], context: PageContext): Markup {
  const columns = [
    ['job', 'Job', 'text'],
    ['state', 'State', 'number'],
    ['', 'Last sessions', ''],
    ['rows', 'Rows a session', 'number'],
    ['last', 'Last run', 'number'],
    ['next', 'Next run', 'number'],
  ] as const;
  const heads = columns.map(
    ([key, title, kind]) =>
      html`<th scope="col"${key !== '' && html` data-sort="${key}" data-kind="${kind}"`}>${title}</th>`,
  );
  return html`<table class="rows jobs" id="jobs"><thead><tr>${heads}</tr></thead>
<tbody data-live="jobs">${jobs.slice(0, SHOWN_JOBS).map((job) => renderRow(job, context))}</tbody></table>`;
}

function renderRow(job: JobSummary, context: PageContext): Markup {
  const { name, state, sessions, next_run: next, retry_at: retry, last_run: last } = job;
  const rows = sessions.map((session) => session.rows);
  const sortKeys = [
    ['job', name],
    ['state', String(JOB_STATES.indexOf(state))],
    ['rows', String(rows.findLast((value) => value !== null) ?? -1)],
    ['last', String(last ? Date.parse(last.finished_at) : 0)],
    ['next', String(next === null ? Number.MAX_SAFE_INTEGER : Date.parse(next))],
  ] as const;
  return html`<tr${sortKeys.map(([key, value]) => html` data-${key}="${value}"`)} data-word="${state}">
<th scope="row"><a href="${jobPath(name)}">${name}</a>${job.dataset !== null && job.dataset !== name && html`<span class="quiet small"> ${job.dataset}</span>`}</th>
<td data-label="State"><span class="badge ${STATE_TONES[state]}">${state}</span></td>
<td data-label="Sessions"><ol class="cells">${sessions.map((session) => renderCell(name, session))}</ol></td>
<td data-label="Rows">${renderSparkLine(rows)}</td>
<td data-label="Last run">${renderLast(job, context)}</td>
<td data-label="Next run">${renderNextCell(next, retry, job, context)}</td></tr>
`;
}

function renderCell(job: string, { date, condition, rows, revision }: JobSummary['sessions'][number]): Markup {
  const parts = [`${formatWeekDate(date)}: ${condition ?? 'nothing known'}`];
  if (rows !== null) parts.push(countOf(rows, 'row'));
  if (revision !== null) parts.push(`revision ${revision}`);
  const tip = html`<span class="tip">${parts.join(', ')}</span>`;
  if (condition === null) return html`<li><span class="cell none">${tip}</span></li>`;
  return html`<li><a class="cell ${condition}" href="${dropPath(job, date)}" data-key="${`${job}/${date}`}">${renderShape(condition)}${tip}</a></li>`;
}

function renderLast({ name, last_run: last, running }: JobSummary, { nowMs }: PageContext): Markup {
  if (running) {
    return html`<a href="${runPath(name, running.id)}">running</a> <span class="quiet small">for ${formatSpan(nowMs - Date.parse(running.started_at))}</span>`;
  }
  if (!last) return html`<span class="quiet">none</span>`;
  const words = last.error ?? OUTCOME_WORDS[last.outcome];
  const what = html`<a href="${runPath(name, last.id)}">${words}</a>`;
  const atMs = Date.parse(last.finished_at);
  return html`${what} <span class="quiet small">${renderTime(atMs, formatRelative(atMs, nowMs))}</span>`;
}

function renderNextCell(next: string | null, retry: string | null, { schedule }: JobSummary, { nowMs }: PageContext) {
  const at = retry ?? next;
  if (at === null) return html`<span class="quiet">by hand</span>`;
  const atMs = Date.parse(at);
  const zone = schedule?.timezone ?? EXCHANGE_TIME_ZONE;
  return html`${retry !== null && 'retry '}${formatRelative(atMs, nowMs)} <span class="quiet small">${renderTime(atMs, formatTime(atMs, zone))}</span>`;
}

const WIDTH = 90;
const HEIGHT = 24;
const EDGE = 2;

/** @param values oldest first; null: a gap in the line */
function renderSparkLine(values: readonly (number | null)[]): Markup {
  const known = values.filter((value) => value !== null);
  if (known.length < 2) return html`<span class="quiet">none yet</span>`;
  const most = Math.max(...known, 1);
  const x = (index: number) => EDGE + (index * (WIDTH - 2 * EDGE)) / Math.max(1, values.length - 1);
  // From zero: a line that exaggerates small changes alarms without a reason.
  const y = (value: number) => HEIGHT - EDGE - (value * (HEIGHT - 2 * EDGE)) / most;
  let [path, area] = ['', ''];
  for (const [index, value] of values.entries()) {
    if (value === null) continue;
    const [isStart, isEnd] = [index === 0 || values[index - 1] === null, (values[index + 1] ?? null) === null];
    const point = `${x(index).toFixed(1)} ${y(value).toFixed(1)}`;
    path += `${isStart ? 'M' : 'L'}${point}`;
    area += `${isStart ? `M${x(index).toFixed(1)} ${HEIGHT}` : ''}L${point}${isEnd ? `V${HEIGHT}Z` : ''}`;
  }
  const last = known.at(-1) ?? 0;
  return html`<span class="spark"><svg viewBox="0 0 ${WIDTH} ${HEIGHT}" aria-hidden="true" focusable="false"><path class="area" d="${area}"/><path d="${path}"/></svg><span class="unseen">Rows of the last sessions, from ${formatShortCount(Math.min(...known))} to ${formatShortCount(most)}; the last: </span>${formatShortCount(last)}</span>`;
}
