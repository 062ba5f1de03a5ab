/**
 * A kept data folder over restarts, refusals and kills: what was loaded is served again and never doubled, and what was
 * loaded in part is gone. How one file or one generated date becomes rows is in `load.slow.test.ts` and `generate.slow.test.ts`.
 */
import { copyFile, readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { CHAIN_PATH, HISTORICAL_PATH } from '../../src/api-contract/published-limits.ts';
import { flowdrop, KEY, listFiles, makeFolder, startService, type TestService } from '../support/flowdrop.ts';
import { hasProcesses, listChildren, readEnvironment, untilEnded } from '../support/processes.ts';
import { createTrade, DATE } from '../support/trades.ts';
import { EVENING, postJson, startTestService } from './running-service.ts';

const TRADES = 500;
/** More than one statement inserts: the second takes long enough to be killed in. */
const TWO_INSERTS = 700_000;
/** The name of a part that an insert has finished, as the folder's index files have it. */
const FINISHED_PART = /^[0-9a-f]{32}_\d+_\d+_\d+\//;

let folder: string;
let dataDir: string;
let remove: () => Promise<void>;
const started: TestService[] = [];

beforeEach(async () => {
  ({ path: folder, remove } = await makeFolder());
  dataDir = join(folder, 'kept');
});
afterEach(async () => {
  // A test that fails leaves its service running.
  for (const service of started.splice(0)) await service.kill();
  await remove();
});

const COUNT = 'SELECT count() AS n, uniqExact(id) AS ids FROM RawOptionTrades';
const loaded = (n: number) => [{ n, ids: n }];

async function writeTrades(name: string, first: number): Promise<string> {
  const path = join(folder, name);
  const rows = Array.from({ length: TRADES }, (_, k) => JSON.stringify(createTrade(first + k)));
  await writeFile(path, `${rows.join('\n')}\n`);
  return path;
}

/** Serves the folder in this process while `act` looks at it. @returns what the log says of each source */
async function serve(
  options: Parameters<typeof startTestService>[0],
  act: (ask: (sql: string) => Promise<unknown>, rows: number | null) => Promise<void>,
): Promise<Readonly<Record<string, unknown>>> {
  const service = await startTestService({ dataDir, concurrency: 1, ...options });
  try {
    await act(async (sql) => (await service.ask(sql)).body.data, service.rows);
    const sources = service.lines.filter(({ event }) => event === 'loaded' || event === 'generated');
    return Object.fromEntries(sources.map(({ file, date, isNew }) => [String(file ?? date), isNew]));
  } finally {
    await service.stop();
  }
}

const SECRETS = {
  FLOWDROP_API_KEY: 'cus_secret_of_the_service',
  FLOWDROP_SMTP_URL: 'smtp://user:secret@127.0.0.1:1',
  AWS_SECRET_ACCESS_KEY: 'secret-key',
  SOMETHING_ELSE: 'secret-as-well',
};
/** What the processes that run callers' SQL may know: where programs, temporary files and libraries are, and Node's channel. */
const KNOWN_TO_ENGINES = ['LD_LIBRARY_PATH', 'NODE_CHANNEL_FD', 'NODE_CHANNEL_SERIALIZATION_MODE', 'PATH', 'TMPDIR'];

const ARGS = ['--as-of', EVENING, '--concurrency', '1'];

/** Starts the program, which ends with the test at the latest. */
async function start(args: readonly string[], env = {}): Promise<TestService> {
  const service = await startService(args, env);
  started.push(service);
  return service;
}

async function askProgram(url: string, sql: string): Promise<unknown> {
  const response = await fetch(`${url}${HISTORICAL_PATH}`, postJson({ api_key: KEY, sql }));
  return ((await response.json()) as { data: unknown }).data;
}

/** Starts the program on a folder that it must refuse. */
async function refuse(args: readonly string[]) {
  return await flowdrop(['serve', '--data-dir', dataDir, '--port', '0', '--portal-port', '0', ...args], {
    cwd: folder,
  });
}

describe('a restart on the same folder', () => {
  test('serves the same rows, and loads nothing twice, also under another name', async () => {
    const [first, second] = [await writeTrades('first.ndjson', 0), await writeTrades('second.ndjson', TRADES)];
    const all = 'SELECT * FROM RawOptionTrades ORDER BY id';
    let before: unknown;
    const started = await serve({ data: [first] }, async (ask, rows) => {
      expect(rows).toBe(TRADES);
      before = await ask(all);
    });
    expect(started).toEqual({ [first]: true });
    expect(before).toHaveLength(TRADES);

    const renamed = join(folder, 'renamed.ndjson');
    await copyFile(first, renamed);
    const again = await serve({ data: [first, renamed] }, async (ask, rows) => {
      expect(rows).toBe(TRADES);
      expect(await ask(all)).toEqual(before);
    });
    expect(again).toEqual({ [first]: false, [renamed]: false });

    const more = await serve({ data: [renamed, second] }, async (ask, rows) => {
      expect(rows).toBe(2 * TRADES);
      expect(await ask(COUNT)).toEqual(loaded(2 * TRADES));
    });
    expect(more).toEqual({ [renamed]: false, [second]: true });

    expect(
      await serve({}, async (ask) => {
        expect(await ask(COUNT)).toEqual(loaded(2 * TRADES));
      }),
    ).toEqual({});
  });

  test('that was moved, and given relative to another directory, serves the same rows and loads more', async () => {
    const [first, second] = [await writeTrades('first.ndjson', 0), await writeTrades('second.ndjson', TRADES)];
    const place = relative(tmpdir(), dataDir);
    const before = await start([...ARGS, '--data-dir', place, '--data', first]);
    expect(await askProgram(before.url, COUNT)).toEqual(loaded(TRADES));
    await before.stop();
    await rename(dataDir, join(folder, 'moved'));
    dataDir = join(folder, 'moved');
    const more = await serve({ data: [second] }, async (ask) => {
      expect(await ask(COUNT)).toEqual(loaded(2 * TRADES));
    });
    expect(more).toEqual({ [second]: true });
    expect((await readdir(folder)).toSorted()).toEqual(['first.ndjson', 'moved', 'second.ndjson']);
  });

  test('with another seed has the date once, from the new seed, and then loads nothing', async () => {
    const generated = { generateSessions: 2, generateRows: 1_000 };
    const sum = 'SELECT count() AS n, uniqExact(id) AS ids, sum(premium) AS premium FROM RawOptionTrades';
    const dates = { '2026-11-18': true, '2026-11-19': true };
    const seen: unknown[] = [];
    const look = async (ask: (sql: string) => Promise<unknown>, rows: number | null) => {
      expect(rows).toBe(2_000);
      expect(await ask(COUNT)).toEqual(loaded(2_000));
      seen.push(await ask(sum));
    };
    expect(await serve({ ...generated, seed: 1 }, look)).toEqual(dates);
    expect(await serve({ ...generated, seed: 2 }, look)).toEqual(dates);
    expect(await serve({ ...generated, seed: 2 }, look)).toEqual({ '2026-11-18': false, '2026-11-19': false });
    expect(seen[1]).not.toEqual(seen[0]);
    expect(seen[2]).toEqual(seen[1]);
  });
});

describe('a folder that is refused', () => {
  test('because its catalog is not one, or it is sorted otherwise, and nothing of it changes', async () => {
    const file = await writeTrades('trades.ndjson', 0);
    await serve({ data: [file] }, async () => {});
    const path = join(dataDir, 'catalog.json');
    const good = await readFile(path, 'utf8');
    const parts = await listParts();
    expect(parts.length).toBeGreaterThan(0);
    for (const bad of [
      good.slice(0, good.length / 2),
      '',
      good.replace('"version": 1', '"version": 2'),
      good.replace('"order"', '"orders"'),
    ]) {
      await writeFile(path, bad);
      const run = await refuse(ARGS);
      expect([run.code, run.stdout], bad).toEqual([2, '']);
      expect(run.stderr).toContain('DATA_DIR_INVALID');
      expect(run.stderr).toContain(path);
      expect(run.stderr).toContain('another --data-dir');
      expect(await readFile(path, 'utf8')).toBe(bad);
      expect(await listParts()).toEqual(parts);
    }
    await writeFile(path, good);
    const run = await refuse([...ARGS, '--order', 'symbol', '--data', file]);
    expect([run.code, run.stdout]).toEqual([2, '']);
    expect(run.stderr).toContain('DATA_DIR_INVALID');
    expect(run.stderr).toMatch(/sorted by time, not by symbol/);
    expect(run.stderr).toMatch(/--order time\b.*another --data-dir/);
    expect(await readFile(path, 'utf8')).toBe(good);
    await serve({}, async (ask) => expect(await ask(COUNT)).toEqual(loaded(TRADES)));
  });

  test.skipIf(!hasProcesses)('because another service uses it, by the number of the process', async () => {
    const first = await start([...ARGS, '--data-dir', dataDir, '--generate', '1', '--generate-rows', '1000']);
    try {
      const holders = [first.pid, ...(await listChildren(first.pid))];
      const run = await refuse(ARGS);
      expect([run.code, run.stdout], run.stderr).toEqual([4, '']);
      expect(run.stderr).toContain('ENGINE_BUSY');
      expect(run.stderr).toContain(dataDir);
      const [, named] = /another process \((\d+)\)/.exec(run.stderr) ?? [];
      expect(holders).toContain(Number(named));
      expect(await askProgram(first.url, COUNT)).toEqual(loaded(1_000));
    } finally {
      await first.stop();
    }
  });
});

describe.skipIf(!hasProcesses)('a service that is killed', () => {
  test('in the middle of a load leaves nothing of it, and the next load has every row once', async () => {
    const generate = ['--generate', '1', '--generate-rows', String(TWO_INSERTS)];
    let engines: readonly number[] = [];
    const run = await flowdrop(
      ['serve', '--data-dir', dataDir, '--port', '0', '--portal-port', '0', ...ARGS, ...generate],
      {
        cwd: folder,
        onStart: (child) => {
          void killBetweenInserts(child.pid ?? 0).then((found) => {
            engines = found;
            child.kill('SIGKILL');
          });
        },
      },
    );
    expect(run.stdout, 'it was killed before it was ready').toBe('');
    await untilEnded(engines);
    expect(await readSources()).toEqual([]);
    expect((await listParts()).length).toBeGreaterThan(0);

    const without = await start([...ARGS, '--data-dir', dataDir]);
    expect(without.rows).toBe(0);
    expect(await askProgram(without.url, COUNT)).toEqual(loaded(0));
    await without.stop();
    expect(await listParts()).toEqual([]);

    const whole = await start([...ARGS, '--data-dir', dataDir, ...generate]);
    expect(whole.rows).toBe(TWO_INSERTS);
    expect(await askProgram(whole.url, COUNT)).toEqual(loaded(TWO_INSERTS));
    await whole.stop();
  });

  test('takes its engine processes with it, which know none of its secrets, and its folder is free', async () => {
    const args = [...ARGS, '--data-dir', dataDir, '--generate', '1', '--generate-rows', '3000'];
    const service = await start(args, SECRETS);
    expect(await readEnvironment(service.pid)).toMatchObject(SECRETS);
    const engines = await listChildren(service.pid);
    expect(engines).toHaveLength(2);
    for (const pid of engines) {
      const names = Object.keys(await readEnvironment(pid));
      expect(names).toContain('PATH');
      expect(names.filter((name) => !KNOWN_TO_ENGINES.includes(name))).toEqual([]);
    }
    const endless = 'SELECT count() FROM RawOptionTrades a CROSS JOIN RawOptionTrades b CROSS JOIN RawOptionTrades c';
    const asking = askProgram(service.url, endless).catch(() => 'gone');
    const readMetrics = async () => await (await fetch(`${service.url}/metrics`)).text();
    const isBusy = /^flowdrop_service_engine_pool_running 1$/m;
    await vi.waitFor(async () => expect(await readMetrics()).toMatch(isBusy), { timeout: 10_000 });
    await service.kill();
    expect(await asking).toBe('gone');
    await untilEnded(engines);
    const chain = join(folder, 'chain.ndjson');
    const contract = { option_symbol: 'X', expiration_date: '2026-12-18', put_call: 'CALL', strike: 50 };
    const day = { symbol: 'XYZ', date: DATE, as_of: `${DATE}T20:00:00Z`, spot: 50, volume: 1, open_interest: 100 };
    await writeFile(chain, JSON.stringify({ ...day, ...contract }));
    const next = await start([...args, '--chain', chain]);
    expect(await askProgram(next.url, COUNT)).toEqual(loaded(3_000));
    const filed = await fetch(`${next.url}${CHAIN_PATH}`, postJson({ api_key: KEY, symbol: 'XYZ' }));
    expect(await filed.json()).toMatchObject({ data: [{ option_symbol: 'X' }], meta: { source: 'file' } });
    await next.stop();
  });
});

/** Waits until the first insert of a load is on the disk and the load is not in the catalog. @returns the engines */
async function killBetweenInserts(pid: number): Promise<readonly number[]> {
  await vi.waitFor(async () => expect((await listParts()).length).toBeGreaterThan(0), { timeout: 30_000, interval: 5 });
  expect(await readSources()).toEqual([]);
  return await listChildren(pid);
}

async function readSources(): Promise<readonly unknown[]> {
  return (JSON.parse(await readFile(join(dataDir, 'catalog.json'), 'utf8')) as { sources: unknown[] }).sources;
}

/** Names of the finished parts of the trades. */
async function listParts(): Promise<readonly string[]> {
  const files = (await listFiles(join(dataDir, 'trades'))).filter((name) => name.endsWith('prefix.path'));
  // A file may be replaced while it is looked at.
  const read = (name: string) => readFile(join(dataDir, 'trades', name), 'utf8').catch(() => '');
  return (await Promise.all(files.map(read))).filter((path) => FINISHED_PART.test(path)).sort();
}
