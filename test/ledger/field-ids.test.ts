/** Field ids of a dataset's columns over days, job edits, lost documents and two workers, in a directory store. */
import { join } from 'node:path';
import { beforeEach, expect, it } from 'vitest';
import { fieldsPrefix, manifestKey } from '../../src/ledger/layout.ts';
import { assignFieldIds, Ledger } from '../../src/ledger/ledger.ts';
import { formatManifest, signManifest } from '../../src/ledger/manifest.ts';
import { openDirectoryStore } from '../../src/store/directory.ts';
import type { Store } from '../../src/store/store.ts';
import { makeFolder } from '../support/flowdrop.ts';
import { createDraft } from '../support/manifest.ts';

let store: Store;
beforeEach(async () => {
  const { path, remove } = await makeFolder();
  store = await openDirectoryStore(join(path, 'store'));
  return remove;
});

const assign = async (...names: readonly string[]) =>
  Object.fromEntries(await assignFieldIds(new Ledger(store, 'trades'), names));

it('a column keeps its id, in whatever order columns come later, and a new one gets the next', async () => {
  expect(await assign('id', 'symbol')).toEqual({ id: 1, symbol: 2 });
  expect(await assign('symbol', 'venue', 'id')).toEqual({ id: 1, symbol: 2, venue: 3 });
  // A column that a job no longer has keeps its id for its return.
  expect(await assign('id', 'iv')).toEqual({ id: 1, symbol: 2, venue: 3, iv: 4 });
  expect(await assign('venue')).toEqual({ id: 1, symbol: 2, venue: 3, iv: 4 });
});

it('workers that add columns at the same moment give no id twice', async () => {
  const found = await Promise.all(
    Array.from(
      { length: 12 },
      async (_, worker) => await assignFieldIds(new Ledger(store, 'trades'), ['id', `c${worker}`]),
    ),
  );
  const last = await assign('id');
  expect(new Set(Object.values(last)).size).toBe(13);
  for (const ids of found) for (const [name, id] of ids) expect([name, last[name]]).toEqual([name, id]);
});

it('a document that is lost or damaged is made again from sealed drops and older versions', async () => {
  await assign('id', 'symbol');
  await assign('venue');
  const draft = createDraft({});
  const schema = [
    { name: 'id', type: 'x', nullable: false, field_id: 1 },
    { name: 'venue', type: 'x', nullable: false, field_id: 3 },
  ];
  const files = [{ filename: 'trades.parquet', size: 1, hash: 'sha256:0' }] as const;
  const manifest = signManifest({ ...draft, schema, revision: 1, supersedes: null, files: [...files] });
  await store.put(manifestKey('trades', draft.date), { bytes: formatManifest(manifest) });
  await store.put(`${fieldsPrefix('trades')}2.json`, { bytes: Buffer.from('{') });
  expect(await assign('iv')).toEqual({ id: 1, symbol: 2, venue: 3, iv: 4 });
  for (const version of [1, 2, 3]) await store.remove(`${fieldsPrefix('trades')}${version}.json`);
  expect(await assign('next')).toEqual({ id: 1, venue: 3, next: 4 });
});
