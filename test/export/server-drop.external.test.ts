/**
 * Drops that the server of the table writes into the store (`drop.write: server`): an HTTP front of the embedded engine over
 * a real S3 store, run as an operator runs it. What the front cannot show: users and their rights, and a statement that is
 * killed while it runs.
 */
import { spawn } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { dropKey, fileKey, historyKey, manifestKey, SUMMARY_FILENAME, sealingPrefix } from '../../src/ledger/layout.ts';
import type { Manifest } from '../../src/ledger/manifest.ts';
import type { RunResult } from '../../src/state/run-result.ts';
import { openS3Store } from '../../src/store/s3.ts';
import type { Store } from '../../src/store/store.ts';
import { type ClickHouseFront, FRONT_DATABASE, startClickHouseFront } from '../support/clickhouse-front.ts';
import { queryDuckDb, readWithDuckDb } from '../support/drop.ts';
import { flowdrop, MAIN, makeFolder } from '../support/flowdrop.ts';
import { s3Environment, startS3, useS3Credentials } from '../support/s3-server.ts';
import { fillServerTables, nameCollection, SERVER_DAY, SERVER_DAYS, SERVER_ROWS } from '../support/server-tables.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';

const { server, reason } = await startS3();
if (server) useS3Credentials(server);

const WIDE_ROWS = 150_000;
const COLLECTION = 'drops';

let front: ClickHouseFront;
let store: Store;
let prefix: string;
let folder: { readonly path: string; remove(): Promise<void> };

// Skipped only where no S3 server can be started: not root, or not Debian. CI throws instead.
describe.skipIf(server === undefined)(`drops written by a server${reason === undefined ? '' : ` (${reason})`}`, () => {
  beforeAll(async () => {
    front = await startClickHouseFront();
    await fillServerTables(front, WIDE_ROWS);
  }, 60_000);
  afterAll(async () => await front?.close());
  beforeEach(async () => {
    if (server === undefined) return;
    folder = await makeFolder();
    // Without a % in it: the gateway of Ceph 16 decodes the source of a part twice, and crashes.
    prefix = `server-drop/${randomUUID()}/quant's drops`;
    store = await openS3Store({ ...server, prefix });
    await nameStore(COLLECTION, prefix);
    return async () => {
      for await (const { key } of store.list('')) await store.remove(key);
      await store.close();
      await folder.remove();
    };
  });

  const nameStore = async (collection: string, at: string) => {
    if (server) await nameCollection(front, collection, server, at);
  };

  async function writeJob(
    dataset: string,
    write: 'server' | 'worker',
    table = 'RawOptionTrades',
    more = '',
  ): Promise<string> {
    const path = join(folder.path, `${dataset}.yaml`);
    await writeFile(
      path,
      `name: ${dataset}\nsource:\n  api: clickhouse\n  table: ${FRONT_DATABASE}.${table}\ndrop:\n  to: "s3://${server?.bucket}/${prefix}"\n  dataset: ${dataset}\n  write: ${write}\n${more}`,
    );
    return path;
  }

  const environment = () => ({
    ...(server && s3Environment(server)),
    FLOWDROP_CLICKHOUSE_URL: front.url,
    FLOWDROP_CLICKHOUSE_COLLECTION: COLLECTION,
  });
  const run = (args: readonly string[], settings: Readonly<Record<string, string>> = {}) =>
    flowdrop(args, { cwd: folder.path, env: { ...environment(), ...settings } });
  const argsOf = (job: string, more: readonly string[] = []) => [
    'backfill',
    job,
    '--from',
    SERVER_DAY,
    '--to',
    SERVER_DAY,
    ...more,
  ];
  const backfill = (job: string, more: readonly string[] = [], settings = {}) => run(argsOf(job, more), settings);
  const readManifest = async (dataset: string): Promise<Manifest> =>
    JSON.parse(Buffer.from((await store.get(manifestKey(dataset, SERVER_DAY))) ?? []).toString('utf8'));
  const fetchDrop = async (dataset: string, filename?: string) => {
    const path = join(folder.path, `${dataset}-${filename ?? 'drop'}.parquet`);
    const key = filename === undefined ? dropKey(dataset, SERVER_DAY) : fileKey(dataset, SERVER_DAY, filename);
    expect(await store.download(key, path)).toBe(true);
    return path;
  };
  const listKeys = async (under: string) => {
    const keys: string[] = [];
    for await (const { key } of store.list(under)) keys.push(key);
    return keys;
  };

  it.each([
    ['RawOptionTrades', 'through this machine, because S3 takes no small part'],
    ['wide', 'inside the store'],
  ])(
    'have the rows, footer, summary and manifest of those that this machine writes: %s, footer sent %s',
    async (table) => {
      for (const write of ['server', 'worker'] as const) {
        const result = await backfill(await writeJob(`by-${write}`, write, table));
        expect(result.code, result.stderr).toBe(0);
      }
      const [its, own] = [await fetchDrop('by-server'), await fetchDrop('by-worker')];
      expect(await readWithDuckDb(its)).toEqual(await readWithDuckDb(own));
      const [theirs, ours] = [await readManifest('by-server'), await readManifest('by-worker')];
      expect(theirs.rows).toBe(table === 'wide' ? WIDE_ROWS : SERVER_ROWS);
      expect(describeRows(theirs)).toEqual(describeRows(ours));
      const bytes = await readFile(its);
      const isCopied = bytes.length > 5 * 1024 * 1024;
      expect(isCopied).toBe(table === 'wide');
      expect(theirs.files[0]).toMatchObject({
        size: bytes.length,
        hash: `sha256:${createHash('sha256').update(bytes).digest('hex')}`,
      });
      const read = async (dataset: string) =>
        await queryDuckDb(`SELECT * FROM '${await fetchDrop(dataset, SUMMARY_FILENAME)}'`);
      expect((await read('by-server')).length).toBeGreaterThan(1);
      expect(await read('by-server')).toEqual(await read('by-worker'));
      const verified = await run(['verify', join(folder.path, 'by-server.yaml'), '--deep']);
      expect(verified.code, verified.stderr).toBe(0);
      expect(await listKeys(sealingPrefix('by-server'))).toEqual([]);
    },
    120_000,
  );

  it('bring no row to this machine, and send no credential', async () => {
    const before = front.statements.length;
    const proxyOf = async (url: string) => {
      const { hostname: host, port } = new URL(url);
      return await startTcpProxy({ host, port: Number(port) });
    };
    const [toServer, toStore] = [await proxyOf(front.url), await proxyOf(server?.endpoint ?? '')];
    const through = (url: string, { port }: { readonly port: number }) =>
      Object.assign(new URL(url), { port: String(port) }).href.replace(/\/$/, '');
    const result = await backfill(await writeJob('wide', 'server', 'wide'), [], {
      FLOWDROP_CLICKHOUSE_URL: through(front.url, toServer),
      AWS_ENDPOINT_URL_S3: through(server?.endpoint ?? '', toStore),
    });
    expect(result.code, result.stderr).toBe(0);
    const passed = [toServer, toStore].map(({ requestBytes, answerBytes }) => requestBytes + answerBytes);
    for (const bytes of passed) expect(bytes).toBeLessThan(400_000);
    for (const proxy of [toServer, toStore]) await proxy.close();
    const sent = front.statements.slice(before);
    expect(sent.filter((text) => text.startsWith('INSERT INTO FUNCTION s3('))).toHaveLength(1);
    for (const text of sent) expect(text).not.toContain(server?.secretAccessKey);
    expect((await readManifest('wide')).files[0].size).toBeGreaterThan(5 * 1024 * 1024);
  });

  it('are kept when the rows are the same, and get a revision when they are not', async () => {
    await front.engine.command('CREATE OR REPLACE TABLE moving AS RawOptionTrades');
    await front.engine.command('INSERT INTO moving SELECT * FROM RawOptionTrades');
    const job = await writeJob('moving', 'server', 'moving');
    expect((await backfill(job)).code).toBe(0);
    const first = await readManifest('moving');
    const again = await backfill(job, ['--all']);
    expect(again.code, again.stderr).toBe(0);
    expect(await readManifest('moving')).toEqual(first);
    await front.engine.command(
      'ALTER TABLE moving DELETE WHERE rowNumberInAllBlocks() >= 0 AND cityHash64(id) % 100 = 1 SETTINGS mutations_sync = 2',
    );
    const [left] = await front.engine.rows<{ n: number }>('SELECT count() AS n FROM moving');
    const changed = await backfill(job, ['--all']);
    expect(changed.code, changed.stderr).toBe(0);
    const second = await readManifest('moving');
    expect(second).toMatchObject({
      revision: 2,
      rows: left?.n,
      changes: { added: 0, altered: 0, removed: SERVER_ROWS - Number(left?.n) },
    });
    expect(second.rows).toBeLessThan(SERVER_ROWS);
    const kept = await store.head(historyKey('moving', SERVER_DAY, 1, 'moving.parquet'));
    expect(kept?.sizeBytes).toBe(first.files[0].size);
    // A drop that somebody has overwritten is not what the rows are compared with.
    await store.put(dropKey('moving', SERVER_DAY), { bytes: Buffer.alloc(second.files[0].size) });
    expect((await backfill(job, ['--all'])).code).toBe(0);
    expect(await readManifest('moving')).toMatchObject({ revision: 3, changes: null });
    expect(await listKeys(sealingPrefix('moving'))).toEqual([]);
  }, 120_000);

  it('are written again after the worker was killed or the connection broke, and leave nothing behind', async () => {
    const job = await writeJob('killed', 'server', 'wide');
    const { hostname: host, port } = new URL(front.url);
    const proxy = await startTcpProxy({ host, port: Number(port) });
    const url = Object.assign(new URL(front.url), { port: String(proxy.port) }).href.replace(/\/$/, '');
    const isWriting = (from: number) =>
      front.statements.slice(from).some((text) => text.startsWith('INSERT INTO FUNCTION'));
    try {
      let from = front.statements.length;
      const cut = backfill(job, [], { FLOWDROP_CLICKHOUSE_URL: url });
      await expect.poll(() => isWriting(from), { timeout: 20_000 }).toBe(true);
      proxy.breakWith({ direction: 'answer', afterBytes: 0, lasting: false, how: 'reset' });
      const broken = await cut;
      expect(broken.code, broken.stderr).toBe(1);
      expect(await listKeys(manifestKey('killed', SERVER_DAY))).toEqual([]);
      from = front.statements.length;
      const killed = spawn(process.execPath, [MAIN, ...argsOf(job)], {
        cwd: folder.path,
        env: environment(),
        stdio: 'ignore',
      });
      await expect.poll(() => isWriting(from), { timeout: 20_000 }).toBe(true);
      killed.kill('SIGKILL');
      await once(killed, 'exit');
      // The server goes on without the worker: its object is there later.
      await expect
        .poll(async () => (await listKeys(sealingPrefix('killed'))).length, { timeout: 20_000 })
        .toBeGreaterThan(0);
    } finally {
      await proxy.close();
    }
    const again = await backfill(job);
    expect(again.code, again.stderr).toBe(0);
    expect(await readManifest('killed')).toMatchObject({ rows: WIDE_ROWS, revision: 1 });
    expect(await listKeys(sealingPrefix('killed'))).toEqual([]);
  }, 120_000);

  it('are written at the same time, as many as the job allows, and are the same as one after the other', async () => {
    const { length } = SERVER_DAYS;
    const sealed = async (dataset: string, parallel: number) => {
      const waiting = new Set<string>();
      let most = 0;
      front.onStatement = async (sql) => {
        if (!sql.startsWith('INSERT INTO FUNCTION')) return undefined;
        waiting.add(sql);
        most = Math.max(most, waiting.size);
        // Until as many wait as may, and then long enough for one that may not.
        for (let polls = 0; polls < 100 && most < parallel; polls += 1) await delay(50);
        await delay(500);
        waiting.delete(sql);
        return undefined;
      };
      try {
        const job = await writeJob(dataset, 'server', 'days', `  parallel: ${parallel}\n`);
        const args = ['backfill', job, '--from', SERVER_DAY, '--to', SERVER_DAYS.at(-1) ?? '', '--json'];
        const { code, stdout, stderr } = await run(args);
        expect(code, stderr).toBe(0);
        const { dates } = JSON.parse(stdout) as RunResult;
        return { most, dates: dates.map(({ date, status, rows, requests }) => ({ date, status, rows, requests })) };
      } finally {
        front.onStatement = undefined;
      }
    };
    const [one, two, all] = [await sealed('one', 1), await sealed('two', 2), await sealed('all', length)];
    expect([one.most, two.most, all.most]).toEqual([1, 2, length]);
    expect(one.dates.map(({ date }) => date)).toEqual(SERVER_DAYS);
    expect(one.dates.every(({ status, rows }) => status === 'sealed' && rows === SERVER_ROWS)).toBe(true);
    expect(two.dates).toEqual(one.dates);
    expect(all.dates).toEqual(one.dates);
    for (const day of SERVER_DAYS) {
      const [one, ...others] = await Promise.all(
        ['one', 'two', 'all'].map(async (dataset) => {
          const bytes = (await store.get(manifestKey(dataset, day))) ?? [];
          const { rows, statistics, requests } = JSON.parse(Buffer.from(bytes).toString('utf8')) as Manifest;
          return { rows, statistics, requests };
        }),
      );
      expect(others).toEqual([one, one]);
    }
  }, 120_000);

  it('fail alone when one of several fails', async () => {
    const failing = SERVER_DAYS[1] ?? '';
    const job = await writeJob('alone', 'server', 'days', `  parallel: ${SERVER_DAYS.length}\n`);
    const args = ['backfill', job, '--from', SERVER_DAY, '--to', SERVER_DAYS.at(-1) ?? '', '--json'];
    front.onStatement = (sql) => (sql.startsWith('INSERT') && sql.includes(`session=${failing}`) ? 241 : undefined);
    const first = await run(args).finally(() => {
      front.onStatement = undefined;
    });
    expect(first.code, first.stderr).toBe(1);
    const statuses = (text: string) => (JSON.parse(text) as RunResult).dates.map(({ date, status }) => [date, status]);
    expect(statuses(first.stdout)).toEqual(SERVER_DAYS.map((day) => [day, day === failing ? 'failed' : 'sealed']));
    const second = await run(args);
    expect(second.code, second.stderr).toBe(0);
    expect(statuses(second.stdout)).toEqual([[failing, 'sealed']]);
    expect(await listKeys(sealingPrefix('alone'))).toEqual([]);
  }, 120_000);

  it('are left unsealed when Ctrl-C comes while several are written, and are sealed by the next run', async () => {
    const job = await writeJob('stopped', 'server', 'days', `  parallel: ${SERVER_DAYS.length}\n`);
    const args = ['backfill', job, '--from', SERVER_DAY, '--to', SERVER_DAYS.at(-1) ?? ''];
    const isStopped = new AbortController();
    let writing = 0;
    front.onStatement = async (sql) => {
      if (!sql.startsWith('INSERT INTO FUNCTION')) return undefined;
      writing += 1;
      await delay(20_000, undefined, { signal: isStopped.signal }).catch(() => undefined);
      return 394;
    };
    try {
      const child = spawn(process.execPath, [MAIN, ...args], { cwd: folder.path, env: environment(), stdio: 'ignore' });
      await expect.poll(() => writing, { timeout: 20_000 }).toBe(SERVER_DAYS.length);
      child.kill('SIGINT');
      const [code] = await once(child, 'exit');
      expect(code).toBe(130);
    } finally {
      isStopped.abort();
      front.onStatement = undefined;
    }
    for (const day of SERVER_DAYS) expect(await listKeys(manifestKey('stopped', day))).toEqual([]);
    const again = await run(args);
    expect(again.code, again.stderr).toBe(0);
    for (const day of SERVER_DAYS) expect(await listKeys(manifestKey('stopped', day))).toHaveLength(1);
    expect(await listKeys(sealingPrefix('stopped'))).toEqual([]);
  }, 120_000);

  it('are not published if the rows, or the object, change meanwhile', async () => {
    await front.engine.command('CREATE OR REPLACE TABLE changing AS RawOptionTrades');
    await front.engine.command('INSERT INTO changing SELECT * FROM RawOptionTrades');
    const job = await writeJob('changing', 'server', 'changing');
    const findWritten = async (isComplete: boolean) => {
      const keys = await listKeys(sealingPrefix('changing'));
      const key = keys.find((one) => one.endsWith('.parquet') && one.endsWith('.written.parquet') !== isComplete);
      if (key === undefined) throw new Error('there is no such object');
      return key;
    };
    const damage = async (key: string, at: number) => {
      const bytes = Buffer.from((await store.get(key)) ?? []);
      bytes[at] = (bytes[at] ?? 0) ^ 0x11;
      await store.put(key, { bytes });
    };
    const isChecksum = (sql: string) => sql.includes('sum(cityHash64') && !sql.includes('s3(');
    const isReading = (sql: string) => sql.includes('sum(cityHash64') && sql.includes('s3(');
    const atFirst = (isDue: (sql: string) => boolean, act: () => Promise<unknown>) => {
      let isDone = false;
      front.onStatement = async (sql) => {
        if (isDone || !isDue(sql)) return undefined;
        isDone = true;
        await act();
        return undefined;
      };
    };
    const faults = [
      [
        'a value of the table',
        () =>
          atFirst(isChecksum, async () => {
            await front.engine.command(
              'ALTER TABLE changing UPDATE size = size + 1 WHERE cityHash64(id) % 1000 = 1 SETTINGS mutations_sync = 2',
            );
          }),
        /SEAL_UNVERIFIED[\s\S]*checksum/,
      ],
      [
        'rows of the table',
        () =>
          atFirst(isChecksum, async () => {
            await front.engine.command(
              "INSERT INTO changing SELECT * REPLACE (concat(id, '-late') AS id) FROM RawOptionTrades LIMIT 5",
            );
          }),
        /DATE_UNSETTLED/,
      ],
      [
        'a page of the written object',
        () => atFirst(isChecksum, async () => damage(await findWritten(false), 40)),
        /SEAL_UNVERIFIED|ENGINE_FAILED/,
      ],
      [
        'a page of the complete object',
        () => atFirst(isReading, async () => damage(await findWritten(true), 40)),
        /SEAL_UNVERIFIED|ENGINE_FAILED/,
      ],
      [
        'the complete object, gone',
        () => atFirst(isReading, async () => store.remove(await findWritten(true))),
        /ENGINE_FAILED|SEAL_UNVERIFIED|STORE_FAILED/,
      ],
    ] as const;
    try {
      for (const [what, prepare, said] of faults) {
        prepare();
        const result = await backfill(job);
        expect([what, result.code], result.stderr).toEqual([what, 1]);
        expect(result.stderr, what).toMatch(said);
        expect(await store.head(manifestKey('changing', SERVER_DAY)), what).toBeUndefined();
        expect(await store.head(dropKey('changing', SERVER_DAY)), what).toBeUndefined();
      }
    } finally {
      front.onStatement = undefined;
    }
    expect((await backfill(job)).code).toBe(0);
    expect((await readManifest('changing')).rows).toBe(SERVER_ROWS + 5);
    expect(await listKeys(sealingPrefix('changing'))).toEqual([]);
  }, 120_000);

  it.each([46, 241])('are hashed by the worker if the server cannot: code %d', async (code) => {
    front.onStatement = (sql) => (sql.includes('SHA256(') ? code : undefined);
    try {
      const result = await backfill(await writeJob('hashed', 'server'));
      expect(result.code, result.stderr).toBe(0);
    } finally {
      front.onStatement = undefined;
    }
    const bytes = await readFile(await fetchDrop('hashed'));
    const hash = `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
    expect((await readManifest('hashed')).files[0]).toMatchObject({ size: bytes.length, hash });
  });

  it('say what is missing: the collection, or its address', async () => {
    const job = await writeJob('lost', 'server');
    const none = await backfill(job, [], { FLOWDROP_CLICKHOUSE_COLLECTION: 'nowhere' });
    expect(none.code).toBe(2);
    expect(none.stderr).toMatch(
      /SERVER_COLLECTION[\s\S]*no named collection nowhere[\s\S]*CREATE NAMED COLLECTION nowhere AS url/,
    );
    await nameStore('elsewhere', `${prefix}-other`);
    const other = await backfill(job, [], { FLOWDROP_CLICKHOUSE_COLLECTION: 'elsewhere' });
    expect(other.code).toBe(2);
    expect(other.stderr).toMatch(/SERVER_COLLECTION[\s\S]*elsewhere has another address/);
    expect(await listKeys('')).not.toContain(manifestKey('lost', SERVER_DAY));
    if (server === undefined) return;
    const misplaced = await openS3Store({ ...server, prefix: `${prefix}-other` });
    for await (const { key } of misplaced.list('')) await misplaced.remove(key);
    await misplaced.close();
  });

  it('are written one at a time by a worker', async () => {
    const check = await run(['check', await writeJob('worker', 'worker', 'days', '  parallel: 2\n')]);
    expect([check.code, check.stdout + check.stderr]).toEqual([
      2,
      expect.stringMatching(/drop\.parallel[\s\S]*only allowed with `write: server`/),
    ]);
  });

  it('need a store in S3 and a table of a server', async () => {
    const directory = await writeJob('local', 'server');
    await writeFile(directory, (await readFile(directory, 'utf8')).replace(/to: .*/, 'to: drops'));
    const check = await run(['check', directory]);
    expect([check.code, check.stdout + check.stderr]).toEqual([
      2,
      expect.stringMatching(/drop\.write[\s\S]*only with `to: s3/),
    ]);
    await writeFile(
      directory,
      (await readFile(directory, 'utf8')).replace('clickhouse', 'historical').replace(/ {2}table.*\n/, ''),
    );
    const api = await run(['check', directory]);
    expect([api.code, api.stdout + api.stderr]).toEqual([
      2,
      expect.stringMatching(/drop\.write[\s\S]*only with `api: clickhouse`/),
    ]);
  });
});

/** What a manifest says of the rows and their file. */
function describeRows({
  rows,
  schema,
  schema_hash,
  sort,
  statistics,
  checks,
  min_time,
  max_time,
  row_groups,
}: Manifest) {
  return { rows, schema, schema_hash, sort, statistics, checks, min_time, max_time, row_groups };
}
