/**
 * Writing the file on a real engine: what its checksum tells apart and how its pages are cut. Types, order, footer and
 * verification are tested in `seal.test.ts`, other readers in `test/contract/interop.external.test.ts`.
 */

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { asyncBufferFromFile, parquetMetadataAsync } from 'hyparquet';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Engine } from '../../src/engine/engine.ts';
import {
  checksumParquet,
  type DropChecksum,
  listDropColumns,
  ROW_GROUP_ROWS,
  writeParquet,
} from '../../src/seal/write-parquet.ts';
import { openStage } from '../../src/stage/stage.ts';
import { createJob, createPage, createTrade, DATE, type TradeRow, windowAt } from '../support/trades.ts';

const job = createJob();
const columns = listDropColumns(job.source.columns, []);
let folder: string;
let engine: Engine;

async function write(name: string, rows: readonly TradeRow[]): Promise<{ path: string; sum: DropChecksum }> {
  const stage = await openStage(engine, job, DATE, '');
  try {
    await stage.put(windowAt(0), createPage(rows));
    const path = join(folder, name);
    return { path, sum: await writeParquet(engine, job, { table: stage.table, duplicates: 0 }, columns, path) };
  } finally {
    await stage.discard();
  }
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'flowdrop-parquet-'));
  engine = await openEmbeddedEngine({ path: join(folder, 'engine') });
});

afterAll(async () => {
  await engine.close();
  await rm(folder, { recursive: true, force: true });
});

describe('the checksum of a stage', () => {
  const plain = createTrade(0, { earning_date: '', market_cap: '', iv: null });

  test('is that of its file, nulls included', async () => {
    const { path, sum } = await write('plain.parquet', [plain, createTrade(1)]);
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
  ])('tells %s', async (_title, changes) => {
    const before = await write('before.parquet', [plain]);
    const after = await write('after.parquet', [{ ...plain, ...changes }]);
    expect(after.sum.hash).not.toBe(before.sum.hash);
  });
});

test('a row group has several pages a column, so that the page index can leave some out', async () => {
  const { path } = await write(
    'pages.parquet',
    Array.from({ length: ROW_GROUP_ROWS }, (_, k) => createTrade(k)),
  );
  const file = await asyncBufferFromFile(path);
  const { row_groups } = await parquetMetadataAsync(file);
  expect(row_groups).toHaveLength(1);
  const { readOffsetIndex } = await import('hyparquet');
  for (const name of ['id', 'premium', 'updated_timestamp']) {
    const chunk = row_groups[0]?.columns.find(({ meta_data }) => meta_data?.path_in_schema[0] === name);
    const from = Number(chunk?.offset_index_offset);
    const view = new DataView(await file.slice(from, from + Number(chunk?.offset_index_length)));
    const { page_locations } = readOffsetIndex({ view, offset: 0 });
    expect(page_locations.length, name).toBeGreaterThan(2);
  }
});
