/**
 * Numbers that cannot be true, in whatever a run reads: counts, limits, what it learnt before. Whole runs against the real
 * service through the fault proxy; each must end by itself, with the date or with an error that says what came. Answers
 * without end are in `test/source/bounds.test.ts`.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { useCleanups } from '../support/cleanups.ts';
import type { Fault, SeenRequest } from '../support/fault-plan.ts';
import { type FaultProxy, startFaultProxy } from '../support/fault-proxy.ts';
import { type Finished, flowdrop, MAIN, startService, type TestService } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';

const [FIRST, SECOND] = ['2026-11-19', '2026-11-20'];
const SERVE = ['--generate', '2', '--generate-rows', '1000', '--as-of', '2026-11-20T23:00:00Z', '--row-limit', '200'];
/** A run takes three; one that has not ended by then is killed, and has no exit code. */
const LONGEST_MS = 30_000;

let service: TestService;
let proxy: FaultProxy;
let cwd: string;
let job: string;
const { folder, keep } = useCleanups();

beforeAll(async () => {
  service = await keep(startService(SERVE));
});
beforeEach(async () => {
  cwd = await folder();
  job = await writeJob(cwd, { reports: '' });
  proxy = await startFaultProxy(service.url);
  return () => proxy.close();
});

interface Told {
  readonly dates: readonly {
    readonly date: string;
    readonly status: string;
    readonly rows: number;
    readonly error?: { readonly code: string; readonly message: string };
  }[];
}

async function run(code?: number): Promise<Finished & { readonly told: Told }> {
  let timer: NodeJS.Timeout | undefined;
  const finished = await flowdrop(['--json', 'run', job], {
    ...{ cwd, code },
    env: { ...service.env, FLOWDROP_API_URL: proxy.url },
    onStart: (child) => {
      timer = setTimeout(() => child.kill('SIGKILL'), LONGEST_MS);
    },
  });
  clearTimeout(timer);
  return { ...finished, told: finished.stdout === '' ? { dates: [] } : (JSON.parse(finished.stdout) as Told) };
}

/** Whether a query counts the first date, alone or before the others. */
function countsFirst({ sql }: SeenRequest): boolean {
  return sql.includes(' AS marks') && (sql.includes(`'${FIRST}'`) || !sql.includes(`date = '${SECOND}'`));
}

const count = (list: 'counts' | 'ids' | 'cells', value: string): Fault => ({ kind: 'count', list, value });

it.each([
  ['counts', '1e300', '1e+300 rows'],
  ['ids', '"abc"', '"abc" ids'],
] as const)(
  'a count that cannot be one fails its date, which says what came, and no other %s: %s',
  async (list, value, says) => {
    proxy.follow([{ on: countsFirst, fault: count(list, value) }]);
    const { told } = await run(1);
    expect(told.dates).toMatchObject([
      { date: FIRST, status: 'failed', error: { code: 'ANSWER_MALFORMED', message: expect.stringContaining(says) } },
      { date: SECOND, status: 'sealed', rows: 1000 },
    ]);
  },
);

it('a count that is odd once is asked for again', async () => {
  // The first one shows the clock of an API that was never asked before, and is not used.
  let counts = 0;
  const isSecond = (request: SeenRequest) => {
    if (countsFirst(request)) counts += 1;
    return countsFirst(request) && counts === 2;
  };
  proxy.follow([{ on: isSecond, fault: count('counts', '1e300') }]);
  const { told } = await run(0);
  expect(told.dates.map(({ rows }) => rows)).toEqual([1000, 1000]);
  expect(proxy.injected).toHaveLength(1);
});

it('a date of more pages than can be fetched in a day is not begun', async () => {
  proxy.follow([{ on: countsFirst, fault: count('counts', '500000000') }]);
  const { told } = await run(1);
  expect(told.dates).toMatchObject([
    { date: FIRST, error: { code: 'DATE_TOO_LARGE', message: expect.stringContaining('500,000,') } },
    { date: SECOND, status: 'sealed' },
  ]);
});

it('an API that refuses even the smallest count is asked nothing twice, and told with the way out', async () => {
  const asked: string[] = [];
  proxy.follow(({ sql }) => {
    asked.push(sql);
    return { kind: 'status', status: 422, body: 'api' };
  });
  const { stderr } = await run(1);
  expect(stderr).toMatch(/SCAN_TOO_BROAD[\s\S]*where: symbol = 'SPY'/);
  expect(asked.length).toBeLessThan(80);
  expect(new Set(asked).size).toBe(asked.length);
});

it('limits that the API tells cost no date where they are far more or less than they can be', async () => {
  const meta = { row_limit: 1e9, lookback_days: 1e9, minimum_data_delay_minutes: -1 };
  proxy.follow([{ on: () => true, fault: { kind: 'envelope', meta } }]);
  const { told } = await run(0);
  expect(told.dates.map(({ rows }) => rows)).toEqual([1000, 1000]);
});

it('a date outside the lookback that answers tell fails and is named, the others are sealed', async () => {
  const week = await keep(startService([...SERVE.slice(2), '--generate', '8']));
  const fault: Fault = { kind: 'envelope', meta: { lookback_days: 7 } };
  const clipping = await keep(startFaultProxy(week.url, [{ on: () => true, fault }]));
  const env = { ...week.env, FLOWDROP_API_URL: clipping.url };
  const { stdout } = await flowdrop(['--json', 'run', job], { cwd, env, code: 1 });
  const { dates } = JSON.parse(stdout) as Told;
  expect(dates.map(({ date, status, error }) => [date, error?.code ?? status])).toEqual([
    ...['2026-11-11', '2026-11-12', '2026-11-13'].map((date) => [date, 'DATE_CLIPPED']),
    ...['2026-11-16', '2026-11-17', '2026-11-18', FIRST, SECOND].map((date) => [date, 'sealed']),
  ]);
  expect(dates[0]?.error?.message).toContain('the API shows 7 days, not 15');
});

it('limits are forgotten where they cannot be true', async () => {
  await run();
  const limits = join(cwd, '.flowdrop', 'limits');
  const [file = ''] = await readdir(limits);
  const known = JSON.parse(await readFile(join(limits, file), 'utf8')) as object;
  const odd = { axis: 'time', passedRows: 1, refusedRows: 1e15, dateRows: 1e300, rowLimit: 1e15 };
  await writeFile(join(limits, file), JSON.stringify({ ...known, ...odd }));
  await rm(join(cwd, 'drops', 'trades'), { recursive: true });
  const { told } = await run(0);
  expect(told.dates.map(({ rows }) => rows)).toEqual([1000, 1000]);
});

it('a manifest of a gigabyte is none: it is told, and the run goes on', async () => {
  await run();
  await truncate(join(cwd, 'drops', '_flowdrop', 'trades', `session=${SECOND}`, 'manifest.json'), 1024 ** 3);
  const { code, stderr } = await run();
  expect(code, stderr).not.toBeNull();
  expect(stderr).toContain('drop-damaged');
  expect(stderr).toContain('1.1 GB');
});

it('an API that lets one row through a request is told as unusable at once, and by doctor', async () => {
  const slow = await keep(startService([...SERVE.slice(0, -1), '1']));
  const { env } = slow;
  const { stdout } = await flowdrop(['--json', 'run', job], { cwd, env, code: 1 });
  const { dates } = JSON.parse(stdout) as Told;
  expect(dates).toMatchObject([
    { date: FIRST, status: 'failed', error: { code: 'ROW_LIMIT_UNUSABLE' } },
    { date: SECOND, status: 'failed', error: { code: 'ROW_LIMIT_UNUSABLE' } },
  ]);
  expect(dates[0]?.error?.message).toContain('1,000 rows of 2026-11-19 need 1,000 requests');
  expect(slow.requests.length).toBeLessThan(10);
  const doctor = await flowdrop(['doctor', job], { cwd, env });
  expect(doctor.stdout.replaceAll(/\s+/g, ' ')).toContain('So few rows in an answer are unusable');
});

describe('a process that may open', () => {
  const limited = async (files: number, args: readonly string[]) => {
    const child = spawn('sh', ['-c', `ulimit -n ${files}; exec "$0" "$@"`, process.execPath, MAIN, ...args], {
      cwd,
      env: { ...process.env, ...service.env },
    });
    const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
    return { code: child.exitCode, stdout, stderr };
  };

  it('160 files is told so before a run begins, and by doctor', async () => {
    const { code, stderr } = await limited(160, ['run', job]);
    expect(code).toBe(1);
    expect(stderr).toContain('FILES_TOO_FEW');
    expect(stderr).toContain('160');
    expect(stderr).toContain('ulimit -n');
    const { stdout } = await limited(160, ['--json', 'doctor', job]);
    const { checks } = JSON.parse(stdout) as { checks: { check: string; status: string }[] };
    expect(checks).toContainEqual(expect.objectContaining({ check: 'open files', status: 'fail' }));
  });

  it('60 files is not told that the installation is broken', async () => {
    const { code, stderr } = await limited(60, ['run', job]);
    expect(code).toBe(1);
    expect(stderr).toContain('FILES_TOO_FEW');
  });

  it('256 files exports and draws its report', async () => {
    const withReport = await writeJob(cwd, { name: 'reported', to: 'reported' });
    expect(await limited(256, ['run', withReport])).toMatchObject({ code: 0 });
  });
});
