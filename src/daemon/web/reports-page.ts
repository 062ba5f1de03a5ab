/** All archived reports, by date: a list to search in; each leads to the whole report. Pure. */
import { formatWeekDate } from '../../core/date-text.ts';
import type { ReportLink } from './api-shape.ts';
import { html, type Markup } from './html.ts';
import type { PageContext } from './page-context.ts';
import { renderFrame } from './page-frame.ts';
import { jobPath } from './page-path.ts';
import { nameKind } from './report-list.ts';

/** Dates of one page; the search narrows them. */
const SHOWN_DATES = 60;

interface ReportsChoice {
  readonly job: string;
  readonly from: string;
  readonly to: string;
}

/** @param reports newest first @param jobs names to choose from */
export function renderReportsPage(
  reports: readonly ReportLink[],
  choice: ReportsChoice,
  jobs: readonly string[],
  { nowMs }: PageContext,
): string {
  const dates = [...new Set(reports.map(({ date }) => date))];
  const more = dates.length - SHOWN_DATES;
  const main = html`<section class="job" aria-labelledby="reports-title"><header class="row"><h1 id="reports-title">Reports</h1><form class="filter" method="get" action="/reports"><label>Job <select name="job"><option value="">all</option>${jobs.map((job) => html`<option${job === choice.job && html` selected`}>${job}</option>`)}</select></label><label>From <input type="date" name="from" value="${choice.from}"></label><label>To <input type="date" name="to" value="${choice.to}"></label><button>Show</button></form></header>
${dates.length === 0 ? html`<p class="quiet">No report was mailed for these dates.</p>` : html`<dl class="by-date">${dates.slice(0, SHOWN_DATES).map((date) => renderDate(date, reports))}</dl>`}${more > 0 && html`<p class="quiet">and ${more} older dates: choose an earlier “To”.</p>`}
<p class="quiet small">The list has the newest reports of each job; older ones are in the store. On the command line: <code>flowdrop report JOB --date DATE --show</code>.</p></section>`;
  return renderFrame({ title: 'flowdrop: reports', path: '/reports', nowMs, main });
}

function renderDate(date: string, reports: readonly ReportLink[]): Markup {
  const some = reports.filter((report) => report.date === date);
  return html`<div><dt>${formatWeekDate(date)}</dt>${some.map(({ job, report, revision, href }) => html`<dd><a href="${href}">${nameKind(report)}</a> <span class="quiet small">of <a href="${jobPath(job)}">${job}</a>${revision > 1 && `, revision ${revision}`}</span></dd>`)}</div>`;
}
