/** The Parquet attachments, read back by DuckDB, hyparquet and the engine: the same values, types and provenance. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parquetMetadata, parquetReadObjects } from 'hyparquet';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openEmbeddedEngine } from '../../../src/engine/embedded.ts';
import { quoteString } from '../../../src/engine/literal.ts';
import { formatParquet } from '../../../src/report/attach/attach.ts';
import type { AttachedTable, Cell } from '../../../src/report/report-table.ts';
import { listTables } from '../../../src/report/report-tables.ts';
import { queryDuckDb } from '../../support/drop.ts';
import { known } from '../known.ts';
import { createEmptyReport, createHostileReport, createReport } from './fixture.ts';

let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'flowdrop-parquet-'));
});

afterAll(async () => {
  await rm(folder, { recursive: true, force: true });
});

async function write(table: AttachedTable): Promise<{ readonly path: string; readonly bytes: Uint8Array }> {
  const bytes = await formatParquet(table, createReport().drop);
  const path = join(folder, `${table.name}.parquet`);
  await writeFile(path, bytes);
  return { path, bytes };
}

function toValue(cell: unknown): Cell {
  if (cell instanceof Date) return cell.toISOString().slice(0, 10);
  return typeof cell === 'bigint' ? Number(cell) : ((cell ?? null) as Cell);
}

describe('a parquet attachment', () => {
  test('of every table gives hyparquet the cells as they are, hostile texts included', async () => {
    for (const table of [...listTables(createReport()), ...listTables(createHostileReport())]) {
      const { bytes } = await write(table);
      const rows = await parquetReadObjects({ file: new Uint8Array(bytes).buffer });
      expect(rows.map((row) => table.columns.map(({ name }) => toValue(row[name])))).toEqual(table.rows);
    }
  });

  test('gives DuckDB dates, whole numbers and doubles, whatever the rows hold', async () => {
    const types = async (tables: readonly AttachedTable[]) => {
      const [table] = tables;
      if (table === undefined) throw new Error('there are key numbers');
      const { path } = await write(table);
      return await queryDuckDb(`SELECT column_name, column_type FROM (DESCRIBE SELECT * FROM '${path}')`);
    };
    const full = await types(listTables(createReport()));
    expect(full).toEqual([
      { column_name: 'date', column_type: 'DATE' },
      { column_name: 'name', column_type: 'VARCHAR' },
      { column_name: 'unit', column_type: 'VARCHAR' },
      { column_name: 'latest', column_type: 'DOUBLE' },
      { column_name: 'previous', column_type: 'DOUBLE' },
      { column_name: 'change', column_type: 'DOUBLE' },
      { column_name: 'median', column_type: 'DOUBLE' },
      { column_name: 'previous_date', column_type: 'DATE' },
      { column_name: 'sessions_above', column_type: 'BIGINT' },
      { column_name: 'sessions', column_type: 'BIGINT' },
    ]);
    expect(await types(listTables(createEmptyReport()))).toEqual(full);
  });

  test('sums up in DuckDB and in the engine to what the report says', async () => {
    const table = listTables(createReport()).find(({ name }) => name === 'half-hours');
    if (table === undefined) throw new Error('there is a table of half hours');
    const { path } = await write(table);
    const total = createReport().halfHours.reduce((sum, { total }) => sum + known(total), 0);
    const trades = createReport().halfHours.reduce((sum, { trades }) => sum + trades, 0);
    const columns = 'sum(premium) AS total, CAST(sum(trades) AS BIGINT) AS trades, min(date) AS date';
    const [duck] = await queryDuckDb(`SELECT ${columns} FROM '${path}'`);
    expect({ ...duck, trades: Number(duck?.['trades']) }).toEqual({ total, trades, date: '2026-11-19' });
    const engine = await openEmbeddedEngine();
    try {
      const rows = await engine.rows(`SELECT ${columns} FROM file(${quoteString(path)}, Parquet)`);
      expect(rows).toEqual([{ total, trades, date: '2026-11-19' }]);
    } finally {
      await engine.close();
    }
  });

  test('says in its footer which drop it was computed from', async () => {
    const [table] = listTables(createReport());
    if (table === undefined) throw new Error('there are key numbers');
    const { bytes } = await write(table);
    const { key_value_metadata: pairs = [] } = parquetMetadata(new Uint8Array(bytes).buffer);
    expect(Object.fromEntries(pairs.map(({ key, value }) => [key, value]))).toMatchObject({
      'flowdrop:table': 'key-numbers',
      'flowdrop:dataset': 'trades',
      'flowdrop:date': '2026-11-19',
      'flowdrop:revision': '2',
      'flowdrop:drop_sha256': 'ab'.repeat(32),
    });
  });
});
