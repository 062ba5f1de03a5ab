/**
 * The complete status page: first the summary for a manager, then each job. A pure function of the view and the time.
 */
import type { CalendarOverride } from '../../calendar/session.ts';
import type { DaemonView } from '../job-view.ts';
import { SHAPES } from './condition-calendar.ts';
import { type HealthFinding, judge } from './health-text.ts';
import { html, type Markup } from './html.ts';
import { renderJob } from './job-section.ts';
import { CALM_MS, LIVE_MS, LIVE_SCRIPT, RELOAD_SECONDS } from './live-script.ts';
import { STYLE } from './style.ts';
import { formatBothClocks, formatSpan, renderTime } from './time-text.ts';

/** Jobs shown in full; use the metrics for a daemon with more. */
const SHOWN_JOBS = 50;

/** Slots for trusted texts that must not be escaped: HTML does not decode entities in style sheets and scripts. */
const STYLE_SLOT = '/*style*/';
const SCRIPT_SLOT = '/*script*/';

export function renderPage(view: DaemonView, nowMs: number, calendar: CalendarOverride): string {
  const { jobs } = view;
  const findings = judge(view, nowMs, calendar);
  const keys = new Map(jobs.map(({ name }, index) => [name, `job-${index + 1}`]));
  const running = jobs.filter((job) => job.running).length;
  const [worst] = findings;
  const body = html`<div class="page">
<header class="top" data-live="top"><h1>flowdrop</h1><p class="quiet">${view.version}, daemon ${view.id}, up for ${formatSpan(nowMs - view.startedAtMs)}, ${count(jobs.length, 'job')}, ${running === 0 ? 'none running' : `${running} running`}</p></header>
<main>
<div class="verdict ${worst?.level}" role="status" data-live="verdict">${renderVerdict(findings, keys)}</div>
${jobs.slice(0, SHOWN_JOBS).map((job) => renderJob(job, nowMs, calendar, keys.get(job.name) ?? ''))}
${jobs.length > SHOWN_JOBS && html`<p class="quiet">and ${jobs.length - SHOWN_JOBS} more jobs</p>`}
</main>
<p class="silent" id="silent" role="alert" hidden>The daemon does not answer: what is shown here may be old.</p>
<footer class="quiet small" data-live="foot">As of ${renderTime(nowMs, formatBothClocks(nowMs))}. Also here: <a href="/healthz">/healthz</a>, <a href="/metrics">/metrics</a>.</footer>
</div>${SHAPES}<script>${SCRIPT_SLOT}</script>`;
  const title = `flowdrop: ${worst?.text}`;
  const reload = html`<noscript><meta http-equiv="refresh" content="${RELOAD_SECONDS}"></noscript>`;
  return frame(title, body, { everyMs: running > 0 ? LIVE_MS : CALM_MS, reload });
}

/** A page with a few sentences, such as a refusal or a missing page. @param form asks for the token */
export function renderNotice(title: string, sentences: readonly string[], form?: Markup): string {
  const body = html`<div class="page alone"><main><div class="job"><h1>${title}</h1>${sentences.map((sentence) => html`<p>${sentence}</p>`)}${form}</div></main></div>`;
  return frame(`flowdrop: ${title}`, body, {});
}

/** Asks for the token once. */
export const TOKEN_FORM: Markup = html`<form method="get" action="/"><label for="token">Token</label><input id="token" name="token" type="password" autocomplete="current-password" required><button>Open</button></form>`;

/** A page that sends the browser on to the status page, as a navigation of its own. */
export function renderPassage(): string {
  return frame('flowdrop', html`<p><a href="/">To the status page</a></p>`, {
    reload: html`<meta http-equiv="refresh" content="0; url=/">`,
  });
}

function frame(title: string, body: Markup, options: { readonly everyMs?: number; readonly reload?: Markup }): string {
  const { everyMs, reload } = options;
  const page = html`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>${title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<link rel="icon" href="${ICON}">${reload}
<style>${STYLE_SLOT}</style></head>
<body${everyMs !== undefined && html` data-every="${everyMs}"`}>${body}</body></html>
`;
  // Replaces with functions, so that `$` in the texts has no special meaning. The slots come before any other match.
  const text = page.toString();
  return text
    .replace(`<style>${STYLE_SLOT}</style>`, () => `<style>${STYLE}</style>`)
    .replace(`<script>${SCRIPT_SLOT}</script>`, () => `<script>${LIVE_SCRIPT}</script>`);
}

function renderVerdict(findings: readonly HealthFinding[], keys: ReadonlyMap<string, string>): Markup {
  const [worst, ...others] = findings;
  const tell = ({ text, job }: HealthFinding) => {
    const key = job === undefined ? undefined : keys.get(job);
    return key === undefined ? html`${text}.` : html`${text}. <a class="small" href="#${key}">${job}</a>`;
  };
  return html`<p class="first">${worst && tell(worst)}</p>${others.length > 0 && html`<ul>${others.map((finding) => html`<li>${tell(finding)}</li>`)}</ul>`}`;
}

function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`;
}

const ICON = `data:image/svg+xml,${encodeURIComponent(
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="4" fill="#1d5fae"/><path d="M4 11V8M8 11V4M12 11V6" stroke="#fff" stroke-width="2" stroke-linecap="round"/></svg>',
)}`;
