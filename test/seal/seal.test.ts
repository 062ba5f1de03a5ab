/**
 * Writing a drop on a real embedded engine: order, duplicates, footer, pages, checksum, verification, three independent
 * readers. Types are in `test/contract/interop.external.test.ts`, publishing in `test/ledger/publish.slow.test.ts`, the
 * audit in `audit.slow.test.ts`, whole dates in `test/export/seal-rows.slow.test.ts`.
 */
import { copyFile, readFile, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import {
  asyncBufferFromFile,
  type FileMetaData,
  parquetMetadataAsync,
  parquetReadObjects,
  readColumnIndex,
  readOffsetIndex,
} from 'hyparquet';
import { compressors } from 'hyparquet-compressors';
import { ParquetReader } from 'parquetjs-lite';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { hashFile } from '../../src/core/atomic-file.ts';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { writeFooter } from '../../src/seal/footer.ts';
import { type FileFacts, readParquet } from '../../src/seal/parquet-reader.ts';
import {
  checksumParquet,
  type DropChecksum,
  type DropColumn,
  listDropColumns,
  ROW_GROUP_ROWS,
  verifyParquet,
  writeParquet,
} from '../../src/seal/write-parquet.ts';
import { openStage, type Stage } from '../../src/stage/stage.ts';
import { useCleanups } from '../support/cleanups.ts';
import { openDuckDb, queryDuckDb } from '../support/drop.ts';
import { createJob, createPage, createTrade, DATE, stageTrades, type TradeRow, windowAt } from '../support/trades.ts';

/** Several row groups, the last one not full. */
const ROWS = 150_000;
const ROW_GROUPS = Math.ceil(ROWS / ROW_GROUP_ROWS);
const job = createJob();
const SMALL_DATE = '2026-11-18';
const NOTES = { 'flowdrop.job': 'trades', 'flowdrop.query': "SELECT 'ü'" };
const { folder: makeFolder } = useCleanups();
let folder: string;
let engine: Engine;

interface DropRows {
  readonly path: string;
  readonly columns: readonly DropColumn[];
  readonly sum: DropChecksum;
}

async function sealFile(stage: Stage, name: string, of = job): Promise<DropRows> {
  const columns = listDropColumns(of.source.columns, await stage.extraFields());
  const { rows, ids } = await stage.totals();
  const path = join(folder, name);
  const sum = await writeParquet(engine, of, { table: stage.table, duplicates: rows - ids }, columns, path);
  await writeFooter(path, { columns, sort: of.drop.sort, keyValues: NOTES });
  return { path, columns, sum };
}

/** @param rows of another date than those of the large drop, whose stage stays */
async function sealRows(name: string, rows: readonly TradeRow[], of = job): Promise<DropRows> {
  const stage = await openStage(engine, of, SMALL_DATE, '');
  try {
    await stage.put(windowAt(0), createPage(rows.map((row) => ({ ...row, date: SMALL_DATE }))));
    return await sealFile(stage, name, of);
  } finally {
    await stage.discard();
  }
}

const readMetadata = async (path: string): Promise<FileMetaData> =>
  await parquetMetadataAsync(await asyncBufferFromFile(path));

const readRows = async (path: string): Promise<Record<string, unknown>[]> =>
  await parquetReadObjects({ file: await asyncBufferFromFile(path), compressors });

beforeAll(async () => {
  folder = await makeFolder();
  engine = await openEmbeddedEngine({ path: join(folder, 'engine') });
});

afterAll(async () => await engine.close());

describe('a large drop', () => {
  let sealed: DropRows;
  let metadata: FileMetaData;

  beforeAll(async () => {
    const stage = await openStage(engine, job, DATE, '');
    await stageTrades(stage, ROWS);
    sealed = await sealFile(stage, 'large.parquet');
    metadata = await readMetadata(sealed.path);
  });

  test('has row groups of exactly the size documented but for the last', () => {
    const groups = metadata.row_groups.map(({ num_rows }) => Number(num_rows));
    const full = Array.from({ length: ROW_GROUPS - 1 }, () => ROW_GROUP_ROWS);
    expect(full.length).toBeGreaterThan(1);
    expect(groups).toEqual([...full, ROWS - full.length * ROW_GROUP_ROWS]);
  });

  test('declares its order, page index and bloom filters in every row group', () => {
    const names = metadata.schema.slice(1).map(({ name }) => name);
    for (const group of metadata.row_groups) {
      expect(group.sorting_columns?.map(({ column_idx }) => names[column_idx])).toEqual(['symbol', 'time', 'id']);
      for (const column of group.columns) {
        expect(column.meta_data?.codec).toBe('ZSTD');
        expect(column.meta_data?.statistics).toBeDefined();
        expect(
          [column.offset_index_offset, column.column_index_offset].every((at) => at !== undefined && at > 0n),
        ).toBe(true);
        // Filters of the other columns were a seventh of the file and of no use to anybody.
        if (/symbol/.test(column.meta_data?.path_in_schema.join('.') ?? '')) {
          expect(column.meta_data?.bloom_filter_offset).toBeGreaterThan(0n);
          expect(column.meta_data?.encodings).toContain('RLE_DICTIONARY');
        } else expect(column.meta_data?.bloom_filter_offset).toBeUndefined();
      }
    }
  });

  test('has page indexes that are those of their own column and row group', async () => {
    const file = await asyncBufferFromFile(sealed.path);
    const view = async (offset = 0n, length = 0) => ({
      view: new DataView(await file.slice(Number(offset), Number(offset) + length)),
      offset: 0,
    });
    for (const group of metadata.row_groups) {
      for (const [index, column] of group.columns.entries()) {
        const chunk = column.meta_data;
        const element = metadata.schema[index + 1];
        if (!chunk || !element) throw new Error('a column without metadata');
        const { page_locations: pages } = readOffsetIndex(
          await view(column.offset_index_offset, column.offset_index_length),
        );
        const start = chunk.dictionary_page_offset ?? chunk.data_page_offset;
        expect(pages[0]).toMatchObject({ offset: chunk.data_page_offset, first_row_index: 0n });
        const last = pages.at(-1);
        expect((last?.offset ?? 0n) + BigInt(last?.compressed_page_size ?? 0)).toBe(
          start + chunk.total_compressed_size,
        );
        const { min_values, max_values, null_pages } = readColumnIndex(
          await view(column.column_index_offset, column.column_index_length),
          element,
        );
        expect(min_values).toHaveLength(pages.length);
        // Several, so that the index can leave some out.
        const isFull = Number(group.num_rows) === ROW_GROUP_ROWS;
        if (isFull && /^(id|premium|updated_timestamp)$/.test(element.name)) expect(pages.length).toBeGreaterThan(2);
        const sorted = (values: readonly unknown[]) =>
          (values.filter((_, page) => !null_pages[page]) as string[]).sort((a, b) => (a < b ? -1 : 1));
        const [least, most] = [sorted(min_values)[0], sorted(max_values).at(-1)];
        expect([least, most]).toEqual([chunk.statistics?.min_value, chunk.statistics?.max_value]);
      }
    }
  });

  test('says in its metadata what made it and what its columns mean', () => {
    const pairs = new Map(metadata.key_value_metadata?.map(({ key, value }) => [key, value]));
    expect(pairs.get('flowdrop.query')).toBe("SELECT 'ü'");
    expect(pairs.get('column.time')).toMatch(/New_York/);
  });

  test('verifies', async () => {
    expect(await verifyParquet(engine, sealed.path, sealed.columns, sealed.sum)).toMatchObject({
      rows: ROWS,
      row_groups: ROW_GROUPS,
    });
  });

  test('is read back whole by the independent reader: every page of every column, in the order declared', async () => {
    expect(await readParquet(sealed.path, job.drop.sort)).toMatchObject({
      ...{ rows: ROWS, row_groups: ROW_GROUPS, disorder: undefined, declaredSort: job.drop.sort, codecs: ['zstd'] },
      ...{ min_time: `${DATE} 09:30:00`, max_time: `${DATE} 10:53:19` },
    });
    expect((await readParquet(sealed.path, ['id'])).disorder).toBeGreaterThan(0);
  });

  test('is the same file byte for byte when it is written again, of pages that came in another order', async () => {
    const other = await openStage(engine, job, DATE, 'another source');
    for (let page = 14; page >= 0; page -= 1) {
      const rows = Array.from({ length: 10_000 }, (_, i) => createTrade(page * 10_000 + i));
      await other.put(windowAt(page), createPage(rows));
    }
    const { path, sum } = await sealFile(other, 'other.parquet');
    await other.discard();
    expect(sum).toEqual(sealed.sum);
    expect(await hashFile(path)).toBe(await hashFile(sealed.path));
  });

  test('is read by DuckDB in true order and pruned to the rows that are there', async () => {
    const value = async (sql: string) => Object.values((await queryDuckDb(sql))[0] ?? {}).map(String);
    const file = `read_parquet('${sealed.path}')`;
    expect(await value(`SELECT count(*), count(DISTINCT id) FROM ${file}`)).toEqual([String(ROWS), String(ROWS)]);
    const key = `(symbol || ' ' || time::VARCHAR || ' ' || id)`;
    expect(
      await value(
        `SELECT count(*) FROM (SELECT ${key} AS k, lag(${key}) OVER (ORDER BY file_row_number) AS p FROM read_parquet('${sealed.path}', file_row_number = true)) WHERE k <= p`,
      ),
    ).toEqual(['0']);
    // Statistics, page index and bloom filters that lie would lose rows here.
    for (const where of [
      "symbol = 'SYM77'",
      "time = TIMESTAMP '2026-11-19 10:00:00'",
      'strike = 77.5',
      "earning_date = DATE '2026-12-01'",
    ]) {
      const pruned = await value(`SELECT count(*) FROM ${file} WHERE ${where}`);
      expect(pruned).toEqual(
        await value(`SELECT count(*) FROM (SELECT * FROM ${file} OFFSET 0) WHERE (${where}) IS TRUE`),
      );
      expect(pruned).not.toEqual(['0']);
    }
    expect(await value(`SELECT count(*) FROM ${file} WHERE symbol = 'SYM77'`)).toEqual([
      String(Array.from({ length: ROWS }, (_, k) => createTrade(k)).filter(({ symbol }) => symbol === 'SYM77').length),
    ]);
  });

  test('has bloom filters that exclude what is not there and nothing that is', async () => {
    const duck = await openDuckDb();
    const excluded = async (symbol: string) => {
      const probe = await duck.query(
        `SELECT bloom_filter_excludes FROM parquet_bloom_probe('${sealed.path}', 'option_symbol', '${symbol}')`,
      );
      return probe.map((group) => group['bloom_filter_excludes']);
    };
    const symbols = Array.from({ length: 400 }, (_, n) => `SYM${n}261218C00100000`);
    const absent = Array.from({ length: 400 }, (_, n) => `NOT${n}261218C00100000`);
    for (const symbol of symbols.slice(0, 50)) expect(await excluded(symbol)).toContain(false);
    const misses = (await Promise.all(absent.map(excluded))).flat().filter((excludes) => excludes === false);
    // One in a hundred may be taken for there.
    expect(misses.length).toBeLessThan(40);
    const [pruned, all] = await Promise.all(
      ['1', '0'].map((use) =>
        engine.rows<{ n: number }>(
          `SELECT count() AS n FROM file('${sealed.path}', Parquet) WHERE option_symbol = '${symbols[77]}' SETTINGS input_format_parquet_bloom_filter_push_down = ${use}, input_format_parquet_filter_push_down = ${use}`,
        ),
      ),
    );
    expect(pruned).toEqual(all);
    expect(pruned?.[0]?.n).toBeGreaterThan(0);
    duck.close();
  });

  describe('that is damaged', () => {
    const damage = async (change: (path: string) => Promise<void>): Promise<FileFacts> => {
      const path = join(folder, 'damaged.parquet');
      await copyFile(sealed.path, path);
      await change(path);
      return await verifyParquet(engine, path, sealed.columns, sealed.sum);
    };
    const flip = async (path: string, at: number) => {
      const bytes = await readFile(path);
      bytes[at] = (bytes[at] ?? 0) ^ 0x10;
      await writeFile(path, bytes);
    };

    // Of a page, behind its header: the statistics in it are read by nobody.
    test.each([0.05, 0.2, 0.5])('by one flipped byte at %d of a page does not verify', async (share) => {
      const chunk = metadata.row_groups[1]?.columns[0];
      const from = Number(chunk?.offset_index_offset);
      const bytes = await (await asyncBufferFromFile(sealed.path)).slice(
        from,
        from + Number(chunk?.offset_index_length),
      );
      const page = readOffsetIndex({ view: new DataView(bytes), offset: 0 }).page_locations[1];
      const at = Number(page?.offset) + Math.floor(Number(page?.compressed_page_size) * share);
      await expect(damage((path) => flip(path, at))).rejects.toThrow();
    });

    test('by a cut does not verify', async () => {
      await expect(damage((path) => truncate(path, 1_000_000))).rejects.toThrow();
    });

    test('in its schema alone does not verify', async () => {
      const columns = sealed.columns.map((column) => ({
        ...column,
        name: column.name === 'rho' ? 'rh0' : column.name,
      }));
      await expect(verifyParquet(engine, sealed.path, columns, sealed.sum)).rejects.toThrow();
    });
  });

  test.each([
    ['rows', { rows: ROWS - 1 }],
    ['hash', { hash: '1' }],
  ])('does not verify against other %s', async (_title, change) => {
    await expect(
      verifyParquet(engine, sealed.path, sealed.columns, { ...sealed.sum, ...change }),
    ).rejects.toMatchObject({
      code: 'SEAL_UNVERIFIED',
    });
  });
});

test.each(['snappy', 'gzip'] as const)(
  'with `compression: %s` a reader without Zstandard gets every row',
  async (codec) => {
    const own = createJob(`, compression: ${codec}`);
    const rows = Array.from({ length: 300 }, (_, k) => createTrade(k, k % 3 === 0 ? { iv: null } : {}));
    const { path, columns, sum } = await sealRows(`${codec}.parquet`, rows, own);
    expect(await verifyParquet(engine, path, columns, sum)).toMatchObject({ rows: 300 });
    const { row_groups } = await readMetadata(path);
    const codecs = row_groups.flatMap((group) => group.columns.map(({ meta_data }) => meta_data?.codec));
    expect(new Set(codecs)).toEqual(new Set([codec.toUpperCase()]));
    const reader = await ParquetReader.openFile(path, { rawStatistics: true });
    const cursor = reader.getCursor();
    const read = [];
    for (let row = await cursor.next(); row !== null; row = await cursor.next()) read.push(row);
    await reader.close();
    const premiums = (all: readonly Readonly<Record<string, unknown>>[]) => all.map(({ premium }) => premium).sort();
    expect(premiums(read)).toEqual(premiums(rows));
  },
);

describe('a small drop', () => {
  const plain = createTrade(0, { earning_date: '', market_cap: '', iv: null });

  test('has the checksum of its stage, nulls included', async () => {
    const { path, sum, columns } = await sealRows('plain.parquet', [plain, createTrade(1)]);
    expect(sum.rows).toBe(2);
    expect(await checksumParquet(engine, path, columns)).toEqual({ ...sum, bad: 0 });
  });

  test.each<readonly [string, TradeRow]>([
    ['a null from the day zero', { earning_date: '1970-01-01' }],
    ['a null from the integer 0', { market_cap: '0' }],
    ['a null from the number 0', { iv: 0 }],
    ['a number from its negative', { oi: -Number(plain['oi']) - 1 }],
    ['two neighbouring texts from each other', { put_call: plain['side'], side: plain['put_call'] }],
    ['a millisecond', { updated_timestamp: String(Number(plain['updated_timestamp']) + 1) }],
    ['the last bit of a number', { delta: 0.5000000000000001 }],
  ])('has a checksum that tells %s', async (_title, changes) => {
    const before = await sealRows('before.parquet', [plain]);
    const after = await sealRows('after.parquet', [{ ...plain, ...changes }]);
    expect(after.sum.hash).not.toBe(before.sum.hash);
  });

  test('keeps of a repeated id only the row with the newest updated_timestamp', async () => {
    const rows = [3, 1, 2].map((price) =>
      createTrade(0, { price, updated_timestamp: String(1_795_000_000_000 + price) }),
    );
    const { path, sum, columns } = await sealRows('twice.parquet', [...rows, createTrade(1), createTrade(1)]);
    expect((await readRows(path)).map(({ id, price }) => [id, price]).sort()).toEqual(
      [
        [createTrade(0)['id'], 3],
        [createTrade(1)['id'], createTrade(1)['price']],
      ].sort(),
    );
    await verifyParquet(engine, path, columns, sum);
  });

  test.each([
    ['market_cap', ['900', '1000', '', '-5'], [-5, 900, 1000, null]],
    ['updated_timestamp', ['1795000000000', '999'], [999, 1_795_000_000_000]],
    ['earning_date', ['2026-12-02', '', '2026-12-01'], ['2026-12-01', '2026-12-02', null]],
  ])('sorted by %s is in the order of its values, nulls last as declared', async (name, came, expected) => {
    const sorted = createJob(`, sort: [${name}, id]`);
    const { path } = await sealRows(
      'sorted.parquet',
      came.map((value, k) => createTrade(k, { [name]: value })),
      sorted,
    );
    const plain = (value: unknown) => {
      if (value instanceof Date) return name === 'earning_date' ? value.toISOString().slice(0, 10) : value.getTime();
      return value === undefined || value === null ? null : Number(value);
    };
    expect((await readRows(path)).map((row) => plain(row[name]))).toEqual(expected);
    expect((await readMetadata(path)).row_groups[0]?.sorting_columns?.[0]?.nulls_first).toBe(false);
  });
});
