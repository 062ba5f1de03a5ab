/**
 * What statements do in the embedded engine, and on a real server over the wire, which is Debian's. Pools have a contract
 * of their own (`engine-pool.ts`).
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { EngineFault } from '../../src/engine/engine-fault.ts';
import { openServerEngine } from '../../src/engine/server.ts';
import { startClickHouse } from '../support/clickhouse-server.ts';

const { server, reason } = await startClickHouse();

const HOSTILE = ["it's", 'a\\b', '"', '`', '{x:String}', '\t\n', 'é日本😀', '; DROP TABLE t', ''];

describe.each([
  { name: 'embedded', isMissing: false, open: () => openEmbeddedEngine() },
  {
    name: 'server',
    // Skipped only where no server can be had; CI throws instead of skipping.
    isMissing: server === undefined,
    open: async () => {
      if (server === undefined) throw new Error(reason);
      return await openServerEngine({ url: server.adminUrl });
    },
  },
])('$name engine', ({ isMissing, open }) => {
  describe.skipIf(isMissing)('statements', () => {
    let engine: Pick<Engine, 'rows' | 'command' | 'close'>;

    beforeAll(async () => {
      engine = await open();
      await engine.command('CREATE DATABASE contract');
      await engine.command('CREATE TABLE contract.made (id UInt32, text String) ENGINE = MergeTree ORDER BY id');
      await engine.command('INSERT INTO contract.made SELECT number, toString(number) FROM numbers(10)');
    });

    afterAll(async () => {
      await engine?.close();
    });

    test('rows come as objects, 64-bit integers as numbers', async () => {
      expect(await engine.rows("SELECT toUInt64(7) AS whole, 0.5 AS half, 'é\"' AS text")).toEqual([
        { whole: 7, half: 0.5, text: 'é"' },
      ]);
      expect(await engine.rows('SELECT sum(id) AS sum, count() AS rows FROM contract.made')).toEqual([
        { sum: 45, rows: 10 },
      ]);
    });

    test.each([
      ['SELECT no_such_column FROM contract.made', 47],
      ['SELECT no_such_function(1)', 46],
      ['SELEC 1', 62],
      ['SELECT 1 FROM contract.no_such_table', 60],
      ["SELECT sum(id) FROM contract.made SETTINGS max_rows_to_read = 1, read_overflow_mode = 'throw'", 158],
      ['SELECT sum(number) FROM system.numbers SETTINGS max_execution_time = 1', 159],
    ])('%s keeps the number of ClickHouse, and the next statement is answered', async (sql, clickhouseCode) => {
      await expect(engine.rows(sql)).rejects.toMatchObject({ name: 'EngineFault', clickhouseCode });
      expect(await engine.rows('SELECT 1 AS one')).toEqual([{ one: 1 }]);
    });

    test('an aborted statement is a fault', async () => {
      const options = { signal: AbortSignal.abort(new RangeError('given up')) };
      await expect(engine.rows('SELECT 1', options)).rejects.toThrow(EngineFault);
    });
  });
});

describe('embedded engine alone', () => {
  let engine: Engine;

  beforeAll(async () => {
    engine = await openEmbeddedEngine();
  });

  afterAll(async () => {
    await engine?.close();
  });

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

  test('the number of rows of a result is told', async () => {
    const { bytes, rows } = await engine.format('SELECT number FROM numbers(3)', 'JSONEachRow');
    expect([Buffer.from(bytes).toString(), rows]).toEqual(['{"number":0}\n{"number":1}\n{"number":2}\n', 3]);
    const empty = await engine.format('SELECT number FROM numbers(3) WHERE number > 5', 'JSONEachRow');
    expect([empty.bytes.length, empty.rows]).toEqual([0, 0]);
  });

  test('rows are inserted from lines of JSON: all, or none if one is bad', async () => {
    await engine.command('CREATE TABLE lines (id UInt32, text String) ENGINE = MergeTree ORDER BY id');
    const insert = async (text: string) =>
      await engine.insert({ table: 'lines', format: 'JSONEachRow', payload: Buffer.from(text) });
    await insert('{"id":1,"text":"é"}\n{"id":2,"text":"b\\n"}\n');
    const rows = Array.from({ length: 1_000 }, (_, id) => `{"id":${id === 900 ? '"x"' : id},"text":"a"}\n`);
    await expect(insert(rows.join(''))).rejects.toThrow(EngineFault);
    expect(await engine.rows('SELECT id, text FROM lines ORDER BY id')).toEqual([
      { id: 1, text: 'é' },
      { id: 2, text: 'b\n' },
    ]);
  });
});

afterAll(async () => {
  await server?.stop();
});
