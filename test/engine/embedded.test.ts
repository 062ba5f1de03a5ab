/**
 * Statements of the embedded engine that are given up while it computes, and files that change under it: they end, and
 * keep neither those that follow nor the process. Rows and codes of errors are in the contract of the pools, whose processes
 * it runs in (`test/contract/engine-pool.external.test.ts`).
 */
import { mkdtemp, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { EngineFault } from '../../src/engine/engine-fault.ts';

const HOSTILE = ["it's", 'a\\b', '"', '`', '{x:String}', '\t\n', 'é日本😀', '; DROP TABLE t', ''];
/** Ends neither in the time of a test nor in that of its reader. */
const ENDLESS = "\n SELECT sum(cityHash64(number, 'it''s \\' {x}')) AS s\nFROM system.numbers";

let folder: string;
let engine: Engine;
/** A second engine of this process sees what the first one does. */
let watcher: Engine;
let stop: AbortController;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'flowdrop-engine-'));
  stop = new AbortController();
  engine = await openEmbeddedEngine({ path: folder, signal: stop.signal });
  watcher = await openEmbeddedEngine({ path: folder });
});
afterEach(async () => {
  await watcher.close();
  await engine.close();
  await rm(folder, { recursive: true, force: true });
});

async function countRunning(): Promise<number> {
  const sql =
    "SELECT count() AS n FROM system.processes WHERE query LIKE '%system.numbers%' AND query NOT LIKE '%LIKE%'";
  const [found] = await watcher.rows<{ n: number }>(sql);
  return found?.n ?? 0;
}

const untilRunning = async () =>
  await vi.waitFor(async () => expect(await countRunning()).toBe(1), { timeout: 20_000, interval: 20 });

describe('a statement that is under way', () => {
  test('ends when it is aborted, and the one that waits for it is answered', async () => {
    const control = new AbortController();
    const asked = engine.rows(ENDLESS, { signal: control.signal });
    const next = engine.rows('SELECT 1 AS one');
    await untilRunning();
    control.abort(new RangeError('given up'));
    await expect(asked).rejects.toThrow(EngineFault);
    expect(await next).toEqual([{ one: 1 }]);
    expect(await countRunning()).toBe(0);
  });

  test('with bound values ends too, also when it is aborted before the engine has it', async () => {
    const sql = `${ENDLESS}\nWHERE number != {n:UInt64}`;
    const control = new AbortController();
    const asked = engine.rows(sql, { params: { n: 5 }, signal: control.signal });
    // The turn of the statement has come, and it is on its way to a thread.
    await Promise.resolve();
    control.abort(new RangeError('given up'));
    await expect(asked).rejects.toThrow(EngineFault);
    expect(await engine.rows('SELECT 1 AS one')).toEqual([{ one: 1 }]);
  });

  test('does not end another one', async () => {
    const control = new AbortController();
    const other = watcher.rows('SELECT sum(cityHash64(number)) > 0 AS one FROM numbers(30000000)');
    const asked = engine.rows(ENDLESS, { signal: control.signal });
    control.abort(new RangeError('given up'));
    await expect(asked).rejects.toThrow(EngineFault);
    expect(await other).toEqual([{ one: 1 }]);
  });
});

describe('a statement beside the others', () => {
  test('runs while they do, sees their tables, and is not spoiled by one that fails while it writes', async () => {
    await engine.command('CREATE TABLE t (n UInt64) ENGINE = MergeTree ORDER BY n');
    await engine.command('INSERT INTO t SELECT number FROM numbers(1000)');
    const control = new AbortController();
    const endless = engine.rows(ENDLESS, { signal: control.signal });
    await untilRunning();
    expect(await engine.rows('SELECT count() AS n FROM t', { beside: true })).toEqual([{ n: 1000 }]);
    control.abort(new RangeError('given up'));
    await expect(endless).rejects.toThrow(EngineFault);

    const failing = `SELECT number, throwIf(number = 900000) FROM numbers(1000000)`;
    for (let round = 0; round < 20; round += 1) {
      const failed = engine.format(failing, 'TSV', { beside: round % 2 === 0 }).catch((error: unknown) => error);
      const read = await Promise.all(
        Array.from({ length: 5 }, () => engine.rows('SELECT sum(n) AS n FROM t', { beside: round % 2 === 1 })),
      );
      expect(read).toEqual(Array.from({ length: 5 }, () => [{ n: 499_500 }]));
      expect(await failed).toBeInstanceOf(EngineFault);
    }
  });

  test('ends when it is aborted, and the others go on', async () => {
    const control = new AbortController();
    const endless = engine.rows(ENDLESS, { signal: control.signal, beside: true });
    await untilRunning();
    const other = engine.rows('SELECT sum(cityHash64(number)) > 0 AS one FROM numbers(30000000)');
    control.abort(new RangeError('given up'));
    await expect(endless).rejects.toThrow(EngineFault);
    expect(await other).toEqual([{ one: 1 }]);
    expect(await engine.rows('SELECT 2 AS two', { beside: true })).toEqual([{ two: 2 }]);
  });
});

test('an engine whose command is stopped ends what it computes, takes no more, and closes', async () => {
  const asked = engine.command(ENDLESS);
  const waiting = engine.rows('SELECT 1 AS one');
  await untilRunning();
  stop.abort(new Error('SIGTERM'));
  await expect(asked).rejects.toMatchObject({ code: 'INTERRUPTED', kind: 'interrupted' });
  await expect(waiting).rejects.toMatchObject({ code: 'INTERRUPTED' });
  await expect(engine.rows('SELECT 1 AS one')).rejects.toMatchObject({ code: 'INTERRUPTED' });
  await engine.close();
  expect(await countRunning()).toBe(0);
});

test('a file that is shortened while it is read is a fault, not the end of the process', async () => {
  const path = join(folder, 'rows.csv');
  await writeFile(path, 'abcdefghij,1\n'.repeat(1_000_000));
  const slowly = 'max_threads = 1, max_block_size = 1000, input_format_parallel_parsing = 0';
  const asked = engine.rows(
    `SELECT sum(sleepEachRow(0.00001)) AS slept FROM file('${path}', CSV, 'text String, number Int32') SETTINGS ${slowly}`,
  );
  const refused = expect(asked).rejects.toThrow(EngineFault);
  const isReading = "SELECT count() AS n FROM system.processes WHERE query LIKE '%sleepEachRow%' AND read_rows > 0";
  await vi.waitFor(
    async () => {
      expect(await watcher.rows(`${isReading} AND query NOT LIKE '%LIKE%'`)).toEqual([{ n: 1 }]);
    },
    { timeout: 20_000, interval: 20 },
  );
  await truncate(path, 1000);
  await refused;
  expect(await engine.rows('SELECT 1 AS one')).toEqual([{ one: 1 }]);
});

describe('values and rows', () => {
  test('bound values arrive as they are, whatever is in them, or are refused', async () => {
    for (const text of HOSTILE)
      expect(await engine.rows('SELECT {text:String} AS text', { params: { text } })).toEqual([{ text }]);
    const params = { list: [...HOSTILE], flag: true, amount: 1.5, numbers: [1, 2] };
    expect(
      await engine.rows(
        'SELECT {list:Array(String)} AS list, {flag:Bool} AS flag, {amount:Float64} AS amount, {numbers:Array(Int32)} AS numbers',
        { params },
      ),
    ).toEqual([params]);
    const asking = engine.rows('SELECT {number:UInt8} AS number', { params: { number: 'many' } });
    await expect(asking).rejects.toThrow(EngineFault);
  });
});
