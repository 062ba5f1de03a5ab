/** An archived report from the store to the page, by the real command. Addresses and bounds are in `site.test.ts`. */
import { mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../src/core/clock.ts';
import type { HttpListener } from '../../../src/core/http-listener.ts';
import { reportPath } from '../../../src/core/report-page.ts';
import { createCommands } from '../../../src/daemon/run-process.ts';
import { reportCopyPrefix, reportsPrefix } from '../../../src/ledger/layout.ts';
import { flowdrop, MAIN, makeFolder } from '../../support/flowdrop.ts';
import { writeJob } from '../../support/jobs.ts';
import { makeJob, makeStatus, makeView, startPage } from './views.ts';

const COPY = { date: '2026-11-20', report: 'flow-1a2b3c4d', revision: 1 };
const PAGE = '<!doctype html><title>Flow "of" the day</title>';

let cwd: string;
let remove: () => Promise<void>;
let commands: ReturnType<typeof createCommands>;
let web: HttpListener;
let job: string;

beforeAll(async () => {
  ({ path: cwd, remove } = await makeFolder());
  const commandOf = (args: readonly string[]) => ({
    executable: process.execPath,
    args: [MAIN, ...args],
    env: { PATH: process.env['PATH'], FLOWDROP_STATE_DIR: join(cwd, 'state') },
    cwd,
  });
  commands = createCommands(commandOf, systemClock);
  const status = makeStatus('nightly', { reports: [COPY] });
  web = await startPage({
    view: () => makeView([makeJob('nightly', { status })]),
    commands,
    pathOf: () => job,
    clock: systemClock,
  });
});
afterAll(async () => {
  await web.close();
  commands.stop();
  commands.kill();
  await commands.untilIdle();
  await remove();
});
beforeEach(async () => {
  job = await writeJob(cwd);
  await rm(join(cwd, 'drops'), { recursive: true, force: true });
  const page = join(cwd, 'drops', reportCopyPrefix('nightly', COPY.date, COPY.report, COPY.revision), 'report.html');
  await mkdir(dirname(page), { recursive: true });
  await writeFile(page, PAGE);
});

/** What the page answers, and how the command that a person would type ends. */
async function ask() {
  const answer = await fetch(web.url + reportPath('nightly', COPY));
  const chosen = ['--date', COPY.date, '--report', COPY.report, '--revision', String(COPY.revision)];
  const { code } = await flowdrop(['report', job, ...chosen, '--show'], { cwd });
  return { status: answer.status, body: await answer.text(), code };
}

describe('an archived report', () => {
  it('that is there is shown as it was mailed', async () => {
    expect(await ask()).toEqual({ status: 200, body: PAGE, code: 0 });
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
