/**
 * The timeline of a run as SVG: rows and requests so far over time, splits, retries and seals as marks. Pure. The drawing
 * stretches with the page, so its words are outside of it.
 */

import { EXCHANGE_TIME_ZONE } from '../../api-contract/published-limits.ts';
import { formatTime } from '../../core/date-text.ts';
import { formatCount } from '../../core/units.ts';
import type { RunWindow } from '../../state/run-record.ts';
import { html, type Markup } from './html.ts';

const WIDTH = 1000;
const HEIGHT = 160;
/** More points than pixels are not seen. */
const MAX_POINTS = 500;
/** More marks would be a surface. */
const MAX_MARKS = 200;

interface Point {
  readonly at: string;
  readonly rows: number;
  readonly requests: number;
}

/** @param endMs of the run, or now */
export function renderWindowChart(windows: readonly RunWindow[], startMs: number, endMs: number): Markup {
  if (windows.length === 0) return html`<p class="quiet">No window was fetched.</p>`;
  const points = addUp(windows);
  const last = points.at(-1);
  const spanMs = Math.max(1, endMs - startMs);
  const x = (atMs: number) => ((Math.min(Math.max(atMs, startMs), endMs) - startMs) / spanMs) * WIDTH;
  const line = (of: (point: Point) => number, most: number) =>
    thin(points)
      .map(
        (point) =>
          `L${x(Date.parse(point.at)).toFixed(1)} ${(HEIGHT - 4 - (of(point) / Math.max(1, most)) * (HEIGHT - 12)).toFixed(1)}`,
      )
      .join('');
  const [rows, requests] = [last?.rows ?? 0, last?.requests ?? 0];
  const start = `M0 ${HEIGHT - 4}`;
  const rowLine = line((point) => point.rows, rows);
  const splits = windows.filter(({ kind }) => kind === 'split');
  const retries = windows.filter((window, index) => window.retries > (windows[index - 1]?.retries ?? 0));
  const seals = windows.filter(({ kind }) => kind === 'sealed' || kind === 'failed');
  const sealed = seals.filter(({ kind }) => kind === 'sealed').length;
  const failed = seals.length - sealed;
  const words = `${formatCount(rows)} rows in ${formatCount(windows.filter(({ kind }) => kind === 'page').length)} windows, ${formatCount(requests)} requests, ${formatCount(splits.length)} splits, ${formatCount(last ? (windows.at(-1)?.retries ?? 0) : 0)} retries`;
  return html`<figure class="chart"><svg viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" role="img" aria-label="${words}">
${seals.slice(-MAX_MARKS).map((seal) => html`<path class="${seal.kind === 'sealed' ? 'seal' : 'fail'}" d="M${x(Date.parse(seal.at)).toFixed(1)} 0V${HEIGHT}"/>`)}
<path class="area" d="${start}${rowLine}V${HEIGHT - 4}Z"/><path class="line-rows" d="${start}${rowLine}"/><path class="line-requests" d="${start}${line((point) => point.requests, requests)}"/>
${renderMarks('mark-split', splits, x, HEIGHT - 24)}${renderMarks('mark-retry', retries, x, HEIGHT - 14)}</svg>
<figcaption class="quiet small"><span class="ends"><span>${formatTime(startMs, EXCHANGE_TIME_ZONE)} ET</span><span>${formatTime(endMs, EXCHANGE_TIME_ZONE)} ET</span></span>
<ul class="legend"><li><span class="key line-rows"></span>${formatCount(rows)} rows</li><li><span class="key line-requests"></span>${formatCount(requests)} requests</li><li><span class="key mark-split"></span>${formatCount(splits.length)} splits</li><li><span class="key mark-retry"></span>${formatCount(retries.length)} retries</li><li><span class="key seal"></span>${formatCount(sealed)} dates sealed</li>${failed > 0 && html`<li><span class="key fail"></span>${formatCount(failed)} failed</li>`}</ul></figcaption></figure>`;
}

function addUp(windows: readonly RunWindow[]): readonly Point[] {
  let rows = 0;
  return windows.map((window) => {
    if (window.kind === 'page') rows += window.rows;
    return { at: window.at, rows, requests: window.requests };
  });
}

function thin(points: readonly Point[]): readonly Point[] {
  const step = Math.ceil(points.length / MAX_POINTS);
  return points.filter((_, index) => index % step === 0 || index === points.length - 1);
}

function renderMarks(name: string, windows: readonly RunWindow[], x: (atMs: number) => number, y: number): Markup {
  const step = Math.ceil(windows.length / MAX_MARKS) || 1;
  const shown = windows.filter((_, index) => index % step === 0);
  return html`${shown.map(({ at }) => html`<path class="${name}" d="M${x(Date.parse(at)).toFixed(1)} ${y}v8"/>`)}`;
}
