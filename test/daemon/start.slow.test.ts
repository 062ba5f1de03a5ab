/** `flowdrop start` as whole processes. When what is started is in `loop.test.ts`. */
import { createHash } from 'node:crypto';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, expect, it } from 'vitest';
import type { DropDetail } from '../../src/daemon/shapes.ts';
import type { RunRecord } from '../../src/state/run-record.ts';
import { holdFrom } from '../support/fault-plan.ts';
import { flowdrop, listFiles, makeFolder } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';
import { readResidentMb } from '../support/processes.ts';
import { listMails, useDaemonPlace } from './daemon-process.ts';

const SCHEDULE = 'schedule:\n  cron: "* * * * *"\n  timezone: Etc/UTC';

const place = useDaemonPlace();
let cwd: string;
beforeEach(() => {
  ({ cwd } = place);
});

const listRuns = async () =>
  JSON.parse((await flowdrop(['--jobs', '.', '--json', 'runs'], { cwd, env: {} })).stdout) as readonly RunRecord[];
const readLines = async (path: string) =>
  (await readFile(path, 'utf8'))
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Readonly<Record<string, unknown>>);
const listManifests = async () => (await listFiles(cwd)).filter((name) => name.endsWith('manifest.json'));

it('a job that never ran is caught up in a process with a log of its own', async () => {
  await writeJob(cwd, { reports: '', schedule: SCHEDULE });
  const { child, lines, until, endBy } = place.start();
  const finished = await until('finished', { outcome: 'done' });
  // The engine is the run's, not the daemon's: without it an idle daemon stays below 120 MB.
  expect(await readFile(`/proc/${child.pid}/maps`, 'utf8')).not.toContain('chdb');
  expect(await readResidentMb(child.pid ?? 0)).toBeLessThan(120);
  expect(await endBy('SIGTERM')).toEqual([0, null]);
  const run = String(finished['run']);
  const logs = join(cwd, '.flowdrop', 'nightly', 'logs');
  expect(await readdir(logs)).toContain(`${run}.log`);
  expect(finished['logFile']).toBe(join(logs, `${run}.log`));
  expect(lines.find(({ event }) => event === 'started')).toMatchObject({ job: 'nightly', reason: 'catch-up', run });
  expect(await listManifests()).toHaveLength(1);
  // By hand: nothing is left to export. The log is written by the run itself then.
  await flowdrop(['--jobs', '.', 'run', 'nightly'], { cwd, env: place.service.env });
  const [byHand, first] = await listRuns();
  expect(first).toMatchObject({ id: run, command: 'run', reason: 'catch-up', outcome: 'done', rows: 300 });
  expect(first?.dates).toEqual([expect.objectContaining({ status: 'sealed', rows: 300 })]);
  const ofHand = { command: 'run', args: ['run', 'nightly'], reason: 'hand' };
  expect(byHand).toMatchObject({ ...ofHand, outcome: 'done', dates: [] });
  const log = await readFile(join(logs, `${byHand?.id}.log`), 'utf8');
  expect(log).toContain(`"run":"${byHand?.run_id}"`);
  const windows = await readLines(join(cwd, '.flowdrop', 'nightly', 'runs', `${run}.windows.jsonl`));
  expect(windows.map(({ kind }) => kind)).toEqual(['page', 'sealed']);
});

it('a person acts on the page: a run, a backfill after its price, a stop, and all of it is recorded', async () => {
  await writeJob(cwd, { reports: '', schedule: 'schedule:\n  cron: "0 12 * * *"\n  timezone: Etc/UTC' });
  const { child, until, url, act, end } = place.start();
  const page = await url();
  await until('finished', { outcome: 'done' });
  const [sealed] = await listManifests();
  const date = /session=(\d{4}-\d{2}-\d{2})/.exec(sealed ?? '')?.[1];
  const range = { job: 'nightly', from: date, to: date, mode: 'all' };
  expect(await act({ action: 'price', ...range })).toMatchObject({ outcome: 'done', price: { total: { dates: 1 } } });
  expect(await act({ action: 'backfill', ...range })).toMatchObject({ outcome: 'started' });
  // One job has one run at a time.
  expect(await act({ action: 'run', job: 'nightly' })).toMatchObject({ outcome: 'refused' });
  await until('finished', { outcome: 'done' }, 2);
  expect(await act({ action: 'audit', job: 'nightly', date })).toMatchObject({ outcome: 'started' });
  await until('finished', { outcome: 'done' }, 3);
  expect(await act({ action: 'stop', job: 'nightly' })).toMatchObject({ outcome: 'refused' });
  const detail = (await (await fetch(`${page}/api/drops/nightly/${date}?rows=1`)).json()) as DropDetail;
  expect(detail.drop).toMatchObject({ date, condition: 'available', manifest: { rows: 300, revision: 1 } });
  expect(detail.first_rows).toHaveLength(20);
  expect(detail.sums?.[0]).toMatchObject({ symbol: expect.any(String), total_premium: expect.any(Number) });
  const file = Buffer.from(await (await fetch(`${page}/drops/nightly/${date}/file`)).arrayBuffer());
  expect(`sha256:${createHash('sha256').update(file).digest('hex')}`).toBe(detail.drop.manifest?.files[0]?.hash);
  const runs = (await listRuns()).map(({ command, reason, outcome }) => [command, reason, outcome]);
  expect(runs).toEqual([
    ['verify', 'asked', 'done'],
    ['backfill', 'asked', 'done'],
    ['run', 'catch-up', 'done'],
  ]);
  for (const path of ['/', '/jobs/nightly', '/runs', '/reports', '/actions', '/api/openapi.json']) {
    expect((await fetch(`${page}${path}`)).status, path).toBe(200);
  }
  expect(await readResidentMb(child.pid ?? 0)).toBeLessThan(120);
  await end();
  const lines = await readLines(join(cwd, '.flowdrop', '_daemon', 'actions.jsonl'));
  expect(lines.map(({ action, outcome }) => `${action} ${outcome}`)).toEqual([
    ...['backfill asked', 'backfill started', 'run asked', 'run refused'],
    ...['audit asked', 'audit started', 'stop asked', 'stop refused'],
  ]);
});

it('a broken file keeps the old job, also over a restart, and runs go through', async () => {
  const file = await writeJob(cwd, { reports: '', schedule: SCHEDULE });
  const first = place.start();
  await first.until('scheduled');
  await writeFile(file, 'name: [');
  // No signal: the files are read every ten seconds.
  await first.until('job-broken');
  await first.end();
  const second = place.start();
  await second.until('job-broken');
  await second.until('finished', { outcome: 'done' });
  expect(await listManifests()).toHaveLength(1);
  await writeJob(cwd, { reports: '', schedule: SCHEDULE });
  second.child.kill('SIGHUP');
  await second.until('job-mended');
});

it('a run that is killed has died, is alerted, and is tried again', async () => {
  await writeJob(cwd, {
    name: 'second',
    reports: 'alerts:\n  to: [ops@example.com]',
    schedule: 'schedule:\n  cron: "0 12 * * *"\n  retry: 1m',
  });
  place.gate.follow(holdFrom(1));
  const { lines, until, findRun } = place.start();
  const started = await until('started', { job: 'second' });
  process.kill(await findRun(started), 'SIGKILL');
  await until('finished', { job: 'second', outcome: 'died', signal: 'SIGKILL' });
  await until('alerting', { job: 'second', what: 'died' });
  expect(lines.filter(({ event, job }) => event === 'retry-planned' && job === 'second')).toHaveLength(1);
  const readMail = async () => (await listMails(cwd, /^To: ops@example\.com/m))[0] ?? '';
  await expect.poll(readMail, { timeout: 90_000 }).toMatch(/^Subject: .*A run ended without a result/m);
  expect((await listRuns()).find(({ id }) => id === started['run'])).toMatchObject({
    outcome: 'died',
    error: { code: 'ENDED_BY_SIGNAL', message: 'The process was ended by SIGKILL.' },
  });
});

it('a daemon whose Redis does not answer is neither ended by SIGHUP nor held up by it when it is to stop', async () => {
  await writeJob(cwd, { reports: '', schedule: `${SCHEDULE}\n  distributed: true` });
  // Nobody listens there: a port below 1024 that no program of the tests may use.
  const settings = { FLOWDROP_REDIS_URL: 'redis://127.0.0.1:9' };
  const elsewhere = { ...settings, FLOWDROP_STATE_DIR: join(cwd, 'second') };
  const [first, second] = [place.start(settings), place.start(elsewhere)];
  await Promise.all([first.until('status-page'), second.until('scheduled')]);
  first.child.kill('SIGHUP');
  const begun = performance.now();
  expect(await second.endBy('SIGTERM')).toEqual([0, null]);
  // Its patience with Redis is 5 s.
  expect(performance.now() - begun).toBeLessThan(4_500);
  await first.until('scheduled');
});

it('a file that was never good is left out, and a folder without a usable job is refused', async () => {
  await writeJob(cwd, { reports: '', schedule: SCHEDULE });
  await writeFile(join(cwd, 'bad.yaml'), 'name: [');
  const { until, lines } = place.start();
  await until('started');
  expect(lines.find(({ event }) => event === 'job-broken')).toMatchObject({ file: 'bad.yaml' });
  const empty = await makeFolder();
  for (const [schedule, says] of [
    ['', /schedule/],
    [`${SCHEDULE}\n  distributed: true`, /nightly.*FLOWDROP_REDIS_URL/],
  ] as const) {
    await writeJob(empty.path, { reports: '', schedule });
    const env = { FLOWDROP_STATUS_ADDRESS: 'off' };
    const refused = await flowdrop(['--jobs', '.', 'start'], { cwd: empty.path, env });
    expect(refused).toMatchObject({ code: 2, stderr: expect.stringMatching(says) });
  }
  await empty.remove();
});
