/** The section of one job: what it does now and next, its calendar, gaps, runs and archived reports. */
import type { CalendarOverride } from '../../calendar/session.ts';
import { describeAccepted } from '../../state/accepted-gap.ts';
import type { JobView } from '../job-view.ts';
import { renderCalendar, renderShape } from './condition-calendar.ts';
import { listGaps } from './date-gap.ts';
import { html, type Markup } from './html.ts';
import { findLastSuccess } from './last-success.ts';
import { renderReports } from './report-list.ts';
import { renderFinished, renderRunning } from './run-list.ts';
import { formatBothClocks, formatInstant, formatRelative, formatSpan, renderTime } from './time-text.ts';

/** Gaps listed; the others are only counted. */
const SHOWN_GAPS = 20;

/** @param key identifies the job within the page; letters, digits and hyphens only */
export function renderJob(job: JobView, nowMs: number, calendar: CalendarOverride, key: string): Markup {
  const document = job.status?.document;
  return html`<section class="job" id="${key}" aria-labelledby="${key}-name">
<header data-live="${key}-head"><h2 id="${key}-name">${job.name}</h2>
<p class="quiet small">${document ? html`${document.dataset} in ${document.store}` : 'status not read yet'}</p>
${renderFaults(job, nowMs)}</header>
<div class="columns"><div class="left">
<div data-live="${key}-now">${job.running && renderRunning(job.running, nowMs)}${renderNext(job, nowMs)}</div>
<div data-live="${key}-calendar">${document && document.dates.length > 0 ? renderCalendar(document, nowMs, calendar, key) : html`<p class="quiet">No date is known yet.</p>`}</div>
</div><div class="right">
<div data-live="${key}-gaps"><h3>Gaps</h3>${renderGaps(job, nowMs, calendar)}</div>
<div data-live="${key}-runs"><h3>Last runs</h3>${renderFinished(job, nowMs)}</div>
</div>
<div class="whole">${renderReports(job.name, document?.reports ?? [], key)}</div>
</div>
<footer data-live="${key}-read" class="quiet small">${renderReading(job, nowMs)}</footer>
</section>`;
}

function renderFaults({ fault, statusFault, status }: JobView, nowMs: number): Markup {
  const reason = statusFault ?? status?.document.fault ?? undefined;
  return html`${fault && html`<div class="error"><p><b>The job file is not in use as it is now</b>, since ${formatSpan(nowMs - fault.sinceMs)}; the job goes on as it was before.</p><p class="message">${fault.message}</p></div>`}
${reason !== undefined && html`<div class="error"><p><b>The status cannot be read.</b></p><p class="message">${reason}</p></div>`}`;
}

function renderNext(job: JobView, nowMs: number): Markup {
  const { schedule, nextRunAtMs, retryAtMs, waitingSinceMs } = job;
  const timeZone = schedule?.timezone ?? 'UTC';
  const tell = (atMs: number) =>
    html`<b>${formatRelative(atMs, nowMs)}</b> <span class="quiet">${renderTime(atMs, formatInstant(atMs, timeZone))} ${timeZone}</span>`;
  const successMs = findLastSuccess(job);
  return html`<dl class="plan">
${waitingSinceMs !== undefined && html`<div><dt>waiting</dt><dd>for a free slot, for ${formatSpan(nowMs - waitingSinceMs)}</dd></div>`}
${retryAtMs !== undefined && html`<div><dt>retry</dt><dd>${tell(retryAtMs)}</dd></div>`}
<div><dt>next run</dt><dd>${nextRunAtMs === undefined ? 'by hand' : tell(nextRunAtMs)}</dd></div>
${schedule && html`<div><dt>schedule</dt><dd><code>${schedule.cron}</code>${schedule.distributed && ', shared with other daemons'}</dd></div>`}
${successMs !== undefined && html`<div><dt>last success</dt><dd>${tell(successMs)}</dd></div>`}
</dl>`;
}

function renderGaps(job: JobView, nowMs: number, calendar: CalendarOverride): Markup {
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
    return html`<li class="${condition}"><p class="line">${renderShape(condition)}<b>${date}</b> ${condition}, ${left}</p>
${expiresAtMs !== undefined && html`<p class="quiet small">${renderTime(expiresAtMs, formatBothClocks(expiresAtMs))}</p>`}</li>`;
  })}</ol>${more > 0 && html`<p class="quiet">and ${more} more</p>`}${accepted.slice(-SHOWN_GAPS)}`;
}

function renderReading({ file, status }: JobView, nowMs: number): Markup {
  return html`Job file ${file}. ${status ? html`Status read ${formatRelative(status.readAtMs, nowMs)}.` : 'Status not read yet.'}`;
}
