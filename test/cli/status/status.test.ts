/** `flowdrop status` of dates that are not sealed: what a failed run and the store's `condition.json` make known. */
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { flowdrop, listFiles, makeFolder, startService, type TestService } from '../../support/flowdrop.ts';
import { writeJob } from '../../support/jobs.ts';

let service: TestService;
const cleanups: (() => Promise<void>)[] = [];

beforeAll(async () => {
  service = await startService(['--generate', '2', '--generate-rows', '300', '--as-of', '2026-11-20T23:00:00Z']);
  cleanups.push(() => service.stop());
});
afterAll(async () => {
  for (const cleanup of cleanups.reverse()) await cleanup();
});

async function makeWorker(reports = ''): Promise<{ readonly cwd: string; readonly job: string }> {
  const { path: cwd, remove } = await makeFolder();
  cleanups.push(remove);
  return { cwd, job: await writeJob(cwd, { reports }) };
}

it('nothing is known of a job that never ran', async () => {
  const { cwd, job } = await makeWorker();
  const { code, stdout } = await flowdrop(['status', job], { cwd });
  expect(code).toBe(0);
  expect(stdout).toContain('No date is known yet: run the job, or see `flowdrop plan nightly`.');
});

it('the date of a failed first backfill is pending and says when it begins to expire', async () => {
  const { cwd, job } = await makeWorker('checks:\n  - check: min-rows\n    rows: 1000');
  const backfill = await flowdrop(['backfill', job], { cwd, env: service.env });
  expect(backfill.code, backfill.stderr).toBe(1);
  expect(backfill.stdout).toContain('\n2026-11-19: check min-rows: 300 rows');
  expect(await listFiles(join(cwd, 'drops'))).toEqual(['trades/condition.json']);
  const { stdout } = await flowdrop(['status', job], { cwd, env: service.env });
  expect(stdout).toMatch(/2026-11-19 +pending +in \d+ (days|h) +2026-12-04T05:00:00\.000Z/);
  const list = await flowdrop(['status', job, '--list'], { cwd, env: service.env });
  expect(list.stdout).toMatch(/2026-11-19 +pending +2026-12-04T05:00:00\.000Z/);
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
    /last run never; last backfill \d+ s ago \(\d{4}-\S+Z\)\nnext run by hand\n.*not asked for yet.*`flowdrop plan nightly`/,
  );
  expect(after).not.toContain('2026-11-19');
  expect((await flowdrop(['run', job], { cwd, env: service.env })).code).toBe(0);
  const whole = await status();
  expect(whole).toMatch(
    /last run \d+ s ago \(\d{4}-\S+Z\): done, sealed 1 of 1 date\(s\), 300 rows, .*; last backfill \d+ s ago \(\S+\)\nnext run by hand\n\n/,
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
  });
  await mkdir(join(cwd, 'drops', 'trades'), { recursive: true });
  await writeFile(
    join(cwd, 'drops', 'trades', 'condition.json'),
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

it('a broken job file is told after the others, in the block of every failure, and ends with 2', async () => {
  const { path: cwd, remove } = await makeFolder();
  cleanups.push(remove);
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
  const { path: cwd, remove } = await makeFolder();
  cleanups.push(remove);
  await mkdir(join(cwd, 'jobs'));
  await writeJob(join(cwd, 'jobs'), { name: 'second' });
  // A link that leads to itself.
  await symlink(join(cwd, 'jobs', 'first.yaml'), join(cwd, 'jobs', 'first.yaml'));
  const { code, stdout, stderr } = await flowdrop(['status'], { cwd });
  expect(stdout).toMatch(/^second: /);
  expect(stderr).toContain('ELOOP');
  expect(code).toBe(1);
});
