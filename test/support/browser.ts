/**
 * A real browser for the tests: Debian's Chromium, headless, driven by playwright-core. It is installed when it is
 * missing (as root), because a mail that was never laid out by a browser was never seen.
 */
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { type Browser, chromium } from 'playwright-core';

const EXECUTABLE = '/usr/bin/chromium';
/** The fonts have the widths of Helvetica and Arial, with which most readers' programs lay the mail out. */
const PACKAGES = ['chromium', 'fonts-liberation'];
const INSTALL = fileURLToPath(new URL('install.sh', import.meta.url));

/** No network, no profile of a person, no background services. */
const ARGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

/** The caller closes it. */
export async function openBrowser(): Promise<Browser> {
  execFileSync(INSTALL, PACKAGES, { stdio: ['ignore', 'ignore', 'inherit'] });
  return await chromium.launch({ executablePath: EXECUTABLE, args: ARGS });
}
