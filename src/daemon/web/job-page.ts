/** The page of one job: what it does now and next, its calendar, gaps, runs and archived reports. Pure. */

import { EXCHANGE_TIME_ZONE } from '../../api-contract/published-limits.ts';
import { formatInstant, formatRelative, formatSpan } from '../../core/date-text.ts';
import { describeAccepted } from '../../state/date-records.ts';
import type { JobView } from '../job-view.ts';
import { renderActionForm, renderJobActions } from './action-form.ts';
import type { JobDocument } from './api-shape.ts';
import { renderCalendar, renderShape, SHAPES } from './condition-calendar.ts';
import { listGaps } from './date-gap.ts';
import { html, type Markup, renderTime } from './html.ts';
import { renderProblems } from './overview-page.ts';

import { type PageContext, renderFrame } from './page-frame.ts';
import { dropPath, jobPath, runPath } from './page-path.ts';
import { CALM_MS, LIVE_MS } from './page-script.ts';
import { renderReports } from './reports-page.ts';
import { REASON_WORDS, renderProgress, renderRuns } from './run-list.ts';

/** Gaps listed; the others are only counted. */
const SHOWN_GAPS = 20;
/** Older runs are one link away. */
const SHOWN_RUNS = 8;
/** Distinguishes the elements of this page. */
const KEY = 'job-1';

/** @param document of the same job */
export function renderJobPage(job: JobView, document: JobDocument, context: PageContext): string {
  const { nowMs, calendar } = context;
  const { name, problems } = document;
  const status = job.status?.document;
  const main = html`<section class="job" id="${KEY}" aria-labelledby="${KEY}-name">
<header data-live="${KEY}-head"><h1 id="${KEY}-name">${name}</h1>
<p class="quiet small">${document.dataset !== null ? html`${document.dataset} in ${document.store}` : 'status not read yet'}</p>
${problems.length > 0 && html`<div class="verdict plain ${problems[0]?.level}">${renderProblems(problems, context, name)}</div>`}
${renderFaults(job, nowMs)}</header>
${renderJobActions(job, context)}
<div class="columns"><div class="left">
<div data-live="${KEY}-now">${renderRunning(document, nowMs)}${renderNext(job, document, nowMs)}</div>
<div data-live="${KEY}-calendar">${status && status.dates.length > 0 ? renderCalendar(status, nowMs, calendar, KEY, name) : html`<p class="quiet">No date is known yet.</p>`}</div>
</div><div class="right">
<div data-live="${KEY}-gaps"><h2>Gaps</h2>${renderGaps(job, context)}</div>
<div data-live="${KEY}-runs"><h2>Last runs</h2>${renderRuns(document.runs.slice(0, SHOWN_RUNS), nowMs, document.schedule?.timezone ?? EXCHANGE_TIME_ZONE)}<p class="small"><a href="/runs?job=${encodeURIComponent(name)}">All runs of this job</a></p></div>
</div>
<div class="whole">${renderReports(name, status?.reports ?? [], KEY)}</div>
</div>
<footer data-live="${KEY}-read" class="quiet small">Job file ${document.file}. ${job.status ? html`Status read ${formatRelative(job.status.readAtMs, nowMs)}.` : 'Status not read yet.'}</footer>
</section>${renderActionForm(context)}`;
  return renderFrame({
    title: `flowdrop: ${name}`,
    path: jobPath(name),
    ...{ nowMs, main, extras: SHAPES },
    everyMs: job.running ? LIVE_MS : CALM_MS,
  });
}

function renderFaults({ fault, statusFault, status }: JobView, nowMs: number): Markup {
  const reason = statusFault ?? status?.document.fault ?? undefined;
  return html`${fault && html`<div class="error"><p><b>The current job file is not in use</b>, for ${formatSpan(nowMs - fault.sinceMs)}; the last valid version is.</p><p class="message">${fault.message}</p></div>`}
${reason !== undefined && html`<div class="error"><p><b>The status cannot be read.</b></p><p class="message">${reason}</p></div>`}`;
}

function renderRunning({ name, running, active }: JobDocument, nowMs: number): Markup {
  if (!running) return html``;
  return html`<div class="running"><p class="line"><a href="${runPath(name, running.id)}"><b>Running</b></a> ${REASON_WORDS[running.reason]}, for ${formatSpan(nowMs - Date.parse(running.started_at))}</p>
${renderProgress(active)}</div>`;
}

function renderNext({ waitingSinceMs }: JobView, document: JobDocument, nowMs: number): Markup {
  const { schedule, next_run: next, retry_at: retry, last_success: success } = document;
  const timeZone = schedule?.timezone ?? EXCHANGE_TIME_ZONE;
  const tell = (at: string) => {
    const atMs = Date.parse(at);
    return html`<b>${formatRelative(atMs, nowMs)}</b> <span class="quiet">${renderTime(atMs, formatInstant(atMs, timeZone, nowMs))}</span>`;
  };
  return html`<dl class="plan">
${waitingSinceMs !== undefined && html`<div><dt>waiting</dt><dd>for a free slot, for ${formatSpan(nowMs - waitingSinceMs)}</dd></div>`}
${retry !== null && html`<div><dt>retry</dt><dd>${tell(retry)}</dd></div>`}
<div><dt>next run</dt><dd>${next === null ? 'by hand' : tell(next)}</dd></div>
${schedule && html`<div><dt>schedule</dt><dd><code>${schedule.cron}</code>${schedule.distributed && ', shared with other daemons'}</dd></div>`}
${success !== null && html`<div><dt>last success</dt><dd>${tell(success)}</dd></div>`}
</dl>`;
}

function renderGaps(job: JobView, { nowMs, calendar }: PageContext): Markup {
  if (!job.status) return html`<p class="quiet">Unknown until the status is read.</p>`;
  // Without dates it is unknown whether there are gaps.
  if (job.status.document.dates.length === 0) {
    return html`<p class="quiet">Unknown until a run finds the first date.</p>`;
  }
  const gaps = listGaps(job, nowMs, calendar);
  const accepted = job.status.document.dates.flatMap(({ date, condition, accepted: gap }) =>
    gap ? [html`<p class="quiet small"><b>${date}</b> ${condition}, ${describeAccepted(gap)}</p>`] : [],
  );
  if (gaps.length === 0) return html`<p class="quiet">None.</p>${accepted.slice(-SHOWN_GAPS)}`;
  const more = gaps.length - SHOWN_GAPS;
  return html`<ol class="gaps">${gaps.slice(0, SHOWN_GAPS).map(({ date, condition, expiresAtMs }) => {
    const left =
      expiresAtMs === undefined
        ? 'does not expire'
        : expiresAtMs > nowMs
          ? `begins to expire in ${formatSpan(expiresAtMs - nowMs)}`
          : 'expires now';
    return html`<li class="${condition}"><p class="line">${renderShape(condition)}<a href="${dropPath(job.name, date)}"><b>${date}</b></a> ${condition}, ${left}</p>
${expiresAtMs !== undefined && html`<p class="quiet small">${renderTime(expiresAtMs, formatInstant(expiresAtMs, EXCHANGE_TIME_ZONE, nowMs))}</p>`}</li>`;
  })}</ol>${more > 0 && html`<p class="quiet">and ${more} more</p>`}${accepted.slice(-SHOWN_GAPS)}`;
}
