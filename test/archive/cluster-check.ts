/**
 * `npm run cluster-check -- --url URL --store s3://BUCKET/PREFIX [--collection NAME] [--cluster NAME]`: whether a ClickHouse
 * server, or cluster, of your own answers `flowdrop query --engine` as this machine does. It seals four small made-up
 * sessions in the store, which must be empty, asks both the same, and removes them. The store's key comes from the AWS
 * environment; the server's named collection must have the same store. `--skip-kill` leaves out the query that runs for minutes.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual, parseArgs } from 'node:util';
import { describeError } from '../../src/core/errors.ts';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import { openServerEngine } from '../../src/engine/server.ts';
import { parseLocation } from '../../src/store/location.ts';
import { openS3Store } from '../../src/store/s3.ts';
import { readS3Access } from '../../src/store/s3-access.ts';
import type { Store } from '../../src/store/store.ts';
import { openTestArchive, type TestArchive } from './open-archive.ts';
import { DATES, publishDays, REFUSED, SERVER_STATEMENTS } from './server-statements.ts';

/** A query that takes minutes is killed after this long, and gone after as long again. */
const KILL_MS = 2_000;
const PATIENCE_MS = 20_000;

const { values } = parseArgs({
  options: {
    url: { type: 'string', default: process.env['FLOWDROP_QUERY_ENGINE_URL'] ?? '' },
    store: { type: 'string', default: '' },
    collection: { type: 'string', default: process.env['FLOWDROP_QUERY_ENGINE_COLLECTION'] ?? 'flowdrop' },
    cluster: { type: 'string', default: process.env['FLOWDROP_QUERY_ENGINE_CLUSTER'] ?? '' },
    'skip-kill': { type: 'boolean', default: false },
  },
});
if (values.url === '' || !values.store.startsWith('s3://')) {
  console.error(
    'Usage: npm run cluster-check -- --url http://USER:PASSWORD@HOST:8123/default --store s3://BUCKET/EMPTY-PREFIX [--collection NAME] [--cluster NAME]',
  );
  process.exit(2);
}
const location = parseLocation(values.store, process.cwd());
if (location.kind !== 's3') throw new Error(`${values.store} is not in S3`);
const endpoint = process.env['AWS_ENDPOINT_URL_S3'];
const options = {
  ...{ bucket: location.bucket, prefix: location.prefix, region: process.env['AWS_REGION'] ?? 'us-east-1' },
  ...(endpoint === undefined ? {} : { endpoint }),
  ...(process.env['FLOWDROP_S3_PATH_STYLE'] === 'true' ? { pathStyle: true } : {}),
};

let [passed, failed] = [0, 0];
async function check(name: string, act: () => Promise<string | undefined>): Promise<void> {
  const problem = await act().catch((error: unknown) => describeError(error));
  if (problem === undefined) passed += 1;
  else failed += 1;
  console.log(`${problem === undefined ? 'ok  ' : 'FAIL'}  ${name}${problem === undefined ? '' : `: ${problem}`}`);
}

const store = await openS3Store(options);
for await (const { key } of store.list('')) throw new Error(`${values.store} is not empty: it has ${key}`);
const engine = await openServerEngine({ url: values.url });
try {
  const embedded = await openEmbeddedEngine();
  await publishDays(embedded, store);
  await embedded.close();
  const [server] = await engine.rows<{ v: string }>('SELECT version() AS v');
  console.log(`ClickHouse ${server?.v}, ${DATES.length} sessions in ${values.store}`);
  await compareAll(values.collection, undefined, 'server');
  if (values.cluster !== '') await compareAll(values.collection, values.cluster, `cluster ${values.cluster}`);
} finally {
  await removeAll(store);
  await store.close();
  await engine.close();
}
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;

async function compareAll(collection: string, cluster: string | undefined, name: string): Promise<void> {
  const access = await readS3Access(options);
  const local = await openTestArchive(store, access, 'trades');
  const remote = await openTestArchive(store, access, 'trades', { server: { engine, collection, cluster } });
  try {
    for (const [what, sql] of SERVER_STATEMENTS) {
      await check(`${name}: ${what}`, async () => {
        const [own, its] = [(await local.rows(sql)).rows, (await remote.rows(sql)).rows];
        return isDeepStrictEqual(own, its)
          ? undefined
          : `${JSON.stringify(its.slice(0, 2))}, here ${JSON.stringify(own.slice(0, 2))}`;
      });
    }
    for (const sql of REFUSED) {
      await check(`${name}: refuses ${sql}`, async () => {
        const [own, its] = [await refusal(local, sql), await refusal(remote, sql)];
        return own === its ? undefined : `${its}, here ${own}`;
      });
    }
    if (!values['skip-kill'])
      await check(`${name}: a query that is stopped ends there`, async () => await checkKill(collection, cluster));
  } finally {
    await local.stop();
    await remote.stop();
  }
}

async function refusal(archive: TestArchive, sql: string): Promise<string> {
  return await archive.rows(sql).then(
    () => 'answered',
    (error: unknown) => describeError(error),
  );
}

async function checkKill(collection: string, cluster: string | undefined): Promise<string | undefined> {
  const controller = new AbortController();
  const server = { engine, collection, cluster };
  const own = await openTestArchive(store, await readS3Access(options), 'trades', {
    server,
    signal: controller.signal,
  });
  const folder = await mkdtemp(join(tmpdir(), 'flowdrop-cluster-check-'));
  const running = async () =>
    await engine.rows<{ id: string }>("SELECT query_id AS id FROM system.processes WHERE query_id LIKE 'flowdrop-%'");
  try {
    const sql =
      'SELECT count() AS n FROM trades AS a CROSS JOIN trades AS b CROSS JOIN trades AS c WHERE a.size * b.oi % 7 = c.size % 5';
    const asked = own.query({ sql, format: 'json', path: join(folder, 'answer') });
    asked.catch(() => {});
    await sleep(KILL_MS);
    controller.abort();
    await asked.catch(() => {});
    const end = Date.now() + PATIENCE_MS;
    while (Date.now() < end) {
      if ((await running()).length === 0) return undefined;
      await sleep(500);
    }
    return `it still runs: ${(await running()).map(({ id }) => id).join(', ')}`;
  } finally {
    await own.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

async function removeAll(from: Store): Promise<void> {
  const keys: string[] = [];
  for await (const { key } of from.list('')) keys.push(key);
  for (const key of keys) await from.remove(key);
}
