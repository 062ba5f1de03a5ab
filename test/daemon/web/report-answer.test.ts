/** An archived report from the store to the page, by the real command. Addresses and bounds are in `site.test.ts`. */
import { mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../src/core/clock.ts';
import { PAGE_LINKS, reportPath } from '../../../src/core/report-page.ts';
import { createCommands } from '../../../src/daemon/run-process.ts';
import { reportCopyPrefix, reportsPrefix } from '../../../src/ledger/layout.ts';
import { useCleanups } from '../../support/cleanups.ts';
import { flowdrop, MAIN } from '../../support/flowdrop.ts';
import { writeJob } from '../../support/jobs.ts';
import { makeJob, makeStatus, makeView, usePage } from './views.ts';

const COPY = { date: '2026-11-20', report: 'flow-1a2b3c4d', revision: 1 };
const PAGE = '<!doctype html><title>Flow "of" the day</title>';
/** As it is kept: linked to its neighbor in the folder, which is not at that place on the page. */
const KEPT = PAGE_LINKS.replace(
  ' --><',
  ' --><a href="../../../session=2026-11-19/flow/rev=1/report.html">before</a><',
);
const SHOWN = PAGE_LINKS.replace(
  ' --><',
  ' --><nav aria-label="Other pages"><ul><li><a href="../../../../">Status page</a></li></ul></nav><',
);

const { cleanups, folder } = useCleanups(afterEach);
const page = usePage();
let cwd: string;
let job: string;

beforeEach(async () => {
  cwd = await folder();
  job = await writeJob(cwd);
  const commandOf = (args: readonly string[]) => ({
    executable: process.execPath,
    args: [MAIN, ...args],
    env: { PATH: process.env['PATH'], FLOWDROP_STATE_DIR: join(cwd, 'state') },
    cwd,
  });
  const commands = createCommands(commandOf, systemClock);
  cleanups.push(async () => {
    commands.stop();
    commands.kill();
    await commands.untilIdle();
  });
  const status = makeStatus('nightly', { reports: [COPY] });
  const view = () => makeView([makeJob('nightly', { status })]);
  await page.start({ view, commands, pathOf: () => job, clock: systemClock });
  const copy = join(cwd, 'drops', reportCopyPrefix('nightly', COPY.date, COPY.report, COPY.revision), 'report.html');
  await mkdir(dirname(copy), { recursive: true });
  await writeFile(copy, PAGE + KEPT);
});

/** What the page answers, and how the command that a person would type ends. */
async function ask() {
  const { status, body } = await page.call(reportPath('nightly', COPY));
  const chosen = ['--date', COPY.date, '--report', COPY.report, '--revision', String(COPY.revision)];
  const { code, stdout } = await flowdrop(['report', job, ...chosen, '--show'], { cwd });
  return { status, body, code, stdout };
}

describe('an archived report', () => {
  it('that is there is shown as it was mailed, without links that lead nowhere', async () => {
    expect(await ask()).toEqual({ status: 200, body: PAGE + SHOWN, code: 0, stdout: PAGE + PAGE_LINKS });
  });

  it('that is there no more is not found, and the command calls it wrong usage', async () => {
    await rm(join(cwd, 'drops', '_flowdrop', 'reports'), { recursive: true });
    expect(await ask()).toMatchObject({ status: 404, code: 2 });
  });

  it('in a store that cannot be read is no missing one, and the command has failed', async () => {
    const folder = join(cwd, 'drops', reportsPrefix('nightly'));
    await rm(folder, { recursive: true });
    // It leads to itself.
    await symlink(folder.replace(/\/$/, ''), folder.replace(/\/$/, ''));
    const answer = await ask();
    expect(answer).toMatchObject({ status: 502, code: 1 });
    expect(answer.body).toContain('It cannot be read');
    expect(answer.body).not.toContain(cwd);
  });

  it('of a job whose file is broken is no missing one', async () => {
    await writeFile(job, 'name: [');
    expect(await ask()).toMatchObject({ status: 502, code: 2 });
  });
});
