/**
 * A client of an Iceberg REST catalog, as far as a worker needs one: load, register, commit and drop one table.
 * Source: apache/iceberg, `open-api/rest-catalog-open-api.yaml`. Invariant: each call is one attempt with a timeout, and an
 * error shows neither the token nor the credential; what to do about it is the caller's decision.
 */
import { z } from 'zod';
import { tryParseJson } from '../core/atomic-file.ts';
import { assertNotAborted, describeError, Fault } from '../core/errors.ts';
import { sendRequest } from '../core/http.ts';
import { readText } from '../core/http-listener.ts';
import { createRedactor } from '../core/redact.ts';
import type { JobCatalog } from '../job/job.ts';

/** A catalog writes a metadata file to the store before it answers. */
const TIMEOUT_MS = 60_000;
/** Metadata of ten years with a copy of each commit; more is no answer of a catalog. */
const MAX_ANSWER_BYTES = 64_000_000;
/** Characters of an answer that an error shows. */
const HEAD_CHARACTERS = 300;
/** Separates the parts of a namespace in a path. */
const PART_SEPARATOR = '\u001f';

type Method = 'GET' | 'POST' | 'DELETE';

/** How callers prove who they are: a token as it is, or `id:secret` of OAuth 2 client credentials. */
interface CatalogLogin {
  readonly token?: string | undefined;
  readonly credential?: string | undefined;
}

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
export type LoadedMetadata = z.infer<typeof loadedSchema>['metadata'];

export interface TableChangeRequest {
  readonly requirements: readonly object[];
  readonly updates: readonly object[];
}

interface Answer {
  readonly status: number;
  readonly body: string;
}

/** What is known after the login: the path that the catalog wants, and who we are. */
interface Session {
  /** Empty, or with a slash at its end. */
  readonly prefix: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly redact: (text: string) => string;
}

export type RestCatalog = ReturnType<typeof openRestCatalog>;

/** One table of a catalog; sends nothing before the first call. Every method throws Fault `CATALOG_FAILED`, or an interruption. */
export function openRestCatalog(target: JobCatalog, login: CatalogLogin) {
  const base = target.uri.replace(/\/+$/, '');
  const namespace = target.namespace.split('.');
  let known: Promise<Session> | undefined;

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
    const type = body && { 'content-type': 'application/json' };
    const request = { headers: { ...headers, ...type }, body: body && JSON.stringify(body), signal, redact, allowed };
    return await send(method, `${base}/v1/${prefix}${path}`, request);
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
    async commit(change: TableChangeRequest, signal?: AbortSignal): Promise<boolean> {
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

async function openSession(
  target: JobCatalog,
  base: string,
  login: CatalogLogin,
  signal: AbortSignal | undefined,
): Promise<Session> {
  const token = login.token ?? (login.credential && (await fetchToken(target, base, login.credential, signal)));
  const redact = createRedactor([token ?? '', login.credential ?? '']);
  const headers: Readonly<Record<string, string>> = token ? { authorization: `Bearer ${token}` } : {};
  const warehouse = target.warehouse === null ? '' : `?${new URLSearchParams({ warehouse: target.warehouse })}`;
  const url = `${base}/v1/config${warehouse}`;
  const { defaults, overrides } = parse(configSchema, await send('GET', url, { headers, signal, redact }), url);
  const prefix = overrides?.['prefix'] ?? defaults?.['prefix'] ?? '';
  // Part of the path as it is: some catalogs give it with escapes.
  if (!/^[\w.~%!$&'()*+,;=:@/-]*$/.test(prefix) || prefix.includes('..')) {
    const came = `${url} gives the prefix ${JSON.stringify(prefix)}, which cannot be part of a path`;
    throw new Fault('CATALOG_FAILED', came);
  }
  return { prefix: prefix === '' ? '' : `${prefix.replace(/^\/+|\/+$/g, '')}/`, headers, redact };
}

/** OAuth 2 client credentials (RFC 6749, section 4.4). */
async function fetchToken(
  target: JobCatalog,
  base: string,
  credential: string,
  signal: AbortSignal | undefined,
): Promise<string> {
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
  return parse(tokenSchema, await send('POST', url, { headers, body: form.toString(), signal, redact }), url)
    .access_token;
}

interface Outgoing extends Omit<Session, 'prefix'> {
  readonly body?: string | undefined;
  readonly signal: AbortSignal | undefined;
  readonly allowed?: readonly number[];
}

async function send(method: Method, url: string, outgoing: Outgoing): Promise<Answer> {
  const { headers, body, signal, redact, allowed = [] } = outgoing;
  const timeout = AbortSignal.timeout(TIMEOUT_MS);
  let answer: Answer;
  try {
    const both = signal ? AbortSignal.any([signal, timeout]) : timeout;
    const request = { method, headers: { ...headers, accept: 'application/json' }, body, signal: both };
    const { status, body: stream } = await sendRequest(url, request);
    answer = { status, body: await readText(stream, MAX_ANSWER_BYTES) };
  } catch (cause) {
    assertNotAborted(signal);
    const reason = timeout.aborted ? `no answer within ${TIMEOUT_MS / 1000} s` : describeError(cause);
    throw new Fault('CATALOG_FAILED', redact(`${method} ${url}: ${reason}`), {
      cause,
      hint: 'Check that `drop.catalog.uri` is reachable from here; the next run tries again.',
    });
  }
  if (isGood(answer) || allowed.includes(answer.status)) return answer;
  throw refused(method, url, answer, redact);
}

function isGood({ status }: Answer): boolean {
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

function refused(method: string, url: string, { status, body }: Answer, redact: (text: string) => string): Fault {
  const said = (tryParseJson(body) as { error?: { message?: unknown } } | undefined)?.error?.message;
  const text = typeof said === 'string' ? said : body;
  const head = text.replace(/\s+/g, ' ').trim().slice(0, HEAD_CHARACTERS);
  const hint =
    status === 401 || status === 403
      ? 'Check FLOWDROP_CATALOG_TOKEN or FLOWDROP_CATALOG_CREDENTIAL, and the rights of that principal.'
      : status >= 300 && status < 400
        ? 'Redirects are not followed: set `drop.catalog.uri` to the final address.'
        : 'The next run tries again. Check the log of the catalog, and that it may read and write the store.';
  const came = `${method} ${url}: HTTP ${status}${head === '' ? '' : `: ${head}`}`;
  return new Fault('CATALOG_FAILED', redact(came), { hint });
}
