/**
 * The only script of the pages, allowed by its hash. While a page is visible, it fetches the page again and replaces
 * the parts that changed; it sorts and filters tables. Invariant: scroll position, unfolded elements and focus stay, and an unfolded preview is not
 * fetched again. Without scripts the page lacks only the previews, and the browser reloads it.
 */
import { html } from './html.ts';

/** Time between two fetches: `LIVE_MS` during a run, otherwise `CALM_MS`. */
export const LIVE_MS = 2_000;
export const CALM_MS = 10_000;
/**
 * `data-live` names a part, `data-key` an element in it that can be focused or unfolded. An element with `data-stays`
 * is not replaced while it is unfolded. `data-every` is the time to the next fetch.
 */
export const PAGE_SCRIPT = html`
'use strict';
(() => {
  const parts = (root) => [...root.querySelectorAll('[data-live]')];
  const names = (root) => parts(root).map((part) => part.dataset.live).join(' ');
  const keyed = (part, key) => [...part.querySelectorAll('[data-key]')].find((element) => element.dataset.key === key);
  const sent = new Map(parts(document).map((part) => [part.dataset.live, part.innerHTML]));
  const silent = document.getElementById('silent');
  let failures = 0;

  // What is unfolded and stays is not moved either; it stays also when the fresh part has it no more.
  const fill = (part, fresh) => {
    const staying = [...part.querySelectorAll(':scope > [data-stays][open]')];
    for (const node of [...part.childNodes]) { if (!staying.includes(node)) node.remove(); }
    let next = part.firstChild;
    for (const node of [...fresh.childNodes]) {
      const old = node.dataset && staying.find((element) => element.dataset.key === node.dataset.key);
      if (old) next = old.nextSibling; else part.insertBefore(node, next);
    }
  };

  const replace = (part, fresh) => {
    const focused = part.contains(document.activeElement) ? document.activeElement : null;
    const key = focused && focused.dataset.key;
    const index = focused && [...part.querySelectorAll('a, summary, button')].indexOf(focused);
    const open = [...part.querySelectorAll('details[open]')].map((element) => element.dataset.key);
    fill(part, fresh);
    part.className = fresh.className;
    for (const name of open) { const element = keyed(part, name); if (element) element.open = true; }
    const again = key ? keyed(part, key) : index >= 0 ? part.querySelectorAll('a, summary, button')[index] : null;
    if (again && !part.contains(document.activeElement)) again.focus({ preventScroll: true });
  };

  const show = (text) => {
    const fresh = new DOMParser().parseFromString(text, 'text/html');
    if (names(fresh) !== names(document)) return location.reload();
    const token = fresh.querySelector('input[name=token]');
    for (const input of document.querySelectorAll('input[name=token]')) { if (token) input.value = token.value; }
    document.title = fresh.title;
    document.body.dataset.every = fresh.body.dataset.every;
    for (const part of parts(fresh)) {
      const name = part.dataset.live;
      const markup = part.innerHTML;
      if (sent.get(name) === markup) continue;
      sent.set(name, markup);
      replace(parts(document).find((element) => element.dataset.live === name), part);
    }
    arrange();
  };

  // Sorting and filtering: rows carry what they are sorted by; both are done again when rows are replaced.
  let order = null;
  const filter = document.querySelector('form[data-filter]');
  const arrange = () => {
    for (const body of document.querySelectorAll('table.jobs tbody')) {
      const rows = [...body.rows];
      if (order) {
        const value = (row) => order.kind === 'number' ? Number(row.dataset[order.key]) : row.dataset[order.key];
        rows.sort((a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0) * order.sign);
        body.append(...rows);
      }
      const text = filter ? filter.elements.text.value.toLowerCase() : '';
      const state = filter ? filter.elements.state.value : '';
      for (const row of rows) row.hidden = !(row.textContent.toLowerCase().includes(text) && (state === '' || row.dataset.word === state));
    }
  };
  if (filter) {
    filter.hidden = false;
    filter.addEventListener('input', arrange);
    filter.addEventListener('submit', (event) => event.preventDefault());
  }
  for (const head of document.querySelectorAll('th[data-sort]')) {
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener('click', () => {
      const sign = order && order.key === head.dataset.sort ? -order.sign : 1;
      order = { key: head.dataset.sort, kind: head.dataset.kind, sign };
      for (const other of document.querySelectorAll('th[data-sort]')) other.removeAttribute('aria-sort');
      head.setAttribute('aria-sort', sign > 0 ? 'ascending' : 'descending');
      arrange();
    });
  }

  const read = async () => {
    if (document.hidden) return;
    try {
      const answer = await fetch(location.pathname + location.search, { cache: 'no-store', credentials: 'same-origin', signal: AbortSignal.timeout(10000) });
      if (answer.status === 401) return location.reload();
      if (!answer.ok) throw new TypeError(String(answer.status));
      show(await answer.text());
      failures = 0;
    } catch { failures += 1; }
    // One answer may be lost; the second means that what is shown grows old.
    silent.hidden = failures < 2;
  };

  const wait = () => setTimeout(() => read().finally(wait), Number(document.body.dataset.every));
  if (document.body.dataset.every) {
    wait();
    document.addEventListener('visibilitychange', read);
  }
  // It does not bubble. What is in a template was neither built nor fetched before.
  document.addEventListener('toggle', ({ target }) => {
    if (target.open) for (const folded of target.querySelectorAll('template')) folded.replaceWith(folded.content);
  }, true);
  document.addEventListener('keydown', ({ key }) => { if (key === 'Escape' && document.activeElement.matches('.day, .day a, .cell')) document.activeElement.blur(); });
})();
`;
