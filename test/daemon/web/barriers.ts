/** What keeps a reader from the page: what sticks out of it, and whatever axe finds. For the tests in a real browser. */
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import type { Page } from 'playwright-core';

const AXE = createRequire(import.meta.url).resolve('axe-core/axe.min.js');

/** An expression for the browser: what sticks out to the right, but for what is in a part that scrolls by itself. */
export const OVERFLOWS = `(() => {
  const width = document.documentElement.clientWidth;
  const shown = [...document.body.querySelectorAll('*')].filter((element) =>
    element.getClientRects().length > 0 && !element.closest('svg') && !element.parentElement.closest('.scroll'));
  const wide = shown.filter((element) => element.getBoundingClientRect().right > width + 0.5);
  return [...wide.map((element) => element.outerHTML.slice(0, 160)),
    ...(document.documentElement.scrollWidth > width ? ['the page scrolls sideways'] : [])];
})()`;

/** Every finding of axe, whatever its weight. It is given to the page by the tester, so the page's policy does not ask. */
export async function findBarriers(page: Page): Promise<readonly string[]> {
  await page.evaluate(await readFile(AXE, 'utf8'));
  return await page.evaluate(`axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => violations
    .flatMap(({ id, nodes }) => nodes.map((node) => id + ': ' + node.html.slice(0, 140) + ' ' + node.failureSummary)))`);
}
