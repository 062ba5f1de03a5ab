/**
 * The first page: what is wrong in one sentence each with what helps, then one row a job. A pure function of the API's
 * document and the time. Reading works without scripts; sorting and filtering need one.
 */
import { EXCHANGE_TIME_ZONE } from '../../api-contract/published-limits.ts';
import { formatRelative, formatSpan, formatTime, formatWeekDate } from '../../core/date-text.ts';
import { formatCount, formatShortCount } from '../../core/units.ts';
import { renderActionForm, renderHelp } from './action-form.ts';
import { JOB_STATES, type JobStateWord, type JobSummary, type JobsDocument, type Problem } from './api-shape.ts';
import { renderShape, SHAPES } from './condition-calendar.ts';
import { OUTCOMES } from './describe-job.ts';
import { dropPath, html, jobPath, type Markup, renderTime, runPath } from './html.ts';

import { type PageContext, renderFrame } from './page-frame.ts';
import { CALM_MS, LIVE_MS } from './page-script.ts';

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
  const head = html`<p class="quiet small facts-line" data-live="top">${daemon.version}, daemon ${daemon.id}, up for ${formatSpan(nowMs - Date.parse(daemon.started_at))}, ${count(jobs.length, 'job')}, ${running === 0 ? 'none running' : `${running} running`}</p>`;
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
export function renderProblems(problems: readonly Problem[], context: PageContext, page?: string): Markup {
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
<td data-label="Next run">${renderNext(next, retry, job, context)}</td></tr>
`;
}

function renderCell(job: string, { date, condition, rows, revision }: JobSummary['sessions'][number]): Markup {
  const parts = [`${formatWeekDate(date)}: ${condition ?? 'nothing known'}`];
  if (rows !== null) parts.push(`${formatCount(rows)} rows`);
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
  const words = last.error ?? OUTCOMES[last.outcome][0];
  const what = html`<a href="${runPath(name, last.id)}">${words}</a>`;
  const atMs = Date.parse(last.finished_at);
  return html`${what} <span class="quiet small">${renderTime(atMs, formatRelative(atMs, nowMs))}</span>`;
}

function renderNext(next: string | null, retry: string | null, { schedule }: JobSummary, { nowMs }: PageContext) {
  const at = retry ?? next;
  if (at === null) return html`<span class="quiet">by hand</span>`;
  const atMs = Date.parse(at);
  const zone = schedule?.timezone ?? EXCHANGE_TIME_ZONE;
  return html`${retry !== null && 'retry '}${formatRelative(atMs, nowMs)} <span class="quiet small">${renderTime(atMs, formatTime(atMs, zone))}</span>`;
}

function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`;
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
