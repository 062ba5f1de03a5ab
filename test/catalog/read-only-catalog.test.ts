/**
 * The read-only catalog of a store over HTTP: routes, errors in the words of the REST catalog spec, names that are none of
 * ours, refused writes, access. That Iceberg's clients read tables through it is tested in
 * `test/catalog/attach.external.test.ts`.
 */
import { rm, writeFile } from 'node:fs/promises';
import { request } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { readTable, type TableMetadata } from '../../src/ledger/iceberg/table-metadata.ts';
import { tableMetadataPrefix, tableVersionKey } from '../../src/ledger/layout.ts';
import { openDirectoryStore } from '../../src/store/directory.ts';
import type { Store } from '../../src/store/store.ts';
import { type CatalogProcess, startCatalogProcess } from '../support/catalog-process.ts';
import { flowdrop, makeFolder } from '../support/flowdrop.ts';
import { commitDays, DATASET } from '../support/table-days.ts';

const NOW = Date.parse('2026-12-01T00:00:00Z');
const TABLE = `/v1/namespaces/flowdrop/tables/${DATASET}`;

let folder: string;
let remove: () => Promise<void>;
let store: Store;
let catalog: CatalogProcess;

beforeAll(async () => {
  ({ path: folder, remove } = await makeFolder());
  store = await openDirectoryStore(join(folder, 'store'));
  await seal('2026-11-19');
  catalog = await startCatalogProcess(join(folder, 'store'));
});
afterAll(async () => {
  await catalog.stop();
  await remove();
});

async function seal(date: string): Promise<void> {
  await commitDays(store, { scratch: join(folder, 'scratch.parquet'), nowMs: NOW }, { date, rows: 100 });
}

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: AnswerBody;
}

/** Members of all answers; each has some of them. */
interface AnswerBody {
  readonly endpoints: readonly string[];
  readonly metadata: TableMetadata;
  readonly 'metadata-location': string;
  readonly error: { readonly code: number; readonly type: string; readonly message: string };
}

async function ask(path: string, options: RequestInit = {}, base = catalog.url): Promise<Answer> {
  const answer = await fetch(`${base}${path}`, options);
  const text = await answer.text();
  return { status: answer.status, headers: answer.headers, body: text === '' ? undefined : JSON.parse(text) };
}

/** Sends a path as it is: `fetch` would remove its dots. */
async function askRaw(path: string, headers: Readonly<Record<string, string>> = {}): Promise<number> {
  const { hostname, port } = new URL(catalog.url);
  return await new Promise((resolve, reject) => {
    request({ hostname, port, path, headers, agent: false }, (answer) => {
      answer.resume();
      resolve(answer.statusCode ?? 0);
    })
      .on('error', reject)
      .end();
  });
}

describe('the read-only catalog', () => {
  it('says where it listens, which store it serves and its namespace', () => {
    expect(catalog.ready).toEqual({ url: catalog.url, store: store.url, namespace: 'flowdrop' });
  });

  it('answers the configuration with the routes that it has', async () => {
    const { status, body } = await ask('/v1/config?warehouse=any');
    expect(status).toBe(200);
    expect(body).toMatchObject({ defaults: {}, overrides: {} });
    expect(body.endpoints).toContain('GET /v1/{prefix}/namespaces/{namespace}/tables/{table}');
    expect(body.endpoints.filter((one) => !/^(GET|HEAD) /.test(one))).toEqual([]);
  });

  it('lists its namespace and the tables in it', async () => {
    expect((await ask('/v1/namespaces')).body).toEqual({ namespaces: [['flowdrop']] });
    expect((await ask('/v1/namespaces?parent=flowdrop')).body).toEqual({ namespaces: [] });
    expect((await ask('/v1/namespaces/flowdrop')).body).toEqual({ namespace: ['flowdrop'], properties: {} });
    const { body } = await ask('/v1/namespaces/flowdrop/tables');
    expect(body).toEqual({ identifiers: [{ namespace: ['flowdrop'], name: DATASET }] });
  });

  it('loads a table: the newest metadata and where it lies', async () => {
    const found = await readTable(store, DATASET);
    const { status, body } = await ask(TABLE);
    expect(status).toBe(200);
    expect(body['metadata-location']).toBe(`file://${store.url}/${tableVersionKey(DATASET, found?.version ?? 0)}`);
    expect(body.metadata).toEqual(found?.metadata);
  });

  it('has a new snapshot in the next answer, without a restart', async () => {
    const before = (await ask(TABLE)).body.metadata;
    await seal('2026-11-20');
    const after = (await ask(TABLE)).body.metadata;
    expect(after.snapshots).toHaveLength(before.snapshots.length + 1);
    expect(after['current-snapshot-id']).not.toBe(before['current-snapshot-id']);
  });

  it('answers 304 to a client that has the newest metadata', async () => {
    const { headers } = await ask(TABLE);
    const again = await ask(TABLE, { headers: { 'if-none-match': headers.get('etag') ?? '' } });
    expect([again.status, again.body]).toEqual([304, undefined]);
  });

  it('leaves out old snapshots for a client that asks for the branches only', async () => {
    const { body } = await ask(`${TABLE}?snapshots=refs`);
    expect(body.metadata.snapshots.map((one) => one['snapshot-id'])).toEqual([body.metadata['current-snapshot-id']]);
  });

  it('takes any prefix, because it has one store', async () => {
    expect((await ask(`/v1/warehouse/namespaces/flowdrop/tables/${DATASET}`)).status).toBe(200);
    expect((await ask('/v1/warehouse/namespaces')).body).toEqual({ namespaces: [['flowdrop']] });
  });

  it('answers HEAD with the status alone', async () => {
    const statuses = await Promise.all(
      [TABLE, '/v1/namespaces/flowdrop', `${TABLE}x`, '/v1/namespaces/other'].map(
        async (path) => (await ask(path, { method: 'HEAD' })).status,
      ),
    );
    expect(statuses).toEqual([200, 200, 404, 404]);
  });

  it('names the exception of the spec for an unknown table, namespace or route', async () => {
    const error = async (path: string) => (await ask(path)).body.error;
    expect(await error('/v1/namespaces/flowdrop/tables/other')).toEqual({
      message: 'Table does not exist: flowdrop.other',
      type: 'NoSuchTableException',
      code: 404,
    });
    // Spark asks so for the metadata table `flowdrop.trades.snapshots`, and goes on after this answer only.
    expect(await error(`/v1/namespaces/flowdrop%1F${DATASET}/tables/snapshots`)).toEqual({
      message: `Table does not exist: flowdrop.${DATASET}.snapshots`,
      type: 'NoSuchTableException',
      code: 404,
    });
    const unknown = { type: 'NoSuchNamespaceException', code: 404 };
    for (const path of ['/v1/namespaces/other', '/v1/namespaces/flowdrop%1Fmore/tables', '/v1/namespaces?parent=other'])
      expect(await error(path)).toMatchObject(unknown);
    for (const path of ['/', '/v1', '/v2/config', '/v1/namespaces/flowdrop/functions', `${TABLE}/metrics`])
      expect(await error(path)).toMatchObject({ type: 'NotFoundException', code: 404 });
  });

  it('opens nothing outside of the tables, whatever the name', async () => {
    const names = [
      '..',
      '%2e%2e',
      '..%2f..%2f..%2fetc%2fpasswd',
      `x%2f..%2f${DATASET}`,
      `${DATASET}%2f`,
      `${DATASET}%00`,
      `${DATASET.toUpperCase()}`,
      '%ff',
      '%',
      '',
      'x'.repeat(3000),
    ];
    for (const name of names) expect(await askRaw(`/v1/namespaces/flowdrop/tables/${name}`), name).toBe(404);
    expect(await askRaw(`/v1/../v1/namespaces/flowdrop/tables/${DATASET}`)).toBe(404);
  });

  it('refuses every change, and says why', async () => {
    for (const [method, path] of [
      ['POST', '/v1/namespaces'],
      ['DELETE', '/v1/namespaces/flowdrop'],
      ['POST', '/v1/namespaces/flowdrop/tables'],
      ['POST', '/v1/namespaces/flowdrop/register'],
      ['POST', TABLE],
      ['DELETE', TABLE],
      ['POST', '/v1/tables/rename'],
      ['POST', '/v1/oauth/tokens'],
      ['PUT', TABLE],
    ] as const) {
      const body = method === 'DELETE' ? {} : { body: '{"updates": []}' };
      const answer = await ask(path, { method, ...body });
      expect(answer.status, `${method} ${path}`).toBe(405);
      expect(answer.headers.get('allow')).toBe('GET, HEAD');
      expect(answer.body.error.message).toContain('read-only');
      expect(answer.body.error.type).toBe('UnsupportedOperationException');
    }
    expect((await ask(TABLE)).status).toBe(200);
  });

  it('without keys answers only requests that name this machine', async () => {
    expect(await askRaw('/v1/config', { host: 'evil.example.com' })).toBe(421);
    expect(await askRaw('/v1/config', { host: 'localhost:8181' })).toBe(200);
  });

  it('refuses bytes that are no request', async () => {
    const socket = connect(Number(new URL(catalog.url).port), '127.0.0.1');
    socket.end('no request\r\n\r\n');
    let said = '';
    for await (const part of socket) said += String(part);
    expect(said).toMatch(/^HTTP\/1.1 400 /);
  });

  it('logs each answer in a line', async () => {
    await ask('/v1/namespaces/flowdrop/tables/unheard');
    // The line is written after the answer.
    const line = await vi.waitFor(() => {
      const found = catalog.log.find((text) => text.includes('unheard'));
      if (found === undefined) throw new RangeError('there is no such line yet');
      return found;
    });
    expect(JSON.parse(line)).toMatchObject({ event: 'catalog-request', method: 'GET', status: 404 });
  });

  it('says that a table is damaged, and shows why in the log only', async () => {
    const broken = await makeFolder();
    const other = await openDirectoryStore(join(broken.path, 'store'));
    await other.put(`${tableMetadataPrefix('broken')}v1.metadata.json`, { bytes: Buffer.from('{"secret": 1}') });
    const served = await startCatalogProcess(join(broken.path, 'store'));
    try {
      const { status, body } = await ask('/v1/namespaces/flowdrop/tables/broken', {}, served.url);
      expect([status, body.error.type]).toEqual([500, 'ServiceFailureException']);
      expect(body.error.message).not.toContain(broken.path);
      await vi.waitFor(() => expect(served.log.join('\n')).toContain('is not the metadata of a flowdrop table'));
      await rm(join(broken.path, 'store'), { recursive: true });
      expect((await ask('/v1/namespaces/flowdrop/tables/broken', {}, served.url)).status).not.toBe(200);
    } finally {
      await served.stop();
      await broken.remove();
    }
  });
});

describe('a catalog with keys', () => {
  it('answers to its keys only, and logs no key', async () => {
    const { stdout, code } = await flowdrop(['key', '--name', 'desk', '--file', 'keys.yaml'], { cwd: folder });
    expect(code).toBe(0);
    const [key = ''] = /cus_\S+/.exec(stdout) ?? [];
    const { stdout: none } = await flowdrop(
      ['key', '--name', 'nobody', '--entitlement', 'none', '--file', 'keys.yaml'],
      { cwd: folder },
    );
    const [useless = ''] = /cus_\S+/.exec(none) ?? [];
    const served = await startCatalogProcess(join(folder, 'store'), [
      ...['--host', '0.0.0.0', '--key', 'cus_plain_key_4711', '--key-file', join(folder, 'keys.yaml')],
    ]);
    try {
      const url = served.url.replace('0.0.0.0', '127.0.0.1');
      const status = async (token?: string) => {
        const headers = token === undefined ? {} : { headers: { authorization: `Bearer ${token}` } };
        return (await ask(TABLE, headers, url)).status;
      };
      expect(await status()).toBe(401);
      expect(await status('cus_wrong')).toBe(401);
      expect(await status(useless)).toBe(401);
      expect(await status(key)).toBe(200);
      expect(await status('cus_plain_key_4711')).toBe(200);
      const { body, headers } = await ask('/v1/config', {}, url);
      expect(body.error).toMatchObject({ type: 'NotAuthorizedException', code: 401 });
      expect(headers.get('www-authenticate')).toBe('Bearer');
      const wrong = await Promise.all(Array.from({ length: 20 }, () => status('cus_wrong')));
      expect(wrong.filter((code) => code === 429).length).toBeGreaterThan(0);
      expect(await status(key)).toBe(200);
      const said = served.log.join('\n');
      expect(said).toContain('"caller":"desk"');
      for (const secret of [key, 'cus_plain_key_4711', 'cus_wrong']) expect(said).not.toContain(secret);
    } finally {
      await served.stop();
    }
  });

  it.each([
    [['--host', '0.0.0.0'], 'needs a key'],
    [['--generate', '1'], '--catalog works only with'],
  ])('starts with %j only where that is allowed', async (args, says) => {
    const { code, stderr } = await flowdrop(['serve', '--catalog', 'store', ...args], { cwd: folder });
    expect([code, stderr]).toEqual([2, expect.stringContaining(says)]);
  });

  it('starts over a store that exists only', async () => {
    await writeFile(join(folder, 'no-folder'), '');
    const { code, stderr } = await flowdrop(['serve', '--catalog', 'no-folder', '--port', '0'], { cwd: folder });
    expect(code).not.toBe(0);
    expect(stderr).toContain('no-folder');
  });
});
