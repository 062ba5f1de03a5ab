/**
 * What `status` and `report --show` tell of real runs: one that goes on, one that was killed, one that is over. The shapes
 * are those that the daemon reads. What status reads of a store is tested in `test/cli/status/job-status.test.ts`.
 */
import type { ChildProcess } from 'node:child_process';
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, expect, it } from 'vitest';
import { statusSchema } from '../../src/daemon/shapes.ts';
import type { RunRecord } from '../../src/state/run-record.ts';
import { useCleanups } from '../support/cleanups.ts';
import { holdFrom } from '../support/fault-plan.ts';
import { startFaultProxy } from '../support/fault-proxy.ts';
import { flowdrop, startService, type TestService } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';
import { readNewestRun } from '../support/run-record.ts';

let service: TestService;
const { folder, keep } = useCleanups();

beforeAll(async () => {
  const served = ['--generate', '1', '--generate-rows', '1200', '--row-limit', '100'];
  service = await keep(startService([...served, '--as-of', '2026-11-20T23:00:00Z']));
});

async function readStatus(cwd: string, job: string) {
  const { stdout } = await flowdrop(['--json', 'status', job], { cwd, env: service.env });
  const [status] = JSON.parse(stdout) as readonly Record<'running' | 'last_run', RunRecord | null>[];
  return { ...statusSchema.parse(status), ...status };
}

it('a run shows in status while it goes on, not after it was killed, and leaves nothing at its own end', async () => {
  const cwd = await folder();
  const job = await writeJob(cwd);
  const stateDir = join(cwd, '.flowdrop');
  let child: ChildProcess | undefined;
  // In the middle of the date, which has 12 pages.
  const gate = await keep(startFaultProxy(service.url, holdFrom(6)));
  const env = { ...service.env, FLOWDROP_API_URL: gate.url, FLOWDROP_RUN_ID: 'tick-1' };
  const onStart = (started: ChildProcess) => {
    child = started;
  };
  const killed = flowdrop(['run', job], { cwd, env, onStart });
  const pages = async () => (await readNewestRun(stateDir, 'nightly'))?.pages;
  await expect.poll(pages, { timeout: 60_000 }).toBeGreaterThan(0);
  const { running } = await readStatus(cwd, job);
  expect(running).toMatchObject({ run_id: 'tick-1', process: { pid: child?.pid }, splits: 0 });
  expect(running?.progress).toMatchObject({ phase: 'fetching', date: '2026-11-20', total_rows: 1200 });
  expect(running?.progress).toMatchObject({ dates_total: 1, dates_done: 0 });
  expect(running?.progress?.window).toMatch(/^\d\d:\d\d:\d\d.*\.\.\d\d:\d\d:\d\d/);
  const type = async (command: string) => (await flowdrop([command, job], { cwd, env: service.env })).stdout;
  expect(await type('status')).toMatch(
    /^running for \d+ s: \w+ 2026-11-20, \d+%, [\d,]+ of 1,200 rows, .* \(run tick-1\)$/m,
  );
  child?.kill('SIGKILL');
  expect((await killed).code).toBeNull();
  const died = { outcome: 'died', error: { code: 'RUN_DIED' }, progress: null };
  expect(await readStatus(cwd, job)).toMatchObject({ running: null, last_success: null, last_run: died });
  expect(await type('status')).toMatch(/^last run \d+ s ago: died: RUN_DIED/m);
  expect(await type('runs')).toContain('died: RUN_DIED');

  const { stdout } = await flowdrop(['--json', 'run', job], { cwd, env: service.env, code: 0 });
  const run = JSON.parse(stdout) as { readonly run_id: string; readonly finished_at: string };
  expect(run.run_id).toMatch(/^\d{8}T\d{6}Z-[0-9a-f]{6}$/);
  const after = await readStatus(cwd, job);
  const last_run = { run_id: run.run_id, outcome: 'done', has_open: false, reports: [{ date: '2026-11-20' }] };
  expect(after).toMatchObject({ running: null, fault: null, last_run });
  expect(after.last_run?.dates).toMatchObject([{ date: '2026-11-20', status: 'sealed', rows: 1200 }]);
  // Its reports have come after its record.
  const successAt = after.last_success ?? '';
  expect(Date.parse(successAt)).toBeGreaterThanOrEqual(Date.parse(run.finished_at));
  expect(after.dates).toMatchObject([{ date: '2026-11-20', condition: 'available', rows: 1200, revision: 1 }]);

  const [report] = after.reports;
  expect(report).toMatchObject({ date: '2026-11-20', revision: 1 });
  const show = (...flags: readonly string[]) =>
    flowdrop(['report', job, '--show', ...flags], { cwd, env: service.env });
  const page = await show('--date', '2026-11-20', '--report', report?.report ?? '', '--revision', '1');
  expect(page.code, page.stderr).toBe(0);
  const copy = `drops/_flowdrop/reports/nightly/session=2026-11-20/${report?.report}/rev=1/report.html`;
  expect(page.stdout).toBe(await readFile(join(cwd, copy), 'utf8'));
  const absent = await show('--date', '2026-11-19');
  expect(absent).toMatchObject({ code: 2, stdout: '' });
  expect(absent.stderr).toContain(`Available: 2026-11-20 ${report?.report} revision 1.`);
  expect((await show('--revision', 'two')).stderr).toContain("'two' is invalid. it must be a number");
  expect((await flowdrop(['report', job, '--revision', '1'], { cwd })).code).toBe(2);
});

it('a store that cannot be read is told, and the other jobs are too', async () => {
  const cwd = await folder();
  await mkdir(join(cwd, 'jobs'));
  await writeJob(join(cwd, 'jobs'), { name: 'lost', to: 'drops-a' });
  await writeJob(join(cwd, 'jobs'), { name: 'whole', to: 'drops-b' });
  await flowdrop(['--json', 'run', 'lost', '--no-report'], { cwd, env: service.env, code: 0 });
  await rename(join(cwd, 'drops-a'), join(cwd, 'elsewhere'));
  await writeFile(join(cwd, 'drops-a'), 'a file where the folder was');
  const { code, stdout, stderr } = await flowdrop(['status'], { cwd, env: service.env });
  expect(code).toBe(1);
  expect(stderr).toMatch(/^lost: the store could not be read: .*drops-a/m);
  expect(stdout).toMatch(/■ available 1/);
  expect(stdout).toMatch(/^whole: /m);
  expect(await readStatus(cwd, 'lost')).toMatchObject({ dates: [{ condition: 'available', rows: 1200 }], reports: [] });
});
