/**
 * The audit of sealed drops, every kind of damage done to a real drop is found, and nothing is found in
 * one that is as it was sealed. The command is in `test/cli/verify.slow.test.ts`.
 */
import { createHash, randomUUID } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { beginDate, createDropFile, sealRows } from '../../src/export/seal-rows.ts';
import { describeSealed } from '../../src/ledger/condition-file.ts';
import {
  conditionKey,
  dropKey,
  historyKey,
  manifestKey,
  recordsPrefix,
  sealingDecisionKey,
} from '../../src/ledger/layout.ts';
import { Ledger } from '../../src/ledger/ledger.ts';
import { formatManifest, type Manifest, signManifest } from '../../src/ledger/manifest.ts';
import { auditDrop } from '../../src/seal/audit.ts';
import { auditConditions, auditHistory, findForeignKeys } from '../../src/seal/audit-dataset.ts';
import { readParquet } from '../../src/seal/parquet-reader.ts';
import { openStage } from '../../src/stage/stage.ts';
import { openDirectoryStore } from '../../src/store/directory.ts';
import type { Store } from '../../src/store/store.ts';
import { useCleanups } from '../support/cleanups.ts';
import { createEngineSource } from '../support/engine-source.ts';
import { parseSqlJob } from '../support/jobs.ts';
import { createRun } from '../support/run.ts';
import { listKeys, readText } from '../support/store-keys.ts';
import { createPage, createTrade, DATE, windowAt } from '../support/trades.ts';

const NOW = Date.parse('2026-11-20T03:00:00Z');
const OBJECT = dropKey('trades', DATE);
const SUMMARY = `${recordsPrefix('trades', DATE)}summary.parquet`;
const MANIFEST = manifestKey('trades', DATE);
const job = parseSqlJob(
  'trades.yaml',
  'name: trades\nsource: {api: historical}\ndrop: {to: out, dataset: trades}\nchecks: [{check: min-rows, rows: 1}, {check: unique-id}]\n',
);

const { folder: makeFolder } = useCleanups();
let folder: string;
let engine: Engine;
let store: Store;
const ledger = () => new Ledger(store, 'trades');

beforeAll(async () => {
  folder = await makeFolder();
  engine = await openEmbeddedEngine({ path: join(folder, 'engine') });
});
afterAll(async () => await engine.close());

/** Seals (or restates) the date from rows `[0, count)`. */
async function seal(count: number): Promise<Manifest> {
  const source = createEngineSource(engine, { rowLimit: 10_000, meta: true, nowMs: NOW });
  const stage = await openStage(engine, job, DATE, source.url);
  await stage.put(windowAt(0), createPage(Array.from({ length: count }, (_, k) => createTrade(k))));
  const run = await createRun({ job, engine, store, source, folder });
  const rows = { query: '', counted: { rows: count, ids: count }, file: createDropFile(run, stage), restate: true };
  return (await sealRows(run, stage, { begun: beginDate(run), ...rows })).manifest;
}

const audit = async () => (await auditDrop({ ledger: ledger(), engine, folder: join(folder, 'audit') }, DATE)).findings;

async function put(key: string, content: Uint8Array | string | undefined): Promise<void> {
  await store.put(key, { bytes: typeof content === 'string' ? Buffer.from(content) : (content ?? Buffer.alloc(0)) });
}

async function flip(key: string, share: number): Promise<void> {
  const bytes = Buffer.from((await store.get(key)) ?? []);
  const at = Math.min(bytes.length - 1, Math.floor(bytes.length * share));
  bytes[at] = (bytes[at] ?? 0) ^ 0x04;
  await put(key, bytes);
}

/** The manifest edited as a person would, its hash left as it was. */
async function edit(change: (manifest: Record<string, unknown>) => void): Promise<void> {
  const manifest = JSON.parse((await readText(store, MANIFEST)) ?? '') as Record<string, unknown>;
  change(manifest);
  await put(MANIFEST, JSON.stringify(manifest));
}

/** The manifest edited by somebody who knows how to sign it. */
async function forge(change: Partial<Manifest>): Promise<void> {
  const manifest = await ledger().manifest(DATE);
  if (!manifest) throw new Error('there is no manifest');
  const { manifest_hash: _, ...rest } = { ...manifest, ...change };
  await put(MANIFEST, formatManifest(signManifest(rest)));
}

/** Another value of the same shape. */
function alter(value: unknown): unknown {
  if (typeof value === 'number') return value + 1;
  if (typeof value === 'string') return `${value}0`;
  if (Array.isArray(value)) return value.length === 0 ? ['x'] : [alter(value[0]), ...value.slice(1)];
  if (typeof value === 'object' && value !== null) {
    const [[name, member] = ['x', 1]] = Object.entries(value);
    return { ...value, [name]: alter(member) };
  }
  return value === null ? 7 : value;
}

describe('an audit', () => {
  beforeEach(async () => {
    store = await openDirectoryStore(join(folder, `store-${randomUUID()}`));
  });
  afterEach(async () => await store.close());

  it('finds a flipped byte, wherever it is in the drop or its summary, and nothing in a drop as it was sealed', async () => {
    await seal(2_000);
    const keys = await listKeys(store);
    expect(await audit()).toEqual([]);
    // It leaves nothing behind.
    expect(await listKeys(store)).toEqual(keys);
    for (const key of [OBJECT, SUMMARY]) {
      const whole = await store.get(key);
      for (const share of [0, 0.01, 0.2, 0.5, 0.8, 0.95, 0.999, 1]) {
        await flip(key, share);
        expect((await audit()).join()).toMatch(`${key} has the hash`);
        await put(key, whole);
      }
    }
  });

  it('finds an edit of any member of the manifest', async () => {
    const manifest = await seal(200);
    const text = (await readText(store, MANIFEST)) ?? '';
    const names = Object.keys(manifest);
    expect(names.length).toBeGreaterThan(28);
    for (const name of names) {
      await edit((members) => {
        members[name] = alter(members[name]);
      });
      expect([name, (await audit()).join()]).toEqual([
        name,
        expect.stringMatching(/was edited|is not a flowdrop manifest|is missing/),
      ]);
      await put(MANIFEST, text);
    }
    for (const name of names) {
      await edit((members) => delete members[name]);
      expect([name, await audit()]).not.toEqual([name, []]);
    }
    await put(MANIFEST, text);
    await edit((members) => {
      members['note'] = 'added by hand';
    });
    expect((await audit()).join()).toMatch(/was edited/);
  });

  const FORGERIES: readonly (readonly [string, Partial<Manifest>, RegExp])[] = [
    ['rows', { rows: 199 }, /has 200 rows, the manifest says 199/],
    ['row groups', { row_groups: 2 }, /has 1 row groups, the manifest says 2/],
    ['first time', { min_time: `${DATE} 09:29:59` }, /has the first time .* 09:30:00/],
    ['last time', { max_time: `${DATE} 16:00:00` }, /has the last time/],
    ['schema', { schema: [] }, /other columns/],
    ['schema hash', { schema_hash: 'sha256:0' }, /has the schema hash/],
    ['order', { sort: ['time', 'id'] }, /not in the order of time, id/],
    ['compression', { compression: 'snappy' }, /the compression zstd/],
    ['date', { date: '2026-11-18' }, /the manifest of trades 2026-11-18/],
    ['summary', { summary: null }, /lists the files/],
    [
      'file',
      { files: [{ filename: 'trades.parquet', size: 1, hash: 'sha256:0' }], summary: null },
      /has \d+ bytes, .* says 1/,
    ],
  ];

  it.each(FORGERIES)('finds another %s in a manifest that is signed again', async (_name, change, finding) => {
    await seal(200);
    await forge(change);
    expect((await audit()).join('\n')).toMatch(finding);
  });

  it('finds a missing object, a missing summary and a missing manifest', async () => {
    await seal(200);
    for (const key of [SUMMARY, OBJECT]) {
      const whole = await store.get(key);
      await store.remove(key);
      expect((await audit()).join()).toBe(`${key} is missing`);
      await put(key, whole);
    }
    await store.remove(MANIFEST);
    expect((await audit()).join()).toMatch(/not sealed/);
  });

  it('finds a summary that is not the drop’s, though its hash is the manifest’s', async () => {
    const old = await seal(200);
    const summary = await store.get(SUMMARY);
    const now = await seal(300);
    await put(SUMMARY, summary);
    const file = old.files[1];
    if (!file) throw new Error('there is no summary');
    await forge({ files: [now.files[0], file] });
    expect((await audit()).join('\n')).toMatch(
      /summary of all symbols differs from the drop's rows in trades, contracts/,
    );
  });

  it('finds a summary that cannot be computed, and goes on', async () => {
    const manifest = await seal(200);
    const junk = Buffer.from('PAR1 is no Parquet file PAR1');
    const [drop, summary] = manifest.files;
    if (!summary) throw new Error('there is no summary');
    await put(SUMMARY, junk);
    const hash = `sha256:${createHash('sha256').update(junk).digest('hex')}`;
    await forge({ files: [drop, { ...summary, size: junk.length, hash }] });
    expect(await audit()).toEqual([expect.stringMatching(`${SUMMARY} cannot be computed: `)]);
  });

  it('finds names of files that lead elsewhere', async () => {
    const [drop, ...rest] = (await seal(200)).files;
    const sealed = await store.get(MANIFEST);
    for (const [filename, finding] of [
      ['..', /is not a flowdrop manifest/],
      ['.', /is not a flowdrop manifest/],
      ['...', /^the manifest lists the files \.\.\., summary/],
      ['\u0000', /^the manifest lists the files/],
    ] as const) {
      await forge({ files: [{ ...drop, filename }, ...rest] });
      expect([filename, (await audit())[0]]).toEqual([filename, expect.stringMatching(finding)]);
      await put(MANIFEST, sealed);
    }
  });

  it('finds a foreign file in the partition, in the dataset and in the history', async () => {
    await seal(200);
    const manifest = await seal(201);
    const foreign = [
      `${recordsPrefix('trades', DATE)}copy.parquet`,
      'trades/notes.txt',
      'trades/session=2026-01-02/x.parquet',
    ];
    for (const key of foreign) await put(key, 'x');
    await put(historyKey('trades', DATE, 1, 'more.parquet'), 'x');
    await put(historyKey('trades', DATE, 5, 'trades.parquet'), 'x');
    expect(await audit()).toEqual([`${foreign[0]} does not belong to the drop`]);
    const around = await findForeignKeys(ledger(), [DATE]);
    expect(around).toEqual([
      `${foreign[1]} does not belong to the dataset`,
      `${foreign[2]} belongs to a date that is not sealed`,
    ]);
    expect((await auditHistory({ ledger: ledger(), engine, folder }, manifest)).findings).toEqual([
      expect.stringMatching(/rev=1\/more.parquet does not belong to revision 1/),
      expect.stringMatching(/rev=5\/trades.parquet belongs to no replaced revision/),
    ]);
  });

  it('does not take a copy of the sealed revision for damage, whose successor was never decided', async () => {
    const manifest = await seal(200);
    const findings = async () => (await auditHistory({ ledger: ledger(), engine, folder }, manifest)).findings.join();
    const [object, record] = ['trades.parquet', 'manifest.json'].map((name) => historyKey('trades', DATE, 1, name));
    // As a worker leaves it that died in the middle of keeping it, and after.
    await put(object ?? '', await store.get(OBJECT));
    expect(await findings()).toBe('');
    await put(record ?? '', await store.get(MANIFEST));
    expect(await findings()).toBe('');
    await put(record ?? '', formatManifest({ ...manifest, rows: 1 }));
    expect(await findings()).toMatch(/belongs to no replaced revision/);
  });

  it('finds what is wrong in the history: a flipped byte, an edit, a missing object, no history at all', async () => {
    await seal(200);
    const manifest = await seal(201);
    const findings = async () => (await auditHistory({ ledger: ledger(), engine, folder }, manifest)).findings.join();
    expect(await findings()).toBe('');
    const file = historyKey('trades', DATE, 1, 'trades.parquet');
    const kept = await store.get(file);
    await flip(file, 0.5);
    expect(await findings()).toMatch(/has the hash/);
    await store.remove(file);
    expect(await findings()).toMatch(/is missing/);
    await put(file, kept);
    const own = historyKey('trades', DATE, 1, 'manifest.json');
    const text = (await readText(store, own)) ?? '';
    await put(own, text.replace('"rows": 200', '"rows": 210'));
    expect(await findings()).toMatch(/was edited/);
    for (const key of await listKeys(store, '_flowdrop/trades/history/')) await store.remove(key);
    expect(await findings()).toMatch(/its history is gone/);
  });

  it('finds that condition.json is missing, broken, or says something else than the manifests', async () => {
    const manifest = await seal(200);
    const manifests = new Map([[DATE, manifest]]);
    const findings = async () => (await auditConditions(ledger(), manifests)).join();
    expect(await findings()).toMatch(/is missing/);
    const write = async (...entries: ReturnType<typeof describeSealed>[]) =>
      await ledger().writeConditions(entries, await ledger().conditions());
    const right = describeSealed(manifest);
    await write(right);
    expect(await findings()).toBe('');
    for (const [name, value] of [
      ['condition', 'degraded'],
      ['rows', 1],
      ['revision', 2],
      ['last_modified_date', '2020-01-01'],
    ] as const) {
      await write({ ...right, [name]: value });
      expect(await findings()).toMatch(`gives ${name} ${value} for ${DATE}, its manifest`);
    }
    await write({ ...right, date: '2026-11-17' });
    expect(await findings()).toMatch(/no entry for 2026-11-19.*lists 2026-11-17 as available, but it is not sealed/);
    await put(conditionKey('trades'), '[{}]');
    expect(await findings()).toMatch(/condition\.json is invalid/);
  });

  it('does not take a revision that is half published for damage, and finds what is damaged beside it', async () => {
    const first = await seal(200);
    const files = new Map<string, Uint8Array | undefined>();
    for (const key of [OBJECT, SUMMARY, MANIFEST]) files.set(key, await store.get(key));
    const second = await seal(300);
    // As a worker leaves it that died before its last write, and before its last but one.
    await put(sealingDecisionKey('trades', DATE, 2), formatManifest(second));
    await put(MANIFEST, files.get(MANIFEST));
    const full = async () => await auditDrop({ ledger: ledger(), engine, folder: join(folder, 'audit') }, DATE);
    expect(await full()).toMatchObject({ findings: [], restating: 2, rows: first.rows });
    await put(SUMMARY, files.get(SUMMARY));
    expect(await full()).toMatchObject({ findings: [], restating: 2 });
    await flip(OBJECT, 0.5);
    expect((await full()).findings.join()).toMatch(`${OBJECT} has the hash`);
    await put(`${recordsPrefix('trades', DATE)}x.parquet`, 'x');
    expect((await full()).findings.join()).toMatch('x.parquet does not belong to the drop');
    await put(OBJECT, files.get(OBJECT));
    await store.remove(`${recordsPrefix('trades', DATE)}x.parquet`);
    expect(await full()).toMatchObject({ findings: [], restating: null });
    // A decision that is none is no excuse.
    await put(sealingDecisionKey('trades', DATE, 2), 'x');
    await flip(OBJECT, 0.5);
    expect(await full()).toMatchObject({ findings: [expect.stringMatching('has the hash')], restating: null });
  });

  it.each([1, 2, 4])('says that a manifest has version %d, which it does not read', async (version) => {
    await seal(200);
    await edit((members) => {
      members['manifest_version'] = version;
    });
    expect((await audit()).join()).toContain('this flowdrop reads version 3 only');
  });
});

describe('the independent reader', () => {
  it('finds the first row that is out of order, also across row groups, and nulls that are not last', async () => {
    const write = async (sql: string) => {
      const path = join(folder, 'order.parquet');
      await rm(path, { force: true });
      await engine.command(
        `${sql} INTO OUTFILE '${path}' FORMAT Parquet SETTINGS output_format_parquet_row_group_size = 100, max_block_size = 100, max_threads = 1`,
      );
      return path;
    };
    const disorder = async (sql: string, sort: readonly string[]) =>
      (await readParquet(await write(sql), sort)).disorder;
    const numbers = 'SELECT number AS n, toString(number % 10) AS t FROM numbers(300)';
    expect(await disorder(`${numbers} ORDER BY n`, ['n'])).toBeUndefined();
    expect(await disorder(`${numbers} ORDER BY n`, ['t', 'n'])).toBe(10);
    expect(
      await disorder('SELECT toInt64(number < 200 ? number : number - 200) AS n FROM numbers(300) ORDER BY number', [
        'n',
      ]),
    ).toBe(200);
    expect(
      await disorder('SELECT if(number = 5, NULL, toInt64(number)) AS n FROM numbers(8) ORDER BY number', ['n']),
    ).toBe(6);
    expect(await disorder("SELECT arrayJoin(['a', 'ü', '\u{ff5e}', '🚀']) AS t", ['t'])).toBeUndefined();
  });
});
