/**
 * The full report as a page: valid, alone in its file, read on a phone and a desktop, light and dark and on paper, its tables
 * sorted by a click, and nothing of the data is ever markup. Screenshots are written to `test-results/full/` for a person to
 * look at.
 */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { HtmlValidate } from 'html-validate';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { renderFullReport } from '../../src/report/render.ts';
import { findBarriers } from '../daemon/web/barriers.ts';
import { openBrowser } from '../support/browser.ts';
import { REPO } from '../support/flowdrop.ts';
import { DAYS, DIGEST, HOSTILE, OPTIONS, pickDay } from './days.ts';
import { createLook } from './logos.ts';

const SHOTS = join(REPO, 'test-results', 'full');
const PAGES = [
  ...DAYS.map(({ name, report, options }) => ({
    name,
    render: () => renderFullReport([{ title: report.drop.dataset, report }], options),
  })),
  { name: 'digest', render: async () => await renderFullReport(DIGEST, { ...OPTIONS, look: await createLook() }) },
];

let browser: Browser;
beforeAll(async () => {
  browser = await openBrowser();
  await mkdir(SHOTS, { recursive: true });
});
afterAll(async () => {
  await browser.close();
});

async function open(html: string): Promise<{ readonly page: Page; readonly requests: string[] }> {
  const page = await browser.newPage();
  const requests: string[] = [];
  page.on('request', (request) => requests.push(request.url()));
  page.on('dialog', (dialog) => {
    requests.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  await page.setContent(html, { waitUntil: 'load' });
  return { page, requests };
}

describe('the full report', () => {
  it.each(PAGES)('of the $name day is valid, loads nothing, and is read at every width', async ({ name, render }) => {
    const html = await render();
    const validator = new HtmlValidate({ extends: ['html-validate:recommended'] });
    const { results } = await validator.validateString(html, 'full.html');
    expect(
      results.flatMap(({ messages }) => messages.map(({ ruleId, message, line }) => `${ruleId} ${message} (${line})`)),
    ).toEqual([]);
    expect(html.replace(/<(script|svg|pre)[\s\S]*?<\/\1>/g, '')).not.toMatch(
      /NaN|Infinity|undefined|\bnull\b|\[object/,
    );
    const { page, requests } = await open(html);
    try {
      for (const width of [390, 1280]) {
        for (const colorScheme of ['light', 'dark'] as const) {
          await page.setViewportSize({ width, height: 800 });
          await page.emulateMedia({ colorScheme });
          const where = `${name} ${width} ${colorScheme}`;
          await page.screenshot({ path: join(SHOTS, `${name}-${width}-${colorScheme}.png`), fullPage: true });
          // Wide tables scroll in their own regions.
          expect(await page.evaluate('document.documentElement.scrollWidth'), where).toBe(width);
          if (width === 390) expect(await findBarriers(page), where).toEqual([]);
        }
      }
      await page.emulateMedia({ media: 'print' });
      expect(await page.evaluate(`getComputedStyle(document.querySelector('nav')).display`)).toBe('none');
      expect(requests).toEqual([]);
    } finally {
      await page.close();
    }
  });

  it('has every table, and the query of each, and a link to each section', async () => {
    const { report } = pickDay('normal');
    const html = await renderFullReport([{ title: 'trades', report }], OPTIONS);
    const { page } = await open(html);
    try {
      const links = await page.evaluate<string[]>(
        `[...document.querySelectorAll('nav a')].map((a) => a.getAttribute('href').slice(1))`,
      );
      const ids = await page.evaluate<string[]>(`[...document.querySelectorAll('main [id]')].map(({ id }) => id)`);
      expect(links.length).toBeGreaterThan(12);
      for (const link of links) expect(ids).toContain(link);
      expect(new Set(ids).size).toBe(ids.length);
      const text = await page.evaluate<string>('document.documentElement.textContent');
      for (const { sql } of report.rebuildQueries) expect(text).toContain(sql);
      for (const fact of ['SPX Dec 18, 2026 6000 P', 'Ours weighs the open interest', '812,543', 'docs/formulas.md'])
        expect(text).toContain(fact);
    } finally {
      await page.close();
    }
  });

  it('shows the strikes of the lead symbol open and other long tables folded, and charts without a hole beside them', async () => {
    const { report } = pickDay('normal');
    const { focus, lead } = report.exposure;
    const volatility = focus.flatMap(({ symbol }) =>
      Array.from({ length: 15 }, (_, index) => ({
        ...{ symbol, expirationDate: `2026-12-${index + 10}`, days: index, atTheMoney: 0.16, strike: 600 },
        ...{ skew: 0.01, expectedMove: 12.5 },
      })),
    );
    const { page } = await open(
      await renderFullReport([{ title: 'trades', report: { ...report, volatility } }], OPTIONS),
    );
    try {
      const countRows = async (selector: string) => await page.locator(`${selector} tbody tr`).count();
      const rows = focus.flatMap(({ strikes }) => strikes).length;
      expect(await countRows('#gex-by-strike > .scroll')).toBe(lead?.strikes.length);
      expect(await page.locator('#gex-by-strike summary').textContent()).toBe(
        `${rows - (lead?.strikes.length ?? 0)} more rows`,
      );
      expect(await countRows('#gex-by-strike')).toBe(rows);
      expect([await countRows('#volatility > .scroll'), await countRows('#volatility details')]).toEqual([0, 45]);
      await page.setViewportSize({ width: 1280, height: 800 });
      const boxOf = async (selector: string) => await page.locator(selector).boundingBox();
      const [session, symbols, strikes] = await Promise.all(
        ['#session-chart', '#symbols-chart figure', '#strikes-chart figure'].map(boxOf),
      );
      expect(session?.width).toBeGreaterThan(900);
      expect(symbols?.y).toBe(strikes?.y);
      expect(Math.abs((symbols?.height ?? 0) - (strikes?.height ?? 0))).toBeLessThan(40);
      // A row keeps its name when it is scrolled.
      await page.setViewportSize({ width: 390, height: 800 });
      const name = await boxOf('#symbols tbody th >> nth=0');
      await page.locator('#symbols .scroll').evaluate((element) => element.scrollTo(300, 0));
      expect((await boxOf('#symbols tbody th >> nth=0'))?.x).toBe(name?.x);
    } finally {
      await page.close();
    }
  });

  it('sorts a table by a click on its heading, by value and not by text, unknown values last', async () => {
    const { report } = pickDay('normal');
    const { page } = await open(await renderFullReport([{ title: 'trades', report }], OPTIONS));
    try {
      const column = async (at: number) =>
        await page.evaluate<string[]>(
          `[...document.querySelector('#symbols tbody').rows].map((row) => row.cells[${at}].dataset.value)`,
        );
      const heads = await page.evaluate<string[]>(
        `[...document.querySelectorAll('#symbols thead th')].map(({ textContent }) => textContent)`,
      );
      const at = heads.indexOf('Trades');
      const before = await column(at);
      await page.click(`#symbols thead th:nth-child(${at + 1}) button`);
      expect(await column(at)).toEqual(before.toSorted((a, b) => Number(b) - Number(a)));
      await page.click(`#symbols thead th:nth-child(${at + 1}) button`);
      expect(await column(at)).toEqual(before.toSorted((a, b) => Number(a) - Number(b)));
      await page.focus('#symbols thead th:first-child button');
      await page.keyboard.press('Enter');
      expect(await column(0)).toEqual((await column(0)).toSorted((a, b) => b.localeCompare(a)));
    } finally {
      await page.close();
    }
  });

  it('shows hostile texts literally, and neither runs nor builds anything of them', async () => {
    const { report, options } = pickDay('hostile');
    const { page, requests } = await open(await renderFullReport([{ title: HOSTILE[0], report }], options));
    try {
      expect(await page.evaluate(`document.querySelectorAll('script').length`)).toBe(1);
      const handlers = `[...document.querySelectorAll('*')].flatMap((element) => element.getAttributeNames()).filter((name) => name.startsWith('on'))`;
      expect(await page.evaluate(handlers)).toEqual([]);
      expect(await page.evaluate(`document.querySelectorAll('img, iframe, object, link').length`)).toBe(0);
      expect(await page.evaluate<string>('document.body.innerText')).toContain('onerror=alert(1)');
      expect(requests).toEqual([]);
    } finally {
      await page.close();
    }
  });
});
