/**
 * Previews of archived reports on the status page, in a real browser with a real mail. Screenshots are written to
 * `test-results/status/` for a person to look at.
 */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { HttpListener } from '../../../src/core/http-listener.ts';
import { PAGE_LINKS, type ReportName } from '../../../src/core/report-page.ts';
import type { DaemonView } from '../../../src/daemon/daemon.ts';
import { jobPath } from '../../../src/daemon/web/html.ts';
import { embedImages } from '../../../src/mail/message.ts';
import { pickDay, renderFlowReport } from '../../report/days.ts';
import { openBrowser } from '../../support/browser.ts';
import { REPO } from '../../support/flowdrop.ts';
import { findBarriers, type Looking, OVERFLOWS, openPage, type Seen } from './barriers.ts';
import { makeCommands, makeGoodDay, makeJob, makeStatus, makeView, NOW, startPage, TOKEN } from './views.ts';

const SHOTS = join(REPO, 'test-results', 'status');
/** Tries everything that a mail must not do here. */
const HARMFUL = `<!doctype html><html lang="en"><title>Harm</title><body><h1>Harm</h1>
<script>document.title='ran'; fetch('/metrics'); top.location='/metrics'</script><img src="http://192.0.2.1/x.png">
<iframe src="/metrics"></iframe><form action="/metrics" target="_top"><button>send</button></form>
<a id="away" href="http://192.0.2.1/">away</a><a id="top" href="/metrics" target="_top">top</a></body></html>`;

let browser: Browser;
let mail: string;
let web: HttpListener;
let page: Page;
let view: DaemonView;
let now = NOW;
/** Reports that the daemon was asked for. */
let asked: (ReportName & { readonly job: string })[];
let troubles: Seen['troubles'];
let strangers: Seen['strangers'];

beforeAll(async () => {
  browser = await openBrowser();
  await mkdir(SHOTS, { recursive: true });
  const { report, options } = pickDay('normal');
  const { html, images } = await renderFlowReport(report, options);
  mail = embedImages(html, images);
});
afterAll(async () => {
  await browser.close();
});
afterEach(async () => {
  await page.context().close();
  await web.close();
});

interface Shown extends Looking {
  readonly token?: string;
  readonly read?: () => Promise<string | undefined>;
}

async function look(shown: DaemonView, { token, read = async () => mail, ...looking }: Shown = {}): Promise<void> {
  [view, asked] = [shown, []];
  web = await startPage({
    token,
    view: () => view,
    commands: makeCommands({
      async report(job, date, report, revision) {
        asked.push({ job, date, report, revision });
        return await read();
      },
    }),
    // Goes on with every look, so that no page is a cached one.
    clock: { now: () => (now += 1_100), sleep: async () => {} },
  });
  ({ page, troubles, strangers } = await openPage(browser, web.url, jobPath(shown.jobs[0]?.name ?? ''), looking));
}

const previews = () => page.locator('#job-1 .previews details');
const framed = () => page.frames().filter((frame) => frame.parentFrame() === page.mainFrame());

async function unfold(index: number): Promise<void> {
  await previews().nth(index).locator('summary').click();
  await previews().nth(index).locator('iframe').scrollIntoViewIfNeeded();
}

/** One job with the reports of these dates. */
function makeDay(dates: readonly string[]): DaemonView {
  const reports = dates.map((date) => ({ date, report: 'flow-e154845f', revision: 1 }));
  return makeView([makeJob('nightly', { status: makeStatus('nightly', { reports }) })]);
}

describe('a preview of a report', () => {
  it.each([
    [390, 'light'],
    [390, 'dark'],
    [1280, 'light'],
    [1280, 'dark'],
  ] as const)('is read when it is unfolded, and fits and is accessible at %i px, %s', async (width, scheme) => {
    await look(makeGoodDay(), { width, scheme });
    expect(await previews().count()).toBe(5);
    expect(await previews().nth(3).locator('summary').textContent()).toBe('2026-11-17 flow report flow, revision 1');
    await previews().last().scrollIntoViewIfNeeded();
    await page.waitForLoadState('networkidle');
    expect([asked, framed().length]).toEqual([[], 0]);
    await unfold(3);
    const content = page.frameLocator('#job-1 iframe');
    await content.getByText('Total premium').first().waitFor();
    expect(asked).toEqual([{ job: 'nightly-trades', date: '2026-11-17', report: 'flow', revision: 1 }]);
    const [frame] = framed();
    expect(await frame?.evaluate('self.origin')).toBe('null');
    const sizes = '[document.documentElement.scrollWidth - document.documentElement.clientWidth, innerHeight > 400]';
    expect(await frame?.evaluate(sizes)).toEqual([0, true]);
    expect(await frame?.evaluate('[...document.images].every((image) => image.naturalWidth > 0)')).toBe(true);
    await page.screenshot({ path: join(SHOTS, `preview-${width}-${scheme}.png`), fullPage: true });
    expect(await page.evaluate(OVERFLOWS)).toEqual([]);
    expect(await findBarriers(page)).toEqual([]);
    expect([troubles, strangers]).toEqual([[], []]);
    await previews().nth(3).getByRole('link').press('Enter');
    await page.waitForURL(/\/reports\/nightly-trades\/2026-11-17\/flow\/1$/);
  });

  it('that is unfolded is neither folded nor read again when new reports come, not even when it is one of the older then', async () => {
    await look(makeDay(['2026-11-20', '2026-11-19', '2026-11-18', '2026-11-17', '2026-11-16', '2026-11-13']));
    for (const index of [1, 4]) {
      await unfold(index);
      await expect.poll(() => asked.length).toBe(index === 1 ? 1 : 2);
    }
    await page.frameLocator('#job-1 iframe').last().getByText('Total premium').first().waitFor();
    const marked = framed();
    expect(marked).toHaveLength(2);
    for (const frame of marked) {
      await frame.waitForLoadState();
      await frame.evaluate('window.stays = true');
    }
    await previews().nth(1).locator('summary').focus();
    view = makeDay(['2026-11-23', '2026-11-20', '2026-11-19', '2026-11-18', '2026-11-17', '2026-11-16', '2026-11-13']);
    const dates = () => page.locator('#job-1 .previews summary b').allTextContents();
    await expect
      .poll(dates, { timeout: 15_000 })
      .toEqual(['2026-11-23', '2026-11-20', '2026-11-19', '2026-11-18', '2026-11-17', '2026-11-16']);
    expect(await page.locator('#job-1 .previews details[open] b').allTextContents()).toEqual([
      '2026-11-19',
      '2026-11-16',
    ]);
    expect(await Promise.all(framed().map((frame) => frame.evaluate('window.stays')))).toEqual([true, true]);
    expect(await page.evaluate('document.activeElement.textContent')).toContain('2026-11-19');
    expect(asked).toHaveLength(2);
    // Folded, it goes with the next change.
    await previews().nth(5).locator('summary').click();
    view = makeDay(['2026-11-24', '2026-11-23', '2026-11-20', '2026-11-19', '2026-11-18', '2026-11-17', '2026-11-16']);
    await expect
      .poll(dates, { timeout: 15_000 })
      .toEqual(['2026-11-24', '2026-11-23', '2026-11-20', '2026-11-19', '2026-11-18']);
    expect(asked).toHaveLength(2);
    expect([troubles, strangers]).toEqual([[], []]);
  });

  it('runs nothing, fetches nothing, and leads nowhere else', async () => {
    await look(makeGoodDay(), { read: async () => HARMFUL });
    await unfold(0);
    const content = page.frameLocator('#job-1 iframe');
    await content.getByRole('heading', { name: 'Harm' }).waitFor();
    const [frame] = framed();
    await frame?.waitForLoadState();
    expect(await frame?.title()).toBe('Harm');
    expect(await frame?.evaluate('document.images[0].naturalWidth')).toBe(0);
    await content.getByRole('button').click();
    await content.locator('#top').click();
    await content.locator('#away').click();
    await expect.poll(() => troubles.filter((text) => text.includes('192.0.2.1/')).length).toBeGreaterThan(1);
    expect(page.url()).toBe(`${web.url}/jobs/nightly-trades`);
    expect(await page.locator('h1').count()).toBe(1);
    expect(asked).toHaveLength(1);
    // Nor does the whole page, at its own address.
    await previews().first().getByRole('link').press('Enter');
    await page.waitForURL(/\/reports\/nightly-trades\/2026-11-20\/flow\/0$/);
    expect(await page.title()).toBe('Harm');
    expect(await page.evaluate('document.images[0].naturalWidth')).toBe(0);
    expect(await page.evaluate('self.origin')).toBe('null');
    const reached = strangers.filter((url) => !troubles.some((text) => text.includes(url)));
    expect(reached).toEqual([]);
  });

  it('is not read where no script runs, and the link to the whole page is there', async () => {
    await look(makeGoodDay(), { scripts: false });
    await previews().first().locator('summary').click();
    const link = previews().first().getByRole('link');
    await link.waitFor();
    await page.waitForLoadState('networkidle');
    expect([asked, framed().length]).toEqual([[], 0]);
    await link.click();
    await page.getByText('Total premium').first().waitFor();
  });

  it('is shown to who has the token, by the cookie of the login', async () => {
    await look(makeGoodDay(), {
      token: TOKEN,
      read: async () => mail.replace(/<body[^>]*>/, (body) => body + PAGE_LINKS),
    });
    expect(await previews().count()).toBe(0);
    await page.getByLabel('Token').fill(TOKEN);
    await page.getByRole('button').click();
    await page.locator('.verdict').waitFor();
    await page.goto(`${web.url}/jobs/nightly-trades`);
    // What Chromium has to say of the form and its 401.
    troubles.length = 0;
    await unfold(0);
    await page.frameLocator('#job-1 iframe').getByText('Total premium').first().waitFor();
    expect(asked).toHaveLength(1);
    expect([troubles, strangers]).toEqual([[], []]);
    const { status } = await fetch(`${web.url}/reports/nightly-trades/2026-11-20/flow/0`);
    expect([status, asked.length]).toEqual([401, 1]);
    expect(await page.frameLocator('#job-1 iframe').getByText('Report before').count()).toBe(0);
    // A page without an origin leads on, too.
    await page.goto(`${web.url}/reports/nightly-trades/2026-11-19/flow/0`);
    await page.getByText('Report before: Nov 18').click();
    await page.waitForURL(/2026-11-18/);
    await page.getByText('Report after: Nov 19').click();
    await page.waitForURL(/2026-11-19/);
    await page.getByText('Status page').click();
    await page.locator('.verdict').waitFor();
  });
});
