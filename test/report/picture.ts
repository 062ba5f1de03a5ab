/**
 * `npm run picture`: the README's picture, out of the mail of a real run: generated sessions are served, exported and
 * reported as the demo does it, and a browser of a phone's width lays the mail out. Needs `pngquant` (Debian's), because
 * a screenshot of three phones is four times as large as its palette.
 */
import { execFileSync } from 'node:child_process';
import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Browser } from 'playwright-core';
import { openBrowser } from '../support/browser.ts';
import { setup } from '../support/build.ts';
import { flowdrop, makeFolder, REPO, startService } from '../support/flowdrop.ts';

const PICTURE = join(REPO, 'docs', 'report.png');
/** One to report on, one before it, and a mean of five sessions. */
const SESSIONS = ['--generate', '7', '--generate-rows', '150000'];
const PHONE = { width: 360, height: 720 };
const SCALE = 1.5;
/** What each phone begins with: the top of the mail, then headings. */
const SCREENS = [null, 'Key numbers', 'Sentiment through the day'] as const;
/** Between the heading and the phone's upper edge, in pixels of the page. */
const LEAD = 14;

setup();
const folder = await makeFolder();
const browser = await openBrowser();
try {
  const shots = await shootPhones(browser, await mailReport(folder.path));
  const raw = join(folder.path, 'report.png');
  await writeFile(raw, await arrange(browser, shots));
  execFileSync('pngquant', ['--strip', '--speed', '1', '--force', '--output', PICTURE, '96', raw]);
  console.log(PICTURE);
} finally {
  await browser.close();
  await folder.remove();
}

/** Exports the sessions and mails the newest. @returns the mail as a page */
async function mailReport(cwd: string): Promise<string> {
  const service = await startService(SESSIONS);
  try {
    const args = ['--jobs', join(REPO, 'jobs'), 'run', 'nightly-trades'];
    const run = await flowdrop(args, { cwd, env: service.env });
    if (run.code !== 0) throw new Error(`the run ended with ${run.code}: ${run.stderr}`);
  } finally {
    await service.stop();
  }
  const mails = join(cwd, 'out', 'mail');
  const page = (await readdir(mails)).find((name) => name.endsWith('.html'));
  if (page === undefined) throw new Error(`no mail in ${mails}`);
  return join(mails, page);
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
