/**
 * `npm run picture`: the pictures of README and docs, out of a real run: generated sessions are served, a daemon exports
 * and reports them as it does every night, one of its jobs fails, and a browser lays out the mail, the pages of the
 * status page and the full report. Needs `pngquant` (Debian's), because a screenshot is four times as large as its palette.
 */
import { execFileSync } from 'node:child_process';
import { copyFile, readdir, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Browser, Page } from 'playwright-core';
import type { ReportLink, RunSummary } from '../../src/daemon/shapes.ts';
import { openBrowser } from '../support/browser.ts';
import { setup } from '../support/build.ts';
import { type DaemonProcess, startDaemon, waitFor } from '../support/daemon.ts';
import { makeFolder, REPO, startService } from '../support/flowdrop.ts';

const DOCS = join(REPO, 'docs');
/** One to report on, one before it, and a median of six sessions. */
const SESSIONS = ['--generate', '7', '--generate-rows', '150000'];
const JOBS = ['nightly-trades', 'symbol-minute-flow'];
/** A million rows are fetched, sealed and reported meanwhile. */
const PATIENCE_MS = 900_000;
/** Its column has another name at the source. */
const FAILING = `name: zero-dte
source:
  api: historical
  table: RawOptionTrades
  where: days_to_expiration = 0
drop:
  to: out/drops
  dataset: zero-dte
schedule:
  cron: "45 16 * * 1-5"
  timezone: America/New_York
`;
const PHONE = { width: 360, height: 720 };
const DESK = { width: 1100, height: 760 };
const SCALE = 1.5;
/** What each phone begins with: the top of the mail, then headings. */
const SCREENS = [null, 'Key numbers', 'Sentiment through the day'] as const;
/** Between the heading and the phone's upper edge, in pixels of the page. */
const LEAD = 14;

setup();
const folder = await makeFolder();
const browser = await openBrowser();
const service = await startService(SESSIONS);
try {
  for (const name of JOBS) await copyFile(join(REPO, 'jobs', `${name}.yaml`), join(folder.path, `${name}.yaml`));
  await writeFile(join(folder.path, 'zero-dte.yaml'), FAILING);
  const daemon = await startDaemon(folder.path, service.env);
  try {
    // What is missed at its start is caught up.
    const isDone = () => daemon.of('finished').length > JOBS.length;
    if (!(await waitFor(isDone, { patienceMs: PATIENCE_MS }))) throw new Error('not every job finished');
    await daemon.untilIdle();
    await write('report.png', await arrange(browser, await shootPhones(browser, await findMail(folder.path))));
    const page = await browser.newPage({ viewport: DESK, deviceScaleFactor: SCALE, colorScheme: 'light' });
    for (const [name, path] of Object.entries(await findPages(daemon))) {
      await page.goto(daemon.url + path);
      await write(`${name}.png`, await shoot(page));
    }
  } finally {
    await daemon.stop();
  }
} finally {
  await service.stop();
  await browser.close();
  await folder.remove();
}

async function write(name: string, picture: Buffer): Promise<void> {
  const [raw, out] = [join(folder.path, name), join(DOCS, name)];
  await writeFile(raw, picture);
  execFileSync('pngquant', ['--strip', '--speed', '1', '--force', '--output', out, '96', raw]);
  console.log(out);
}

/** The mail of the newest session, as a page. */
async function findMail(cwd: string): Promise<string> {
  const mails = join(cwd, 'out', 'mail');
  const page = (await readdir(mails)).find((name) => name.endsWith('.html'));
  if (page === undefined) throw new Error(`no mail in ${mails}`);
  return join(mails, page);
}

/** Addresses on the status page, by the name of the picture. */
async function findPages({ url }: DaemonProcess): Promise<Readonly<Record<string, string>>> {
  const read = async (path: string) => await (await fetch(url + path)).json();
  const { runs } = (await read('/api/runs?job=nightly-trades')) as { readonly runs: readonly RunSummary[] };
  const { reports } = (await read('/api/reports?job=nightly-trades')) as { readonly reports: readonly ReportLink[] };
  const [run, report] = [runs.at(-1), reports[0]];
  if (!run || !report) throw new Error('the run left neither a record nor a report');
  return { 'status-page': '/', 'status-run': `/runs/${run.job}/${run.id}`, 'full-report': report.href };
}

/** As much as the desk shows, or less where the page is shorter. */
async function shoot(page: Page): Promise<Buffer> {
  // The name of the machine that made the picture is nobody's business.
  await page.evaluate(`(() => {
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) texts.currentNode.data = texts.currentNode.data.replaceAll(${JSON.stringify(hostname())}, 'worker-1');
  })()`);
  const height = await page.evaluate<number>('document.body.getBoundingClientRect().height');
  return await page.screenshot({
    fullPage: true,
    clip: { x: 0, y: 0, width: DESK.width, height: Math.min(height, DESK.height) },
  });
}

async function shootPhones(open: Browser, mail: string): Promise<readonly string[]> {
  const page = await open.newPage({ viewport: PHONE, deviceScaleFactor: SCALE, colorScheme: 'light' });
  await page.goto(pathToFileURL(mail).href);
  const shots: string[] = [];
  for (const heading of SCREENS) {
    const at = heading === null ? null : await page.getByText(heading, { exact: true }).first().boundingBox();
    if (heading !== null && at === null) throw new Error(`the mail has no "${heading}"`);
    const y = at === null ? 0 : at.y - LEAD;
    const shot = await page.screenshot({ fullPage: true, clip: { x: 0, y, ...PHONE } });
    shots.push(`data:image/png;base64,${shot.toString('base64')}`);
  }
  return shots;
}

/** The phones side by side. */
async function arrange(open: Browser, shots: readonly string[]): Promise<Buffer> {
  const page = await open.newPage({ deviceScaleFactor: SCALE });
  const style = `width: ${PHONE.width}px; border-radius: 16px; box-shadow: 0 1px 4px #8a98aa; display: block`;
  await page.setContent(
    `<body style="margin: 0"><div style="display: inline-flex; gap: 24px; padding: 16px; background: #dfe4ec">
      ${shots.map((shot) => `<img src="${shot}" style="${style}">`).join('')}</div></body>`,
  );
  return await page.locator('div').screenshot();
}
