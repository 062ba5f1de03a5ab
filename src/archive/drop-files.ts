/**
 * The files of a dataset as the engine reads them: one pattern matches all of them, and each is identified by its path.
 * Invariant: no character of a name acts as a pattern. A directory is read through a symbolic link that we create. From
 * S3 the engine reads ranges of the objects itself, with the store's credentials in a statement that no caller can see.
 */
import { symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { parquetFile, quoteString } from '../engine/literal.ts';
import { assertPlain, encodePath, isPlain, namedS3 } from '../engine/named-s3.ts';
import { plainPath } from '../engine/plain-path.ts';
import { dropsPrefix, fileKey, SUMMARY_FILENAME } from '../ledger/layout.ts';
import type { S3Access, StoreAccess } from '../store/store.ts';

/** A file of a date, by the name that the manifest gives it. */
export interface SealedFile {
  readonly date: string;
  readonly filename: string;
}

export interface SealedFiles {
  /**
   * Table function over the files of all dates, or of fewer that include all of `chosen`.
   * @param structure columns to read, with their types
   */
  tableSql(structure: string, chosen: readonly SealedFile[]): string;
  /** Table function over one file, with its own columns. */
  fileSql(file: SealedFile): string;
  /** The engine's path (`_path`) of a file. */
  pathOf(file: SealedFile): string;
}

export interface StoreFiles {
  /** The files with rows, or the summaries. @throws Fault `ARCHIVE_LOCATION_INVALID` (usage) */
  of(dataset: string, rows: 'drops' | 'summaries'): SealedFiles;
  /** Texts that must be hidden in messages: credentials, folders. */
  readonly secrets: readonly string[];
  /** The engine's settings of how many threads read. */
  readonly threads: Readonly<Record<string, number>>;
}

export interface ServerFiles extends StoreFiles {
  /** Query for path and size of files, as the server finds them. */
  sizesSql(dataset: string, chosen: readonly SealedFile[]): string;
}

/**
 * Requests to S3 in flight, whatever the number of cores: each thread waits for one. 561 requests with 50 ms of latency
 * took 7.5 s with the engine's two threads on two cores, and 1.7 s with these.
 */
const S3_THREADS = 16;
const LINK = 'drops';

/** @param folder our own folder, for the link @throws Fault `ARCHIVE_LOCATION_INVALID` (usage) */
export async function openStoreFiles(access: StoreAccess, folder: string): Promise<StoreFiles> {
  if (access.kind === 'directory') {
    const link = join(folder, LINK);
    await symlink(access.path, link);
    const plain = plainPath(link);
    return {
      of: (dataset, rows) => ({
        tableSql: (structure, chosen) =>
          `file(${quoteString(`${plain}/${patternOf(dataset, rows, chosen)}`)}, Parquet, ${quoteString(structure)})`,
        fileSql: ({ date, filename }) => parquetFile(`${plain}/${fileKey(dataset, date, filename)}`),
        pathOf: ({ date, filename }) => `${plain}/${fileKey(dataset, date, filename)}`,
      }),
      secrets: [folder, plain],
      threads: {},
    };
  }
  const root = access.prefix === '' ? '' : `${access.prefix}/`;
  assertPlain(root);
  const { accessKeyId, secretAccessKey, sessionToken } = access;
  const credentials = [accessKeyId, secretAccessKey, ...(sessionToken === undefined ? [] : [sessionToken])];
  const s3 = (key: string, ...structure: readonly string[]) => {
    const args = [`${access.bucketUrl}/${encodePath(root + key)}`, ...credentials, 'Parquet', ...structure];
    return `s3(${args.map(quoteString).join(', ')})`;
  };
  return {
    of: (dataset, rows) => ({
      tableSql: (structure, chosen) => s3(patternOf(dataset, rows, chosen), structure),
      fileSql: ({ date, filename }) => s3(fileKey(dataset, date, filename)),
      pathOf: ({ date, filename }) => `${access.bucket}/${root}${fileKey(dataset, date, filename)}`,
    }),
    secrets: [...credentials, folder],
    threads: { max_threads: S3_THREADS, max_parsing_threads: S3_THREADS, max_download_threads: S3_THREADS },
  };
}

/**
 * The files of an S3 store as a ClickHouse server reads them: by a named collection that the server has, so that no text has
 * a credential. Its `url` is the store's. Exactly the chosen files are named, and a server that does not find one fails.
 * @param cluster of the server; then all its nodes read @throws Fault `ARCHIVE_LOCATION_INVALID` (usage)
 */
export function nameServerFiles(
  { bucket, prefix }: Pick<S3Access, 'bucket' | 'prefix'>,
  collection: string,
  cluster: string | undefined,
): ServerFiles {
  const root = prefix === '' ? '' : `${prefix}/`;
  assertPlain(root);
  const s3 = (keys: readonly string[], format: 'Parquet' | 'One', structure?: string) =>
    namedS3(keys, { collection, format, structure, cluster });
  const keysOf = (dataset: string, files: readonly SealedFile[]) =>
    files.map(({ date, filename }) => fileKey(dataset, date, filename));
  return {
    of: (dataset) => ({
      tableSql: (structure, chosen) => s3(keysOf(dataset, chosen), 'Parquet', structure),
      fileSql: (file) => s3(keysOf(dataset, [file]), 'Parquet'),
      pathOf: ({ date, filename }) => `${bucket}/${root}${fileKey(dataset, date, filename)}`,
    }),
    // This format reads no byte of the files.
    sizesSql: (dataset, chosen) => `SELECT _path AS path, _size AS size FROM ${s3(keysOf(dataset, chosen), 'One')}`,
    secrets: [],
    threads: {},
  };
}

/** The keys of all files, as a pattern: revisions of a table have file names of their own. Of one file, its own key. */
function patternOf(dataset: string, rows: 'drops' | 'summaries', chosen: readonly SealedFile[]): string {
  assertPlain(dataset);
  const [only, ...others] = chosen;
  // So that the engine need not list the others.
  if (only !== undefined && others.length === 0 && isPlain(only.filename))
    return fileKey(dataset, only.date, only.filename);
  return rows === 'drops' ? `${dropsPrefix(dataset, '*')}*.parquet` : fileKey(dataset, '*', SUMMARY_FILENAME);
}
