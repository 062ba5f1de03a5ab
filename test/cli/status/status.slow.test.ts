/**
 * `flowdrop status` of dates that are not sealed: what a failed run and the store's `condition.json` make known. And how the
 * last run ended, whatever it came to.
 */
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import type { JobStatus } from '../../../src/state/documents.ts';
import { RunHistory } from '../../../src/state/run-history.ts';
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

/** A worker with a disk of its own, over the service unless a command has another environment. */
async function makeWorker(reports = '') {
  const cwd = await folder();
  const job = await writeJob(cwd, { reports });
  const type = (args: readonly string[], env: Readonly<Record<string, string>> = {}) =>
    flowdrop(args, { cwd, env: { ...service.env, ...env } });
  const status = async () => (await type(['status', job])).stdout;
  const readDocument = async () => {
    const { code, stdout, stderr } = await type(['--json', 'status', job]);
    // 3: by now there are later sessions, which nobody fetches.
    expect([0, 3], stderr).toContain(code);
    return (JSON.parse(stdout) as readonly JobStatus[])[0];
  };
  return { cwd, job, type, status, readDocument };
}

it('nothing is known of a job that never ran', async () => {
  const { status, readDocument } = await makeWorker();
  const shown = await status();
  expect(shown).toContain('No date is known yet: run the job, or see `flowdrop plan nightly`.');
  expect(shown).toContain('\nlast run never\nnext run by hand\n');
  expect(await readDocument()).toMatchObject({ last_run: null, last_success: null, last_backfill: null });
});

describe('the end of the last run', () => {
  const NOWHERE = { FLOWDROP_API_URL: 'http://127.0.0.1:9' };
  const UNREACHABLE = /API_UNREACHABLE: the API at http:\/\/127\.0\.0\.1:9\/\S* cannot be reached: .*/.source;

  it('is told of a first run that failed', async () => {
    const { cwd, job, type, status, readDocument } = await makeWorker();
    expect((await type(['run', job], NOWHERE)).code).toBe(1);
    expect(await status()).toMatch(
      new RegExp(`\\nlast run \\d+ s ago: failed: ${UNREACHABLE}\\nlast success none on record\\nnext run by hand\\n`),
    );
    const asked = await type(['status', job]);
    expect([asked.code, asked.stdout]).toEqual([
      3,
      expect.stringContaining('needs you: the last run failed before any date was known: `flowdrop runs nightly last`'),
    ]);
    expect((await type(['runs', job, 'last'])).stdout).toMatch(/^Run \S+ of nightly: failed\n/);
    expect(await readDocument()).toMatchObject({ last_run: { outcome: 'failed', error: { code: 'API_UNREACHABLE' } } });
    // The daemon catches it up.
    expect(await new RunHistory(join(cwd, '.flowdrop'), 'nightly').lastRunAt(true)).toBeUndefined();
  });

  it('is kept without secrets', async () => {
    const { cwd, job, type, status, readDocument } = await makeWorker();
    expect((await type(['run', job], { FLOWDROP_CALENDAR_FILE: join(cwd, `${KEY}.yaml`) })).code).toBe(2);
    const kept = JSON.stringify((await readDocument())?.last_run);
    expect(JSON.parse(kept)).toMatchObject({
      outcome: 'usage',
      error: { code: 'SETTING_INVALID', message: expect.stringMatching(/\[secret\]\.yaml, which cannot/) },
    });
    expect(kept).not.toContain(KEY);
    expect(await status()).toContain('failed: SETTING_INVALID: FLOWDROP_CALENDAR_FILE names ');
  });

  it('is that of a failure after a good run, with the time of the good one, until the next good one', async () => {
    const { job, type, status, readDocument } = await makeWorker();
    const good = await type(['run', job]);
    expect(good.code, good.stderr).toBe(0);
    expect(await readDocument()).toMatchObject({ last_run: { outcome: 'done', error: null } });
    expect((await type(['run', job], NOWHERE)).code).toBe(1);
    expect(await status()).toMatch(
      new RegExp(
        `\\nlast run \\d+ s ago: failed: ${UNREACHABLE}\\nlast success \\d+ s ago \\(\\w{3} \\d+, [\\d:]+ ET\\)\\nnext run by hand\\n`,
      ),
    );
    // A backfill that fails is told beside it, and is no run.
    const end = (await readDocument())?.last_run;
    expect((await type(['backfill', job], NOWHERE)).code).toBe(1);
    expect(await status()).toMatch(
      new RegExp(
        `last run \\d+ s ago: failed: ${UNREACHABLE}\\n.*\\nlast backfill \\d+ s ago: failed: ${UNREACHABLE}\\nnext run`,
      ),
    );
    expect((await readDocument())?.last_run).toEqual(end);
    for (const command of ['run', 'backfill']) expect((await type([command, job])).code).toBe(0);
    expect(await status()).toMatch(
      /last run \d+ s ago \([^)]+ ET\): done, nothing to seal, .*\nlast backfill \d+ s ago \([^)]+ ET\): done, .*\nnext run by hand\n/,
    );
  });

  it('is failed where it came to its end without a date, which says when it expires, and incomplete where nothing is to be had', async () => {
    const { cwd, job, type, status, readDocument } = await makeWorker('checks: [{check: min-rows, rows: 1000}]');
    const backfill = await type(['backfill', job]);
    expect(backfill.code, backfill.stderr).toBe(1);
    expect(backfill.stdout).toContain('\n2026-11-19: check min-rows: 300 rows');
    expect(await listFiles(join(cwd, 'drops'))).toEqual([
      '_flowdrop/store.json',
      '_flowdrop/trades/condition.json',
      '_flowdrop/trades/fields/v1.json',
    ]);
    expect(await status()).toMatch(/2026-11-19 +pending +in \d+ (days|h) +Dec 4, 09:30 ET/);
    expect((await type(['status', job, '--list'])).stdout).toMatch(/2026-11-19 +pending +Dec 4, 09:30 ET/);
    expect((await type(['run', job])).code).toBe(1);
    expect(await status()).toMatch(
      /\nlast run \d+ s ago \([^)]+ ET\): failed, sealed 0 of 2 dates, .*: CHECK_FAILED: .*min-rows.*\nlast success none on record\n/,
    );
    expect(await status()).toMatch(/\nfailed: 2026-11-\d\d, CHECK_FAILED: .*min-rows/);
    expect((await type(['runs', job])).stdout).toContain('failed: CHECK_FAILED');
    const shown = (await type(['runs', job, 'last'])).stdout;
    expect(shown).toMatch(/^Run \S+ of nightly: failed\n`flowdrop run nightly` \(hand\), .* ET, took /);
    expect(shown).toMatch(/\nCHECK_FAILED: .*min-rows.*\n(.*\n)*Next: `flowdrop run nightly`\n/);
    expect(shown).toMatch(/\n2026-11-19 +failed: CHECK_FAILED +\d+ +\d+\n/);
    expect(shown).toMatch(/\nThe end of .*\.log:\n(.*\n)*[\d:]{8} error .*min-rows/);
    const { id, log } = JSON.parse((await type(['--json', 'runs', job, 'last', '--limit', '2'])).stdout);
    expect(log).toHaveLength(2);
    expect((await type(['runs', job, id])).stdout).toBe(shown);
    expect(await type(['runs', job, 'nowhere'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('RUN_UNKNOWN: nightly has no run "nowhere" on record'),
    });
    expect(await readDocument()).toMatchObject({ last_run: { outcome: 'failed', error: null } });
    // A session that the source has no rows of.
    expect((await type(['backfill', job, '--from', '2026-11-18', '--to', '2026-11-18'])).code).toBe(3);
    expect(await readDocument()).toMatchObject({ last_backfill: { outcome: 'incomplete', error: null } });
  });

  it('is that it was stopped, after a signal', async () => {
    const { cwd, job, status, readDocument } = await makeWorker();
    const gate = await startFaultProxy(service.url, holdFrom(1));
    cleanups.push(() => gate.close());
    const stopped = await flowdrop(['run', job], {
      cwd,
      env: { ...service.env, FLOWDROP_API_URL: gate.url },
      onStart: (child) => void gate.untilHeld().then(() => child.kill('SIGINT')),
    });
    expect(stopped.code).toBe(130);
    expect(await status()).toMatch(/\nlast run \d+ s ago: stopped\nlast success none on record\n/);
    expect(await readDocument()).toMatchObject({ last_run: { outcome: 'interrupted' } });
  });

  it('cannot change the exit code of the run, when it cannot be written', async () => {
    const { cwd, job, type } = await makeWorker();
    await mkdir(join(cwd, '.flowdrop', 'nightly'), { recursive: true });
    await writeFile(join(cwd, '.flowdrop', 'nightly', 'runs'), 'no folder');
    const good = await type(['run', job]);
    expect(good.code, good.stderr).toBe(0);
    const failed = await type(['run', job], NOWHERE);
    expect(failed.code).toBe(1);
    expect(failed.stderr).toContain('flowdrop: API_UNREACHABLE');
  });
});

it('a backfill is told beside the last run, and that earlier dates were not asked for until there is one', async () => {
  const { job, type, status } = await makeWorker();
  const backfill = await type(['backfill', job, '--from', '2026-11-20', '--to', '2026-11-20']);
  expect(backfill.code, backfill.stderr).toBe(0);
  const after = await status();
  expect(after).toMatch(
    /last run never\nlast backfill \d+ s ago \([^)]+ ET\): done, .*\nnext run by hand\n(?:needs you.*\n)?.*not requested yet.*`flowdrop plan nightly`/,
  );
  expect(after).not.toContain('2026-11-19');
  expect((await type(['run', job])).code).toBe(0);
  const whole = await status();
  expect(whole).toMatch(/last run \d+ s ago \([^)]+ ET\): done, sealed 1 of 1 date, 300 rows, .*\nlast backfill /);
  expect(whole).not.toContain('not requested yet');
  expect(whole).toMatch(/2026-11-16 +■ +■ +600/);
});

it('losses and gaps of condition.json are told by a worker with an empty disk', async () => {
  const { cwd, readDocument } = await makeWorker();
  const unsealed = { last_modified_date: null, revision: null, rows: null, size: null };
  const known = [
    { date: '2026-01-05', condition: 'expired', ...unsealed },
    { date: '2026-01-06', condition: 'missing', ...unsealed },
  ];
  await mkdir(join(cwd, 'drops', '_flowdrop', 'trades'), { recursive: true });
  await writeFile(join(cwd, 'drops', '_flowdrop', 'trades', 'condition.json'), JSON.stringify(known));
  const { dates = [] } = (await readDocument()) ?? {};
  expect(dates.slice(0, 3)).toMatchObject([
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
  expect([0, 3], stderr).toContain(code);
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
