/** What a restatement changed, counted by the engine over two Parquet files, against a count made row by row here. */

import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { parquetFile } from '../../src/engine/literal.ts';
import { compareFiles, isUnchanged } from '../../src/seal/changes.ts';
import { useCleanups } from '../support/cleanups.ts';
import { createRandom } from '../support/random.ts';

interface Row {
  readonly id: string;
  readonly time: number;
  readonly price: number | null;
}

const { folder: makeFolder } = useCleanups();
let folder: string;
let engine: Engine;
beforeAll(async () => {
  folder = await makeFolder();
  engine = await openEmbeddedEngine();
});
afterAll(async () => await engine.close());

/** @param rows what is compared: more than there are make the comparison go in several passes */
async function compare(before: readonly Row[], after: readonly Row[], key: readonly string[], rows = 1) {
  const write = async (name: string, content: readonly Row[]) => {
    const path = join(folder, name);
    await rm(path, { force: true });
    if (content.length === 0) return { from: parquetFile(path), rows: 0, columns: ['id', 'time', 'price'] };
    const text = content.map((row) => JSON.stringify(row)).join('\n');
    await engine.command(
      `SELECT * FROM format(JSONEachRow, 'id String, time Int64, price Nullable(Float64)', '${text}') INTO OUTFILE '${path}' FORMAT Parquet`,
    );
    return { from: parquetFile(path), rows, columns: ['id', 'time', 'price'] };
  };
  return await compareFiles(engine, await write('before', before), await write('after', after), key);
}

/** Rows matched by key one after the other: equal ones first, what is left over pairs as altered. */
function count(before: readonly Row[], after: readonly Row[], keyOf: (row: Row) => string) {
  const keys = new Set([...before, ...after].map(keyOf));
  const found = { added: 0, removed: 0, altered: 0 };
  for (const key of keys) {
    const gone = before.filter((row) => keyOf(row) === key).map((row) => JSON.stringify(row));
    const fresh = after.filter((row) => keyOf(row) === key).map((row) => JSON.stringify(row));
    for (const row of [...gone]) {
      const at = fresh.indexOf(row);
      if (at < 0) continue;
      fresh.splice(at, 1);
      gone.splice(gone.indexOf(row), 1);
    }
    const both = Math.min(gone.length, fresh.length);
    found.altered += both;
    found.added += fresh.length - both;
    found.removed += gone.length - both;
  }
  return found;
}

describe('the changes between two files', () => {
  it.each([
    { key: ['id'], keyOf: ({ id }: Row) => id, what: 'ids that are unique', ids: 400, rows: 1 },
    { key: ['id'], keyOf: ({ id }: Row) => id, what: 'ids that come again', ids: 60, rows: 1 },
    { key: ['time'], keyOf: ({ time }: Row) => String(time), what: 'a sort key', ids: 400, rows: 1 },
    { key: ['absent'], keyOf: (row: Row) => JSON.stringify(row), what: 'whole rows', ids: 400, rows: 1 },
    { key: ['id'], keyOf: ({ id }: Row) => id, what: 'ids in several passes', ids: 300, rows: 20_000_000 },
  ])('are counted exactly by $what', async ({ key, keyOf, ids, rows }) => {
    const random = createRandom(ids + rows);
    const draw = (): Row => ({
      id: `id-${Math.floor(random() * ids)}`,
      time: Math.floor(random() * 50),
      price: random() < 0.2 ? null : Math.floor(random() * 3),
    });
    const before = Array.from({ length: 300 }, draw);
    const after = [...before.filter(() => random() < 0.8), ...Array.from({ length: 50 }, draw)].sort(
      () => random() - 0.5,
    );
    const expected = count(before, after, keyOf);
    expect(expected.added + expected.removed).toBeGreaterThan(0);
    expect(await compare(before, after, key, rows)).toMatchObject(expected);
    expect(isUnchanged(await compare(before, [...before].reverse(), key, rows))).toBe(true);
  });

  it('tell a null from an empty text and from 0', async () => {
    const [a, b] = [
      { id: 'a', time: 1, price: null },
      { id: 'a', time: 1, price: 0 },
    ];
    expect(await compare([a], [b], ['id'])).toMatchObject({ altered: 1 });
  });

  it('of an empty file are all rows of the other', async () => {
    const rows = [{ id: 'a', time: 1, price: 1 }];
    expect(await compare([], rows, ['id'])).toMatchObject({ added: 1, removed: 0, altered: 0 });
    expect(await compare(rows, [], ['id'])).toMatchObject({ added: 0, removed: 1, altered: 0 });
  });
});
