/**
 * Buttons and forms that act, each with the command line that does the same, what came of one, and the page of all that
 * was done. Invariant: no form is inside a part that is replaced while the page is open: buttons in such parts belong to
 * the page's one form, which carries the token.
 */
import { randomBytes } from 'node:crypto';
import { EXCHANGE_TIME_ZONE } from '../../api-contract/published-limits.ts';
import { formatInstant, formatRelative } from '../../core/date-text.ts';
import { countOf } from '../../core/units.ts';
import type { ActionEntry } from '../../state/action-log.ts';
import type {
  ActionAnswer,
  ActionFields,
  ActionLogDocument,
  ActionName,
  JobDocument,
  Problem,
  RunSummary,
} from '../shapes.ts';
import { dropPath, html, jobPath, type Markup, renderTime } from './html.ts';
import { type PageContext, renderFrame, renderNotice } from './page-frame.ts';

/** The id of a page's form that its buttons belong to. */
const ACTION_FORM = 'act';

/** Stands in a drawn page for the token of each answer, which is new; nobody can guess it into a text of the page. */
export const TOKEN_SLOT = `slot-${randomBytes(16).toString('hex')}`;

/** The form that the buttons of a page belong to; once a page. */
export function renderActionForm({ canAct }: PageContext): Markup {
  return canAct
    ? html`<form id="${ACTION_FORM}" method="post" action="${actionPath('run')}" hidden>${renderToken()}</form>`
    : html``;
}

/** What helps against a problem. */
export function renderHelp({ help, job, date }: Problem, context: PageContext): Markup {
  if (!context.canAct || help === null) return html``;
  if (help === 'accept') {
    if (job === null || date === null) return html``;
    return html`<a class="button small" href="${dropPath(job, date)}#accept">Accept…</a>`;
  }
  const words = { run: 'Run now', retry: 'Retry now', reload: 'Reload job files' } as const;
  return renderButton(help, { job: job ?? undefined }, words[help], true);
}

/** What can be done with a job as a whole. */
export function renderJobActions({ name, running, retry_at }: JobDocument, context: PageContext): Markup {
  if (!context.canAct) return html``;
  const now = running
    ? renderAct('stop', { job: name }, 'Stop the run', html`Ctrl-C, or <code>kill</code> of its process`)
    : retry_at !== null
      ? renderAct('retry', { job: name }, 'Retry now', html`<code>flowdrop run ${name}</code>`)
      : renderAct('run', { job: name }, 'Run now', html`<code>flowdrop run ${name}</code>`);
  return html`<div class="acts"><div data-live="acts">${now}</div>
<details data-key="backfill"><summary>Backfill dates…</summary><form method="post" action="${actionPath('price')}" class="fields">${renderToken()}<input type="hidden" name="job" value="${name}">
<label>From <input type="date" name="from" required></label><label>To <input type="date" name="to" required></label>
<label>Dates <select name="mode"><option value="">not sealed</option><option value="missing">never tried</option><option value="failed">failed or degraded</option><option value="all">all, again</option></select></label>
<button>Show the cost</button><p class="quiet small"><code>flowdrop backfill ${name} --from DATE --to DATE --dry-run</code></p></form></details>
<details data-key="reload"><summary>Job files…</summary>${renderAct('reload', {}, 'Reload job files', html`<code>kill -HUP</code> of the daemon`)}</details></div>`;
}

/** What can be done with a run. */
export function renderRunActions({ job, id, outcome, args }: RunSummary, context: PageContext): Markup {
  if (!context.canAct) return html``;
  return outcome === null
    ? renderAct('stop', { job, run: id }, 'Stop the run', html`Ctrl-C, or <code>kill</code> of its process`)
    : renderAct('retry', { job, run: id }, 'Run the same again', html`<code>flowdrop ${args.join(' ')}</code>`);
}

/** @param canAccept whether the date is a gap that a person may accept */
export function renderDropActions(job: string, date: string, canAccept: boolean, context: PageContext): Markup {
  if (!context.canAct) return html``;
  const fields = html`${renderToken()}<input type="hidden" name="job" value="${job}"><input type="hidden" name="date" value="${date}">`;
  const range = `--from ${date} --to ${date}`;
  return html`<section class="acts" aria-labelledby="act-title"><h2 id="act-title">Act</h2>
${renderAct('audit', { job, date }, 'Compare with the source', html`<code>flowdrop verify ${job} --date ${date} --deep</code>`)}
<details data-key="again"><summary>Export again…</summary><form method="post" action="${actionPath('price')}" class="fields">${renderToken()}<input type="hidden" name="job" value="${job}"><input type="hidden" name="from" value="${date}"><input type="hidden" name="to" value="${date}"><input type="hidden" name="mode" value="all"><button>Show the cost</button><p class="quiet small"><code>flowdrop backfill ${job} --all ${range} --dry-run</code></p></form></details>
<details data-key="send"><summary>Send the report again…</summary><form method="post" action="${actionPath('send')}" class="fields">${fields}<label>To <input type="email" name="to" required autocomplete="email"></label><button>Send</button><p class="quiet small"><code>flowdrop report ${job} --date ${date} --only ADDRESS</code></p></form></details>
${canAccept && html`<details data-key="accept" id="accept" open><summary>Accept the gap…</summary><form method="post" action="${actionPath('accept')}" class="fields">${fields}<label>Reason <input name="reason" required maxlength="500"></label><label>By <input name="by" maxlength="100" autocomplete="name"></label><button>Accept</button><p class="quiet small"><code>flowdrop gap accept ${job} ${date} --reason TEXT</code></p></form></details>`}</section>`;
}

const TITLES: Readonly<Record<ActionAnswer['outcome'], string>> = {
  done: 'Done',
  started: 'Started',
  refused: 'Nothing was done',
  failed: 'It failed',
};

/** What came of an action; of the price of a backfill also the form that starts it. */
export function renderActionResult(
  action: ActionName,
  { job, date, from = '', to = '', mode = '' }: ActionFields,
  { outcome, text, line, price }: ActionAnswer,
): string {
  const late = price?.dates.filter(({ expires_before_turn: isLate }) => isLate).map((each) => each.date) ?? [];
  const fields = Object.entries({ job, from, to, mode });
  const start =
    price !== undefined && price.total.dates > 0
      ? html`<form method="post" action="${actionPath('backfill')}" class="fields">${renderToken()}${fields.map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}">`)}<button>Start the backfill</button><p class="quiet small"><code>flowdrop ${line}</code></p></form>`
      : line !== null && html`<p class="quiet small">The same: <code>flowdrop ${line}</code></p>`;
  const more = html`${late.length > 0 && html`<p>Too late for ${late.join(', ')}: they expire before their turn.</p>`}
${price && price.dates.length > 0 && html`<ul class="dates">${price.dates.map((each) => html`<li>${each.date}: ${each.rows === null ? 'rows unknown' : countOf(each.rows, 'row')}, ${countOf(each.requests, 'request')}</li>`)}</ul>`}
${start}
<p>${job !== undefined && html`<a href="${date === undefined ? jobPath(job) : dropPath(job, date)}">Back to ${job}${date !== undefined && `, ${date}`}</a> · `}<a href="/">Overview</a></p>`;
  return renderNotice(action === 'price' && outcome === 'done' ? 'The price' : TITLES[outcome], text, more);
}

type Fields = Readonly<Record<string, string | undefined>>;

function renderAct(action: ActionName, fields: Fields, words: string, same: Markup): Markup {
  return html`<p class="act">${renderButton(action, fields, words, false)} <span class="quiet small">${same}</span></p>`;
}

function renderButton(action: ActionName, fields: Fields, words: string, isSmall: boolean): Markup {
  return html`<button${isSmall && html` class="small"`} form="${ACTION_FORM}" formaction="${actionPath(action, fields)}" data-key="${`act/${actionPath(action, fields)}`}">${words}</button>`;
}

/** `/actions/run?job=nightly` */
function actionPath(action: ActionName, fields: Fields = {}): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(fields)) if (value !== undefined) query.set(name, value);
  return `/actions/${action}${query.size > 0 ? `?${query}` : ''}`;
}

function renderToken(): Markup {
  return html`<input type="hidden" name="token" value="${TOKEN_SLOT}">`;
}

const TONES: Readonly<Record<ActionEntry['outcome'], string>> = {
  asked: 'fair',
  done: 'good',
  started: 'good',
  refused: 'calm',
  failed: 'bad',
};

export function renderActionsPage({ actions }: ActionLogDocument, { nowMs, canAct }: PageContext): string {
  const rows = actions.map(({ at, who, action, job, line, outcome, text }) => {
    const atMs = Date.parse(at);
    return html`<li><p class="line"><span class="badge ${TONES[outcome]}">${outcome}</span> <b>${action}</b>${job !== null && html` <a href="${jobPath(job)}">${job}</a>`} <span class="quiet">${formatRelative(atMs, nowMs)}, ${renderTime(atMs, formatInstant(atMs, EXCHANGE_TIME_ZONE, nowMs))}, ${who}</span></p>
<p class="quiet small">${outcome === 'asked' ? 'It started; how it ended is unknown.' : text}${line !== null && html` <code>flowdrop ${line}</code>`}</p></li>`;
  });
  const main = html`<section class="job" aria-labelledby="actions-title"><h1 id="actions-title">Actions</h1>
<p class="quiet small">What people did on this page.${!canAct && ' It is read-only now: FLOWDROP_STATUS_ACTIONS is off.'}</p>
${rows.length === 0 ? html`<p class="quiet">Nothing yet.</p>` : html`<ol class="runs">${rows}</ol>`}</section>`;
  return renderFrame({ title: 'flowdrop: actions', path: '/actions', nowMs, main });
}
