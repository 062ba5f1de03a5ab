/**
 * The Iceberg REST catalog of a store: answers the read routes of the REST catalog spec (apache/iceberg,
 * `open-api/rest-catalog-open-api.yaml`) from the newest metadata in the store. It has one namespace, with a table for each
 * dataset that keeps one. Invariant: it holds no state and writes nothing, so a new snapshot is in the next answer, and
 * no answer has a credential of the store. Access rules and HTTP are in `catalog-listener.ts`.
 */
import { createHash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { isFault } from '../core/errors.ts';
import type { HeardRequest, ReadyAnswer } from '../core/http-listener.ts';
import { nameSchema } from '../job/plain-shape.ts';
import { listTables, locate, readTable } from '../ledger/iceberg/table-log.ts';
import type { TableMetadata } from '../ledger/iceberg/table-metadata.ts';
import { tableVersionKey } from '../ledger/layout.ts';
import type { Store } from '../store/store.ts';

/** The namespace of all tables, here and by default in other catalogs. */
export const CATALOG_NAMESPACE = 'flowdrop';

/** Separates the parts of a namespace in a path. */
const PART_SEPARATOR = '\u001f';
/** Beyond it a path is no question about a table. */
const MAX_TARGET_CHARACTERS = 2_000;

/** What clients may ask; from the list they know that the catalog is read-only and has no views. */
const ENDPOINTS = [
  'GET /v1/{prefix}/namespaces',
  'GET /v1/{prefix}/namespaces/{namespace}',
  'HEAD /v1/{prefix}/namespaces/{namespace}',
  'GET /v1/{prefix}/namespaces/{namespace}/tables',
  'GET /v1/{prefix}/namespaces/{namespace}/tables/{table}',
  'HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}',
];

/** An error in the words of the spec: `type` is the name of an exception that clients know. */
interface CatalogError {
  readonly code: number;
  readonly type: string;
  readonly message: string;
}

interface CatalogOptions {
  readonly store: Store;
  /** Where clients find the store, in the words of Iceberg's clients (`s3.endpoint`); no credentials. */
  readonly clientDefaults: Readonly<Record<string, string>>;
}

/** @throws StoreFault; Fault `TABLE_DAMAGED` */
export async function answerCatalog(options: CatalogOptions, request: HeardRequest): Promise<ReadyAnswer> {
  const { method, target, headers } = request;
  const question = target.indexOf('?');
  const path = parsePath(question < 0 ? target : target.slice(0, question));
  const query = new URLSearchParams(question < 0 ? '' : target.slice(question));
  if (path === undefined) return answerError(noPath());
  if (method !== 'GET' && method !== 'HEAD') return refuseWrite();
  if (path.join('/') === 'v1/config') {
    return answerJson({ defaults: options.clientDefaults, overrides: {}, endpoints: ENDPOINTS });
  }
  const [namespaces, namespace, tables, table, ...more] = withoutPrefix(path);
  if (namespaces !== 'namespaces' || more.length > 0) return answerError(noPath());
  if (namespace === undefined) return answerNamespaces(query.get('parent') ?? '');
  if (namespace !== CATALOG_NAMESPACE) {
    // Clients ask for `flowdrop.trades.snapshots` so, and only without such a table for the snapshots of `flowdrop.trades`.
    if (tables === 'tables' && table !== undefined) return answerError(noTable(namespace, table));
    return answerError(noNamespace(namespace));
  }
  if (tables === undefined) return answerJson({ namespace: [CATALOG_NAMESPACE], properties: {} });
  if (tables === 'views' && table === undefined) return answerJson({ identifiers: [] });
  if (tables !== 'tables') return answerError(noPath());
  if (table === undefined) {
    const names = await listTables(options.store);
    return answerJson({ identifiers: names.map((name) => ({ namespace: [CATALOG_NAMESPACE], name })) });
  }
  return await answerTable(options.store, table, query, headers);
}

export function answerError({ code, type, message }: CatalogError): ReadyAnswer {
  return answerJson({ error: { message, type, code } }, code);
}

/** For failures of the store and damaged tables: what clients can do is to ask again later. */
export function answerFailure(error: unknown): ReadyAnswer {
  if (isFault(error) && error.code === 'TABLE_DAMAGED') {
    const message = 'the table is damaged; see catalog-request-failed in the log of the catalog';
    return answerError({ code: 500, type: 'ServiceFailureException', message });
  }
  const message = 'the store cannot be read now; see catalog-request-failed in the log of the catalog';
  return answerError({ code: 503, type: 'ServiceUnavailableException', message });
}

async function answerTable(
  store: Store,
  name: string,
  query: URLSearchParams,
  headers: IncomingHttpHeaders,
): Promise<ReadyAnswer> {
  // The name becomes part of a key: only a name that a dataset can have gets there.
  const found = nameSchema.safeParse(name).success ? await readTable(store, name) : undefined;
  if (found === undefined) return answerError(noTable(CATALOG_NAMESPACE, name));
  const answer = answerJson({
    'metadata-location': locate(store, tableVersionKey(name, found.version)),
    metadata: query.get('snapshots') === 'refs' ? withoutHistory(found.metadata) : found.metadata,
    config: {},
  });
  const etag = `"${createHash('sha256').update(answer.body).digest('base64url')}"`;
  if (headers['if-none-match'] === etag) return { status: 304, headers: { etag }, body: '' };
  return { ...answer, headers: { ...answer.headers, etag } };
}

/** Only what a branch names: clients load the others when they need them. */
function withoutHistory(metadata: TableMetadata): TableMetadata {
  const named = new Set(Object.values(metadata.refs).map((ref) => ref['snapshot-id']));
  return { ...metadata, snapshots: metadata.snapshots.filter((one) => named.has(one['snapshot-id'])) };
}

function answerNamespaces(parent: string): ReadyAnswer {
  if (parent === '') return answerJson({ namespaces: [[CATALOG_NAMESPACE]] });
  return parent === CATALOG_NAMESPACE ? answerJson({ namespaces: [] }) : answerError(noNamespace(parent));
}

function refuseWrite(): ReadyAnswer {
  const message = 'This catalog is read-only: flowdrop itself commits to its tables when it seals a date.';
  const answer = answerError({ code: 405, type: 'UnsupportedOperationException', message });
  return { ...answer, headers: { ...answer.headers, allow: 'GET, HEAD', connection: 'close' } };
}

function noPath(): CatalogError {
  const message = 'No such route: this catalog has /v1/config, and /v1/namespaces with their tables.';
  return { code: 404, type: 'NotFoundException', message };
}

function noTable(namespace: string, name: string): CatalogError {
  const shown = `${namespace.replaceAll(PART_SEPARATOR, '.')}.${name}`;
  return { code: 404, type: 'NoSuchTableException', message: `Table does not exist: ${shown}` };
}

function noNamespace(name: string): CatalogError {
  const shown = name.replaceAll(PART_SEPARATOR, '.');
  return {
    code: 404,
    type: 'NoSuchNamespaceException',
    message: `Namespace does not exist: ${shown}; the only one is ${CATALOG_NAMESPACE}`,
  };
}

/** Decoded segments of a path; `undefined` if it cannot be one of ours. */
function parsePath(path: string): readonly string[] | undefined {
  if (path.length > MAX_TARGET_CHARACTERS || !path.startsWith('/')) return undefined;
  try {
    return path.slice(1).split('/').map(decodeURIComponent);
  } catch {
    return undefined;
  }
}

/** The segments after `v1`. Clients that were given a prefix put it there. This catalog has one store, so it takes any. */
function withoutPrefix([version, ...rest]: readonly string[]): readonly string[] {
  if (version !== 'v1') return [];
  return rest[0] === 'namespaces' ? rest : rest.slice(1);
}

function answerJson(value: unknown, status = 200): ReadyAnswer {
  return {
    status,
    headers: { 'content-type': 'application/json', 'cache-control': 'no-store' },
    body: JSON.stringify(value),
  };
}
