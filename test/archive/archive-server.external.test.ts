/**
 * The archive on a ClickHouse server: an HTTP front of the embedded engine, which reads a real S3 store by a named
 * collection. Its answers are those of this machine; what is sent names the sealed files only, and no credential. What the
 * front cannot show: users and their rights, more than one node.
 */
import { randomUUID } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ArchiveServerOptions } from '../../src/archive/server-runner.ts';
import { quoteString } from '../../src/engine/literal.ts';
import { openServerEngine, type ServerEngine } from '../../src/engine/server.ts';
import { dropKey } from '../../src/ledger/layout.ts';
import { openDirectoryStore } from '../../src/store/directory.ts';
import { openS3Store } from '../../src/store/s3.ts';
import { readS3Access } from '../../src/store/s3-client.ts';
import type { Store, StoreAccess } from '../../src/store/store.ts';
import { type ClickHouseFront, startClickHouseFront } from '../support/clickhouse-front.ts';
import { flowdrop } from '../support/flowdrop.ts';
import { serveHttp } from '../support/http-server.ts';
import { s3Environment, startS3, useS3Credentials } from '../support/s3-server.ts';
import { openTestArchive, type TestArchive } from './open-archive.ts';
import { DATES, publishDays, REFUSED, SERVER_STATEMENTS } from './server-statements.ts';

const { server, reason } = await startS3();
if (server) useS3Credentials(server);

const COLLECTION = 'drops';

let store: Store;
let access: StoreAccess;
let prefix: string;
let front: ClickHouseFront;
let engine: ServerEngine;
let local: TestArchive;
let remote: TestArchive;

const onServer = (given: Partial<ArchiveServerOptions> = {}): ArchiveServerOptions => ({
  ...{ engine, collection: COLLECTION, cluster: undefined },
  ...given,
});

// Skipped only where no S3 server can be started: not root, or not Debian. CI throws instead.
describe.skipIf(server === undefined)(`an archive on a server${reason === undefined ? '' : ` (${reason})`}`, () => {
  beforeAll(async () => {
    if (server === undefined) return;
    prefix = `archive-server/${randomUUID()}/quant's drops + 100%`;
    const options = { ...server, prefix };
    store = await openS3Store(options);
    access = await readS3Access(options);
    front = await startClickHouseFront();
    engine = await openServerEngine({ url: front.url });
    await publishDays(front.engine, store);
    await nameStore(COLLECTION, prefix);
    local = await openTestArchive(store, access, 'trades');
    remote = await openTestArchive(store, access, 'trades', { server: onServer() });
  }, 120_000);
  afterAll(async () => {
    await local?.stop();
    await remote?.stop();
    await engine?.close();
    await front?.close();
    if (store === undefined) return;
    for await (const { key } of store.list('')) await store.remove(key);
    await store.close();
  });

  async function nameStore(collection: string, at: string): Promise<void> {
    if (server === undefined) return;
    const url = `${server.endpoint}/${server.bucket}/${at.split('/').map(encodeURIComponent).join('/')}/`;
    const credentials = `access_key_id = ${quoteString(server.accessKeyId)}, secret_access_key = ${quoteString(server.secretAccessKey)}`;
    await front.engine.command(`CREATE NAMED COLLECTION ${collection} AS url = ${quoteString(url)}, ${credentials}`);
  }

  it.each(SERVER_STATEMENTS)('answers as this machine does: %s', async (_name, sql) => {
    const [own, its] = [await local.rows(sql), await remote.rows(sql)];
    expect(its.rows).toEqual(own.rows);
    expect(its.coverages.map(({ dates, degraded, missing }) => [dates, degraded, missing])).toEqual(
      own.coverages.map(({ dates, degraded, missing }) => [dates, degraded, missing]),
    );
  });

  it.each(['json', 'csv'] as const)('writes %s byte for byte', async (format) => {
    const sql = 'SELECT * FROM trades ORDER BY id LIMIT 1500';
    expect((await remote.bytes(sql, format)).equals(await local.bytes(sql, format))).toBe(true);
  });

  it('writes Parquet and Arrow with the same types, and no more of a table than a terminal shows', async () => {
    const sql = 'SELECT date, time, symbol, premium, market_cap, updated_timestamp FROM trades ORDER BY id LIMIT 1500';
    const described = async (archive: TestArchive, format: 'parquet' | 'arrow') => {
      const path = join(await mkdtemp(join(tmpdir(), 'flowdrop-archive-server-')), 'answer');
      const { columns } = await archive.query({ sql, format, path });
      const name = format === 'parquet' ? 'Parquet' : 'Arrow';
      const rows = await front.engine.rows(
        `SELECT toTypeName(tuple(*)) AS type, count() AS n, sum(cityHash64(*)) AS sum FROM file(${quoteString(path)}, ${name}) GROUP BY type`,
      );
      await rm(join(path, '..'), { recursive: true });
      return { columns, rows };
    };
    for (const format of ['parquet', 'arrow'] as const)
      expect(await described(remote, format)).toEqual(await described(local, format));
    const table = JSON.parse((await remote.bytes('SELECT id FROM trades', 'table')).toString('utf8'));
    expect(table.data).toHaveLength(1_001);
  });

  it('says that an answer cannot be written', async () => {
    const path = join(tmpdir(), randomUUID(), 'answer');
    const asked = remote.query({ sql: 'SELECT count() AS n FROM trades', format: 'json', path });
    await expect(asked).rejects.toMatchObject({ code: 'OUT_FAILED' });
  });

  it('sends the sealed files that a statement touches, and no credential', async () => {
    const before = front.statements.length;
    await remote.rows("SELECT sum(size) AS s FROM trades WHERE date >= '2026-11-18'");
    const sent = front.statements.slice(before);
    expect(sent.filter((text) => text.includes('session=2026-11-18/')).length).toBe(2);
    for (const text of sent) {
      expect(text).not.toMatch(/session=2026-11-1[67]|\*\.parquet/);
      expect(text).not.toContain(server?.secretAccessKey);
    }
  });

  it('refuses what this machine refuses, with the same words', async () => {
    for (const sql of REFUSED) {
      const [own, its] = await Promise.all(
        [local, remote].map((archive) => archive.rows(sql).catch((error: unknown) => error)),
      );
      expect(its, sql).toMatchObject({ kind: 'usage', code: (own as { code: string }).code });
      expect(String((its as Error).message), sql).toBe(String((own as Error).message));
    }
  });

  it('refuses a subquery with the name of a table', async () => {
    await expect(
      remote.rows('WITH trades AS (SELECT * FROM trades WHERE size > 9) SELECT 1 FROM trades'),
    ).rejects.toMatchObject({
      code: 'NAME_TAKEN',
      kind: 'usage',
    });
  });

  it('notices a file that has another size than its manifest, and a collection of another store', async () => {
    const key = dropKey('trades', '2026-11-19');
    const kept = await store.get(key);
    if (kept === undefined) throw new Error('there is no drop');
    const other = await openTestArchive(store, access, 'trades', { server: onServer({ collection: 'elsewhere' }) });
    const none = await openTestArchive(store, access, 'trades', { server: onServer({ collection: 'nowhere' }) });
    try {
      await expect(none.rows('SELECT count() FROM trades')).rejects.toMatchObject({
        code: 'ENGINE_COLLECTION',
        hint: expect.stringContaining('CREATE NAMED COLLECTION nowhere AS url = '),
      });
      // A copy whose drop of one date is cut: the keys are the same.
      const copy = await openS3Store({ ...(server as NonNullable<typeof server>), prefix: `${prefix}-copy` });
      for (const date of DATES) {
        const bytes = await store.get(dropKey('trades', date));
        await copy.put(dropKey('trades', date), { bytes: bytes ?? new Uint8Array() });
      }
      await nameStore('elsewhere', `${prefix}-copy`);
      await expect(other.rows('SELECT count() FROM trades')).rejects.toMatchObject({
        code: 'ENGINE_COLLECTION',
        message: expect.stringContaining('-copy/'),
        hint: expect.stringContaining('named collection elsewhere'),
      });
      for await (const { key: name } of copy.list('')) await copy.remove(name);
      await copy.close();
    } finally {
      await other.stop();
      await none.stop();
    }
    // Cut after this machine has listed it: the server sees the size of now.
    const stale = await openTestArchive(store, access, 'trades', { server: onServer() });
    await stale.rows('SELECT count() AS n FROM trades');
    await store.put(key, { bytes: kept.subarray(0, 900) });
    await expect(stale.rows('SELECT count() AS n FROM trades')).rejects.toMatchObject({ code: 'DROP_DAMAGED' });
    await store.put(key, { bytes: kept });
    await stale.stop();
  });

  it('kills the query on the server when it is stopped', async () => {
    const controller = new AbortController();
    const own = await openTestArchive(store, access, 'trades', { server: onServer(), signal: controller.signal });
    const before = front.statements.length;
    try {
      const asked = own.rows('SELECT count() AS n FROM trades AS a CROSS JOIN trades AS b WHERE a.size * b.oi % 7 = 3');
      asked.catch(() => {});
      await expect
        .poll(() => front.statements.slice(before).some((text) => text.includes('CROSS JOIN')), { timeout: 20_000 })
        .toBe(true);
      controller.abort(new Error('SIGINT'));
      await expect(asked).rejects.toMatchObject({ kind: 'interrupted' });
      await expect
        .poll(() => front.statements.slice(before).some((text) => /^KILL QUERY WHERE query_id = 'flowdrop-/.test(text)))
        .toBe(true);
    } finally {
      await own.stop();
    }
  });

  /** Runs `flowdrop query`. */
  async function ask(more: readonly string[], settings = {}, cwd = tmpdir()) {
    if (server === undefined) throw new Error(reason);
    const sql = 'SELECT date, count() AS n, sum(size) AS s FROM trades GROUP BY date ORDER BY date';
    const from = ['--from-store', `s3://${server.bucket}/${prefix}`, '--format', 'csv'];
    const env = { ...s3Environment(server), FLOWDROP_QUERY_ENGINE_COLLECTION: COLLECTION, ...settings };
    return await flowdrop(['query', sql, ...from, ...more], { cwd, env });
  }

  it('is what `flowdrop query --engine` asks', async () => {
    const cwd = await mkdtemp(join(tmpdir(), 'flowdrop-archive-server-'));
    try {
      const here = await ask([]);
      const there = await ask(['--engine', front.url]);
      expect([there.code, there.stdout]).toEqual([0, here.stdout]);
      expect(there.stderr).toContain('4 of 4 sealed dates, read by the server');
      await writeFile(join(cwd, 'url'), front.url);
      const byFile = await ask(['--out', 'days.csv'], { FLOWDROP_QUERY_ENGINE_URL_FILE: 'url' }, cwd);
      expect([byFile.code, await readFile(join(cwd, 'days.csv'), 'utf8')]).toEqual([0, here.stdout]);
      const wrong = await ask(['--engine', front.url.replace(/:[^:@]*@/, ':secret-4712@')]);
      expect([wrong.code, wrong.stderr]).toEqual([1, expect.stringContaining('refuses the user or the password')]);
      expect(wrong.stderr).not.toContain('secret-4712');
      const parrot = await serveHttp(({ headers }, response) => {
        const login = String(headers.authorization).replace('Basic ', '');
        response.writeHead(500).end(`${login} ${Buffer.from(login, 'base64').toString('latin1')}`);
      });
      const repeated = await ask(['--debug', '--engine', parrot.url.replace('//', '//reader:secret-4714@')]);
      await parrot.close();
      expect([repeated.code, repeated.stderr]).toEqual([1, expect.stringContaining('reader:[secret]')]);
      expect(repeated.stderr).not.toMatch(/secret-4714|cmVhZGVyOnNlY3JldC00NzE0/);
      const away = await ask(['--engine', 'http://reader:pass-4711@127.0.0.1:9/default']);
      expect([away.code, away.stderr]).toEqual([1, expect.stringContaining('does not answer')]);
    } finally {
      await rm(cwd, { recursive: true });
    }
  });

  it('is read by all nodes of the cluster that a setting names', async () => {
    const before = front.statements.length;
    // The front is one node.
    front.onStatement = (sql) => sql.replaceAll("s3Cluster('desk', ", 's3(');
    const there = await ask(['--engine', front.url], { FLOWDROP_QUERY_ENGINE_CLUSTER: 'desk' });
    front.onStatement = undefined;
    const reads = front.statements.slice(before).filter((sql) => /\bs3(?:Cluster)?\(/.test(sql));
    expect([there.code, there.stdout]).toEqual([0, (await ask([])).stdout]);
    expect(reads.map((sql) => sql.replaceAll("s3Cluster('desk', ", ''))).toEqual(
      Array(2).fill(expect.not.stringMatching(/\bs3(?:Cluster)?\(/)),
    );
  });

  it.each([
    ['without the cluster', (sql: string) => sql, 'the server has no cluster nowhere'],
    ['whose user lacks a right', (sql: string) => (sql.includes('s3Cluster(') ? 497 : undefined), 'GRANT S3 ON *.* TO'],
    [
      'whose user may change no setting',
      (sql: string) =>
        sql.replace('SELECT name, value FROM', "SELECT name, if(name = 'readonly', '1', value) AS value FROM"),
      'readonly = 2',
    ],
    [
      'that is too old',
      (sql: string) => sql.replace('FROM system.settings', "$& WHERE name != 'session_timezone'"),
      'without session_timezone',
    ],
  ])('says what is to be done about a server %s', async (_which, onStatement, says) => {
    front.onStatement = onStatement;
    const done = await ask(['--engine', front.url], { FLOWDROP_QUERY_ENGINE_CLUSTER: 'nowhere' });
    front.onStatement = undefined;
    expect([done.code, done.stderr]).toEqual([1, expect.stringContaining(says)]);
  });

  it('needs a store in S3', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'flowdrop-archive-server-'));
    const directory = await openDirectoryStore(folder);
    try {
      await expect(
        openTestArchive(directory, { kind: 'directory', path: folder }, 'trades', { server: onServer() }),
      ).rejects.toMatchObject({ code: 'ENGINE_NEEDS_S3', kind: 'usage' });
    } finally {
      await directory.close();
      await rm(folder, { recursive: true });
    }
  });
});
