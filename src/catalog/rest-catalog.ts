/**
 * One table of an Iceberg REST catalog, which is kept the same as the table in the store. The first time the table is
 * registered; later versions are committed as the snapshots that it lacks, so that readers change over in one step and the
 * catalog keeps the table's grants and tags (dropping and registering it again would lose both). Invariants: what to do
 * follows from what the catalog says now, so whatever one call could not do is made up by the next; snapshots that are not
 * ours are never removed; each call is one attempt with a timeout, and an error shows neither the token nor the credential.
 * Source: apache/iceberg, `open-api/rest-catalog-open-api.yaml`.
 */
import { createHash } from 'node:crypto';
import { z } from 'zod';
import { tryParseJson } from '../core/atomic-file.ts';
import { assertNotAborted, describeError, Fault } from '../core/errors.ts';
import { sendRequest } from '../core/http.ts';
import { readText } from '../core/http-listener.ts';
import { createRedactor } from '../core/redact.ts';
import type { JobCatalog } from '../job/job.ts';
import { formatMetadata, locate, readTable, type TableMetadata } from '../ledger/iceberg/table-metadata.ts';
import { registeredVersionKey } from '../ledger/layout.ts';
import type { Store } from '../store/store.ts';

/** A catalog writes a metadata file to the store before it answers. */
const TIMEOUT_MS = 60_000;
/** Metadata of ten years with a copy of each commit; more is no answer of a catalog. */
const MAX_ANSWER_BYTES = 64_000_000;
/** Characters of an answer that an error shows. */
const HEAD_CHARACTERS = 300;
/** Separates the parts of a namespace in a path. */
const PART_SEPARATOR = '\u001f';

const loadedSchema = z.object({
  metadata: z.object({
    'table-uuid': z.string(),
    'current-snapshot-id': z.number().nullish(),
    schemas: z.array(z.object({ 'schema-id': z.number(), fields: z.array(z.looseObject({ id: z.number() })) })),
    properties: z.record(z.string(), z.string()).nullish(),
    snapshots: z
      .array(
        z.object({
          'snapshot-id': z.number(),
          'manifest-list': z.string().nullish(),
          summary: z.record(z.string(), z.string()).nullish(),
        }),
      )
      .nullish(),
  }),
});
const configSchema = z.object({
  defaults: z.record(z.string(), z.string().nullable()).nullish(),
  overrides: z.record(z.string(), z.string().nullable()).nullish(),
});
const tokenSchema = z.object({ access_token: z.string().min(1) });

/** What a catalog says of a table, as far as it matters here. */
type LoadedMetadata = z.infer<typeof loadedSchema>['metadata'];
/** A commit: what must hold, and what changes. */
type TableChange = Readonly<Record<'requirements' | 'updates', readonly object[]>>;
type Method = 'GET' | 'POST' | 'DELETE';
type Answer = Awaited<ReturnType<typeof send>>;
/** How callers prove who they are: a token as it is, or `id:secret` of OAuth 2 client credentials. */
type CatalogLogin = Readonly<Partial<Record<'token' | 'credential', string | undefined>>>;

export type RestCatalog = ReturnType<typeof openRestCatalog>;

/** One table of a catalog; sends nothing before the first call. Every method throws Fault `CATALOG_FAILED`, or an interruption. */
export function openRestCatalog(target: JobCatalog, login: CatalogLogin) {
  const base = target.uri.replace(/\/+$/, '');
  const namespace = target.namespace.split('.');
  let known: ReturnType<typeof openSession> | undefined;

  /** @param allowed statuses that are no failure, besides 2xx */
  async function call(
    method: Method,
    path: string,
    signal: AbortSignal | undefined,
    allowed: readonly number[],
    body?: object,
  ): Promise<Answer> {
    known ??= openSession(target, base, login, signal);
    // A failed login is tried again by the next call.
    const { prefix, headers, redact } = await known.catch((error: unknown) => {
      known = undefined;
      throw error;
    });
    const session = { redact, headers: { ...headers, ...(body && { 'content-type': 'application/json' }) } };
    return await send(method, `${base}/v1/${prefix}${path}`, session, signal, body && JSON.stringify(body), allowed);
  }

  const tables = `namespaces/${encodeURIComponent(namespace.join(PART_SEPARATOR))}`;
  const table = `${tables}/tables/${encodeURIComponent(target.table)}`;
  return {
    /** Address, namespace and table, for people. */
    place: `${base} ${target.namespace}.${target.table}`,
    /** `undefined` if there is no such table. */
    async load(signal?: AbortSignal): Promise<LoadedMetadata | undefined> {
      const answer = await call('GET', `${table}?snapshots=all`, signal, [404]);
      return answer.status === 404 ? undefined : parse(loadedSchema, answer, `${base} (load table)`).metadata;
    },
    /** Makes the namespace too. `false` if there is such a table already. */
    async register(metadataLocation: string, signal?: AbortSignal): Promise<boolean> {
      const body = { name: target.table, 'metadata-location': metadataLocation };
      const first = await call('POST', `${tables}/register`, signal, [404, 409], body);
      if (first.status !== 404) return isGood(first);
      await call('POST', 'namespaces', signal, [409], { namespace, properties: {} });
      return isGood(await call('POST', `${tables}/register`, signal, [409], body));
    },
    /** `false` if the table is not as required any more. */
    async commit(change: TableChange, signal?: AbortSignal): Promise<boolean> {
      return isGood(
        await call('POST', table, signal, [409], { identifier: { namespace, name: target.table }, ...change }),
      );
    },
    /** Removes the table from the catalog, and no file. */
    async drop(signal?: AbortSignal): Promise<void> {
      await call('DELETE', `${table}?purgeRequested=false`, signal, [404]);
    },
  };
}

/** After the login: who we are, and the path that the catalog wants: empty, or with a slash at its end. */
async function openSession(target: JobCatalog, base: string, login: CatalogLogin, signal: AbortSignal | undefined) {
  const token = login.token ?? (login.credential && (await fetchToken(target, base, login.credential, signal)));
  const redact = createRedactor([token ?? '', login.credential ?? '']);
  const headers: Record<string, string> = token ? { authorization: `Bearer ${token}` } : {};
  const warehouse = target.warehouse === null ? '' : `?${new URLSearchParams({ warehouse: target.warehouse })}`;
  const url = `${base}/v1/config${warehouse}`;
  const { defaults, overrides } = parse(configSchema, await send('GET', url, { headers, redact }, signal), url);
  const prefix = overrides?.['prefix'] ?? defaults?.['prefix'] ?? '';
  // Part of the path as it is: some catalogs give it with escapes.
  if (!/^[\w.~%!$&'()*+,;=:@/-]*$/.test(prefix) || prefix.includes('..')) {
    const came = `${url} gives the prefix ${JSON.stringify(prefix)}, which cannot be part of a path`;
    throw new Fault('CATALOG_FAILED', came);
  }
  return { prefix: prefix === '' ? '' : `${prefix.replace(/^\/+|\/+$/g, '')}/`, headers, redact };
}

/** OAuth 2 client credentials (RFC 6749, section 4.4). */
async function fetchToken(target: JobCatalog, base: string, credential: string, signal: AbortSignal | undefined) {
  const colon = credential.indexOf(':');
  const form = new URLSearchParams({
    grant_type: 'client_credentials',
    client_id: colon < 0 ? '' : credential.slice(0, colon),
    client_secret: credential.slice(colon + 1),
    scope: target.scope,
  });
  const url = target.oauthUri ?? `${base}/v1/oauth/tokens`;
  const redact = createRedactor([credential, credential.slice(colon + 1)]);
  const headers = { 'content-type': 'application/x-www-form-urlencoded' };
  return parse(tokenSchema, await send('POST', url, { headers, redact }, signal, form.toString()), url).access_token;
}

/** @param session who we are @param allowed statuses that are no failure, besides 2xx */
async function send(
  method: Method,
  url: string,
  { headers, redact }: { readonly headers: Record<string, string>; readonly redact: (text: string) => string },
  signal: AbortSignal | undefined,
  body?: string,
  allowed: readonly number[] = [],
) {
  const timeout = AbortSignal.timeout(TIMEOUT_MS);
  const failed = (what: string, hint: string, cause?: unknown) =>
    new Fault('CATALOG_FAILED', redact(`${method} ${url}: ${what}`), { cause, hint });
  const both = signal ? AbortSignal.any([signal, timeout]) : timeout;
  const request = { method, headers: { ...headers, accept: 'application/json' }, body, signal: both };
  const answer = await sendRequest(url, request)
    .then(async ({ status, body: stream }) => ({ status, body: await readText(stream, MAX_ANSWER_BYTES) }))
    .catch((cause: unknown) => {
      assertNotAborted(signal);
      const reason = timeout.aborted ? `no answer within ${TIMEOUT_MS / 1000} s` : describeError(cause);
      throw failed(reason, 'Check that `drop.catalog.uri` is reachable from here; the next run tries again.', cause);
    });
  const { status } = answer;
  if (isGood(answer) || allowed.includes(status)) return answer;
  const said = (tryParseJson(answer.body) as { error?: { message?: unknown } } | undefined)?.error?.message;
  const text = typeof said === 'string' ? said : answer.body;
  const head = text.replace(/\s+/g, ' ').trim().slice(0, HEAD_CHARACTERS);
  const hint =
    status === 401 || status === 403
      ? 'Check FLOWDROP_CATALOG_TOKEN or FLOWDROP_CATALOG_CREDENTIAL, and the rights of that principal.'
      : status >= 300 && status < 400
        ? 'Redirects are not followed: set `drop.catalog.uri` to the final address.'
        : 'The next run tries again. Check the log of the catalog, and that it may read and write the store.';
  throw failed(`HTTP ${status}${head === '' ? '' : `: ${head}`}`, hint);
}

function isGood({ status }: { readonly status: number }): boolean {
  return status >= 200 && status < 300;
}

function parse<T>(schema: z.ZodType<T>, { body }: Answer, where: string): T {
  const parsed = schema.safeParse(tryParseJson(body));
  if (parsed.success) return parsed.data;
  throw new Fault('CATALOG_FAILED', `${where}: not the answer of an Iceberg REST catalog`, {
    cause: parsed.error,
    hint: 'Set `drop.catalog.uri` to the address before `/v1/config`.',
  });
}

/** Each is lost to another worker that does the same. */
const MAX_TRIES = 5;

/** The catalog writes a metadata file for each commit beside ours, and removes all but the newest. */
const CATALOG_PROPERTIES = {
  'write.metadata.delete-after-commit.enabled': 'true',
  'write.metadata.previous-versions-max': '10',
};

/** In the summary of every snapshot of ours. */
const OWN_MARK = 'flowdrop.date';

/**
 * @returns `none`: there is no table yet; `replaced`: the table was rebuilt, so it was registered again
 * @throws Fault `CATALOG_FAILED`, `CATALOG_CONFLICT`, `TABLE_DAMAGED`; StoreFault
 */
export async function updateCatalog(store: Store, dataset: string, catalog: RestCatalog, signal?: AbortSignal) {
  for (let tries = 0; tries < MAX_TRIES; tries += 1) {
    // The catalog first: whatever it has was in the store before, so a snapshot that is not there now was removed.
    const theirs = await catalog.load(signal);
    const found = await readTable(store, dataset);
    if (found === undefined) return 'none';
    const { metadata } = found;
    const ours = { ...metadata, properties: { ...metadata.properties, ...CATALOG_PROPERTIES } };
    // Not a version of ours, which is removed after some commits: the catalog reads it until its own first commit.
    const register = async () => {
      const bytes = formatMetadata(ours);
      const key = registeredVersionKey(dataset, createHash('sha256').update(bytes).digest('hex').slice(0, 32));
      await store.put(key, { bytes });
      return await catalog.register(locate(store, key), signal);
    };
    if (theirs === undefined) {
      if (await register()) return 'registered';
      continue;
    }
    assertOurs(theirs, ours, catalog.place);
    const change = describeChange(theirs, ours);
    if (change === 'rebuilt') {
      await catalog.drop(signal);
      if (await register()) return 'replaced';
    } else if (change === undefined) return 'current';
    else if (await catalog.commit(change, signal)) return 'committed';
  }
  throw new Fault('CATALOG_CONFLICT', `${catalog.place}: other workers keep changing the table`, {
    hint: 'The drops are sealed; the next run commits them to the catalog.',
  });
}

/** @throws Fault `CATALOG_CONFLICT` */
function assertOurs(theirs: LoadedMetadata, ours: TableMetadata, place: string): void {
  if (theirs['table-uuid'] !== ours['table-uuid']) {
    throw new Fault('CATALOG_CONFLICT', `${place} is another table: it has UUID ${theirs['table-uuid']}`, {
      hint: 'Set another `drop.catalog.table` or `namespace`; or drop that table if it belongs to an earlier location of the store.',
    });
  }
  const foreign = (theirs.snapshots ?? []).find(({ summary }) => summary?.[OWN_MARK] === undefined);
  if (foreign === undefined) return;
  throw new Fault('CATALOG_CONFLICT', `${place} has snapshot ${foreign['snapshot-id']}, which flowdrop did not make`, {
    hint: 'Another program wrote to the table. Drop it from the catalog without purging files; the next run registers it again.',
  });
}

/** What the catalog lacks; `undefined`: nothing; `rebuilt`: it has snapshots that the table does not have any more. */
function describeChange(theirs: LoadedMetadata, ours: TableMetadata): TableChange | 'rebuilt' | undefined {
  const lists = new Map(ours.snapshots.map((one) => [one['snapshot-id'], one['manifest-list']]));
  const isKept = (theirs.snapshots ?? []).every((one) => lists.get(one['snapshot-id']) === one['manifest-list']);
  const at = ours.snapshots.findIndex((one) => one['snapshot-id'] === theirs['current-snapshot-id']);
  if (!isKept || at < 0) return 'rebuilt';
  const last = ours.snapshots.at(-1);
  if (last === undefined || at === ours.snapshots.length - 1) return undefined;
  // Somebody may have taken the table back to an older snapshot; then it has the newer ones already.
  const known = new Set((theirs.snapshots ?? []).map((one) => one['snapshot-id']));
  const missing = ours.snapshots.slice(at + 1).filter((one) => !known.has(one['snapshot-id']));
  // Compared by content: catalogs give schemas numbers of their own.
  const describe = (schema: { readonly fields: readonly Readonly<Record<string, unknown>>[] }) =>
    JSON.stringify(schema.fields.map(({ id, name, type }) => [id, name, type]));
  const described = new Set(theirs.schemas.map(describe));
  const schemas = ours.schemas.filter((schema) => !described.has(describe(schema)));
  const properties = Object.entries(ours.properties).filter(([name, value]) => theirs.properties?.[name] !== value);
  return {
    requirements: [
      { type: 'assert-table-uuid', uuid: ours['table-uuid'] },
      { type: 'assert-ref-snapshot-id', ref: 'main', 'snapshot-id': theirs['current-snapshot-id'] },
    ],
    updates: [
      ...schemas.map((schema) => ({ action: 'add-schema', schema, 'last-column-id': ours['last-column-id'] })),
      // The newest is the current one, and -1 stands for the last one added.
      ...(schemas.length > 0 ? [{ action: 'set-current-schema', 'schema-id': -1 }] : []),
      ...(properties.length > 0 ? [{ action: 'set-properties', updates: Object.fromEntries(properties) }] : []),
      ...missing.map((snapshot) => ({ action: 'add-snapshot', snapshot })),
      { action: 'set-snapshot-ref', 'ref-name': 'main', type: 'branch', 'snapshot-id': last['snapshot-id'] },
    ],
  };
}
