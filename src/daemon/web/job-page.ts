/**
 * The page of one job: what it does now and next, its calendar, gaps, runs and archived reports; and the page of all
 * reports by date. Pure. Invariant: a report is read only when someone unfolds it, because each reading starts a
 * process. `loading="lazy"` does not guarantee that: without scripts, or for printing, a browser loads every frame. So
 * the frame is in a `template`, which the page's script takes out; without scripts there is the link.
 */
import { EXCHANGE_TIME_ZONE } from '../../api-contract/published-limits.ts';
import { formatInstant, formatRelative, formatSpan, formatWeekDate } from '../../core/date-text.ts';
import { describeAccepted } from '../../state/documents.ts';
import { renderActionForm, renderJobActions } from './action-form.ts';
import type { JobDocument, ReportLink, ReportsDocument } from './api-shape.ts';
import { renderCalendar, renderShape, SHAPES } from './condition-calendar.ts';
import { parseInstant } from './describe-job.ts';
import { dropPath, html, jobPath, type Markup, renderTime, runPath } from './html.ts';
import { renderProblems } from './overview-page.ts';
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
<template><iframe loading="lazy" sandbox title="${`Preview: ${title}`}" src="${href}"></iframe></template>
<p><a href="${href}" aria-label="${`Whole page: ${title}`}">Whole page</a></p></details>`;
}

function renderLink({ href, date, report, revision }: ReportLink): Markup {
  return html`<li><a href="${href}">${date} <span>${report}</span></a>${revision > 0 && html` <span class="quiet small">revision ${revision}</span>`}</li>`;
}

/** A report's id is its template's name and a short hash that makes it unique within the job. */
export function nameKind(id: string): string {
  return `${id.replace(/-[0-9a-f]{8}$/, '')} report`;
}
