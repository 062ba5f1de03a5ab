/**
 * The mail laid out by a real browser, on phones and desktops, light and dark: nothing scrolls sideways, nothing
 * overflows, text is read on its ground, pictures are there, and the first screen holds what it must. Screenshots of
 * every variant are written to `test-results/mail/` for a person to look at.
 */
import { mkdir } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { embedImages } from '../../src/mail/message.ts';
import { type RenderedReport, renderReport } from '../../src/report/render.ts';
import { openBrowser } from '../support/browser.ts';
import { REPO } from '../support/flowdrop.ts';
import { DAYS, DIGEST, HOSTILE, OPTIONS, pickDay, renderDigest, renderFlowReport, WEEK } from './days.ts';
import { createLook } from './logos.ts';
import { createUnusual } from './model-fixture.ts';

const WIDTHS = [360, 600, 900] as const;
/** The height of a mail with a watchlist of five on a usual phone, pixels. */
const USUAL_PHONE = { width: 390, height: 2540 } as const;
const SCHEMES = ['light', 'dark'] as const;
/** A small phone. */
const PHONE = { width: 360, height: 740 } as const;
const SHOTS = join(REPO, 'test-results', 'mail');
const AXE = createRequire(import.meta.url).resolve('axe-core/axe.min.js');

const MAILS: readonly { readonly name: string; readonly render: () => Promise<RenderedReport> }[] = [
  ...DAYS.map(({ name, report, options }) => ({ name, render: () => renderFlowReport(report, options) })),
  { name: 'digest', render: () => renderDigest(DIGEST, OPTIONS) },
  { name: 'weekly', render: () => renderReport('weekly', WEEK, OPTIONS) },
];

let browser: Browser;
beforeAll(async () => {
  browser = await openBrowser();
  await mkdir(SHOTS, { recursive: true });
});
afterAll(async () => {
  await browser.close();
});

/** Opens the mail as a reader's program does: with its pictures, without a network. */
async function openMail({
  html,
  images,
}: RenderedReport): Promise<{ page: Page; requests: string[]; dialogs: string[] }> {
  const page = await browser.newPage({ viewport: PHONE });
  const requests: string[] = [];
  const dialogs: string[] = [];
  page.on('request', (request) => {
    if (!request.url().startsWith('data:')) requests.push(request.url());
  });
  page.on('dialog', (dialog) => {
    dialogs.push(dialog.message());
    void dialog.dismiss();
  });
  await page.setContent(embedImages(html, images), { waitUntil: 'load' });
  return { page, requests, dialogs };
}

/** Elements that stick out of the page, or whose text sticks out of them. */
const OVERFLOWS = `(() => {
  const width = document.documentElement.clientWidth;
  const shown = [...document.body.querySelectorAll('*')].filter((element) => element.getClientRects().length > 0);
  const wide = shown.filter((element) => element.getBoundingClientRect().right > width + 0.5);
  const full = shown.filter((element) => element.scrollWidth > element.clientWidth + 1 && element.clientWidth > 0);
  return [...wide, ...full].map((element) => element.outerHTML.slice(0, 160));
})()`;

const SCROLL = '[document.documentElement.scrollWidth, document.documentElement.clientWidth]';

/** Shown size and size of the file, per picture. */
const IMAGES = `[...document.images].map((image) => ({
  shown: image.getBoundingClientRect().width, natural: image.naturalWidth, alt: image.alt.length }))`;

/** Serious and critical findings of axe, the contrast of 4.5:1 among them. */
async function findBarriers(page: Page): Promise<readonly string[]> {
  if ((await page.evaluate('typeof window.axe')) === 'undefined') await page.addScriptTag({ path: AXE });
  return await page.evaluate(`axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) => nodes.map((node) => id + ': ' + node.html.slice(0, 120) + ' ' + node.failureSummary)))`);
}

describe('in a browser', () => {
  it.each(MAILS)(
    '$name has no overflow, no barrier and all its pictures, in every width and theme',
    async ({ name, render }) => {
      const mail = await render();
      const { page, requests } = await openMail(mail);
      try {
        for (const scheme of SCHEMES) {
          await page.emulateMedia({ colorScheme: scheme });
          for (const width of WIDTHS) {
            const where = `${name} at ${width} px, ${scheme}`;
            await page.setViewportSize({ width, height: PHONE.height });
            await page.screenshot({ path: join(SHOTS, `${name}-${width}-${scheme}.png`), fullPage: true });
            const [scrollWidth = 0, clientWidth = 0] = await page.evaluate<number[]>(SCROLL);
            expect(scrollWidth, where).toBeLessThanOrEqual(clientWidth);
            expect(await page.evaluate(OVERFLOWS), where).toEqual([]);
            const images = await page.evaluate<{ shown: number; natural: number; alt: number }[]>(IMAGES);
            expect(images, where).toHaveLength(mail.images.length);
            // Each picture is there for both themes, and one of the two is shown.
            const shown = images.filter((image) => image.shown > 0);
            expect(shown, where).toHaveLength(mail.images.length / 2);
            for (const image of shown) {
              expect(image.natural, where).toBeGreaterThanOrEqual(2 * image.shown);
              expect(image.shown, where).toBeGreaterThan(width === 360 ? 300 : 400);
              expect(image.alt, where).toBeGreaterThan(40);
            }
            expect(await findBarriers(page), where).toEqual([]);
          }
        }
        expect(requests).toEqual([]);
      } finally {
        await page.close();
      }
    },
  );

  it('of a watchlist of five is two screens long', async () => {
    const { report, options } = pickDay('normal');
    // The longest that a day can make it: every row has a note, and some symbols are of whole chains.
    const [first] = report.watchlist;
    const unusual = createUnusual('SPY', 4.3, 71e6);
    const watchlist = ['SPX', 'SPY', 'QQQ', 'NVDA', 'TSLA'].map((symbol, at) => {
      const exposure = first?.exposure ? { ...first.exposure, symbol, isWholeChain: at < 3 } : null;
      return { symbol, flow: first?.flow ?? null, exposure, unusual };
    });
    const full = { file: 'nightly-trades-2026-11-19-full-report.html' };
    const { page } = await openMail(await renderFlowReport({ ...report, watchlist }, { ...options, full }));
    try {
      await page.setViewportSize({ ...USUAL_PHONE, height: 800 });
      expect(await page.evaluate('document.documentElement.scrollHeight')).toBeLessThanOrEqual(USUAL_PHONE.height);
    } finally {
      await page.close();
    }
  });

  it('in an own look is read at every width and in both themes, and loads nothing', async () => {
    const { report, options } = pickDay('degraded');
    const look = await createLook();
    const mail = await renderFlowReport(report, {
      ...options,
      look,
      full: { url: 'https://a.example', expiresAt: null },
    });
    const { page, requests } = await openMail(mail);
    try {
      for (const colorScheme of SCHEMES) {
        await page.emulateMedia({ colorScheme });
        for (const width of [360, 700]) {
          const where = `${width} px, ${colorScheme}`;
          await page.setViewportSize({ width, height: PHONE.height });
          await page.screenshot({ path: join(SHOTS, `own-look-${width}-${colorScheme}.png`), fullPage: true });
          expect(await page.evaluate(OVERFLOWS), where).toEqual([]);
          expect(await findBarriers(page), where).toEqual([]);
        }
      }
      const logo = `document.querySelector('img.logo')`;
      expect(await page.evaluate(`${logo}.naturalWidth / ${logo}.width`)).toBe(2);
      expect(requests).toEqual([]);
    } finally {
      await page.close();
    }
  });

  it('is measured by checks that find a faint text and a wide table', async () => {
    const { page } = await openMail(await renderFlowReport(pickDay('quiet').report, OPTIONS));
    try {
      await page.addStyleTag({ content: '.card .small { color: #a9b2bc !important } .data caption { width: 900px }' });
      expect((await findBarriers(page)).join()).toContain('color-contrast');
      expect(await page.evaluate<string[]>(OVERFLOWS)).not.toEqual([]);
    } finally {
      await page.close();
    }
  });

  it('is read where Outlook marks what it darkened', async () => {
    const { page } = await openMail(await renderFlowReport(pickDay('normal').report, OPTIONS));
    try {
      await page.evaluate(`document.documentElement.setAttribute('data-ogsc', '')`);
      expect(await page.evaluate(`getComputedStyle(document.querySelector('.card h1')).color`)).toBe(
        'rgb(230, 235, 241)',
      );
      expect(await findBarriers(page)).toEqual([]);
    } finally {
      await page.close();
    }
  });

  it.each(['normal', 'quiet', 'extreme', 'first-day', 'single-trade', 'late', 'degraded'])(
    'the first screen of a phone holds the glance of the %s day, to its last sentence',
    async (name) => {
      const { report, options } = pickDay(name);
      const { page } = await openMail(await renderFlowReport(report, options));
      try {
        const bottoms = await page.evaluate<number[]>(
          `[...document.querySelectorAll('.stamp, .total, .bar, .box, .say')].map((element) => element.getBoundingClientRect().bottom)`,
        );
        expect(bottoms.length).toBeGreaterThanOrEqual(7);
        expect(Math.max(...bottoms)).toBeLessThanOrEqual(PHONE.height);
      } finally {
        await page.close();
      }
    },
  );

  it('shows hostile texts literally, and neither runs nor builds anything of them', async () => {
    const { report, options } = pickDay('hostile');
    const { page, requests, dialogs } = await openMail(await renderFlowReport(report, options));
    try {
      const names = await page.evaluate<string[]>(
        `[...new Set([...document.querySelectorAll('*')].map((element) => element.localName))].sort()`,
      );
      const known = 'a b body caption div h1 h2 head html img meta p pre span style table tbody td th thead title tr';
      expect(names.filter((name) => !known.split(' ').includes(name))).toEqual([]);
      const handlers = await page.evaluate<string[]>(
        `[...document.querySelectorAll('*')].flatMap((element) => element.getAttributeNames()).filter((name) => name.startsWith('on'))`,
      );
      expect(handlers).toEqual([]);
      const shown = await page.evaluate<string>('document.body.innerText');
      for (const text of [HOSTILE[0], HOSTILE[1], HOSTILE[6], HOSTILE[7], 'onerror=alert(1)'])
        expect(shown).toContain(text);
      expect([requests, dialogs]).toEqual([[], []]);
    } finally {
      await page.close();
    }
  });
});
