/** What keeps a reader from the page, for the tests in a real browser. */
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import type { Browser, BrowserContext, Page } from 'playwright-core';

const AXE = createRequire(import.meta.url).resolve('axe-core/axe.min.js');

export interface Looking {
  readonly width?: number;
  readonly scheme?: 'light' | 'dark';
  readonly scripts?: boolean;
}

export interface Seen {
  readonly context: BrowserContext;
  readonly page: Page;
  /** Console messages, page errors, refusals by a policy, dialogs. */
  readonly troubles: string[];
  /** Requests that went elsewhere. */
  readonly strangers: readonly string[];
}

/** Goes to a page with a profile of its own, which the caller closes. @param url what is not elsewhere */
export async function openPage(browser: Browser, url: string, path: string, looking: Looking = {}): Promise<Seen> {
  const { width = 1280, scheme = 'light', scripts = true } = looking;
  const context = await browser.newContext({
    viewport: { width, height: 800 },
    colorScheme: scheme,
    javaScriptEnabled: scripts,
    hasTouch: width < 500,
  });
  const page = await context.newPage();
  const troubles: string[] = [];
  const strangers: string[] = [];
  page.on('console', (message) => troubles.push(message.text()));
  page.on('pageerror', (error) => troubles.push(error.message));
  page.on('dialog', (dialog) => {
    troubles.push(dialog.message());
    void dialog.dismiss();
  });
  page.on('request', (request) => {
    const asked = request.url();
    if (!asked.startsWith(url) && !asked.startsWith('data:')) strangers.push(asked);
  });
  await page.goto(url + path);
  return { context, page, troubles, strangers };
}

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
