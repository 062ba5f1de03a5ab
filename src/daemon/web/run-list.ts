/** Runs as people read them: the active one with its progress, the ended ones as rows with a link to their page. Pure. */
import { formatInstant, formatRelative, formatSpan } from '../../core/date-text.ts';
import { formatCount, formatDuration } from '../../core/units.ts';
import type { RunRecord } from '../../state/run-record.ts';
import type { RunSummary } from './api-shape.ts';
import { OUTCOMES } from './health-text.ts';
import { html, type Markup, renderTime } from './html.ts';
import { runPath } from './page-path.ts';

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

export function renderOutcome(outcome: RunRecord['outcome']): Markup {
  if (outcome === null) return html`<span class="badge pending">running</span>`;
  const [words, tone] = OUTCOMES[outcome];
  return html`<span class="badge ${tone}">${words}</span>`;
}

export function renderProgress(run: RunSummary | null): Markup {
  if (!run?.progress) return html`<p class="quiet">No progress yet.</p>`;
  const { rows, progress } = run;
  const { date, phase, total_rows: total, dates_done: done, dates_total: dates } = progress;
  const share = total > 0 ? Math.min(1, rows / total) : 0;
  const facts: readonly (readonly [string, string])[] = [
    ['rows', total > 0 ? `${formatCount(rows)} of ${formatCount(total)}` : formatCount(rows)],
    ['rows a second', formatCount(progress.rows_per_second)],
    ['window', progress.window || 'none yet'],
    ['requests', formatCount(run.requests)],
    ['dates', `${formatCount(done)} of ${formatCount(dates)}`],
    ['pages left', formatCount(progress.pages_left)],
    ['splits', formatCount(run.splits)],
    ['retries', formatCount(run.retries)],
    ['429s', formatCount(run.rate_limited)],
  ];
  const left =
    progress.seconds_left === null ? 'time left unknown' : `about ${formatSpan(progress.seconds_left * 1000)} left`;
  return html`<p class="line stage">${phase}${date && ` ${date}`}<span class="eta">${left}</span></p>
<progress aria-label="Rows fetched" max="1" value="${share.toFixed(3)}">${Math.round(share * 100)}%</progress>
<dl class="facts">${facts.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
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
    ...(outcome === null ? [] : [`${formatCount(requests)} requests`, `${formatCount(rows)} rows`]),
  ];
  return html`<li><p class="line">${renderOutcome(outcome)} <a href="${runPath(job, id)}" data-key="${`run/${id}`}">${renderTime(startedAtMs, formatInstant(startedAtMs, timeZone, nowMs))}</a> <span class="quiet">${formatRelative(startedAtMs, nowMs)}</span></p>
<p class="quiet small"><code>flowdrop ${args.join(' ')}</code> ${facts.join(' · ')}</p>
${error && outcome !== 'done' && html`<p class="small bad-text"><code>${error.code}</code> ${firstLine(error.message)}</p>`}</li>
`;
}

/** The run's page has all of it. */
const MAX_CHARACTERS = 200;

function firstLine(text: string): string {
  const line = text.split('\n')[0] ?? '';
  return line.length > MAX_CHARACTERS ? `${line.slice(0, MAX_CHARACTERS)}…` : line;
}
