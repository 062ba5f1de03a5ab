/** The command line itself: help, exit codes of usage errors, JSON, schema, check, status and plan. Runs are in `test/flow`. */
import { spawnSync } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { listJobFiles } from '../../src/job/job-folder.ts';
import { useCleanups } from '../support/cleanups.ts';
import { flowdrop, listFiles, MAIN, REPO, startService, type TestService } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';

/** Packages that the start of a command must not load: the engine, and whatever takes long. */
const HEAVY = ['chdb', '@clickhouse', 'apache-arrow', '@aws-sdk', 'mjml', 'vega', 'fastify', 'zod', 'nodemailer'];

let cwd: string;
let service: TestService;
const { cleanups, folder } = useCleanups();

beforeAll(async () => {
  cwd = await folder();
  service = await startService(['--generate', '2', '--generate-rows', '500', '--as-of', '2026-11-20T23:00:00Z']);
  cleanups.push(service.stop);
});

it.each(['--help', 'plan --help', 'check --help'])('%s loads neither the engine nor anything else heavy', (typed) => {
  const loaded = listLoaded(typed.split(' '));
  expect(loaded.length).toBeGreaterThan(5);
  for (const name of HEAVY) expect(loaded.filter((path) => path.includes(`node_modules/${name}`))).toEqual([]);
});

describe('usage', () => {
  it.each([
    { args: ['rum'], says: 'Did you mean run?' },
    { args: ['backfill', 'x', '--form', '2026-11-20'], says: 'Did you mean --from?' },
    { args: ['backfill'], says: 'job' },
    { args: ['backfill', 'x', '--to', '2026-11-20'], says: '--from' },
    { args: ['serve', '--port', 'many'], says: 'number' },
    { args: ['query', 'SELECT 1', '--format', 'jsn'], says: 'table, json, csv' },
    { args: ['run', 'one', 'two'], says: '`flowdrop run --help`' },
    { args: ['backfill', 'x', '--from', '2026-13-01', '--to', '2026-11-20'], says: '--from 2026-11-20' },
    { args: ['--jobs', 'nowhere', 'plan', 'x'], says: 'There is no folder nowhere here' },
  ])('$args ends with exit code 2 and names what is wrong', async ({ args, says }) => {
    const run = await flowdrop(args, { cwd });
    expect(run).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining(says) });
  });

  it('without a job lists those of the folder and what to type, and suggests the one that was most likely meant', async () => {
    const place = await folder();
    await writeJob(place, { name: 'chains' });
    await writeJob(place, { name: 'nightly-trades' });
    const type = (...args: readonly string[]) => flowdrop(['--jobs', place, ...args], { cwd });
    const run = await type('run');
    expect(run).toMatchObject({ code: 2, stdout: '' });
    expect(run.stderr).toMatch(/which job\? The folder \S+ has chains, nightly-trades\n {2}-> `flowdrop run chains`/);
    expect(await type('plan', 'nigthly-trade')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('Did you mean "nightly-trades"? Known jobs:'),
    });
    const far = await type('plan', 'something');
    expect(far.stderr).toContain('Known jobs: chains, nightly-trades.');
    expect(far.stderr).not.toContain('Did you mean');
  });

  it('names a misspelt setting, whatever the command', async () => {
    const { code, stderr } = await flowdrop(['schema'], { cwd, env: { FLOWDROP_API_KYE: 'x' } });
    expect(code).toBe(0);
    expect(stderr).toContain('FLOWDROP_API_KYE is set, but is not a setting; did you mean FLOWDROP_API_KEY?');
  });

  it('of `start` in a wrong folder announces nothing', async () => {
    const { code, stderr } = await flowdrop(['--jobs', 'nowhere', 'start'], { cwd });
    expect(code).toBe(2);
    expect(stderr).toContain('there is no folder nowhere');
    expect(stderr).not.toContain('status page');
  });

  it('with --json puts a failure on stdout as one document too', async () => {
    const run = await flowdrop(['--json', 'run', 'nowhere'], { cwd });
    expect(run.code).toBe(2);
    expect(JSON.parse(run.stdout)).toMatchObject({ error: { code: 'JOB_UNKNOWN' } });
  });
});

describe('schema', () => {
  it('is a JSON Schema that describes every key', async () => {
    const { stdout } = await flowdrop(['schema'], { cwd });
    const schema = JSON.parse(stdout) as {
      properties: Record<string, { description?: string }>;
      additionalProperties: boolean;
    };
    expect(Object.keys(schema.properties)).toEqual(
      expect.arrayContaining(['name', 'source', 'drop', 'schedule', 'reports', 'alerts']),
    );
    expect(schema.additionalProperties).toBe(false);
    for (const property of Object.values(schema.properties)) expect(property.description).toBeTruthy();
  });
});

describe('check', () => {
  it('asks the API with --live: a condition on an unknown column is refused', async () => {
    const job = await writeJob(cwd, { name: 'unknown-column', source: `  where: symbl = 'SPY'` });
    const run = await flowdrop(['check', '--live', job], { cwd, env: service.env });
    expect(run.code).toBe(2);
    expect(run.stdout).toMatch(
      /unknown-column\.yaml:4: source\.where: the API answered HTTP 422[\s\S]*\| {3}where: symbl = 'SPY'/,
    );
    expect(run.stdout).not.toContain('SELECT');
  });

  it('accepts the shipped job files, also live', async () => {
    const jobs = await listJobFiles(join(REPO, 'jobs'));
    expect(jobs.length).toBeGreaterThanOrEqual(2);
    const run = await flowdrop(['check', '--live', ...jobs], { cwd, env: service.env });
    expect(run.code, run.stdout).toBe(0);
    expect(run.stdout.match(/^ok/gm)).toHaveLength(jobs.length);
  });

  it('shows the line of a job file that is wrong, and with --json its place', async () => {
    const place = await folder();
    const job = await writeJob(place, { name: 'wrong' });
    await writeFile(job, (await readFile(job, 'utf8')).replace('  api: historical', '  api: historicl'));
    const shown = await flowdrop(['--jobs', place, 'check'], { cwd });
    expect(shown.stdout).toMatch(/did you mean "historical"\?\)\n +\d+ \| {3}api: historicl\n +\| {3}\^{3}\n +->/);
    const { stdout } = await flowdrop(['--json', '--jobs', place, 'check'], { cwd });
    expect(JSON.parse(stdout)).toMatchObject([
      { ok: false, code: 'JOB_INVALID', where: [{ file: job, column: 3, length: 3, text: '  api: historicl' }] },
    ]);
  });
});

describe('plan and status', () => {
  it('price what a run would do, change nothing, and agree with it afterwards', async () => {
    const job = await writeJob(cwd, { name: 'priced', reports: '' });
    const before = await listKept(cwd);
    const planned = await flowdrop(['--json', 'plan', job], { cwd, env: service.env });
    expect(planned.code, planned.stderr).toBe(0);
    const plan = JSON.parse(planned.stdout) as { dates: { date: string; rows: number; requests: number }[] };
    expect(plan.dates.map(({ date, rows }) => [date, rows])).toEqual([
      ['2026-11-19', 500],
      ['2026-11-20', 500],
    ]);
    expect(await listKept(cwd)).toEqual(before);
    const requests = service.requests.length;
    const run = await flowdrop(['run', job], { cwd, env: service.env });
    expect(run.code).toBe(0);
    const used = service.requests.length - requests;
    const promised = plan.dates.reduce((sum, date) => sum + date.requests, 0);
    // The shared probe is not part of a date's price, nor is the one that learns the clock of a service in the past; a day
    // of one page needs no cuts.
    expect(Math.abs(used - promised)).toBeLessThanOrEqual(2);
    const status = await flowdrop(['status', job, '--list'], { cwd, env: service.env });
    expect(status.stdout).toMatch(/2026-11-19\s+available\s+500/);
    const dry = await flowdrop(['backfill', job, '--from', '2026-11-10', '--to', '2026-11-20', '--dry-run'], {
      cwd,
      env: service.env,
    });
    expect(dry).toMatchObject({ code: 0, stdout: expect.stringContaining('Nothing to fetch') });
  });
});

it('a reader that has enough of the file of a drop is no failure', async () => {
  const args = ['drop', join(cwd, 'priced.yaml'), '2026-11-20', '--file'];
  const run = await flowdrop(args, { cwd, onStart: ({ stdout }) => stdout?.destroy() });
  expect(run).toMatchObject({ code: 0, stderr: '' });
});

describe('plan without a job', () => {
  it('plans all of the folder with a total, and tells of one that cannot be planned', async () => {
    const place = await folder();
    await writeJob(place, { name: 'one', to: 'first', reports: '' });
    await writeJob(place, { name: 'two', to: 'second', reports: '' });
    const args = ['--jobs', place, 'plan'];
    const run = await flowdrop(['--json', ...args], { cwd, env: service.env });
    expect(run.code, run.stderr).toBe(0);
    const all = JSON.parse(run.stdout) as { jobs: { job: string; total: object }[]; total: object; failures: object[] };
    expect(all.jobs.map(({ job }) => job)).toEqual(['one', 'two']);
    expect(all.total).toMatchObject({ dates: 4, rows: 2000, too_late: 0 });
    await writeFile(join(place, 'broken.yaml'), 'name: [');
    const text = await flowdrop(args, { cwd, env: service.env });
    expect(text.code).toBe(2);
    expect(text.stdout).toMatch(/^total +4 +2,000 /m);
    expect(text.stderr).toMatch(/broken\.yaml\nflowdrop: JOB_INVALID/);
  });
});

/** All but the request budget, which every request uses. */
async function listKept(folder: string): Promise<readonly string[]> {
  return (await listFiles(folder)).filter((name) => !name.startsWith('.flowdrop/pace/'));
}

/** Modules that a command loads, as Node's own module trace names them. */
function listLoaded(args: readonly string[]): readonly string[] {
  const hook = `data:text/javascript,${encodeURIComponent(
    "export async function load(url, context, next) { process._rawDebug('LOADED ' + url); return next(url, context); }",
  )}`;
  const register = `data:text/javascript,${encodeURIComponent(`import { register } from 'node:module'; register(${JSON.stringify(hook)});`)}`;
  const { stderr } = spawnSync(process.execPath, ['--import', register, MAIN, ...args], { cwd, encoding: 'utf8' });
  return stderr.split('\n').filter((line) => line.startsWith('LOADED '));
}
