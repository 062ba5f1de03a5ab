/**
 * Readers of an Iceberg table that are not ours, each as its users call it: PyIceberg, Polars, DuckDB and Spark by
 * `test/contract/read_table.py`, ClickHouse by the embedded engine, icebird in this process.
 */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { icebergRead } from 'icebird';
import type { Engine } from '../../src/engine/engine.ts';
import { keyOf, locate, readTable, type TableMetadata } from '../../src/ledger/iceberg/table-metadata.ts';
import { tablePrefix, tableVersionKey } from '../../src/ledger/layout.ts';
import type { Store } from '../../src/store/store.ts';
import { findPython } from './python.ts';
import type { S3Server } from './s3-server.ts';
import { findSpark } from './spark.ts';

const SCRIPT = new URL('../contract/read_table.py', import.meta.url).pathname;
const DATASET = 'trades';

/** Of one date: rows, sum of the premium, hash of all ids, rows with an exchange. */
export type DayFacts = readonly [rows: number, premium: number, ids: string, exchanges: number];
/** By date. */
export type TableFacts = Readonly<Record<string, DayFacts>>;
/** By snapshot; `null`: the table now. */
export type TableAnswers = ReadonlyMap<number | null, TableFacts>;

export interface TableToRead {
  readonly store: Store;
  /** Where the store is, unless it is a directory. */
  readonly s3?: S3Server | undefined;
}

const python = findPython();
const pythonDuckDb = findPython('requirements-duckdb.txt');
const spark = findSpark();

/** Skipped where Python cannot be had, which `support/` says aloud. CI skips Spark alone, which is a nightly part. */
export const SCRIPT_READERS = [
  { reader: 'pyiceberg', path: python.path, isMissing: python.isMissing },
  { reader: 'polars', path: python.path, isMissing: python.isMissing },
  { reader: 'duckdb', path: pythonDuckDb.path, isMissing: pythonDuckDb.isMissing },
  { reader: 'spark', path: spark.path, isMissing: spark.isMissing },
] as const;

export type ScriptReader = (typeof SCRIPT_READERS)[number];

/** The table now and at each of its snapshots. */
export async function readByScript(reader: ScriptReader, table: TableToRead): Promise<TableAnswers> {
  return new Map(await runScript(reader, table, null));
}

/**
 * Reads the table again and again until the file `stop` exists.
 * @param onFirst called after its first answer @returns each answer once
 */
export async function readUntil(
  stop: string,
  reader: ScriptReader,
  table: TableToRead,
  onFirst: () => unknown,
): Promise<readonly TableFacts[]> {
  return (await runScript(reader, table, stop, onFirst)).map(([, facts]) => facts);
}

async function runScript(
  { reader, path }: ScriptReader,
  { store, s3 }: TableToRead,
  stop: string | null,
  onFirst: () => unknown = () => {},
): Promise<readonly (readonly [number | null, TableFacts])[]> {
  const { version, metadata } = await readNow(store);
  const folder = tablePrefix(DATASET).replace(/\/$/, '');
  const spec = {
    reader,
    table: `${reader === 'spark' ? store.url.replace(/^s3:/, 's3a:') : store.url}/${folder}`,
    metadata: `${store.url}/${tableVersionKey(DATASET, version)}`,
    snapshots: metadata.snapshots.map((one) => one['snapshot-id']),
    s3: s3 ? { endpoint: s3.endpoint, region: s3.region, key: s3.accessKeyId, secret: s3.secretAccessKey } : null,
    jars: spark.jars,
    stop,
  };
  const child = spawn(path, [SCRIPT, JSON.stringify(spec)], { stdio: ['ignore', 'pipe', 'pipe'] });
  const [output, errors]: [string[], string[]] = [[], []];
  child.stdout.setEncoding('utf8').on('data', (part: string) => {
    output.push(part);
    if (part.includes('first answer')) onFirst();
  });
  child.stderr.setEncoding('utf8').on('data', (part: string) => errors.push(part));
  const [code] = await once(child, 'close');
  if (code !== 0) throw new Error(`${reader} ended with ${code}: ${describeTrace(errors.join(''))}`);
  const lines = output.join('').split('\n');
  // Spark shows its progress beside.
  return lines.flatMap((line) => (/^\[(null|\d+), /.test(line) ? [JSON.parse(line)] : []));
}

/** Of a long trace: where it begins, each cause, and its end. */
function describeTrace(trace: string): string {
  const lines = trace.split('\n');
  const causes = lines.filter((line) => /^(Caused by|\S*(Error|Exception))\b/.test(line));
  return [...lines.slice(0, 5), ...causes, ...lines.slice(-10)].join('\n');
}

/** @param engine started in a folder above a directory's: it reads tables below that folder only */
export async function readByClickHouse(
  engine: Engine,
  { store, s3 }: TableToRead,
  snapshot: number | null,
): Promise<TableFacts> {
  const folder = tablePrefix(DATASET);
  const place = s3
    ? `icebergS3('${store.url.replace('s3:/', s3.endpoint)}/${folder}', '${s3.accessKeyId}', '${s3.secretAccessKey}')`
    : `icebergLocal('${store.url}/${folder}')`;
  const at = snapshot === null ? '' : ` SETTINGS iceberg_snapshot_id = ${snapshot}`;
  const columns = await engine.rows<{ name: string }>(`DESCRIBE TABLE ${place}${at}`);
  const exchanges = columns.some(({ name }) => name === 'exchange') ? 'count(exchange)' : '0';
  const rows = await engine.rows<{ d: string; n: number; p: number; ids: string; e: number }>(
    `SELECT toString(date) AS d, toUInt32(count()) AS n, sum(premium) AS p, lower(hex(MD5(arrayStringConcat(arraySort(groupArray(assumeNotNull(id))), ',')))) AS ids, toUInt32(${exchanges}) AS e FROM ${place} GROUP BY d${at}`,
  );
  return Object.fromEntries(rows.map(({ d, n, p, ids, e }) => [d, [n, p, ids, e] as const]));
}

/** Reads by HTTP only; here `fetch` answers from the store. */
export async function readByIcebird({ store }: TableToRead, snapshot: number | null): Promise<TableFacts> {
  const fetched = globalThis.fetch;
  globalThis.fetch = async (input, options) => await answerFromStore(store, String(input), options);
  try {
    const { metadata } = await readNow(store);
    const at = snapshot === null ? metadata : showSnapshot(metadata, snapshot);
    const rows = await icebergRead({ tableUrl: metadata.location, metadata: at as never }); // Its own, looser type.
    return sumRows(rows);
  } finally {
    globalThis.fetch = fetched;
  }
}

/** Time travel of icebird: the document as it was. */
function showSnapshot(metadata: TableMetadata, snapshot: number): TableMetadata {
  const schema = metadata.snapshots.find((one) => one['snapshot-id'] === snapshot)?.['schema-id'] ?? 0;
  return { ...metadata, 'current-snapshot-id': snapshot, 'current-schema-id': schema };
}

async function answerFromStore(store: Store, url: string, options: RequestInit | undefined): Promise<Response> {
  // It turns s3://bucket/key into the address of Amazon's bucket.
  const key = keyOf(store, url.replace(/^https:\/\/([^/]+)\.s3\.amazonaws\.com/, 's3://$1'));
  const bytes = (await store.get(key)) ?? new Uint8Array();
  const range = /bytes=(\d+)-(\d+)?/.exec(new Headers(options?.headers).get('range') ?? '');
  const [from, to] = range ? [Number(range[1]), Number(range[2] ?? bytes.length - 1) + 1] : [0, bytes.length];
  const headers = { 'content-length': String(options?.method === 'HEAD' ? bytes.length : to - from) };
  const body = options?.method === 'HEAD' ? null : Buffer.from(bytes.subarray(from, to));
  return new Response(body, { status: range ? 206 : 200, headers });
}

function sumRows(rows: readonly Record<string, unknown>[]): TableFacts {
  const days = new Map<string, Record<string, unknown>[]>();
  for (const row of rows) {
    const date = (row['date'] as Date).toISOString().slice(0, 'YYYY-MM-DD'.length); // Its DATE is a Date.
    const day = days.get(date) ?? [];
    days.set(date, day);
    day.push(row);
  }
  return Object.fromEntries(
    [...days].map(([date, some]) => {
      const ids = some.map((row) => String(row['id'])).sort();
      const premium = some.reduce((sum, row) => sum + Number(row['premium']), 0);
      const exchanges = some.filter((row) => typeof row['exchange'] === 'string').length;
      const hash = createHash('md5').update(ids.join(',')).digest('hex');
      return [date, [some.length, premium, hash, exchanges] as const];
    }),
  );
}

async function readNow(store: Store) {
  const found = await readTable(store, DATASET);
  if (found === undefined) throw new Error(`${locate(store, tablePrefix(DATASET))}: there is no table`);
  return found;
}
