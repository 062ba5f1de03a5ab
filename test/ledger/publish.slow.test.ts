/**
 * Publishing: one revision of a date, and the next, by one worker and by two in every order of their calls that a seed
 * gives, one of which may die at any call. What a manifest says is tested in `test/export/seal-rows.slow.test.ts`.
 */
import { createHash } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { finishSealing } from '../../src/ledger/finish.ts';
import {
  dropKey,
  dropsPrefix,
  fileKey,
  historyKey,
  manifestKey,
  recordsPrefix,
  sealingDecisionKey,
} from '../../src/ledger/layout.ts';
import { Ledger } from '../../src/ledger/ledger.ts';
import { hashManifest, type Manifest } from '../../src/ledger/manifest.ts';
import { publishDrop } from '../../src/ledger/publish.ts';
import { openDirectoryStore } from '../../src/store/directory.ts';
import type { Store } from '../../src/store/store.ts';
import { useCleanups } from '../support/cleanups.ts';
import { Died, dieAt, faultStore, wait } from '../support/fault-store.ts';
import { createDraft, parseManifest } from '../support/manifest.ts';
import { createRandom } from '../support/random.ts';
import { listKeys, readText } from '../support/store-keys.ts';
import { STORES } from '../support/stores.ts';
import { DATE } from '../support/trades.ts';

/** Of each store; more by hand. */
const SEEDS = 30;
/** About as many calls as publishing a revision has. */
const CALLS = 45;

const { folder: makeFolder } = useCleanups(afterEach);
let folder: string;
beforeEach(async () => {
  folder = await makeFolder();
});

/** One of two workers: before each call it may let the other make some calls, up to all of them; it may die instead. */
class Worker {
  hasEnded = false;
  #calls = 0;
  #waits = false;
  readonly #random: () => number;
  readonly #dieAt: number;

  constructor(random: () => number, dieAt: number) {
    this.#random = random;
    this.#dieAt = dieAt;
  }

  async turn(other: Worker): Promise<void> {
    this.#calls += 1;
    if (this.#calls > this.#dieAt) throw new Died();
    const until = other.#calls + (this.#random() < 0.2 ? Math.floor(this.#random() * CALLS) : 0);
    this.#waits = true;
    // When both wait for the other, whoever sees it first goes on.
    while (other.#calls < until && !other.hasEnded && !other.#waits) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    this.#waits = false;
  }
}

async function publish(store: Store, content: string, supersedes?: Manifest, summary?: string) {
  const path = join(folder, `file-${createHash('sha256').update(content).digest('hex')}`);
  await writeFile(path, content);
  if (summary !== undefined) await writeFile(`${path}.summary`, summary);
  const files = { drop: path, ...(summary === undefined ? {} : { summary: `${path}.summary` }) };
  const draft = createDraft(summary === undefined ? {} : { summary: 'summary.parquet' });
  return await publishDrop(new Ledger(store, draft.dataset), files, draft, { supersedes });
}

const sha256 = (text: string | undefined) =>
  `sha256:${createHash('sha256')
    .update(text ?? '')
    .digest('hex')}`;

/** Every file that a manifest names is there with the bytes that it names. */
async function expectWhole(
  store: Store,
  manifest: Manifest | undefined,
  keyOf = (filename: string) => fileKey('trades', DATE, filename),
): Promise<void> {
  expect(manifest).toBeDefined();
  expect(manifest?.manifest_hash).toBe(hashManifest(manifest ?? {}));
  for (const { filename, hash } of manifest?.files ?? []) {
    expect([filename, sha256(await readText(store, keyOf(filename)))]).toEqual([filename, hash]);
  }
}

async function expectHistory(store: Store, revision: number, content: string): Promise<void> {
  const kept = parseManifest(
    (await store.get(historyKey('trades', DATE, revision, 'manifest.json'))) ?? Buffer.from(''),
  );
  expect(kept.revision).toBe(revision);
  await expectWhole(store, kept, (filename) => historyKey('trades', DATE, revision, filename));
  expect(await readText(store, historyKey('trades', DATE, revision, 'trades.parquet'))).toBe(content);
}

// Skipped only where no S3 server can be had, which `support/s3-server.ts` says aloud; CI never skips it.
describe.each(STORES)('in $name', ({ name, isMissing, open }) => {
  /** Every call of a directory; of S3, where each takes its time, some. */
  const step = name === 'S3' ? 6 : 1;
  describe.skipIf(isMissing)('a revision', () => {
    let store: Store;
    const ledger = () => new Ledger(store, 'trades');
    beforeEach(async () => {
      store = await open(folder);
    });
    afterEach(async () => await store.close());

    it('is an object, its summary and a manifest that lists both, and nothing else', async () => {
      const { won, manifest } = await publish(store, 'one', undefined, 'sum');
      expect(won).toBe(true);
      expect(manifest).toMatchObject({ revision: 1, supersedes: null });
      expect(manifest.files).toEqual([
        { filename: 'trades.parquet', size: 3, hash: sha256('one') },
        { filename: 'summary.parquet', size: 3, hash: sha256('sum') },
      ]);
      expect(await listKeys(store)).toEqual(
        ['manifest.json', 'summary.parquet', 'trades.parquet'].map((name) => fileKey('trades', DATE, name)),
      );
      expect(await ledger().manifest(DATE)).toEqual(manifest);
    });

    it('that is sealed is not replaced by a worker that does not restate it', async () => {
      const first = await publish(store, 'one');
      expect(await publish(store, 'other')).toEqual({ won: false, manifest: first.manifest });
      expect(await readText(store, dropKey('trades', DATE))).toBe('one');
    });

    it('that restates moves the one before it, whole, into the history', async () => {
      const first = await publish(store, 'one', undefined, 'sum one');
      const second = await publish(store, 'two', first.manifest, 'sum two');
      expect(second.manifest).toMatchObject({ revision: 2, supersedes: 1 });
      const third = await publish(store, 'three', second.manifest, 'sum three');
      await expectWhole(store, await ledger().manifest(DATE));
      expect((await ledger().manifest(DATE))?.revision).toBe(3);
      await expectHistory(store, 1, 'one');
      await expectHistory(store, 2, 'two');
      expect(third.won).toBe(true);
      expect(await ledger().dates()).toEqual([DATE]);
      expect(await listKeys(store, '_flowdrop/sealing/')).toEqual([]);
    });

    it('without a summary takes away the summary of the one before it', async () => {
      const first = await publish(store, 'one', undefined, 'sum');
      await publish(store, 'two', first.manifest);
      expect(await listKeys(store, recordsPrefix('trades', DATE))).toEqual([manifestKey('trades', DATE)]);
      expect(await listKeys(store, dropsPrefix('trades'))).toEqual([dropKey('trades', DATE)]);
      expect(await readText(store, historyKey('trades', DATE, 1, 'summary.parquet'))).toBe('sum');
    });

    it('whose manifest was lost is sealed anew above those that the history has', async () => {
      const first = await publish(store, 'one');
      await publish(store, 'two', first.manifest);
      await store.remove(manifestKey('trades', DATE));
      const { manifest, won } = await publish(store, 'three');
      expect([manifest.revision, manifest.supersedes, won]).toEqual([2, null, true]);
      expect(await readText(store, historyKey('trades', DATE, 1, 'trades.parquet'))).toBe('one');
    });

    it('that another job sealed is refused, and stays as it is', async () => {
      const { manifest } = await publish(store, 'one');
      const theirs = createDraft({ job_id: 'other' });
      const path = join(folder, 'theirs.parquet');
      await writeFile(path, 'two');
      await expect(publishDrop(new Ledger(store, theirs.dataset), { drop: path }, theirs)).rejects.toMatchObject({
        code: 'DATASET_TAKEN',
      });
      expect(await ledger().manifest(DATE)).toEqual(manifest);
    });

    it('that restates another one than is sealed now changes nothing', async () => {
      const first = await publish(store, 'one');
      const second = await publish(store, 'two', first.manifest);
      expect(await publish(store, 'late', first.manifest)).toEqual({ won: false, manifest: second.manifest });
      expect(await readText(store, dropKey('trades', DATE))).toBe('two');
    });

    it('that restates a damaged object keeps its manifest in the history, says what is lost, and keeps no false file', async () => {
      const first = await publish(store, 'one');
      await store.put(dropKey('trades', DATE), { bytes: Buffer.from('damaged') });
      await publish(store, 'two', first.manifest);
      expect(await listKeys(store, '_flowdrop/trades/history/')).toEqual(
        ['lost.json', 'manifest.json'].map((name) => historyKey('trades', DATE, 1, name)),
      );
      await expectWhole(store, await ledger().manifest(DATE));
    });

    it('is never that of another worker whose decision names bytes that are not there', async () => {
      await expect(publish(faultStore(store, dieAt(5)), 'theirs')).rejects.toThrow(Died);
      for (const key of await listKeys(store, '_flowdrop/sealing/')) {
        if (key.endsWith('.parquet')) await store.put(key, { bytes: Buffer.from('THEIRS') });
      }
      expect(await listKeys(store, '_flowdrop/sealing/')).toContain(sealingDecisionKey('trades', DATE, 1));
      await expect(publish(store, 'ours')).rejects.toMatchObject({ code: 'SEALING_BROKEN' });
      expect(await ledger().manifest(DATE)).toBeUndefined();
    });

    it('of a worker that died at any call is finished by the next run, or was never begun', async () => {
      const outcomes = new Set<string>();
      for (let call = 1, died = true; died; call += step) {
        for (const key of await listKeys(store)) await store.remove(key);
        const first = await publish(store, 'one', undefined, 'sum one');
        const dying = faultStore(store, dieAt(call));
        await publish(dying, 'two', first.manifest, 'sum two').catch((error) => expect(error).toBeInstanceOf(Died));
        died = dying.calls.length >= call;
        await finishSealing(ledger(), join(folder, 'scratch'), Date.now());
        const manifest = await ledger().manifest(DATE);
        await expectWhole(store, manifest);
        if (manifest?.revision === 2) await expectHistory(store, 1, 'one');
        outcomes.add(`${died ? 'died' : 'lived'} ${manifest?.revision}`);
        // Whatever was left over, the next one to restate the date gets through.
        await publish(store, 'three', manifest, 'sum three');
        const after = await ledger().manifest(DATE);
        expect(after?.revision).toBe((manifest?.revision ?? 0) + 1);
        await expectWhole(store, after);
        await finishSealing(ledger(), join(folder, 'scratch'), Date.now());
        expect(await listKeys(store, '_flowdrop/sealing/trades/')).toEqual([]);
      }
      expect([...outcomes].sort()).toEqual(['died 1', 'died 2', 'lived 2']);
    });
  });
});

describe.each(['the first revision', 'a restatement'])('two workers at once, %s', (what) => {
  const restates = what === 'a restatement';
  it.each(Array.from({ length: SEEDS }, (_, seed) => seed))(
    'publish one drop whose object is its manifest (seed %i)',
    async (seed) => {
      const random = createRandom(seed);
      const store = await openDirectoryStore(join(folder, 'store'));
      const before = restates ? (await publish(store, 'old', undefined, 'old sum')).manifest : undefined;
      const dieAt = seed % 3 === 0 ? Math.floor(random() * CALLS) : Number.POSITIVE_INFINITY;
      const seen: string[] = [];
      const workers = [new Worker(random, dieAt), new Worker(random, Number.POSITIVE_INFINITY)] as const;
      const results = await Promise.allSettled(
        ['first', 'second'].map(async (name, index) => {
          const [own, other] = index === 0 ? workers : ([workers[1], workers[0]] as const);
          try {
            const stepped = faultStore(store, () => wait(() => own.turn(other)));
            const result = await publish(stepped, name, before, `sum of the ${name}`);
            seen.push(result.manifest.files[0].hash);
          } finally {
            own.hasEnded = true;
          }
        }),
      );
      for (const result of results) if (result.status === 'rejected') expect(result.reason).toBeInstanceOf(Died);
      const manifest = await new Ledger(store, 'trades').manifest(DATE);
      await expectWhole(store, manifest);
      expect(manifest?.revision).toBe(restates ? 2 : 1);
      expect(new Set([...seen, manifest?.files[0].hash]).size).toBe(1);
      if (restates) await expectHistory(store, 1, 'old');
      // Nothing is left over, unless a worker died with it; the next run takes that away.
      if (dieAt === Number.POSITIVE_INFINITY) expect(await listKeys(store, '_flowdrop/sealing/')).toEqual([]);
      await finishSealing(new Ledger(store, 'trades'), join(folder, 'scratch'), Date.now());
      const left = await listKeys(store, '_flowdrop/sealing/');
      expect(left.filter((key) => key === sealingDecisionKey('trades', DATE, restates ? 2 : 1))).toEqual([]);
    },
  );
});
