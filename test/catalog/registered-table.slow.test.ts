/**
 * `drop.catalog` against a REST catalog (in `npm run nightly` Iceberg's own): runs register the table and commit
 * restatements, make up what they could not do while the catalog was away, and log in. Then the cases that a run rarely
 * meets, on a store of small sealed days: a new column, a rebuilt table, competing workers, snapshots and tables of others.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { openRestCatalog, updateCatalog } from '../../src/catalog/rest-catalog.ts';
import type { JobCatalog } from '../../src/job/job.ts';
import { rebuildTable } from '../../src/ledger/iceberg/table.ts';
import {
  KEPT_VERSIONS,
  locateTable,
  openTableLog,
  readTable,
  type TableMetadata,
} from '../../src/ledger/iceberg/table-metadata.ts';
import { manifestKey, tableMetadataPrefix, tableVersionKey } from '../../src/ledger/layout.ts';
import { Ledger } from '../../src/ledger/ledger.ts';
import { openDirectoryStore } from '../../src/store/directory.ts';
import type { Store } from '../../src/store/store.ts';
import { type Finished, flowdrop, makeFolder, startService, type TestService } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';
import { startMemoryCatalog } from '../support/memory-catalog.ts';
import { IS_NIGHTLY } from '../support/nightly.ts';
import {
  type CatalogGate,
  findCatalogPrograms,
  openGate,
  type RestCatalogServer,
  startRestCatalog,
} from '../support/rest-catalog.ts';
import { startS3 } from '../support/s3-server.ts';
import { STORES } from '../support/stores.ts';
import { commitDays, DATASET, type TableDay } from '../support/table-days.ts';

const programs = IS_NIGHTLY ? findCatalogPrograms() : undefined;
const s3 = IS_NIGHTLY ? await startS3() : undefined;

const TOKEN = 'token-of-the-catalog-4711';
const CREDENTIAL = 'worker:secret-of-the-worker-4711';
const NOW = Date.parse('2026-12-10T00:00:00Z');

let home: string;
let removeHome: () => Promise<void>;
let server: RestCatalogServer;

beforeAll(async () => {
  ({ path: home, remove: removeHome } = await makeFolder());
  server = programs ? await startRestCatalog(programs, home) : await startMemoryCatalog();
}, 120_000);
afterAll(async () => {
  await server?.stop();
  await removeHome?.();
});

/** The table as the catalog has it. */
async function load(namespace: string, { table = DATASET, url = server.url } = {}): Promise<TableMetadata | undefined> {
  const answer = await fetch(`${url}/v1/namespaces/${namespace}/tables/${table}`);
  return answer.status === 404 ? undefined : ((await answer.json()) as { metadata: TableMetadata }).metadata;
}

const idsOf = (metadata: TableMetadata | undefined) => metadata?.snapshots.map((one) => one['snapshot-id']);

/** The store and the catalog have the same snapshots, the same current one, and the same columns. */
async function expectSame(store: Store, namespace: string, url = server.url): Promise<void> {
  const [ours, theirs] = [(await readTable(store, DATASET))?.metadata, await load(namespace, { url })];
  expect(idsOf(theirs)).toEqual(idsOf(ours));
  expect(theirs?.['current-snapshot-id']).toBe(ours?.['current-snapshot-id']);
  expect(theirs?.['table-uuid']).toBe(ours?.['table-uuid']);
  const fields = (metadata: TableMetadata | undefined) =>
    metadata?.schemas.find((one) => one['schema-id'] === metadata['current-schema-id'])?.fields;
  expect(fields(theirs)).toEqual(fields(ours));
  expect(theirs?.properties).toMatchObject(ours?.properties ?? {});
}

function eventsOf({ stderr }: Finished): readonly Readonly<Record<string, unknown>>[] {
  const lines = stderr.split('\n').filter((line) => line.startsWith('{'));
  return lines.map((line) => JSON.parse(line)).filter(({ event }) => String(event).startsWith('catalog-'));
}

describe('a job with a catalog', () => {
  let service: TestService;
  let gate: CatalogGate;
  let cwd: string;
  let remove: () => Promise<void>;
  let job: string;
  let store: Store;

  beforeAll(async () => {
    ({ path: cwd, remove } = await makeFolder());
    gate = await openGate(server.url, TOKEN, CREDENTIAL);
    job = await writeJob(cwd, {
      reports: '',
      drop: `  table: iceberg\n  catalog:\n    uri: ${gate.url}\n    warehouse: archive`,
    });
    service = await startService(['--generate', '2', '--generate-rows', '500']);
  });
  afterAll(async () => {
    await service?.stop();
    await gate?.close();
    await remove?.();
  });

  const run = async (args: readonly string[], env: Readonly<Record<string, string>> = {}) => {
    const done = await flowdrop(args, { cwd, env: { ...service.env, FLOWDROP_CATALOG_TOKEN: TOKEN, ...env } });
    expect(done.code, done.stderr).toBe(0);
    for (const secret of [TOKEN, ...CREDENTIAL.split(':').slice(1)])
      expect(done.stdout + done.stderr).not.toContain(secret);
    return done;
  };

  it('is exported without the catalog when the login is wrong, and the log says what to do', async () => {
    const done = await run(['run', job], {
      FLOWDROP_CATALOG_TOKEN: '',
      FLOWDROP_CATALOG_CREDENTIAL: 'worker:wrong-one',
    });
    const [event, ...more] = eventsOf(done);
    expect(more).toEqual([]);
    expect(event).toMatchObject({ event: 'catalog-uncommitted', level: 40, dataset: DATASET });
    expect(event?.['reason']).toContain('HTTP 401');
    expect(event?.['hint']).toContain('FLOWDROP_CATALOG_CREDENTIAL');
    expect(done.stderr).not.toContain('wrong-one');
    store = await openDirectoryStore(join(cwd, 'drops'));
    expect((await readTable(store, DATASET))?.metadata.snapshots).toHaveLength(2);
    expect(await load('flowdrop')).toBeUndefined();
  }, 120_000);

  it('is registered by the next run, with credentials from a file', async () => {
    await writeFile(join(cwd, 'credential'), `${CREDENTIAL}\n`);
    const env = { FLOWDROP_CATALOG_TOKEN: '', FLOWDROP_CATALOG_CREDENTIAL_FILE: 'credential' };
    expect(eventsOf(await run(['run', job], env))).toMatchObject([{ event: 'catalog-committed', done: 'registered' }]);
    await expectSame(store, 'flowdrop');
    expect(gate.heard).toContain('POST /v1/namespaces/flowdrop/register 200');
  }, 120_000);

  it('is among the checks of doctor', async () => {
    const check = async (token: string) => {
      const { stdout } = await flowdrop(['doctor', job, '--json'], {
        cwd,
        env: { ...service.env, FLOWDROP_CATALOG_TOKEN: token },
      });
      const { checks } = JSON.parse(stdout) as { checks: readonly { check: string; status: string; next: string }[] };
      return checks.filter((one) => one.check === 'catalog');
    };
    expect(await check(TOKEN)).toMatchObject([{ status: 'ok', seen: `${gate.url} flowdrop.trades is there` }]);
    const wrong = await check('another-token');
    expect(wrong).toMatchObject([{ status: 'fail', next: expect.stringContaining('FLOWDROP_CATALOG_TOKEN') }]);
    expect(JSON.stringify(wrong)).not.toContain('another-token');
  }, 120_000);

  it('asks once when there is nothing to commit', async () => {
    gate.heard.length = 0;
    expect(eventsOf(await run(['run', job]))).toEqual([]);
    expect(gate.heard).toEqual(['GET /v1/config 200', 'GET /v1/namespaces/flowdrop/tables/trades 200']);
  }, 120_000);

  it('is restated in the catalog in one commit, away and back included', async () => {
    await service.stop();
    service = await startService(['--generate', '2', '--generate-rows', '600', '--seed', '7']);
    const dates = ((await readTable(store, DATASET))?.metadata.snapshots ?? []).map(
      (one) => one.summary['flowdrop.date'],
    );
    const [first = '', second = ''] = dates;
    gate.heard.length = 0;
    const restated = await run(['backfill', job, '--all', '--from', first, '--to', first]);
    expect(eventsOf(restated)).toMatchObject([{ event: 'catalog-committed', done: 'committed' }]);
    expect(gate.heard.filter((one) => !one.startsWith('GET'))).toEqual([
      'POST /v1/namespaces/flowdrop/tables/trades 200',
    ]);
    await expectSame(store, 'flowdrop');

    await gate.close();
    const away = await run(['backfill', job, '--all', '--from', second, '--to', second]);
    expect(eventsOf(away)).toMatchObject([{ event: 'catalog-uncommitted', level: 40 }]);
    expect((await readTable(store, DATASET))?.metadata.snapshots).toHaveLength(4);
    expect((await load('flowdrop'))?.snapshots).toHaveLength(3);

    await gate.open();
    expect(eventsOf(await run(['run', job]))).toMatchObject([{ event: 'catalog-committed', done: 'committed' }]);
    await expectSame(store, 'flowdrop');
    // Made again from the ledger, it is the same table.
    const rebuilt = JSON.parse((await run(['iceberg', 'rebuild', job, '--json'])).stdout) as { catalog: string };
    expect(rebuilt.catalog).toBe(`${gate.url} flowdrop.trades: current`);
    await expectSame(store, 'flowdrop');
    const { code, stdout } = await flowdrop(['verify', job], { cwd, env: service.env });
    expect(stdout).toContain('nothing is wrong');
    expect(code).toBe(0);
  }, 240_000);
});

describe('a table in a catalog', () => {
  let folder: string;
  let store: Store;
  let target: JobCatalog;
  let spaces = 0;

  beforeEach(async () => {
    const { path, remove } = await makeFolder();
    folder = path;
    store = await openDirectoryStore(join(path, 'store'));
    spaces += 1;
    const namespace = `space${spaces}`;
    const none = { warehouse: null, oauthUri: null, scope: 'catalog' };
    target = { ...none, uri: server.url, namespace, table: DATASET };
    return remove;
  });

  const sealIn = async (place: Store, ...days: readonly TableDay[]) =>
    await commitDays(place, { scratch: join(folder, 'scratch.parquet'), nowMs: NOW }, ...days);
  const seal = async (...days: readonly TableDay[]) => await sealIn(store, ...days);
  const update = async () => await updateCatalog(store, DATASET, openRestCatalog(target, {}));
  const day = (number: number, more: Partial<TableDay> = {}): TableDay => {
    return { date: `2026-11-${String(number).padStart(2, '0')}`, rows: 50, ...more };
  };

  it('is none as long as the store has none', async () => {
    expect(await update()).toBe('none');
  });

  it('gets a column that the job was given later', async () => {
    await seal(day(3));
    expect(await update()).toBe('registered');
    await seal(day(4, { hasVenue: true }), day(5, { hasVenue: true }));
    expect(await update()).toBe('committed');
    await expectSame(store, target.namespace);
    expect((await load(target.namespace))?.schemas.at(-1)?.fields.map(({ name }) => name)).toContain('venue');
    expect(await update()).toBe('current');
  });

  it('loses a date that is no longer sealed', async () => {
    await seal(day(3), day(4));
    await update();
    await store.remove(manifestKey(DATASET, day(4).date));
    await seal();
    expect(await update()).toBe('committed');
    await expectSame(store, target.namespace);
  });

  it('is whole after the catalog was away for more versions than the store keeps', async () => {
    await seal(day(2));
    await update();
    for (let number = 3; number <= 20; number += 1) await seal(day(number));
    const log = openTableLog(store, DATASET);
    const { value } = await log.read();
    if (!value) throw new Error('there is no table');
    for (let more = 1; more <= KEPT_VERSIONS; more += 1) await log.replace(value);
    // What it was given is still there, although that version of the store is not.
    expect(await store.get(tableVersionKey(DATASET, 1))).toBeUndefined();
    expect((await load(target.namespace))?.snapshots).toHaveLength(1);
    expect(await update()).toBe('committed');
    await expectSame(store, target.namespace);
  });

  // Only Iceberg's own catalog writes any: a nightly part.
  it.runIf(IS_NIGHTLY)(
    'keeps few metadata files of the catalog',
    async () => {
      await seal(day(2));
      await update();
      for (let number = 3; number <= 20; number += 1) {
        await seal(day(number));
        expect(await update()).toBe('committed');
      }
      const files: string[] = [];
      for await (const { key } of store.list(`${tableMetadataPrefix(DATASET)}0`)) files.push(key);
      expect(files.filter((key) => key.endsWith('.metadata.json')).length).toBeLessThanOrEqual(11);
      await expectSame(store, target.namespace);
    },
    60_000,
  );

  it('is registered again after it was rebuilt with other snapshots', async () => {
    await seal(day(3), day(4));
    await store.remove(manifestKey(DATASET, day(4).date));
    await seal();
    await update();
    expect(idsOf(await load(target.namespace))).toHaveLength(3);
    // A rebuilt table knows nothing of a date that is no longer sealed.
    await rebuildTable(new Ledger(store, DATASET), NOW);
    expect(await update()).toBe('replaced');
    expect(idsOf(await load(target.namespace))).toHaveLength(1);
    await expectSame(store, target.namespace);
  });

  it('is the same for two workers that commit at the same moment', async () => {
    await seal(day(3));
    await Promise.all([update(), update()]);
    await expectSame(store, target.namespace);
    await seal(day(4), day(5));
    const done = await Promise.all([update(), update(), update()]);
    expect(done).toContain('committed');
    await expectSame(store, target.namespace);
  });

  it('never goes back when another worker commits while this one looks', async () => {
    await seal(day(3));
    await update();
    const catalog = openRestCatalog(target, {});
    const commitElsewhere = async () => {
      await seal(day(4));
      expect(await update()).toBe('committed');
    };
    let isFirst = true;
    const late = await updateCatalog(store, DATASET, {
      ...catalog,
      async load(signal) {
        if (isFirst) await commitElsewhere();
        isFirst = false;
        return await catalog.load(signal);
      },
    });
    expect(late).toBe('current');
    expect(idsOf(await load(target.namespace))).toHaveLength(2);
  });

  /** What another program writes to the table. */
  const change = async (...updates: readonly object[]) => {
    const answer = await fetch(`${server.url}/v1/namespaces/${target.namespace}/tables/${DATASET}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ requirements: [], updates }),
    });
    expect(answer.status).toBe(200);
  };
  const main = { action: 'set-snapshot-ref', 'ref-name': 'main', type: 'branch' };

  it('is brought forward again after somebody took it back', async () => {
    await seal(day(3), day(4));
    await update();
    const [first] = (await load(target.namespace))?.snapshots ?? [];
    await change({ ...main, 'snapshot-id': first?.['snapshot-id'] });
    expect(await update()).toBe('committed');
    expect((await load(target.namespace))?.['current-snapshot-id']).toBe(
      (await readTable(store, DATASET))?.metadata['current-snapshot-id'],
    );
  });

  it('is left alone when another program wrote to it', async () => {
    await seal(day(3));
    await update();
    const before = await load(target.namespace);
    const [own] = before?.snapshots ?? [];
    const id = 4711;
    const foreign = { ...own, 'snapshot-id': id, 'parent-snapshot-id': own?.['snapshot-id'], 'sequence-number': 2 };
    await change(
      { action: 'add-snapshot', snapshot: { ...foreign, summary: { operation: 'append' } } },
      { ...main, 'snapshot-id': id },
    );
    await seal(day(4));
    await expect(update()).rejects.toMatchObject({
      code: 'CATALOG_CONFLICT',
      message: expect.stringContaining('4711'),
    });
    expect((await load(target.namespace))?.['current-snapshot-id']).toBe(id);
  });

  it('does not take the place of another table of that name', async () => {
    await seal(day(3));
    await update();
    const other = await openDirectoryStore(join(folder, 'other'));
    await sealIn(other, day(3));
    const refused = updateCatalog(other, DATASET, openRestCatalog(target, {}));
    await expect(refused).rejects.toMatchObject({ code: 'CATALOG_CONFLICT' });
    await expectSame(store, target.namespace);
  });

  it('may have a namespace of several parts and a name of its own', async () => {
    await seal(day(3));
    const named = { ...target, namespace: `${target.namespace}.options`, table: 'all_trades' };
    expect(await updateCatalog(store, DATASET, openRestCatalog({ ...target, namespace: target.namespace }, {}))).toBe(
      'registered',
    );
    expect(await updateCatalog(store, DATASET, openRestCatalog(named, {}))).toBe('registered');
    expect(idsOf(await load(`${target.namespace}%1Foptions`, { table: 'all_trades' }))).toHaveLength(1);
  });

  it('is reported when the address is no catalog', async () => {
    await seal(day(3));
    const wrong = openRestCatalog({ ...target, uri: `${server.url}/v1/namespaces` }, {});
    await expect(updateCatalog(store, DATASET, wrong)).rejects.toMatchObject({ code: 'CATALOG_FAILED' });
  });
});

// Iceberg's own catalog reads S3: a nightly part.
describe.runIf(IS_NIGHTLY)('a table on S3 in a catalog', () => {
  it('is registered, and gets a restatement and a new date in one commit', async () => {
    if (programs === undefined || s3?.server === undefined) throw new Error(s3?.reason);
    const { endpoint, region, accessKeyId, secretAccessKey } = s3.server;
    const { path: folder, remove } = await makeFolder();
    const own = await startRestCatalog(programs, folder, {
      CATALOG_IO__IMPL: 'org.apache.iceberg.aws.s3.S3FileIO',
      CATALOG_S3_ENDPOINT: endpoint,
      CATALOG_S3_PATH__STYLE__ACCESS: 'true',
      AWS_REGION: region,
      // Debian's Ceph takes no checksums at the end of a body.
      AWS_REQUEST_CHECKSUM_CALCULATION: 'WHEN_REQUIRED',
      AWS_RESPONSE_CHECKSUM_VALIDATION: 'WHEN_REQUIRED',
      AWS_ACCESS_KEY_ID: accessKeyId,
      AWS_SECRET_ACCESS_KEY: secretAccessKey,
    });
    const store = await STORES.find(({ name }) => name === 'S3')?.open(folder);
    if (store === undefined) throw new Error('no store');
    try {
      const place = { scratch: join(folder, 'scratch.parquet'), nowMs: NOW };
      const names = { namespace: 'flowdrop', table: DATASET, warehouse: null, oauthUri: null, scope: 'catalog' };
      const catalog = openRestCatalog({ ...names, uri: own.url }, {});
      await commitDays(store, place, { date: '2026-11-19', rows: 50 });
      expect(await updateCatalog(store, DATASET, catalog)).toBe('registered');
      await commitDays(store, place, { date: '2026-11-20', rows: 50 });
      await commitDays(store, place, { date: '2026-11-19', rows: 60 });
      expect(await updateCatalog(store, DATASET, catalog)).toBe('committed');
      await expectSame(store, 'flowdrop', own.url);
      expect((await load('flowdrop', { url: own.url }))?.location).toBe(locateTable(store, DATASET));
    } finally {
      await store.close();
      await own.stop();
      await remove();
    }
  }, 120_000);
});
