/**
 * The contract of `Engine`, as facts that hold for the embedded engine and for a real server over the wire; the server is
 * Debian's, and `engine-skips.ts` says what it is too old for. Pools have a contract of their own (`engine-pool.ts`).
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { EngineFault } from '../../src/engine/engine-fault.ts';
import { openServerEngine } from '../../src/engine/server.ts';
import { announceServerSkips, startClickHouse } from '../support/clickhouse-server.ts';
import { OLD_SERVER_SKIPS } from './engine-skips.ts';

const { server, reason } = await startClickHouse();
const serverSkips = announceServerSkips(server, OLD_SERVER_SKIPS);

const IMPLEMENTATIONS = [
  { name: 'embedded', isMissing: false, skips: {}, open: () => openEmbeddedEngine() },
  {
    name: 'server',
    // Skipped only where no server can be had; CI throws instead of skipping.
    isMissing: server === undefined,
    skips: serverSkips,
    open: async () => {
      if (server === undefined) throw new Error(reason);
      return await openServerEngine({ url: server.adminUrl });
    },
  },
];

/** What the engine under test was opened as. */
let engine: Engine;

const HOSTILE = ["it's", 'a\\b', '"', '`', '{x:String}', '\t\n', 'é日本😀', '; DROP TABLE t', ''];

const FACTS: Readonly<Record<string, () => Promise<void>>> = {
  'rows come as objects, 64-bit integers as numbers': async () => {
    expect(await engine.rows("SELECT toUInt64(7) AS whole, 0.5 AS half, 'é\"' AS text")).toEqual([
      { whole: 7, half: 0.5, text: 'é"' },
    ]);
  },
  'a table is made, filled and read': async () => {
    await fill('made', 3);
    expect(await engine.rows('SELECT sum(id) AS sum, count() AS rows FROM contract.made')).toEqual([
      { sum: 3, rows: 3 },
    ]);
  },
  'bound values arrive as they are, whatever is in them': async () => {
    for (const text of HOSTILE)
      expect(await engine.rows('SELECT {text:String} AS text', { params: { text } })).toEqual([{ text }]);
    const params = { list: [...HOSTILE], flag: true, amount: 1.5, numbers: [1, 2] };
    expect(
      await engine.rows(
        'SELECT {list:Array(String)} AS list, {flag:Bool} AS flag, {amount:Float64} AS amount, {numbers:Array(Int32)} AS numbers',
        { params },
      ),
    ).toEqual([params]);
  },
  'a bound value that does not fit its type is refused': async () => {
    const asking = engine.rows('SELECT {number:UInt8} AS number', { params: { number: 'many' } });
    await expect(asking).rejects.toThrow(EngineFault);
  },
  'the number of rows of a result is told': async () => {
    const { bytes, rows } = await engine.format('SELECT number FROM numbers(3)', 'JSONEachRow');
    expect([Buffer.from(bytes).toString(), rows]).toEqual(['{"number":0}\n{"number":1}\n{"number":2}\n', 3]);
  },
  'an empty result has no rows and no bytes': async () => {
    const { bytes, rows } = await engine.format('SELECT number FROM numbers(3) WHERE number > 5', 'JSONEachRow');
    expect([bytes.length, rows]).toEqual([0, 0]);
  },
  'a result comes as typed columns': async () => {
    const table = await engine.columns(
      "SELECT number, 'a' AS letter FROM numbers(3) SETTINGS output_format_arrow_compression_method = 'none'",
    );
    expect([table.numRows, table.schema.names]).toEqual([3, ['number', 'letter']]);
  },
  'rows are inserted from lines of JSON': async () => {
    await fill('lines', 0);
    await insert('lines', '{"id":1,"text":"é"}\n{"id":2,"text":"b\\n"}\n');
    expect(await engine.rows('SELECT id, text FROM contract.lines ORDER BY id')).toEqual([
      { id: 1, text: 'é' },
      { id: 2, text: 'b\n' },
    ]);
  },
  'rows are inserted from a JSON array': async () => {
    await fill('array', 0);
    await insert('array', '[{"id":1,"text":"a"},{"id":2,"text":"b"}]');
    expect(await engine.rows('SELECT count() AS rows FROM contract.array')).toEqual([{ rows: 2 }]);
  },
  'rows are inserted from CSV in the order of the table': async () => {
    await fill('csv', 0);
    await insert('csv', 'id,text\n1,"a, ""b"""\n', 'CSVWithNames');
    expect(await engine.rows('SELECT id, text FROM contract.csv')).toEqual([{ id: 1, text: 'a, "b"' }]);
  },
  'CSV columns are taken by their names': async () => {
    await fill('named', 0);
    await insert('named', 'text,id\na,1\n', 'CSVWithNames');
    expect(await engine.rows('SELECT id, text FROM contract.named')).toEqual([{ id: 1, text: 'a' }]);
  },
  'settings of an insert hold': async () => {
    await fill('settings', 0);
    const payload = Buffer.from('{"id":1,"further":true,"text":"a"}\n');
    const request = { table: 'contract.settings', format: 'JSONEachRow', payload } as const;
    const settings = { input_format_skip_unknown_fields: 1 };
    await engine.insert({ ...request, settings });
    await expect(engine.insert({ ...request, settings: { input_format_skip_unknown_fields: 0 } })).rejects.toThrow(
      EngineFault,
    );
    expect(await engine.rows('SELECT count() AS rows FROM contract.settings')).toEqual([{ rows: 1 }]);
  },
  'an insert with one bad row stores none': async () => {
    await fill('bad', 0);
    const lines = Array.from({ length: 1_000 }, (_, id) => `{"id":${id === 900 ? '"x"' : id},"text":"a"}\n`);
    await expect(insert('bad', lines.join(''))).rejects.toThrow(EngineFault);
    expect(await engine.rows('SELECT count() AS rows FROM contract.bad')).toEqual([{ rows: 0 }]);
  },
  'a failure keeps the number of ClickHouse, and the next statement is answered': async () => {
    await fill('failing', 10);
    const codes: readonly (readonly [string, number])[] = [
      ['SELECT no_such_column FROM contract.failing', 47],
      ['SELECT no_such_function(1)', 46],
      ['SELEC 1', 62],
      ['SELECT 1 FROM contract.no_such_table', 60],
      ["SELECT sum(id) FROM contract.failing SETTINGS max_rows_to_read = 1, read_overflow_mode = 'throw'", 158],
      ['SELECT sum(number) FROM system.numbers SETTINGS max_execution_time = 1', 159],
    ];
    for (const [sql, clickhouseCode] of codes) {
      await expect(engine.rows(sql)).rejects.toMatchObject({ name: 'EngineFault', clickhouseCode });
      expect(await engine.rows('SELECT 1 AS one')).toEqual([{ one: 1 }]);
    }
  },
  'an aborted statement is a fault': async () => {
    const options = { signal: AbortSignal.abort(new RangeError('given up')) };
    await expect(engine.rows('SELECT 1', options)).rejects.toThrow(EngineFault);
  },
};

describe.each(IMPLEMENTATIONS)('$name engine', ({ isMissing, skips, open }) => {
  describe.skipIf(isMissing)('contract', () => {
    beforeAll(async () => {
      engine = await open();
      await engine.command('CREATE DATABASE contract');
    });

    afterAll(async () => {
      await engine?.close();
    });

    for (const [title, run] of Object.entries(FACTS)) test.skipIf(title in skips)(title, run);

    test('every skip is a test’s', () => {
      expect(Object.keys(skips).filter((title) => !(title in FACTS))).toEqual([]);
    });
  });
});

afterAll(async () => {
  await server?.stop();
});

async function fill(name: string, rows: number): Promise<void> {
  await engine.command(`CREATE TABLE contract.${name} (id UInt32, text String) ENGINE = MergeTree ORDER BY id`);
  if (rows > 0)
    await engine.command(`INSERT INTO contract.${name} SELECT number, toString(number) FROM numbers(${rows})`);
}

async function insert(name: string, text: string, format: 'JSONEachRow' | 'CSVWithNames' = 'JSONEachRow') {
  await engine.insert({ table: `contract.${name}`, format, payload: Buffer.from(text) });
}
