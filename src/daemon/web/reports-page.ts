/**
 * Archived reports: those of a job as previews of the newest and links to older ones, and all of them by date. Pure.
 * Invariant: a report is read only when someone unfolds it, because each reading starts a process. `loading="lazy"` does
 * not guarantee that: without scripts, or for printing, a browser loads every frame. So the frame is in a `template`,
 * which the page's script takes out; without scripts there is the link.
 */
import { formatWeekDate } from '../../core/date-text.ts';
import { reportPath } from '../../core/report-page.ts';
import type { StatusDocument } from '../documents.ts';
import type { ReportLink } from './api-shape.ts';
import { html, type Markup } from './html.ts';

import { type PageContext, renderFrame } from './page-frame.ts';
import { jobPath } from './page-path.ts';

/** Dates of one page; the search narrows them. */
const SHOWN_DATES = 60;

/** @param reports newest first @param jobs names to choose from */
export function renderReportsPage(
  reports: readonly ReportLink[],
  { job: chosen, from, to }: Readonly<Record<string, string>>,
  jobs: readonly string[],
  { nowMs }: PageContext,
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

type ArchivedReport = StatusDocument['reports'][number];

/**
 * @param reports newest first
 * @param key identifies the job within the page; letters, digits and hyphens only
 */
export function renderReports(job: string, reports: readonly ArchivedReport[], key: string): Markup {
  const links = reports.slice(PREVIEWS, PREVIEWS + SHOWN_LINKS);
  const older = reports.slice(PREVIEWS + SHOWN_LINKS);
  const list = (some: readonly ArchivedReport[]) =>
    html`<ul class="reports">${some.map((report) => renderLink(job, report))}</ul>`;
  return html`<div class="previews" data-live="${key}-previews">${reports.length > 0 && html`<h3>Reports</h3>`}${reports.slice(0, PREVIEWS).map((report) => renderPreview(job, report))}</div>
<div data-live="${key}-reports">${links.length > 0 && list(links)}${older.length > 0 && html`<details data-key="${key}-older"><summary>${older.length} older</summary>${list(older)}</details>`}</div>`;
}

/** `data-stays`: the script does not move it while it is unfolded, because a moved frame loads its page again. */
function renderPreview(job: string, report: ArchivedReport): Markup {
  const path = reportPath(job, report);
  const { date, report: id, revision } = report;
  const title = `${nameKind(id)} of ${date}${revision > 0 ? `, revision ${revision}` : ''}`;
  return html`<details data-key="${path}" data-stays><summary data-key="${path}#"><b>${date}</b> ${nameKind(id)} <span class="quiet small">${id}${revision > 0 && `, revision ${revision}`}</span></summary>
<template><iframe loading="lazy" sandbox title="${`Preview: ${title}`}" src="${path}"></iframe></template>
<p><a href="${path}" aria-label="${`Whole page: ${title}`}">Whole page</a></p></details>`;
}

function renderLink(job: string, report: ArchivedReport): Markup {
  return html`<li><a href="${reportPath(job, report)}">${report.date} <span>${report.report}</span></a>${report.revision > 0 && html` <span class="quiet small">revision ${report.revision}</span>`}</li>`;
}

/** A report's id is its template's name and a short hash that makes it unique within the job. */
export function nameKind(id: string): string {
  return `${id.replace(/-[0-9a-f]{8}$/, '')} report`;
}
