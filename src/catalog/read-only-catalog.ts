/**
 * The Iceberg REST catalog of a store: answers the read routes of the REST catalog spec (apache/iceberg,
 * `open-api/rest-catalog-open-api.yaml`) from the newest metadata in the store. It has one namespace, with a table for each
 * dataset that keeps one. Invariants: it holds no state and writes nothing, so a new snapshot is in the next answer, and
 * no answer has a credential of the store. Without keys only programs on this machine are answered, and no page of another
 * site that is open in a local browser (its requests name another host). Every answer has one line in the log.
 */
import { createHash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import type { Clock } from '../core/clock.ts';
import { describeError, Fault, isFault } from '../core/errors.ts';
import { type HeardRequest, type HttpListener, listenHttp, type ReadyAnswer } from '../core/http-listener.ts';
import { formatListenAddress, isLoopback, type ListenAddress, parseHostHeader } from '../core/listen-address.ts';
import type { Log } from '../core/log.ts';
import { nameSchema } from '../job/plain-shape.ts';
import { listTables, locate, readTable, type TableMetadata } from '../ledger/iceberg/table-metadata.ts';
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

interface CatalogOptions {
  readonly store: Store;
  readonly address: ListenAddress;
  /** The name of the caller with this bearer token; `undefined` for a wrong one. Absent: callers need no token. */
  readonly identify?: ((token: string) => string | undefined) | undefined;
  /** Counts wrong tokens by address: whole seconds to wait, or 0. */
  readonly wrongKeys: { admit(address: string): number };
  /** Where clients find the store, in the words of Iceberg's clients (`s3.endpoint`); no credentials. */
  readonly clientDefaults: Readonly<Record<string, string>>;
  readonly log: Log;
  readonly clock: Clock;
}

/** @throws Fault `KEY_INVALID` (kind `usage`) if others can reach the address without a key; `LISTEN_FAILED` */
export async function startCatalog(options: CatalogOptions): Promise<HttpListener> {
  const { address, identify, log, clock } = options;
  if (identify === undefined && !isLoopback(address.host)) {
    throw new Fault('KEY_INVALID', `a catalog on ${formatListenAddress(address)} needs a key`, {
      kind: 'usage',
      hint: '`flowdrop key --name NAME --file FILE` makes one for --key-file; or listen on 127.0.0.1.',
    });
  }
  const answer = async (request: HeardRequest): Promise<ReadyAnswer> => {
    const startedMs = clock.now();
    const { method, target } = request;
    const { caller, refusal } = admit(options, request);
    const given =
      refusal ??
      (await answerCatalog(options, request).catch((error: unknown) => {
        const reason = describeError(error);
        log.error({ event: 'catalog-request-failed', target, reason }, `failed: ${reason}`);
        return describeFailure(error);
      }));
    const durationMs = clock.now() - startedMs;
    log.info({ event: 'catalog-request', method, target, status: given.status, caller, durationMs }, 'answered');
    return given;
  };
  return await listenHttp({ address, answer, hint: 'Choose another --port; 0 picks a free one.', clock });
}

function admit({ identify, address, wrongKeys }: CatalogOptions, { headers, remote }: HeardRequest) {
  if (identify === undefined) {
    const known = ['localhost', '127.0.0.1', '::1', address.host.toLowerCase()];
    if (known.includes(parseHostHeader(headers.host))) return {};
    const message = 'Without keys this catalog answers only to localhost; start it with --key-file for other names.';
    return { refusal: refuse(421, 'ForbiddenException', message) };
  }
  const token = /^bearer +(\S+)$/i.exec(headers.authorization ?? '')?.[1];
  const caller = token === undefined ? undefined : identify(token);
  if (caller !== undefined) return { caller };
  const waitSeconds = token === undefined ? 0 : wrongKeys.admit(remote);
  if (waitSeconds > 0) {
    const slow = `Too many wrong keys from this address; try again in ${waitSeconds} s.`;
    return { refusal: refuse(429, 'TooManyRequestsException', slow, { 'retry-after': String(waitSeconds) }) };
  }
  const message = 'This catalog needs a flowdrop key as bearer token: set `token` in the client.';
  return { refusal: refuse(401, 'NotAuthorizedException', message, { 'www-authenticate': 'Bearer' }) };
}

/** Clients that were given a prefix put it after `v1`. This catalog has one store, so it takes any. */
const ROUTE =
  /^\/v1(?:\/(?!namespaces)[^/]+)?\/namespaces(?:\/(?<namespace>[^/]+)(?:\/(?<kind>tables|views)(?:\/(?<table>[^/]+))?)?)?$/;

/** @throws StoreFault; Fault `TABLE_DAMAGED` */
async function answerCatalog({ store, clientDefaults }: CatalogOptions, request: HeardRequest): Promise<ReadyAnswer> {
  const { method, target, headers } = request;
  const [path = '', ...asked] = target.split('?');
  if (path.length > MAX_TARGET_CHARACTERS || !path.startsWith('/')) return noPath();
  const query = new URLSearchParams(asked.join('?'));
  if (method !== 'GET' && method !== 'HEAD') {
    const message = 'This catalog is read-only: flowdrop itself commits to its tables when it seals a date.';
    const more = { allow: 'GET, HEAD', connection: 'close' };
    return refuse(405, 'UnsupportedOperationException', message, more);
  }
  if (path === '/v1/config') return answerJson({ defaults: clientDefaults, overrides: {}, endpoints: ENDPOINTS });
  const route = ROUTE.exec(path)?.groups;
  const [namespace, table] = [decode(route?.['namespace']), decode(route?.['table'])];
  if (route === undefined || namespace === null || table === null) return noPath();
  if (namespace === undefined) {
    const parent = query.get('parent') ?? '';
    if (parent !== '' && parent !== CATALOG_NAMESPACE) return noNamespace(parent);
    return answerJson({ namespaces: parent === '' ? [[CATALOG_NAMESPACE]] : [] });
  }
  // Clients ask for `flowdrop.trades.snapshots` so, and only without such a table for the snapshots of `flowdrop.trades`.
  if (namespace !== CATALOG_NAMESPACE) return table === undefined ? noNamespace(namespace) : noTable(namespace, table);
  if (route['kind'] === undefined) return answerJson({ namespace: [CATALOG_NAMESPACE], properties: {} });
  if (route['kind'] === 'views') return table === undefined ? answerJson({ identifiers: [] }) : noPath();
  if (table !== undefined) return await answerTable(store, table, query, headers);
  const names = await listTables(store);
  return answerJson({ identifiers: names.map((name) => ({ namespace: [CATALOG_NAMESPACE], name })) });
}

/** `null` if it cannot be decoded. */
function decode(segment: string | undefined): string | null | undefined {
  try {
    return segment && decodeURIComponent(segment);
  } catch {
    return null;
  }
}

async function answerTable(store: Store, name: string, query: URLSearchParams, headers: IncomingHttpHeaders) {
  // The name becomes part of a key: only a name that a dataset can have gets there.
  const found = nameSchema.safeParse(name).success ? await readTable(store, name) : undefined;
  if (found === undefined) return noTable(CATALOG_NAMESPACE, name);
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

/** For failures of the store and damaged tables: what clients can do is to ask again later. */
function describeFailure(error: unknown): ReadyAnswer {
  const seen = 'see catalog-request-failed in the log of the catalog';
  if (isFault(error) && error.code === 'TABLE_DAMAGED')
    return refuse(500, 'ServiceFailureException', `the table is damaged; ${seen}`);
  return refuse(503, 'ServiceUnavailableException', `the store cannot be read now; ${seen}`);
}

function noPath(): ReadyAnswer {
  const message = 'No such route: this catalog has /v1/config, and /v1/namespaces with their tables.';
  return refuse(404, 'NotFoundException', message);
}

function noTable(namespace: string, name: string): ReadyAnswer {
  const shown = `${namespace.replaceAll(PART_SEPARATOR, '.')}.${name}`;
  return refuse(404, 'NoSuchTableException', `Table does not exist: ${shown}`);
}

function noNamespace(name: string): ReadyAnswer {
  const message = `Namespace does not exist: ${name.replaceAll(PART_SEPARATOR, '.')}; the only one is ${CATALOG_NAMESPACE}`;
  return refuse(404, 'NoSuchNamespaceException', message);
}

/** An error in the words of the spec. @param type name of an exception that clients know */
function refuse(code: number, type: string, message: string, more: Readonly<Record<string, string>> = {}): ReadyAnswer {
  const answer = answerJson({ error: { message, type, code } }, code);
  return { ...answer, headers: { ...answer.headers, ...more } };
}

function answerJson(value: unknown, status = 200): ReadyAnswer {
  const headers = { 'content-type': 'application/json', 'cache-control': 'no-store' };
  return { status, headers, body: JSON.stringify(value) };
}
