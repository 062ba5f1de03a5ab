/**
 * `flowdrop verify` as a user runs it, after real runs against the real service: what it prints, its exit codes, and what
 * it finds. Every kind of damage is done in `test/seal/audit.slow.test.ts`.
 */
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { fileKey } from '../../src/ledger/layout.ts';
import { writeTradeFile } from '../service/trade-file.ts';
import { useCleanups } from '../support/cleanups.ts';
import { flowdrop, startService, type TestService } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';

const DATES = ['2026-11-19', '2026-11-20'];
const [, DATE = ''] = DATES;

let service: TestService;
let cwd: string;
let job: string;
const { cleanups, folder } = useCleanups();

beforeAll(async () => {
  service = await startService(['--generate', '2', '--generate-rows', '400', '--as-of', '2026-11-20T23:00:00Z']);
  cleanups.push(() => service.stop());
  cwd = await folder();
  job = await writeJob(cwd, {
    reports: 'checks:\n  - check: min-rows\n    rows: 100\n  - check: unique-id\n  - check: dates',
  });
  const run = await flowdrop(['run', job], { cwd, env: service.env });
  expect(run.code, run.stderr).toBe(0);
});

const verify = async (...args: readonly string[]) =>
  await flowdrop(['verify', job, ...args], { cwd, env: service.env });

type Trades = Parameters<typeof writeTradeFile>[0];

const tradesAt = (count: number) =>
  Array.from({ length: count }, (_, k) => ({ id: `id-${k}`, symbol: 'SPY', time: `2026-11-20 1${k % 6}:00:00` }));

/** Runs a command in a folder of its own, over a source that has these trades. */
async function typeOver(trades: Trades, place: string, ...args: readonly string[]) {
  const file = await writeTradeFile(trades);
  const source = await startService(['--data', file.path, '--as-of', '2026-11-20T23:00:00Z']);
  try {
    return await flowdrop(args, { cwd: place, env: source.env });
  } finally {
    await source.stop();
    await file.remove();
  }
}

describe('a dataset as the runs left it', () => {
  it('is found right, also by a recount at the source', async () => {
    const verified = await verify('--deep');
    expect(verified.stdout).toMatch(
      /^ok {4}2026-11-19 {2}\d+ rows, same count at the source\nok {4}2026-11-20 {2}\d+ rows, same count at the source\n2 dates, \d+ rows: nothing is wrong, 2 recounted at the source\n$/,
    );
    expect(verified.code).toBe(0);
    const json = JSON.parse((await verify('--json')).stdout) as readonly Record<string, unknown>[];
    expect(json.map(({ date, findings }) => [date, findings])).toEqual([
      [DATES[0], []],
      [DATE, []],
      [null, []],
    ]);
  });
});

describe('what lies half sealed', () => {
  it('is told of by a line of its own, and is no damage', async () => {
    const left = join(cwd, 'drops', '_flowdrop', 'sealing', 'trades');
    for (const place of [join('set-aside', `session=${DATE}`, 'rev=1', '0a'), join('session=2026-11-03', 'rev=1')]) {
      await mkdir(join(left, place), { recursive: true });
      await writeFile(join(left, place, '0a.parquet'), 'x');
    }
    const { code, stdout } = await verify();
    expect(stdout).toMatch(
      /\nnote {2}trades {2}_flowdrop\/sealing\/trades\/session=2026-11-03\/rev=1\/ has 1 file.*\nnote {2}trades {2}_flowdrop\/sealing\/trades\/set-aside\/.* was set aside.*\n2 dates, .*nothing is wrong\n$/,
    );
    expect(code).toBe(0);
    await rm(join(cwd, 'drops', '_flowdrop', 'sealing'), { recursive: true });
  });
});

describe('a restatement that was interrupted between its last two writes', () => {
  it('is no damage: `verify` says so with exit 3, `query` and `report` name it or answer from it, `run` finishes it', async () => {
    const path = await folder();
    const own = await writeJob(path, { reports: 'reports: [{template: flow, to: [desk@example.com]}]' });
    const at20 = (...names: readonly string[]) => join(path, 'drops', ...names);
    const manifest = at20('_flowdrop', 'trades', 'session=2026-11-20', 'manifest.json');
    const sealed = await typeOver(tradesAt(300), path, 'run', own, '--no-report');
    expect(sealed.code, sealed.stderr).toBe(0);
    const first = await readFile(manifest);
    const again = ['backfill', own, '--all', '--from', '2026-11-20', '--to', '2026-11-20'];
    const restated = await typeOver(tradesAt(320), path, ...again);
    expect(restated.code, restated.stderr).toBe(0);
    const second = await readFile(manifest);
    const decision = at20('_flowdrop', 'sealing', 'trades', 'session=2026-11-20', 'rev=2');
    await mkdir(decision, { recursive: true });
    await writeFile(join(decision, 'decision.json'), second);
    for (const { filename, hash } of (JSON.parse(String(second)) as { files: { filename: string; hash: string }[] })
      .files) {
      await writeFile(
        join(decision, `${hash.slice(7)}.parquet`),
        await readFile(at20(fileKey('trades', '2026-11-20', filename))),
      );
    }
    await writeFile(manifest, first);
    await rm(join(path, '.flowdrop'), { recursive: true });
    const verified = await flowdrop(['verify', own, '--date', '2026-11-20'], { cwd: path });
    expect(verified).toMatchObject({
      code: 3,
      stdout: expect.stringMatching(/^busy .* being replaced by revision 2; .*\n1 date, .* 1 being replaced\n$/),
    });
    const asked = ['query', 'SELECT count() AS n FROM RawOptionTrades', '--job', own, '--format', 'csv'];
    const counted = await flowdrop(asked, { cwd: path });
    expect(counted, counted.stderr).toMatchObject({ code: 0, stdout: expect.stringContaining('320') });
    const report = await flowdrop(['report', own, '--date', '2026-11-20'], { cwd: path });
    expect(report).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/DROP_RESTATING.*revision 2[\s\S]*flowdrop run/),
    });
    const run = await typeOver(tradesAt(320), path, 'run', own, '--no-report');
    expect(run.code, run.stderr).toBe(0);
    expect(JSON.parse(await readFile(manifest, 'utf8'))).toEqual(JSON.parse(String(second)));
    expect((await flowdrop(['verify', own], { cwd: path })).code).toBe(0);
  });
});

describe('damage', () => {
  it('by a foreign file and other conditions is found, of the dataset as a whole', async () => {
    const foreign = join(cwd, 'drops', 'trades', 'session=2026-11-01');
    await mkdir(foreign, { recursive: true });
    await writeFile(join(foreign, 'left.parquet'), 'x');
    const conditions = join(cwd, 'drops', '_flowdrop', 'trades', 'condition.json');
    await writeFile(conditions, (await readFile(conditions, 'utf8')).replace('available', 'degraded'));
    const found = await verify();
    expect(found.code).toBe(1);
    expect(found.stdout).toMatch(
      /FAIL {2}trades {2}trades\/session=2026-11-01\/left.parquet belongs to a date that is not sealed; .*condition.json gives condition degraded for 2026-11-19.*\n {2}-> move away .*; flowdrop run nightly\n/,
    );
    await rm(foreign, { recursive: true });
    // The next run puts it right.
    await flowdrop(['run', job], { cwd, env: service.env });
    expect((await verify()).code).toBe(0);
  });
});

describe('a recount', () => {
  it('of groups finds groups that came late, and trades that came late into groups that there were', async () => {
    const rows = tradesAt(300);
    const inGroup = [...rows, { id: 'late', symbol: 'SPY', time: '2026-11-20 10:00:00' }];
    const newGroup = [...rows, { id: 'late', symbol: 'SPY', time: '2026-11-20 09:45:00' }];
    const own = await folder();
    const path = join(own, 'hourly.yaml');
    const sql =
      "SELECT symbol, concat(substring(toString(time), 1, 13), ':00') AS hour, count() AS trades FROM RawOptionTrades WHERE {window} GROUP BY symbol, hour";
    await writeFile(
      path,
      `name: hourly\nsource:\n  api: historical\n  sql: ${sql}\n  grain: hour\n  time: hour\n  split: [symbol]\n  types: {trades: int64}\ndrop: {to: drops, dataset: hourly, sort: [symbol, hour]}\n`,
    );
    const run = await typeOver(rows, own, 'run', path);
    expect(run.code, run.stderr).toBe(0);
    const right = await typeOver(rows, own, 'verify', '--deep', path);
    expect(right).toMatchObject({ code: 0, stdout: expect.stringMatching(/rows, same count at the source/) });
    const late = await typeOver(inGroup, own, 'verify', '--deep', path);
    expect(late).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('the source has 301 rows, 300 when the date was sealed; they differ in'),
    });
    const grown = await typeOver(newGroup, own, 'verify', '--deep', path);
    expect(grown.stdout).toContain('the source has 301 rows, 300 when the date was sealed');
  });

  it('finds rows that were replaced by as many under other ids', async () => {
    const rows = Array.from({ length: 60 }, (_, k) => ({ id: `id-${k}`, time: `2026-11-20 10:00:${10 + (k % 50)}` }));
    const own = await folder();
    const small = await writeJob(own, { reports: '' });
    expect(await typeOver(rows, own, 'run', small)).toMatchObject({ code: 0 });
    const replaced = rows.map((row, k) => (k < 50 ? { ...row, id: `again-${k}` } : row));
    expect(await typeOver(replaced, own, 'verify', '--deep', small)).toMatchObject({
      code: 1,
      stdout: expect.stringContaining(
        'the source has 60 rows, 60 when the date was sealed; they differ in 50 seconds: rows were replaced',
      ),
    });
  });
});
