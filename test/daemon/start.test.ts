/**
 * `flowdrop start` as whole processes: what reaches the disk, signals, files that change, and children that die. When what
 * is started is in `loop.test.ts`.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it, vi } from 'vitest';
import { flowdrop, listFiles, MAIN, makeFolder, startService, type TestService } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';
import { listChildren, readEnvironment } from '../support/processes.ts';

const SCHEDULE = 'schedule:\n  cron: "* * * * *"\n  timezone: Etc/UTC';

let service: TestService;
let cwd: string;
let remove: () => Promise<void>;
const daemons: ChildProcess[] = [];
beforeAll(async () => {
  service = await startService(['--generate', '1', '--generate-rows', '300']);
});
afterAll(async () => await service.stop());
beforeEach(async () => {
  ({ path: cwd, remove } = await makeFolder());
});
afterEach(async () => {
  for (const child of daemons.splice(0)) {
    if (child.exitCode !== null || child.signalCode !== null) continue;
    const exit = once(child, 'exit');
    child.kill('SIGTERM');
    await exit;
  }
  await remove();
});

type Line = Readonly<Record<string, unknown>>;

function startDaemon(rate?: string) {
  const env = {
    PATH: process.env['PATH'],
    FLOWDROP_STATUS_ADDRESS: '127.0.0.1:0',
    ...service.env,
    ...(rate ? { FLOWDROP_REQUESTS_PER_SECOND: rate } : {}),
  };
  const child = spawn(process.execPath, [MAIN, '--jobs', '.', 'start'], { cwd, env });
  daemons.push(child);
  const lines: Line[] = [];
  createInterface({ input: child.stderr }).on('line', (line) => lines.push(JSON.parse(line) as Line));
  const until = async (event: string, which: Line = {}, count = 1) => {
    const matching = () =>
      lines.filter(
        (line) => line['event'] === event && Object.entries(which).every(([key, value]) => line[key] === value),
      );
    await vi.waitFor(() => expect(matching().length, JSON.stringify(lines)).toBeGreaterThanOrEqual(count), {
      timeout: 40_000,
      interval: 50,
    });
    return matching().at(-1) as Line;
  };
  return { child, lines, until };
}

const listManifests = async () => (await listFiles(cwd)).filter((name) => name.endsWith('manifest.json'));

it('a job that never ran is caught up in a process with a log of its own', async () => {
  await writeJob(cwd, { reports: '', schedule: SCHEDULE });
  const { child, lines, until } = startDaemon();
  const finished = await until('finished', { outcome: 'done' });
  const exit = once(child, 'exit');
  child.kill('SIGTERM');
  expect(await exit).toEqual([0, null]);
  const run = String(finished['run']);
  expect(await readdir(join(cwd, '.flowdrop', 'nightly', 'logs'))).toContain(`${run}.log`);
  expect(finished['logFile']).toBe(join(cwd, '.flowdrop', 'nightly', 'logs', `${run}.log`));
  expect(lines.find(({ event }) => event === 'started')).toMatchObject({ job: 'nightly', reason: 'catch-up', run });
  expect(await listManifests()).toHaveLength(1);
});

it('a broken file keeps the old job, also over a restart, and runs go through', async () => {
  const file = await writeJob(cwd, { reports: '', schedule: SCHEDULE });
  const first = startDaemon();
  await first.until('scheduled');
  await writeFile(file, 'name: [');
  // No signal: the folder is watched.
  await first.until('job-broken');
  const exit = once(first.child, 'exit');
  first.child.kill('SIGTERM');
  await exit;
  const second = startDaemon();
  await second.until('job-broken');
  await second.until('finished', { outcome: 'done' });
  expect(await listManifests()).toHaveLength(1);
  await writeJob(cwd, { reports: '', schedule: SCHEDULE });
  second.child.kill('SIGHUP');
  await second.until('job-mended');
});

it('SIGTERM ends a daemon with a run in flight below ten seconds, and the next start goes on to a sealed date', async () => {
  await writeJob(cwd, { reports: '', schedule: SCHEDULE });
  // A request in four seconds: the run cannot have ended.
  const first = startDaemon('0.25');
  await first.until('started');
  const begun = performance.now();
  const exit = once(first.child, 'exit');
  first.child.kill('SIGTERM');
  expect(await exit).toEqual([0, null]);
  expect(performance.now() - begun).toBeLessThan(10_000);
  expect(await listManifests()).toEqual([]);
  const second = startDaemon();
  await second.until('finished', { outcome: 'done' });
  expect(await listManifests()).toHaveLength(1);
});

it('a run that is killed has died, is told, and is tried again', async () => {
  await writeJob(cwd, {
    name: 'second',
    reports: 'alerts:\n  to: [ops@example.com]',
    schedule: 'schedule:\n  cron: "0 12 * * *"\n  retry: 1m',
  });
  const { child, lines, until } = startDaemon('0.25');
  const started = await until('started', { job: 'second' });
  const pids = await listChildren(child.pid ?? 0);
  const runs = await findRun(pids, String(started['run']));
  for (const pid of runs) process.kill(pid, 'SIGKILL');
  await until('finished', { job: 'second', outcome: 'died', signal: 'SIGKILL' });
  await until('telling', { job: 'second', what: 'died' });
  expect(lines.filter(({ event, job }) => event === 'retry' && job === 'second')).toHaveLength(1);
});

it('a file that was never good is left out, and a folder without a usable job is refused', async () => {
  await writeJob(cwd, { reports: '', schedule: SCHEDULE });
  await writeFile(join(cwd, 'bad.yaml'), 'name: [');
  const { until, lines } = startDaemon();
  await until('started');
  expect(lines.find(({ event }) => event === 'job-broken')).toMatchObject({ file: 'bad.yaml' });
  const empty = await makeFolder();
  await writeJob(empty.path, { reports: '' });
  expect(
    await flowdrop(['--jobs', '.', 'start'], { cwd: empty.path, env: { FLOWDROP_STATUS_ADDRESS: 'off' } }),
  ).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('schedule'),
  });
  await writeJob(empty.path, { reports: '', schedule: `${SCHEDULE}\n  distributed: true` });
  expect(
    await flowdrop(['--jobs', '.', 'start'], { cwd: empty.path, env: { FLOWDROP_STATUS_ADDRESS: 'off' } }),
  ).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/nightly.*FLOWDROP_REDIS_URL/),
  });
  await empty.remove();
});

async function findRun(pids: readonly number[], runId: string): Promise<readonly number[]> {
  const environments = await Promise.all(pids.map(async (pid) => ({ pid, env: await readEnvironment(pid) })));
  return environments.flatMap(({ pid, env }) => (env['FLOWDROP_RUN_ID'] === runId ? [pid] : []));
}
