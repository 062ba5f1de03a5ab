/** A line as small as a word: rows of the last sessions, as SVG. Pure. */
import { formatShortCount } from '../../core/units.ts';
import { html, type Markup } from './html.ts';

const WIDTH = 90;
const HEIGHT = 24;
const EDGE = 2;

/** @param values oldest first; null: a gap in the line */
export function renderSparkLine(values: readonly (number | null)[]): Markup {
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
