/**
 * The files of a dataset as the engine reads them: one pattern matches all of them, and each is identified by its path.
 * Invariant: no character of a name acts as a pattern. A directory is read through a symbolic link that we create. From
 * S3 the engine reads ranges of the objects itself, with the store's credentials in a statement that no caller can see.
 */
import { symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { Fault } from '../core/errors.ts';
import { plainPath, quoteIdentifier, quoteString } from '../engine/literal.ts';
import { dropsPrefix, fileKey, SUMMARY_FILENAME } from '../ledger/layout.ts';
import type { S3Access, StoreAccess } from '../store/store.ts';

export interface StoreFiles {
  /** The engine's path (`_path`) of a file is this and its key. */
  readonly root: string;
  /**
   * Table function over the files of these keys, or over all that the pattern matches, these among them.
   * @param structure columns to read, with their types; absent: the files' own
   * @param isWhole each node of a cluster reads all of them
   * @throws Fault `ARCHIVE_LOCATION_INVALID` (usage)
   */
  tableSql(keys: readonly string[], pattern: string, structure?: string, isWhole?: boolean): string;
  /** Whether it names exactly the files of the keys. */
  readonly isExact?: true;
  /** Texts that must be hidden in messages: credentials, folders. */
  readonly secrets: readonly string[];
  /** The engine's settings of how many threads read. */
  readonly threads: Readonly<Record<string, number>>;
}

/**
 * Requests to S3 in flight, whatever the number of cores: each thread waits for one. 561 requests with 50 ms of latency
 * took 7.5 s with the engine's two threads on two cores, and 1.7 s with these.
 */
const S3_THREADS = 16;
const LINK = 'drops';

/** @param folder our own folder, for the link @throws Fault `ARCHIVE_LOCATION_INVALID` (usage) */
export async function openStoreFiles(access: StoreAccess, folder: string): Promise<StoreFiles> {
  // One key, so that the engine need not list the others.
  const choose = ([only = '', ...others]: readonly string[], pattern: string) =>
    others.length === 0 && only !== '' && !PATTERN.test(only) ? only : pattern;
  const call = (name: string, args: readonly (string | undefined)[]) =>
    `${name}(${args
      .filter((arg) => arg !== undefined)
      .map(quoteString)
      .join(', ')})`;
  if (access.kind === 'directory') {
    const link = join(folder, LINK);
    await symlink(access.path, link);
    const plain = plainPath(link);
    return {
      root: `${plain}/`,
      tableSql: (keys, pattern, structure) => call('file', [`${plain}/${choose(keys, pattern)}`, 'Parquet', structure]),
      secrets: [folder, plain],
      threads: {},
    };
  }
  const { bucket, bucketUrl, accessKeyId, secretAccessKey, sessionToken } = access;
  const prefix = prefixOf(access);
  const credentials = [accessKeyId, secretAccessKey, ...(sessionToken === undefined ? [] : [sessionToken])];
  return {
    root: `${bucket}/${prefix}`,
    tableSql: (keys, pattern, structure) => {
      const url = `${bucketUrl}/${encodePath(prefix + choose(keys, pattern))}`;
      return call('s3', [url, ...credentials, 'Parquet', structure]);
    },
    secrets: [...credentials, folder],
    threads: { max_threads: S3_THREADS, max_parsing_threads: S3_THREADS, max_download_threads: S3_THREADS },
  };
}

/**
 * The files of an S3 store as a ClickHouse server reads them: by a named collection that the server has, so that no text has
 * a credential. Its `url` is the store's. Exactly the chosen files are named, and a server that does not find one fails.
 * @param cluster of the server; then all its nodes read @throws Fault `ARCHIVE_LOCATION_INVALID` (usage)
 */
export function nameServerFiles(access: S3Access, collection: string, cluster: string | undefined) {
  const s3 = (keys: readonly string[], format: 'Parquet' | 'One', structure?: string, isWhole = false) => {
    const nodes = isWhole ? undefined : cluster;
    for (const key of keys) assertPlain(key);
    const [first = '', ...more] = keys.map(encodePath);
    const args = [
      ...(nodes === undefined ? [] : [quoteString(nodes)]),
      quoteIdentifier(collection),
      `filename = ${quoteString(more.length === 0 ? first : `{${[first, ...more].join(',')}}`)}`,
      `format = ${quoteString(format)}`,
      ...(structure === undefined ? [] : [`structure = ${quoteString(structure)}`]),
    ];
    return `${nodes === undefined ? 's3' : 's3Cluster'}(${args.join(', ')})`;
  };
  return {
    root: `${access.bucket}/${prefixOf(access)}`,
    isExact: true as const,
    tableSql: (keys: readonly string[], _pattern: string, structure?: string, isWhole?: boolean) =>
      s3(keys, 'Parquet', structure, isWhole),
    /** Query for path and size of files, as the server finds them. This format reads no byte of them. */
    sizesSql: (keys: readonly string[]) => `SELECT _path AS path, _size AS size FROM ${s3(keys, 'One')}`,
  };
}

function prefixOf({ prefix }: S3Access): string {
  const root = prefix === '' ? '' : `${prefix}/`;
  assertPlain(root);
  return root;
}

/** The keys of all files with rows, or of all summaries, as a pattern: revisions of a table have file names of their own. */
export function patternOf(dataset: string, rows: 'drops' | 'summaries'): string {
  assertPlain(dataset);
  return rows === 'drops' ? `${dropsPrefix(dataset, '*')}*.parquet` : fileKey(dataset, '*', SUMMARY_FILENAME);
}

/** `*` and the `=` of partitions stay as they are. */
function encodePath(path: string): string {
  return path.split('/').map(encodeURIComponent).join('/').replaceAll('%3D', '=');
}

/** Characters that the engine reads as a pattern. */
const PATTERN = /[*?{}]/;

/** @throws Fault `ARCHIVE_LOCATION_INVALID` (usage) */
function assertPlain(path: string): void {
  if (!PATTERN.test(path)) return;
  throw new Fault('ARCHIVE_LOCATION_INVALID', `${path} contains one of * ? { }, which the engine reads as a pattern`, {
    kind: 'usage',
    hint: 'Query a copy whose name has none of them.',
  });
}
