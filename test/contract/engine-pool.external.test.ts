/**
 * The contract of `EnginePool`, as facts that hold for every implementation: over a real server, and in processes of this
 * machine. What only one can do is in `test/engine/`; whose turn it is, and who finds no place, in
 * `test/engine/turns.test.ts`.
 */
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text as readText } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { EngineFault } from '../../src/engine/engine-fault.ts';
import type { EnginePool, PooledEngine, TurnLimits } from '../../src/engine/pool.ts';
import { openServerEngine, openServerPool } from '../../src/engine/server.ts';
import { openWorkerPool } from '../../src/engine/worker-pool.ts';
import { startClickHouse } from '../support/clickhouse-server.ts';
import { WORKER_COMMAND } from '../support/engine-workers.ts';
import { measureHeld } from '../support/memory.ts';

const { server, reason } = await startClickHouse();

afterAll(async () => {
  await server?.stop();
});

const POOLS = [
  {
    name: 'server',
    isMissing: server === undefined,
    /** What stands after FROM for a million rows that count as read. */
    millionRows: 'million',
    prepare: async () => {
      if (server === undefined) throw new Error(reason);
      const admin = await openServerEngine({ url: server.adminUrl });
      for (const sql of [
        'CREATE DATABASE flowdrop',
        'CREATE TABLE flowdrop.million (number UInt64) ENGINE = MergeTree ORDER BY number',
        'INSERT INTO flowdrop.million SELECT number FROM numbers(1000000)',
      ])
        await admin.command(sql);
      await admin.close();
    },
    open: async (limits: TurnLimits): Promise<EnginePool> =>
      await openServerPool({ url: server?.readerUrl ?? '', ...limits }),
  },
  {
    name: 'worker',
    isMissing: false,
    millionRows: 'numbers(1000000)',
    prepare: async () => {},
    open: async (limits: TurnLimits): Promise<EnginePool> => {
      const folder = await mkdtemp(join(tmpdir(), 'flowdrop-workers-'));
      return await openWorkerPool({ ...limits, command: WORKER_COMMAND, folder, maxResultBytes: 1_000_000_000 });
    },
  },
];

/** Runs until it is stopped, whatever its user may read by default. */
const ENDLESS = 'SELECT sum(number) FROM system.numbers SETTINGS max_rows_to_read = 0';
const QUICK = 'SELECT 1 AS one';
const ONE = [{ one: 1 }];
/** Rows of about a thousand bytes. */
const WIDE = (rows: number) => `SELECT number, '${'x'.repeat(1_000)}' AS text FROM numbers(${rows})`;

const request = (owner = 'somebody') => ({ owner, signal: new AbortController().signal });

// Skipped only where no server can be had, which `support/clickhouse-server.ts` says aloud; CI never skips it.
describe.each(POOLS)('$name pool', ({ isMissing, millionRows, prepare, open }) => {
  if (isMissing) return test.skip('nothing');
  /** Three engines, for the tests that need nothing special. */
  let pool: EnginePool;

  beforeAll(async () => {
    await prepare();
    pool = await open({ size: 3, maxWaiting: 20 });
  });

  afterAll(async () => {
    await pool?.close();
  });

  const ask = (sql: string, owner?: string) => pool.use(request(owner), (engine) => engine.rows(sql));

  async function withPool(limits: TurnLimits, act: (own: EnginePool) => Promise<void>): Promise<void> {
    const own = await open(limits);
    try {
      await act(own);
    } finally {
      await own.close();
    }
  }

  /** A task that has an engine and runs the endless query; `begun` resolves when it has been sent. */
  function startEndless(own: EnginePool, owner: string) {
    const control = new AbortController();
    const begun = makeDeferred();
    const result = own.use({ owner, signal: control.signal }, async (engine) => {
      await engine.rows(QUICK);
      const endless = engine.rows(ENDLESS);
      begun.resolve();
      return await endless;
    });
    result.catch(begun.reject);
    return { begun: begun.promise, result, abort: (reason: unknown) => control.abort(reason) };
  }

  test('rows come as objects, 64-bit integers as numbers', async () => {
    const rows = await ask("SELECT number, toInt64(-3) AS whole, 0.5 AS half, 'é\\'\"' AS text FROM numbers(2)");
    expect(rows).toEqual([
      { number: 0, whole: -3, half: 0.5, text: 'é\'"' },
      { number: 1, whole: -3, half: 0.5, text: 'é\'"' },
    ]);
    expect(await ask('SELECT number FROM numbers(3) WHERE number > 5')).toEqual([]);
  });

  test('a stream is the result in the format asked for, an empty one of nothing', async () => {
    const read = async (sql: string, format: string) =>
      await pool.use(request(), async (engine) => readText(await engine.stream(sql, format)));
    const letters = "SELECT number, 'a' AS letter FROM numbers(3)";
    expect(await read(letters, 'TabSeparatedWithNames')).toBe('number\tletter\n0\ta\n1\ta\n2\ta\n');
    expect(await read(`${letters} WHERE number > 5`, 'TabSeparated')).toBe('');
  });

  test('statements of one task run one after another, however they are sent', async () => {
    const answers = await pool.use(request(), (engine) =>
      Promise.all([1, 2, 3].map((value) => engine.rows(`SELECT ${value} AS value`))),
    );
    expect(answers).toEqual([[{ value: 1 }], [{ value: 2 }], [{ value: 3 }]]);
  });

  test.each([
    ['an unknown column', 'SELECT no_such_column FROM system.one', 47],
    ['an unknown function', 'SELECT no_such_function(1)', 46],
    ['a text that is not SQL', 'SELEC 1', 62],
    ['a run longer than allowed', `${ENDLESS}, max_execution_time = 1, timeout_overflow_mode = 'throw'`, 159],
  ])('%s keeps the number of ClickHouse, and the engine answers again', async (_name, sql, code) => {
    await pool.use(request(), async (engine) => {
      const asking = engine.rows(sql);
      await expect(asking).rejects.toThrow(EngineFault);
      await expect(asking).rejects.toMatchObject({ clickhouseCode: code, code: 'ENGINE_FAILED' });
      await expect(engine.stream(sql, 'JSONEachRow')).rejects.toMatchObject({ clickhouseCode: code });
      expect(await engine.rows(QUICK)).toEqual(ONE);
    });
  });

  test('reading more rows than allowed has the number 158', async () => {
    const sql = `SELECT sum(number) FROM ${millionRows} SETTINGS max_rows_to_read = 1000, read_overflow_mode = 'throw'`;
    await expect(ask(sql)).rejects.toMatchObject({ clickhouseCode: 158 });
  });

  test('a command gives nothing, and its failure has a number', async () => {
    await pool.use(request(), async (engine) => {
      expect(await engine.command('SELECT 1')).toBeUndefined();
      await expect(engine.command('DROP TABLE no_such_database.no_such_table')).rejects.toThrow(EngineFault);
    });
  });

  test('a query that fails after much of its result is a failure before the first byte', async () => {
    await pool.use(request(), async (engine) => {
      const sql = `SELECT throwIf(number = 90000) AS late, text FROM (${WIDE(100_000)})`;
      await expect(engine.stream(sql, 'JSONEachRow')).rejects.toMatchObject({ clickhouseCode: 395 });
      expect(await engine.rows(QUICK)).toEqual(ONE);
    });
  });

  test('a result of 50 MB comes in pieces, and waits for its reader', async () => {
    const digits = Array.from({ length: 50_000 }, (_, number) => String(number).length);
    const length = digits.reduce((sum, count) => sum + count + 1_002, 0);
    await pool.use(request('reader'), async (engine) => {
      const before = await measureHeld();
      const result = (await engine.stream(WIDE(50_000), 'TabSeparated'))[Symbol.asyncIterator]();
      let bytes = (await result.next()).value?.length ?? 0;
      // The same again, begun later and read to its end: by then the first has arrived, if nothing holds it back.
      const other = await pool.use(request('other'), async (second) =>
        countBytes(await second.stream(WIDE(50_000), 'TabSeparated')),
      );
      expect(other).toBe(length);
      expect((await measureHeld()).arrayBuffers - before.arrayBuffers).toBeLessThan(length / 4);
      let pieces = 1;
      for (let next = await result.next(); !next.done; next = await result.next(), pieces += 1)
        bytes += next.value.length;
      expect(bytes).toBe(length);
      expect(pieces).toBeGreaterThan(10);
    });
  });

  test('a result that is left early gives way to the next statement', async () => {
    await pool.use(request(), async (engine) => {
      for await (const piece of await engine.stream(WIDE(20_000), 'TabSeparated')) {
        expect(piece.length).toBeGreaterThan(0);
        break;
      }
      expect(await engine.rows(QUICK)).toEqual(ONE);
    });
  });

  test('a result may be left unread altogether', async () => {
    await pool.use(request(), async (engine) => void (await engine.stream(WIDE(20_000), 'TabSeparated')));
    expect(await ask(QUICK)).toEqual(ONE);
  });

  test('slow queries run side by side and block no quick one', async () => {
    const slow = [startEndless(pool, 'slow 1'), startEndless(pool, 'slow 2')];
    await Promise.all(slow.map(({ begun }) => begun));
    for (let round = 0; round < 5; round += 1) expect(await ask(QUICK, 'quick')).toEqual(ONE);
    for (const { abort, result } of slow) {
      abort(new RangeError('enough'));
      await expect(result).rejects.toThrow('enough');
    }
  });

  test('a running query that is aborted ends with the signal’s reason, and its engine is free', async () => {
    await withPool({ size: 1, maxWaiting: 1 }, async (own) => {
      for (let round = 0; round < 3; round += 1) {
        const { abort, begun, result } = startEndless(own, 'a');
        await begun;
        const reason = new RangeError('given up');
        abort(reason);
        await expect(result).rejects.toBe(reason);
        expect(await own.use(request(), (engine) => engine.rows(QUICK))).toEqual(ONE);
      }
    });
  });

  test('a task that does not look at its signal is given up as well', async () => {
    const control = new AbortController();
    const begun = makeDeferred();
    const result = pool.use({ owner: 'a', signal: control.signal }, async () => {
      begun.resolve();
      await new Promise<never>(() => {});
    });
    await begun.promise;
    control.abort(new RangeError('given up'));
    await expect(result).rejects.toThrow('given up');
  });

  test('a result that is being read ends when its task is aborted', async () => {
    const control = new AbortController();
    const begun = makeDeferred();
    const read = makeDeferred();
    const result = pool.use({ owner: 'a', signal: control.signal }, async (engine) => {
      try {
        for await (const piece of await engine.stream(WIDE(50_000), 'TabSeparated')) {
          begun.resolve();
          if (piece.length > 0) await new Promise(setImmediate);
        }
        read.resolve();
      } catch (error) {
        read.reject(error);
      }
    });
    await begun.promise;
    control.abort(new RangeError('given up'));
    await expect(result).rejects.toThrow('given up');
    await expect(read.promise).rejects.toThrow();
  });

  test('a task that is aborted before it begins never begins', async () => {
    let isBegun = false;
    const using = pool.use({ owner: 'a', signal: AbortSignal.abort(new RangeError('early')) }, async () => {
      isBegun = true;
    });
    await expect(using).rejects.toThrow('early');
    expect(isBegun).toBe(false);
  });

  test('a task that is aborted while it waits leaves the queue at once', async () => {
    await withPool({ size: 1, maxWaiting: 5 }, async (own) => {
      const first = startEndless(own, 'a');
      await first.begun;
      const control = new AbortController();
      const waiting = own.use({ owner: 'b', signal: control.signal }, (engine) => engine.rows(QUICK));
      expect(own.waiting).toBe(1);
      control.abort(new RangeError('left'));
      expect(own.waiting).toBe(0);
      await expect(waiting).rejects.toThrow('left');
      first.abort(new RangeError('enough'));
      await expect(first.result).rejects.toThrow('enough');
    });
  });

  test('what a task throws is thrown, and its engine is free', async () => {
    await withPool({ size: 1, maxWaiting: 1 }, async (own) => {
      const thrown = new RangeError('mine');
      const using = own.use(request(), async () => {
        throw thrown;
      });
      await expect(using).rejects.toBe(thrown);
      expect(await own.use(request(), (engine) => engine.rows(QUICK))).toEqual(ONE);
    });
  });

  test('an engine is of no use after its task', async () => {
    let kept: PooledEngine | undefined;
    await pool.use(request(), async (engine) => {
      kept = engine;
    });
    await expect(kept?.rows(QUICK)).rejects.toThrow(EngineFault);
  });

  test('closing ends what runs and what waits, and what comes is refused', async () => {
    const own = await open({ size: 1, maxWaiting: 5 });
    const { begun, result } = startEndless(own, 'a');
    await begun;
    const waiting = own.use(request('b'), (engine) => engine.rows(QUICK));
    const ends = [expect(result).rejects.toThrow(EngineFault), expect(waiting).rejects.toThrow(EngineFault)];
    await own.close();
    await Promise.all(ends);
    await own.close();
    await expect(own.use(request('c'), (engine) => engine.rows(QUICK))).rejects.toThrow(EngineFault);
  });

  test('a hundred tasks of ten owners are all answered', async () => {
    await withPool({ size: 3, maxWaiting: 100 }, async (own) => {
      const answers = await Promise.all(
        Array.from({ length: 100 }, (_, index) =>
          own.use(request(`owner ${index % 10}`), (engine) => engine.rows(`SELECT ${index} AS value`)),
        ),
      );
      expect(answers).toEqual(Array.from({ length: 100 }, (_, index) => [{ value: index }]));
      expect([own.size, own.waiting]).toEqual([3, 0]);
    });
  });
});

function makeDeferred() {
  let resolve: () => void = () => {};
  let reject: (reason: unknown) => void = () => {};
  const promise = new Promise<void>((onResolve, onReject) => {
    resolve = onResolve;
    reject = onReject;
  });
  promise.catch(() => {}); // Whoever awaits it sees its failure.
  return { promise, resolve, reject };
}

async function countBytes(pieces: AsyncIterable<Uint8Array>): Promise<number> {
  let bytes = 0;
  for await (const piece of pieces) bytes += piece.length;
  return bytes;
}
