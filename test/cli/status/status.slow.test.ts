/**
 * `flowdrop status` of dates that are not sealed: what a failed run and the store's `condition.json` make known. And how the
 * last run ended, whatever it came to.
 */
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { RunHistory } from '../../../src/state/run-history.ts';
import type { RunRecord } from '../../../src/state/run-record.ts';
import { useCleanups } from '../../support/cleanups.ts';
import { holdFrom } from '../../support/fault-plan.ts';
import { startFaultProxy } from '../../support/fault-proxy.ts';
import { flowdrop, KEY, listFiles, startService, type TestService } from '../../support/flowdrop.ts';
import { writeJob } from '../../support/jobs.ts';

let service: TestService;
const { cleanups, folder } = useCleanups();

beforeAll(async () => {
  service = await startService(['--generate', '2', '--generate-rows', '300', '--as-of', '2026-11-20T23:00:00Z']);
  cleanups.push(() => service.stop());
});

async function makeWorker(reports = ''): Promise<{ readonly cwd: string; readonly job: string }> {
  const cwd = await folder();
  return { cwd, job: await writeJob(cwd, { reports }) };
}

it('nothing is known of a job that never ran', async () => {
  const { cwd, job } = await makeWorker();
  const { code, stdout } = await flowdrop(['status', job], { cwd });
  expect(code).toBe(0);
  expect(stdout).toContain('No date is known yet: run the job, or see `flowdrop plan nightly`.');
  expect(stdout).toContain('\nlast run never\nnext run by hand\n');
  expect(await readDocument(cwd, job)).toMatchObject({ last_run: null, last_success: null, last_backfill: null });
});

interface StatusDocument {
  readonly last_run: RunRecord | null;
  readonly last_backfill: RunRecord | null;
}

async function readDocument(cwd: string, job: string): Promise<StatusDocument | undefined> {
  const { code, stdout, stderr } = await flowdrop(['--json', 'status', job], { cwd, env: service.env });
  expect(code, stderr).toBe(0);
  return (JSON.parse(stdout) as readonly StatusDocument[])[0];
}

describe('the end of the last run', () => {
  const nowhere = () => ({ ...service.env, FLOWDROP_API_URL: 'http://127.0.0.1:9' });
  const UNREACHABLE = /API_UNREACHABLE: the API at http:\/\/127\.0\.0\.1:9\/\S* cannot be reached: .*/.source;
  const stateOf = (cwd: string, name: string) => join(cwd, '.flowdrop', 'nightly', name);
  const status = async (cwd: string, job: string) =>
    (await flowdrop(['status', job], { cwd, env: service.env })).stdout;

  it('is told of a first run that failed', async () => {
    const { cwd, job } = await makeWorker();
    expect((await flowdrop(['run', job], { cwd, env: nowhere() })).code).toBe(1);
    expect(await status(cwd, job)).toMatch(
      new RegExp(`\\nlast run \\d+ s ago: failed: ${UNREACHABLE}\\nlast success none on record\\nnext run by hand\\n`),
    );
    const document = await readDocument(cwd, job);
    expect(document).toMatchObject({
      last_run: { outcome: 'failed', error: { code: 'API_UNREACHABLE' } },
    });
    // The daemon catches it up.
    expect(await new RunHistory(join(cwd, '.flowdrop'), 'nightly').lastRunAt(true)).toBeUndefined();
  });

  it('is kept without secrets', async () => {
    const { cwd, job } = await makeWorker();
    const env = { ...service.env, FLOWDROP_CALENDAR_FILE: join(cwd, `${KEY}.yaml`) };
    expect((await flowdrop(['run', job], { cwd, env })).code).toBe(2);
    const kept = JSON.stringify((await readDocument(cwd, job))?.last_run);
    expect(JSON.parse(kept)).toMatchObject({
      outcome: 'usage',
      error: { code: 'SETTING_INVALID', message: expect.stringMatching(/\[secret\]\.yaml, which cannot/) },
    });
    expect(kept).not.toContain(KEY);
    expect(await status(cwd, job)).toContain('failed: SETTING_INVALID: FLOWDROP_CALENDAR_FILE names ');
  });

  it('is that of a failure after a good run, with the time of the good one, until the next good one', async () => {
    const { cwd, job } = await makeWorker();
    const good = await flowdrop(['run', job], { cwd, env: service.env });
    expect(good.code, good.stderr).toBe(0);
    expect(await readDocument(cwd, job)).toMatchObject({ last_run: { outcome: 'done', error: null } });
    expect((await flowdrop(['run', job], { cwd, env: nowhere() })).code).toBe(1);
    expect(await status(cwd, job)).toMatch(
      new RegExp(
        `\\nlast run \\d+ s ago: failed: ${UNREACHABLE}\\nlast success \\d+ s ago \\(\\w{3} \\d+, [\\d:]+ ET\\)\\nnext run by hand\\n`,
      ),
    );
    // A backfill that fails is told beside it, and is no run.
    const end = (await readDocument(cwd, job))?.last_run;
    expect((await flowdrop(['backfill', job], { cwd, env: nowhere() })).code).toBe(1);
    expect(await status(cwd, job)).toMatch(
      new RegExp(
        `last run \\d+ s ago: failed: ${UNREACHABLE}\\n.*\\nlast backfill \\d+ s ago: failed: ${UNREACHABLE}\\nnext run`,
      ),
    );
    expect((await readDocument(cwd, job))?.last_run).toEqual(end);
    for (const command of ['run', 'backfill'])
      expect((await flowdrop([command, job], { cwd, env: service.env })).code).toBe(0);
    expect(await status(cwd, job)).toMatch(
      /last run \d+ s ago \([^)]+ ET\): done, nothing to seal, .*\nlast backfill \d+ s ago \([^)]+ ET\): done, .*\nnext run by hand\n/,
    );
  });

  it('is failed where the run came to its end without a date, and incomplete where nothing is to be had', async () => {
    const { cwd, job } = await makeWorker('checks:\n  - check: min-rows\n    rows: 1000');
    expect((await flowdrop(['run', job], { cwd, env: service.env })).code).toBe(1);
    expect(await status(cwd, job)).toMatch(
      /\nlast run \d+ s ago \([^)]+ ET\): failed, sealed 0 of 2 dates, .*\nlast success none on record\n/,
    );
    expect(await status(cwd, job)).toMatch(/\nfailed: 2026-11-\d\d, CHECK_FAILED: .*min-rows/);
    expect((await flowdrop(['runs', job], { cwd, env: service.env })).stdout).toContain('failed: CHECK_FAILED');
    expect(await readDocument(cwd, job)).toMatchObject({ last_run: { outcome: 'failed', error: null } });
    // A session that the source has no rows of.
    const vain = ['backfill', job, '--from', '2026-11-18', '--to', '2026-11-18'];
    expect((await flowdrop(vain, { cwd, env: service.env })).code).toBe(3);
    expect(await readDocument(cwd, job)).toMatchObject({ last_backfill: { outcome: 'incomplete', error: null } });
  });

  it('is that it was stopped, after a signal', async () => {
    const { cwd, job } = await makeWorker();
    const gate = await startFaultProxy(service.url, holdFrom(1));
    cleanups.push(() => gate.close());
    const stopped = await flowdrop(['run', job], {
      cwd,
      env: { ...service.env, FLOWDROP_API_URL: gate.url },
      onStart: (child) => void gate.untilHeld().then(() => child.kill('SIGINT')),
    });
    expect(stopped.code).toBe(130);
    expect(await status(cwd, job)).toMatch(/\nlast run \d+ s ago: stopped\nlast success none on record\n/);
    expect(await readDocument(cwd, job)).toMatchObject({ last_run: { outcome: 'interrupted' } });
  });

  it('cannot change the exit code of the run, when it cannot be written', async () => {
    const { cwd, job } = await makeWorker();
    await mkdir(stateOf(cwd, '.'), { recursive: true });
    await writeFile(stateOf(cwd, 'runs'), 'no folder');
    const good = await flowdrop(['run', job], { cwd, env: service.env });
    expect(good.code, good.stderr).toBe(0);
    const failed = await flowdrop(['run', job], { cwd, env: nowhere() });
    expect(failed.code).toBe(1);
    expect(failed.stderr).toContain('flowdrop: API_UNREACHABLE');
  });
});

it('the date of a failed first backfill is pending and says when it begins to expire', async () => {
  const { cwd, job } = await makeWorker('checks:\n  - check: min-rows\n    rows: 1000');
  const backfill = await flowdrop(['backfill', job], { cwd, env: service.env });
  expect(backfill.code, backfill.stderr).toBe(1);
  expect(backfill.stdout).toContain('\n2026-11-19: check min-rows: 300 rows');
  expect(await listFiles(join(cwd, 'drops'))).toEqual([
    '_flowdrop/store.json',
    '_flowdrop/trades/condition.json',
    '_flowdrop/trades/fields/v1.json',
  ]);
  const { stdout } = await flowdrop(['status', job], { cwd, env: service.env });
  expect(stdout).toMatch(/2026-11-19 +pending +in \d+ (days|h) +Dec 4, 09:30 ET/);
  const list = await flowdrop(['status', job, '--list'], { cwd, env: service.env });
  expect(list.stdout).toMatch(/2026-11-19 +pending +Dec 4, 09:30 ET/);
  expect(stdout).not.toContain('No date is known yet');
});

it('a backfill is told beside the last run, and that earlier dates were not asked for until there is one', async () => {
  const { cwd, job } = await makeWorker();
  const status = async () => (await flowdrop(['status', job], { cwd, env: service.env })).stdout;
  const backfill = await flowdrop(['backfill', job, '--from', '2026-11-20', '--to', '2026-11-20'], {
    cwd,
    env: service.env,
  });
  expect(backfill.code, backfill.stderr).toBe(0);
  const after = await status();
  expect(after).toMatch(
    /last run never\nlast backfill \d+ s ago \([^)]+ ET\): done, .*\nnext run by hand\n.*not requested yet.*`flowdrop plan nightly`/,
  );
  expect(after).not.toContain('2026-11-19');
  expect((await flowdrop(['run', job], { cwd, env: service.env })).code).toBe(0);
  const whole = await status();
  expect(whole).toMatch(
    /last run \d+ s ago \([^)]+ ET\): done, sealed 1 of 1 date, 300 rows, .*\nlast backfill \d+ s ago \([^)]+ ET\): done, .*\nnext run by hand\n\n/,
  );
  expect(whole).toMatch(/2026-11-16 +■ +■ +600/);
});

it('losses and gaps of condition.json are told by a worker with an empty disk', async () => {
  const { cwd, job } = await makeWorker();
  const lost = (date: string, condition: string) => ({
    date,
    condition,
    last_modified_date: null,
    revision: null,
    rows: null,
    size: null,
  });
  await mkdir(join(cwd, 'drops', '_flowdrop', 'trades'), { recursive: true });
  await writeFile(
    join(cwd, 'drops', '_flowdrop', 'trades', 'condition.json'),
    JSON.stringify([lost('2026-01-05', 'expired'), lost('2026-01-06', 'missing')]),
  );
  const { code, stdout } = await flowdrop(['--json', 'status', job], { cwd });
  expect(code).toBe(0);
  const [status] = JSON.parse(stdout) as [{ dates: { date: string; condition: string }[] }];
  expect(status.dates.slice(0, 3)).toMatchObject([
    { date: '2026-01-05', condition: 'expired' },
    { date: '2026-01-06', condition: 'missing' },
    { date: '2026-01-07', condition: 'expired' },
  ]);
});

it('more than five jobs have one line each; --all and --list show their dates', async () => {
  const cwd = await folder();
  const jobs = join(cwd, 'jobs');
  await mkdir(jobs);
  for (const name of ['a', 'b', 'c', 'd', 'e', 'nightly']) await writeJob(jobs, { name, to: `drops-${name}` });
  expect((await flowdrop(['run', 'nightly'], { cwd, env: service.env })).code).toBe(0);
  const { code, stdout, stderr } = await flowdrop(['status'], { cwd, env: service.env });
  expect(code, stderr).toBe(0);
  expect(stdout).toMatch(/^job +newest drop +to fetch +expires +lost +last run\n/);
  expect(stdout).toMatch(/\na {8}none +never\n/);
  expect(stdout).toMatch(/\nnightly {2}2026-11-20 .* done, \d+ s ago\n/);
  for (const flag of ['--all', '--list'])
    expect((await flowdrop(['status', flag], { cwd, env: service.env })).stdout).toMatch(/^a: .*\/drops-a\/trades\n/);
});

it('a broken job file is told after the others, in the block of every failure, and ends with 2', async () => {
  const cwd = await folder();
  const jobs = join(cwd, 'jobs');
  await mkdir(jobs);
  await writeJob(jobs, { name: 'first' });
  await writeFile(join(jobs, 'middle.yaml'), 'name: middle\nsource: {api: historic}\n');
  await writeJob(jobs, { name: 'second' });
  const shown = await flowdrop(['status'], { cwd });
  expect(shown.code).toBe(2);
  expect(shown.stdout).toMatch(/^first: .*\n(.*\n)+second: .*\n/);
  expect(shown.stdout).not.toContain('middle');
  expect(shown.stderr).toMatch(/^flowdrop: JOB_INVALID: .*middle\.yaml.*\n(.*\n)* {2}-> /);
  // The very block that the job's own status ends with.
  const alone = await flowdrop(['status', 'middle'], { cwd });
  expect(alone).toMatchObject({ code: 2, stdout: '', stderr: shown.stderr });
  const { code, stdout } = await flowdrop(['--json', 'status'], { cwd });
  expect(code).toBe(2);
  expect(JSON.parse(stdout)).toMatchObject([
    { job: 'first', fault: null },
    { job: 'second', fault: null },
    { file: join('jobs', 'middle.yaml'), error: { code: 'JOB_INVALID' } },
  ]);
});

it('a job file that cannot be read does not hide the others either', async () => {
  const cwd = await folder();
  await mkdir(join(cwd, 'jobs'));
  await writeJob(join(cwd, 'jobs'), { name: 'second' });
  // A link that leads to itself.
  await symlink(join(cwd, 'jobs', 'first.yaml'), join(cwd, 'jobs', 'first.yaml'));
  const { code, stdout, stderr } = await flowdrop(['status'], { cwd });
  expect(stdout).toMatch(/^second: /);
  expect(stderr).toContain('ELOOP');
  expect(code).toBe(1);
});
