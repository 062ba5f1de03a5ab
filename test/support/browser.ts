/**
 * A real browser for the tests: Debian's Chromium, headless, driven by playwright-core. It is installed when it is
 * missing (as root), because a mail that was never laid out by a browser was never seen.
 */
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { type Browser, chromium } from 'playwright-core';

const EXECUTABLE = '/usr/bin/chromium';
/** They have the widths of Helvetica and Arial, with which most readers' programs lay the mail out. */
const FONTS = '/usr/share/fonts/truetype/liberation';

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
  const missing = [...(existsSync(EXECUTABLE) ? [] : ['chromium']), ...(existsSync(FONTS) ? [] : ['fonts-liberation'])];
  if (missing.length > 0) install(missing);
  return await chromium.launch({ executablePath: EXECUTABLE, args: ARGS });
}

function install(packages: readonly string[]): void {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  execFileSync('apt-get', ['update', '-q'], { env, stdio: 'ignore' });
  execFileSync('apt-get', ['install', '-qy', '--no-install-recommends', ...packages], { env, stdio: 'ignore' });
}
