/**
 * Objects of an S3 store as a ClickHouse server reads them: by a named collection that the server has, so that no
 * text has a credential. The collection's `url` is the store's address, with its prefix and a `/` at the end. Pure.
 */
import { Fault } from '../core/errors.ts';
import { quoteIdentifier, quoteString } from './literal.ts';

interface NamedObjects {
  readonly collection: string;
  /** ClickHouse's name of the format; `One` reads no byte. */
  readonly format: 'Parquet' | 'One';
  /** Columns with their types; absent: those of the objects. */
  readonly structure?: string | undefined;
  /** A cluster of the server, whose nodes then read together. */
  readonly cluster?: string | undefined;
}

/** Characters that the engine reads as a pattern. */
const PATTERN = /[*?{}]/;

/** @param keys exactly these objects, relative to the store @throws Fault `ARCHIVE_LOCATION_INVALID` (usage) */
export function namedS3(keys: readonly string[], { collection, format, structure, cluster }: NamedObjects): string {
  for (const key of keys) assertPlain(key);
  const [first = '', ...more] = keys.map(encodePath);
  const args = [
    ...(cluster === undefined ? [] : [quoteString(cluster)]),
    quoteIdentifier(collection),
    `filename = ${quoteString(more.length === 0 ? first : `{${[first, ...more].join(',')}}`)}`,
    `format = ${quoteString(format)}`,
    ...(structure === undefined ? [] : [`structure = ${quoteString(structure)}`]),
  ];
  return `${cluster === undefined ? 's3' : 's3Cluster'}(${args.join(', ')})`;
}

/** What an administrator types for a collection that is missing. @param url the address, quoted */
export function createCollection(collection: string, url: string): string {
  return `CREATE NAMED COLLECTION ${collection} AS url = ${url}, access_key_id = '...', secret_access_key = '...'`;
}

/** What an administrator types for a user who may not use it. */
export function grantCollection(collection: string): string {
  return `GRANT S3 ON *.* TO USER; GRANT NAMED COLLECTION ON ${collection} TO USER`;
}

/** `*` and the `=` of partitions stay as they are. */
export function encodePath(path: string): string {
  return path.split('/').map(encodeURIComponent).join('/').replaceAll('%3D', '=');
}

export function isPlain(path: string): boolean {
  return !PATTERN.test(path);
}

/** @throws Fault `ARCHIVE_LOCATION_INVALID` (usage) */
export function assertPlain(path: string): void {
  if (isPlain(path)) return;
  throw new Fault('ARCHIVE_LOCATION_INVALID', `${path} contains one of * ? { }, which the engine reads as a pattern`, {
    kind: 'usage',
    hint: 'Query a copy whose name has none of them.',
  });
}
