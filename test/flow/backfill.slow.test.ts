/**
 * `flowdrop backfill` as an operator runs it: chosen dates, restatement, prices, interruption, two at once, and what is
 * left of a date that expired.
 */
import type { ChildProcess } from 'node:child_process';
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { useCleanups } from '../support/cleanups.ts';
import { holdFrom } from '../support/fault-plan.ts';
import { type FaultProxy, startFaultProxy } from '../support/fault-proxy.ts';
import {
  type Finished,
  flowdrop,
  readJson,
  readManifest,
  startService,
  type TestService,
} from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';
import { readNewestRun } from '../support/run-record.ts';
import { findFreePort } from '../support/server-process.ts';

const AS_OF = '2026-11-20T23:00:00Z';
const DATES = ['2026-11-18', '2026-11-19', '2026-11-20'];
const SERVE = ['--generate', '3', '--generate-rows', '600', '--row-limit', '50', '--as-of', AS_OF];

const { folder, keep } = useCleanups(afterEach);

async function start(args: readonly string[]): Promise<TestService> {
  const service = await keep(startService(args));
  return service;
}

/** In front of the service: a run gets the pages before this one, and waits for it. */
async function startGate(service: TestService, page: number): Promise<FaultProxy> {
  const gate = await keep(startFaultProxy(service.url, holdFrom(page)));
  return gate;
}

/** Waits until a run stands at the gate and has staged something: pages are asked for before those in front are staged. */
async function untilStaged(gate: FaultProxy, cwd: string): Promise<void> {
  await gate.untilHeld();
  const countPages = async () => (await readNewestRun(join(cwd, '.flowdrop'), 'nightly'))?.pages;
  await expect.poll(countPages, { timeout: 60_000 }).toBeGreaterThan(0);
}

interface Worker {
  readonly cwd: string;
  run(args: readonly string[], onStart?: (child: ChildProcess) => void): Promise<Finished>;
  json(args: readonly string[]): Promise<RunDocument>;
}

interface RunDocument {
  readonly dates: readonly {
    readonly date: string;
    readonly status?: string;
    readonly revision?: number;
    readonly requests: number;
    readonly changes?: unknown;
    readonly rows: number;
    readonly bytes?: number;
    readonly expires_before_turn?: boolean;
  }[];
}

/** A worker in a folder of its own. */
async function createWorker(service: TestService, env: Readonly<Record<string, string>> = {}): Promise<Worker> {
  const path = await folder();
  const job = await writeJob(path, { reports: '' });
  const run: Worker['run'] = async ([command = '', ...args], onStart) =>
    await flowdrop([command, job, ...args], { cwd: path, env: { ...service.env, ...env }, onStart });
  return {
    cwd: path,
    run,
    json: async ([command = '', ...args]) => {
      const done = await run([command, ...args, '--json']);
      expect(done.code, done.stderr).toBe(0);
      return JSON.parse(done.stdout) as RunDocument;
    },
  };
}

const pagesOf = (service: TestService) => service.requests.filter(({ sql }) => sql?.startsWith('SELECT id,')).length;

describe('a backfill', () => {
  it('exports the unsealed dates of its range, and only those', async () => {
    const worker = await createWorker(await start(SERVE));
    const first = await worker.json(['backfill', '--from', '2026-11-19', '--to', '2026-11-19']);
    expect(first.dates.map(({ date, status }) => [date, status])).toEqual([['2026-11-19', 'sealed']]);
    const rest = await worker.json(['backfill', '--missing']);
    expect(rest.dates.map(({ date }) => date)).toEqual(['2026-11-18', '2026-11-20']);
    expect((await worker.json(['backfill', '--failed'])).dates).toEqual([]);
  });

  it('of all dates finds sealed ones unchanged, and leaves them as they are', async () => {
    const worker = await createWorker(await start(SERVE));
    await worker.json(['run']);
    const manifest = join(worker.cwd, 'drops/_flowdrop/trades/session=2026-11-19/manifest.json');
    const before = await readFile(manifest, 'utf8');
    const again = await worker.json(['backfill', '--all']);
    expect(again.dates.map(({ date, status, revision }) => [date, status, revision])).toEqual(
      DATES.map((date) => [date, 'unchanged', 1]),
    );
    expect(await readFile(manifest, 'utf8')).toBe(before);
    const verify = await worker.run(['verify']);
    expect(verify.code, verify.stdout).toBe(0);
  });

  it('tells its price without fetching a page', async () => {
    const service = await start(SERVE);
    const worker = await createWorker(service);
    const plan = await worker.json(['backfill', '--dry-run', '--from', '2026-11-19', '--to', '2026-11-20']);
    expect(plan.dates).toMatchObject([
      { date: '2026-11-19', rows: 600, requests: 13, expires_before_turn: false },
      { date: '2026-11-20', rows: 600, requests: 13, expires_before_turn: false },
    ]);
    expect(plan.dates[0]?.bytes).toBeGreaterThan(300_000);
    expect(pagesOf(service)).toBe(0);
    const text = await worker.run(['backfill', '--dry-run']);
    expect(text.stdout).toMatch(/total +1,800 +39 /);
  });

  it('names the dates that would expire before their turn is over', async () => {
    // The lookback of 15 days reaches the opening of the 5th within the quarter of an hour.
    const asOf = '2026-11-20T14:20:00Z';
    const service = await start(['--generate', '12', '--generate-rows', '1000', '--row-limit', '1', '--as-of', asOf]);
    const worker = await createWorker(service, { FLOWDROP_REQUESTS_PER_SECOND: '1' });
    const plan = await worker.json(['backfill', '--dry-run']);
    expect(plan.dates[0]).toMatchObject({ date: '2026-11-05', expires_before_turn: true });
    expect(plan.dates.at(-1)).toMatchObject({ expires_before_turn: false });
  });

  it('stops at Ctrl-C, says how to go on, and goes on from there', async () => {
    const service = await start(SERVE);
    const gate = await startGate(service, 8);
    const worker = await createWorker(service, { FLOWDROP_API_URL: gate.url });
    let stoppedAt = 0;
    const stopped = await worker.run(
      ['backfill'],
      (child) =>
        void untilStaged(gate, worker.cwd).then(() => {
          stoppedAt = performance.now();
          child.kill('SIGINT');
        }),
    );
    expect(performance.now() - stoppedAt).toBeLessThan(10_000);
    expect(stopped).toMatchObject({ code: 130, stderr: expect.stringContaining('Start the same command again') });
    const before = pagesOf(service);
    await gate.heal();
    await worker.json(['backfill']);
    // Pages in flight when it stopped may have been answered in vain: up to twelve where answers are slow.
    expect(pagesOf(service)).toBeLessThanOrEqual(36 + 12);
    expect(before).toBeLessThan(36);
  });

  it('of a job that is being exported already ends with exit code 4', async () => {
    const service = await start(SERVE);
    const gate = await startGate(service, 3);
    const worker = await createWorker(service, { FLOWDROP_API_URL: gate.url });
    const running = worker.run(['backfill']);
    await gate.untilHeld();
    const second = await worker.run(['backfill']);
    await gate.heal();
    const first = await running;
    expect(first.code, first.stderr).toBe(0);
    expect(second).toMatchObject({
      code: 4,
      stderr: expect.stringMatching(/RUN_ACTIVE: `flowdrop backfill .*Wait for it, or stop it/s),
    });
    // The engine's own words for it, which nobody can use.
    expect(second.stderr).not.toContain('Cannot lock');
  });

  it('of dates that cannot be had, or asked for in two ways, is refused with what is allowed', async () => {
    const worker = await createWorker(await start(SERVE));
    const future = (dates: string) =>
      new RegExp(`DATE_FUTURE: ${dates}[\\s\\S]*the last session that is over is 2026-11-20`);
    for (const [text, says] of [
      ['--from 2026-11-21 --to 2026-11-25', future('2026-11-21 to 2026-11-25')],
      ['--from 2026-11-19 --to 2026-11-21', future('2026-11-19 to 2026-11-21')],
      ['--from 2026-11-19 --to 2026-11-21 --dry-run', future('2026-11-19 to 2026-11-21')],
      ['--from 2026-10-01 --to 2026-11-20', /2026-10-01 is outside .*\n.*2026-11-06/],
      ['--from 2026-02-30 --to 2026-11-20', /2026-02-30/],
      ['--missing --all', /cannot be used with option '--all'/],
      ['--failed --all', /cannot be used with option '--all'/],
      ['--from 2026-11-19', /Give both --from and --to/],
    ] as const) {
      const refused = await worker.run(['backfill', ...text.split(' ')]);
      expect([text, refused]).toEqual([
        text,
        expect.objectContaining({ code: 2, stderr: expect.stringMatching(says) }),
      ]);
    }
  });

  it('of dates with nothing to seal says why of each', async () => {
    const worker = await createWorker(await start(SERVE));
    const weekend = await worker.run(['backfill', '--from', '2026-11-14', '--to', '2026-11-15']);
    expect(weekend).toMatchObject({ code: 0, stdout: expect.stringContaining('No session: 2026-11-14, 2026-11-15') });
    const empty = await worker.run(['backfill', '--from', '2026-11-16', '--to', '2026-11-17']);
    expect(empty.stdout).toContain('No rows at the source: 2026-11-16, 2026-11-17');
    expect(empty.code, 'of sessions that were named none has rows').toBe(3);
    for (const { stdout } of [weekend, empty]) expect(stdout).not.toContain('every date with rows is sealed');
    const partly = await worker.json(['backfill', '--from', '2026-11-17', '--to', '2026-11-18']);
    expect(partly).toMatchObject({ named: { no_rows: ['2026-11-17'], no_session: [], sealed: [], not_over: [] } });
    const sealed = await worker.run(['backfill', '--from', '2026-11-18', '--to', '2026-11-18']);
    expect(sealed).toMatchObject({ code: 0, stdout: expect.stringContaining('every date with rows is sealed') });
  });

  it('of a session that is not over yet says so', async () => {
    const asOf = '2026-11-20T19:00:00Z';
    const worker = await createWorker(await start([...SERVE.slice(0, -1), asOf]));
    const early = await worker.run(['backfill', '--from', '2026-11-20', '--to', '2026-11-20']);
    expect(early).toMatchObject({ code: 0, stdout: expect.stringContaining('Not over yet: 2026-11-20') });
  });
});

it('a date of which all rows are still visible is exported, as complete only where other sessions show when they begin', async () => {
  // 08:00 in New York: 2026-11-05 has rows from 09:30 on.
  const service = await start(['--generate', '12', '--generate-rows', '200', '--as-of', '2026-11-20T13:00:00Z']);
  const seal = async (worker: Worker, from: string, to: string) =>
    await worker.run(['backfill', '--from', from, '--to', to]);
  const read = async ({ cwd }: Worker) => {
    const { condition, rows, degraded_reason } = await readManifest(join(cwd, 'drops'), '2026-11-05');
    return { condition, rows, degraded_reason };
  };
  const alone = await createWorker(service);
  expect((await seal(alone, '2026-11-05', '2026-11-05')).code).toBe(3);
  expect(await read(alone)).toEqual({
    ...{ condition: 'degraded', rows: 200 },
    degraded_reason: expect.stringMatching(/^rows before 2026-11-05 08:0\d:\d\d \(exchange time\) had left/),
  });
  const known = await createWorker(service);
  expect((await seal(known, '2026-11-17', '2026-11-19')).code).toBe(0);
  expect((await seal(known, '2026-11-05', '2026-11-05')).code).toBe(0);
  expect(await read(known)).toEqual({ condition: 'available', rows: 200, degraded_reason: undefined });
  const gone = await seal(known, '2026-11-04', '2026-11-05');
  expect(gone.code).toBe(2);
  expect(gone.stderr).toContain('The earliest date that can still be exported completely is 2026-11-05');
});

describe('a date that left the lookback while it was staged', () => {
  const DAY = ['--generate', '1', '--generate-rows', '600', '--row-limit', '50', '--as-of'];
  const [EARLY, LATE] = [
    [...DAY, '2026-11-06T02:00:00Z'],
    [...DAY, '2026-11-26T02:00:00Z'],
  ];

  it('is told as expired by the next run, when nothing was ever sealed and on an empty disk too', async () => {
    const early = await start(EARLY);
    const gate = await startGate(early, 8);
    const worker = await createWorker(early, { FLOWDROP_API_URL: gate.url });
    const stop = (child: ChildProcess) => void untilStaged(gate, worker.cwd).then(() => child.kill('SIGINT'));
    const stopped = await worker.run(['run'], stop);
    expect(stopped.code, stopped.stderr).toBe(130);
    const document = join(worker.cwd, 'drops/_flowdrop/trades/condition.json');
    expect(await readJson(document)).toMatchObject([{ date: '2026-11-05', condition: 'pending' }]);
    const late = await start(LATE);
    const expired = expect.objectContaining({ date: '2026-11-05', condition: 'expired' });
    const job = await writeJob(worker.cwd, { reports: '' });
    const runAgain = async (code: number) => {
      const found = await flowdrop(['run', job, '--json'], { cwd: worker.cwd, env: late.env });
      expect(found.code, `${found.stdout}${found.stderr}`).toBe(code);
      expect(await readJson(document)).toContainEqual(expired);
      return (JSON.parse(found.stdout) as { lost: readonly string[] }).lost;
    };
    // What the disk knows is enough: the document of a store that was lost with it is made anew.
    await rm(document);
    expect(await runAgain(3)).toContain('2026-11-05');
    await rm(join(worker.cwd, '.flowdrop'), { recursive: true });
    expect(await runAgain(0), 'a loss is news once').not.toContain('2026-11-05');
    const status = await flowdrop(['status', job], { cwd: worker.cwd, env: late.env });
    expect(status.stdout).toMatch(/expired/);
  });

  it('is told as expired from the store alone', async () => {
    const early = await start(EARLY);
    const gate = await startGate(early, 3);
    const worker = await createWorker(early, { FLOWDROP_API_URL: gate.url });
    await worker.run(['run'], (child) => void gate.untilHeld().then(() => child.kill('SIGKILL')));
    await rm(join(worker.cwd, '.flowdrop'), { recursive: true });
    const late = await start(LATE);
    const job = await writeJob(worker.cwd, { reports: '' });
    const found = await flowdrop(['run', job, '--json'], { cwd: worker.cwd, env: late.env, code: 3 });
    expect((JSON.parse(found.stdout) as { lost: readonly string[] }).lost).toContain('2026-11-05');
  });

  it('is kept by runs, and sealed as degraded when the operator says so, with what there is', async () => {
    const port = ['--port', String(await findFreePort())];
    const early = await startService([...EARLY, ...port]);
    const gate = await startGate(early, 8);
    const worker = await createWorker(early, { FLOWDROP_API_URL: gate.url });
    await worker.run(['run'], (child) => void untilStaged(gate, worker.cwd).then(() => child.kill('SIGKILL')));
    await gate.heal();
    const staged = pagesOf(early);
    await early.stop();
    const late = await start([...LATE, ...port]);
    expect(late.url).toBe(early.url);
    const none = await worker.run(['backfill', '--seal-degraded', '--from', '2026-11-24', '--to', '2026-11-25']);
    expect(none).toMatchObject({ code: 2, stderr: expect.stringContaining('NOTHING_STAGED') });
    const ordinary = await worker.run(['run']);
    expect(ordinary.code, ordinary.stderr).toBeOneOf([0, 3]);
    const sealed = await worker.run(['backfill', '--seal-degraded', '--json']);
    const { dates } = JSON.parse(sealed.stdout) as RunDocument;
    expect(dates, sealed.stderr).toMatchObject([{ date: '2026-11-05', status: 'sealed', revision: 1 }]);
    expect(dates[0]?.rows).toBeGreaterThan(0);
    expect(dates[0]?.rows).toBeLessThanOrEqual(staged * 50);
    expect(await readManifest(join(worker.cwd, 'drops'), '2026-11-05')).toMatchObject({
      condition: 'degraded',
      degraded_reason: expect.stringContaining('staged'),
    });
    expect(await readJson(worker.cwd, 'drops/_flowdrop/trades/condition.json')).toContainEqual(
      expect.objectContaining({ date: '2026-11-05', condition: 'degraded' }),
    );
    const { stdout } = await worker.run(['run', '--json']);
    expect((JSON.parse(stdout) as { lost: readonly string[] }).lost).not.toContain('2026-11-05');
  });
});
