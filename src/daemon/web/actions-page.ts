/** What was done on the page: who, when, what, with which outcome. Pure. */

import { EXCHANGE_TIME_ZONE } from '../../api-contract/published-limits.ts';
import { formatInstant, formatRelative } from '../../core/date-text.ts';
import type { ActionEntry } from '../../state/action-log.ts';
import { html, renderTime } from './html.ts';
import type { PageContext } from './page-context.ts';
import { renderFrame } from './page-frame.ts';
import { jobPath } from './page-path.ts';

const TONES: Readonly<Record<ActionEntry['outcome'], string>> = {
  asked: 'fair',
  done: 'good',
  started: 'good',
  refused: 'calm',
  failed: 'bad',
};

/** @param actions newest first */
export function renderActionsPage(actions: readonly ActionEntry[], { nowMs, canAct }: PageContext): string {
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
