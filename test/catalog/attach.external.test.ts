/**
 * Iceberg's clients attach to the read-only catalog by its address: PyIceberg, Spark and DuckDB read the table of a store
 * that real runs made, in a directory and on S3, now and by each snapshot, and see a restatement without a restart. Routes
 * and errors are tested in `read-only-catalog.test.ts`.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { TableMetadata } from '../../src/ledger/iceberg/table-metadata.ts';
import { openDirectoryStore } from '../../src/store/directory.ts';
import { openS3Store } from '../../src/store/s3.ts';
import type { Store } from '../../src/store/store.ts';
import { type CatalogProcess, startCatalogProcess } from '../support/catalog-process.ts';
import { type Sums, sumSealed } from '../support/drop.ts';
import { flowdrop, makeFolder, startService, type TestService } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';
import { listBlocks, PAGES } from '../support/pages.ts';
import { findPython } from '../support/python.ts';
import { type S3Server, s3Environment, startS3, useS3Credentials } from '../support/s3-server.ts';
import { findSpark } from '../support/spark.ts';

const SCRIPT = new URL('attach.py', import.meta.url).pathname;
/** Skipped where one cannot be had, which `support/` says aloud. CI skips Spark alone, which is a nightly part. */
const python = findPython();
const duckdb = findPython('requirements-duckdb.txt');
const spark = findSpark();
const s3 = await startS3();

const KEY = 'cus_catalog_key_4711';

/** A reader that stays attached. */
interface AttachedReader {
  /** What the table has, by snapshot; null: now. */
  read(snapshots: readonly (number | null)[]): Promise<ReadonlyMap<number | null, Sums>>;
  stop(): void;
}

interface StoreCase {
  readonly name: string;
  readonly to: string;
  readonly env: Readonly<Record<string, string>>;
  /** Arguments of the catalog. */
  readonly args: readonly string[];
  /** What each reader needs beside the address. */
  readonly options: Readonly<Record<'pyiceberg' | 'spark' | 'duckdb', object>>;
}

const CASES: readonly StoreCase[] = [
  {
    name: 'a directory, without keys',
    to: 'drops',
    env: {},
    args: [],
    options: {
      pyiceberg: { properties: {} },
      spark: { properties: {}, jars: spark.jars },
      duckdb: { secret: '', access: "AUTHORIZATION_TYPE 'none'" },
    },
  },
  ...(s3.server ? [describeS3Case(s3.server)] : []),
];

function describeS3Case(server: S3Server): StoreCase {
  const { bucket, endpoint, region, accessKeyId, secretAccessKey } = server;
  // Endpoint and region come from the catalog, except for DuckDB, which takes them from its own secret.
  const credentials = { token: KEY, 's3.access-key-id': accessKeyId, 's3.secret-access-key': secretAccessKey };
  const secret = [
    `KEY_ID '${accessKeyId}', SECRET '${secretAccessKey}', REGION '${region}'`,
    `ENDPOINT '${new URL(endpoint).host}', USE_SSL false, URL_STYLE 'path'`,
  ];
  return {
    name: 'S3, with a key',
    to: `s3://${bucket}/catalog/${randomUUID()}`,
    env: s3Environment(server),
    args: ['--key', KEY],
    options: {
      pyiceberg: { properties: credentials },
      spark: {
        properties: { ...credentials, 'io-impl': 'org.apache.iceberg.aws.s3.S3FileIO' },
        jars: spark.catalogJars,
      },
      duckdb: { secret: secret.join(', '), access: `TOKEN '${KEY}'` },
    },
  };
}

interface SnippetRunner {
  readonly isMissing: boolean;
  /** Of Python. */
  readonly path: string;
  readonly wrap: (text: string) => string;
}

/** Snippets of the pages, by their info; packages come from where the tests have them. */
const SNIPPET_RUNNERS: Readonly<Record<string, SnippetRunner>> = {
  'python catalog run': { isMissing: python.isMissing, path: python.path, wrap: (text) => text },
  'python spark catalog run': {
    isMissing: spark.isMissing,
    path: spark.path,
    wrap: (text) =>
      text
        .replace(/"spark\.jars\.packages", "[^"]*"/, `"spark.jars", "${spark.jars}"`)
        .replaceAll('.show()', '.show(99, False)'),
  },
  'sql catalog run': {
    isMissing: duckdb.isMissing,
    path: duckdb.path,
    wrap: (text) =>
      `import attach, duckdb\nattach.load_extensions(duckdb)\nduckdb.sql("""${text.replace('INSTALL iceberg;', '')}""").show()\n`,
  },
};

/** Keeps the reader's process, as a user keeps a session. */
function attach(path: string, reader: string, url: string, options: object): AttachedReader {
  const child: ChildProcess = spawn(path, [SCRIPT, reader, url, JSON.stringify(options)], { stdio: 'pipe' });
  const { stdin, stdout, stderr } = child;
  if (!stdin || !stdout || !stderr) throw new Error('no pipes');
  const errors: string[] = [];
  stderr.setEncoding('utf8').on('data', (part: string) => errors.push(part));
  const lines = createInterface({ input: stdout });
  return {
    async read(snapshots) {
      const ended = new AbortController();
      child.once('close', (code) => ended.abort(new Error(`${reader} ended with ${code}: ${errors.join('')}`)));
      stdin.write(`${JSON.stringify(snapshots)}\n`);
      for (;;) {
        const [line] = (await once(lines, 'line', { signal: ended.signal }).catch((error: unknown) => {
          throw ended.signal.aborted ? ended.signal.reason : error;
        })) as [string];
        const [, answer] = /ANSWER (.*)$/.exec(line) ?? [];
        if (answer === undefined) continue;
        const found = JSON.parse(answer) as Record<string, Sums>;
        return new Map(Object.entries(found).map(([key, sums]) => [key === 'null' ? null : Number(key), sums]));
      }
    },
    stop: () => void stdin.end(),
  };
}

describe.each(CASES)('the catalog of $name', ({ to, env, args, options, name }) => {
  let service: TestService;
  let cwd: string;
  let remove: () => Promise<void>;
  let job: string;
  let catalog: CatalogProcess;
  const readers = new Map<string, AttachedReader>();

  beforeAll(async () => {
    service = await startService(['--generate', '3', '--generate-rows', '2000']);
    ({ path: cwd, remove } = await makeFolder());
    job = await writeJob(cwd, { reports: '', to, drop: '  table: iceberg' });
    const run = await flowdrop(['run', job], { cwd, env: { ...service.env, ...env } });
    expect(run.code, run.stderr).toBe(0);
    await service.stop();
    catalog = await startCatalogProcess(to.startsWith('s3:') ? to : join(cwd, to), args, env);
    if (!python.isMissing) readers.set('PyIceberg', attach(python.path, 'pyiceberg', catalog.url, options.pyiceberg));
    if (!spark.isMissing) readers.set('Spark', attach(spark.path, 'spark', catalog.url, options.spark));
    if (!duckdb.isMissing) readers.set('DuckDB', attach(duckdb.path, 'duckdb', catalog.url, options.duckdb));
  }, 180_000);
  afterAll(async () => {
    for (const reader of readers.values()) reader.stop();
    await catalog.stop();
    await remove();
  });

  const headers = args.length > 0 ? { authorization: `Bearer ${KEY}` } : undefined;
  const load = async (): Promise<TableMetadata> => {
    const answer = await fetch(`${catalog.url}/v1/namespaces/flowdrop/tables/trades`, headers ? { headers } : {});
    return ((await answer.json()) as { metadata: TableMetadata }).metadata;
  };

  /** What is sealed, file by file as the manifests name them. */
  async function readSealed(): Promise<Sums> {
    const store = await openStore();
    return await sumSealed(store, 'trades', join(cwd, 'sealed.parquet')).finally(() => store.close());
  }

  async function openStore(): Promise<Store> {
    if (!s3.server || !to.startsWith('s3:')) return await openDirectoryStore(join(cwd, to));
    useS3Credentials(s3.server);
    return await openS3Store({ ...s3.server, prefix: to.slice(`s3://${s3.server.bucket}/`.length) });
  }

  /** Sums of doubles depend on the order of rows in their last digits. */
  function expectSums(found: Sums | undefined, expected: Sums, what: string): void {
    expect(Object.keys(found ?? {}).sort(), what).toEqual(Object.keys(expected).sort());
    for (const [date, [rows, premium]] of Object.entries(expected)) {
      expect(found?.[date]?.[0], `${what}, ${date}`).toBe(rows);
      expect(found?.[date]?.[1], `${what}, ${date}`).toBeCloseTo(premium, 1);
    }
  }

  // Skipped where no Python can be had, which `support/python.ts` says aloud; CI never skips it.
  it.skipIf(python.isMissing && duckdb.isMissing)(
    `gives ${name.split(',')[0]} to each reader, which sees a restatement and goes back before it`,
    async () => {
      const first = await readSealed();
      const dates = Object.keys(first).sort();
      expect(dates).toHaveLength(3);
      const before = (await load()).snapshots;
      for (const [reader, { read }] of readers) expectSums((await read([null])).get(null), first, `${reader} at first`);

      // Other rows for the same dates: the last one is restated, while catalog and readers stay as they are.
      service = await startService(['--generate', '3', '--generate-rows', '2500', '--seed', '7']);
      const last = dates.at(-1) ?? '';
      const again = await flowdrop(['backfill', job, '--all', '--from', last, '--to', last], {
        cwd,
        env: { ...service.env, ...env },
      });
      await service.stop();
      expect(again.code, again.stderr).toBe(0);

      const second = await readSealed();
      expect(second[last]?.[0]).toBe(2500);
      const now = (await load()).snapshots;
      expect(now).toHaveLength(before.length + 1);
      const ids = now.map((snapshot) => snapshot['snapshot-id']);
      for (const [reader, { read }] of readers) {
        const found = await read([null, ...ids]);
        expectSums(found.get(null), second, `${reader} now`);
        expectSums(found.get(ids[3] ?? 0), second, `${reader} by the last snapshot`);
        expectSums(found.get(ids[2] ?? 0), first, `${reader} before the restatement`);
        const [monday = ''] = dates;
        expectSums(found.get(ids[0] ?? 0), { [monday]: first[monday] ?? [0, 0] }, `${reader} by the first snapshot`);
      }
    },
    400_000,
  );

  const snippets = env['AWS_REGION'] === undefined ? PAGES.flatMap(listBlocks) : [];
  it.each(
    snippets.flatMap(({ info, page, line, text }) => {
      const runner = SNIPPET_RUNNERS[info];
      return runner === undefined || runner.isMissing ? [] : [[`${page}:${line}`, text, runner] as const];
    }),
  )(
    'runs the snippet of %s',
    async (_, text, { path, wrap }) => {
      const program = wrap(text).replaceAll('http://127.0.0.1:8181', catalog.url);
      expect(program).toContain(catalog.url);
      // Not `spawnSync`: it stops this process for so long that the catalog has closed `fetch`'s connection meanwhile.
      const { stdout } = await promisify(execFile)(path, ['-c', program], {
        cwd,
        env: { ...process.env, PYTHONPATH: dirname(SCRIPT) },
      });
      expect(stdout.match(/2026-\d\d-\d\d/g)?.length).toBeGreaterThanOrEqual(3);
    },
    240_000,
  );

  it(`logs no credential of ${name.split(',')[0]}, and hands none out`, async () => {
    const config = await (await fetch(`${catalog.url}/v1/config`, headers ? { headers } : {})).text();
    const said = [...catalog.log, config, JSON.stringify(await load())].join('\n');
    for (const secret of [KEY, env['AWS_SECRET_ACCESS_KEY'] ?? KEY]) expect(said).not.toContain(secret);
    if (env['AWS_ENDPOINT_URL_S3']) expect(config).toContain(env['AWS_ENDPOINT_URL_S3']);
  });
});
