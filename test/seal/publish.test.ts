/**
 * Two workers that publish different bytes for one date, in every order of their calls that a seed gives: the object and
 * its manifest always belong together, and what was published first is never replaced. Simple publishing is tested in
 * `seal.test.ts`.
 */

import { createHash } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readManifest } from '../../src/seal/ledger.ts';
import type { Manifest } from '../../src/seal/manifest.ts';
import { publishDrop } from '../../src/seal/publish.ts';
import { openDirectoryStore } from '../../src/store/directory.ts';
import { dropKey } from '../../src/store/layout.ts';
import type { Store } from '../../src/store/store.ts';
import { createRandom } from '../support/random.ts';
import { DATE } from '../support/trades.ts';

const SEEDS = 150;
const METHODS = ['get', 'put', 'putIfAbsent', 'copy', 'remove'] as const;

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'flowdrop-publish-'));
});
afterEach(async () => await rm(folder, { recursive: true, force: true }));

/** The store as one worker sees it: each call waits for its turn, and `dies` may end the worker instead. */
function steppedStore(store: Store, turn: () => Promise<void>): Store {
  const steps = METHODS.map((name) => [
    name,
    {
      value: async (...given: unknown[]) => {
        await turn();
        return await (store[name] as (...args: unknown[]) => Promise<unknown>).apply(store, given);
      },
    },
  ]);
  return Object.create({ url: store.url }, Object.fromEntries(steps)) as Store;
}

class Died extends RangeError {}

describe('two workers', () => {
  it.each(Array.from({ length: SEEDS }, (_, seed) => seed))(
    'publish one drop whose object is its manifest (seed %i)',
    async (seed) => {
      const random = createRandom(seed);
      const store = await openDirectoryStore(join(folder, 'store'));
      const dieAt = seed % 3 === 0 ? Math.floor(random() * 12) : Number.POSITIVE_INFINITY;
      const workers = await Promise.all(
        ['first', 'second'].map(async (name, index) => {
          const path = join(folder, name);
          await writeFile(path, `bytes of the ${name}`);
          let calls = 0;
          const turn = async () => {
            calls += 1;
            if (index === 0 && calls > dieAt) throw new Died();
            for (let wait = Math.floor(random() * 6); wait > 0; wait -= 1)
              await new Promise((resolve) => setImmediate(resolve));
          };
          return { path, stepped: steppedStore(store, turn) };
        }),
      );
      const seen: string[] = [];
      const results = await Promise.allSettled(
        workers.map(async ({ path, stepped }) => {
          const result = await publishDrop(stepped, path, manifestOf());
          seen.push(result.manifest.files[0].hash);
          return result;
        }),
      );
      for (const result of results) if (result.status === 'rejected') expect(result.reason).toBeInstanceOf(Died);
      const manifest = await readManifest(store, 'trades', DATE);
      const object = await store.get(dropKey('trades', DATE));
      expect(manifest?.files[0].hash).toBe(
        `sha256:${createHash('sha256')
          .update(object ?? '')
          .digest('hex')}`,
      );
      expect(new Set([...seen, manifest?.files[0].hash]).size).toBe(1);
      // Nothing is left over, unless a worker died with it.
      const left: string[] = [];
      for await (const { key } of store.list('_sealing/')) left.push(key);
      if (dieAt === Number.POSITIVE_INFINITY) expect(left).toEqual([]);
    },
  );
});

function manifestOf(): Omit<Manifest, 'files'> {
  return {
    manifest_version: 1,
    job_id: 'trades',
    dataset: 'trades',
    date: DATE,
    revision: 1,
    condition: 'available',
    rows: 1,
    source_rows: 1,
    duplicates: 0,
    min_time: null,
    max_time: null,
    schema: [],
    schema_hash: 'sha256:0',
    extra_columns: [],
    sort: [],
    compression: 'zstd',
    row_groups: 1,
    query: { sql: 'SELECT 1', entry_point: 'historical', url: 'http://localhost' },
    windows: [],
    requests: 1,
    started_at: '2026-11-20T00:00:00Z',
    sealed_at: '2026-11-20T00:00:00Z',
    lookback_edge: '2026-11-05 00:00:00',
    row_limit: 1,
    flowdrop_version: '0.0.0',
    supersedes: null,
  };
}
