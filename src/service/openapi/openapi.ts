/**
 * Builds the interface description, OpenAPI 3.1, from the zod schemas that validate requests and from the endpoints'
 * operations. Pure.
 */
import { z } from 'zod';
import { EARLIEST_DATE, MINIMUM_DATA_DELAY_MINUTES } from '../../api-contract/published-limits.ts';
import { SESSION_COOKIE } from '../access/login-session.ts';
import type { Examples, HeaderName, Operation, OperationResponse } from './openapi-operation.ts';
import { SCHEMAS, type SchemaName } from './openapi-schemas.ts';

export interface OpenApiOptions {
  /** The operations of all endpoints, at both addresses. */
  readonly operations: readonly Operation[];
  /** Program version. The interface has its own version. */
  readonly version: string;
  /** Base URL of the separate entry point. Default: a variable that the reader of the document fills in. */
  readonly portalUrl?: string;
  /** Days back that active subscriptions see; `undefined`: all dates. */
  readonly lookbackDays: number | undefined;
}

/** The interface version given in the specification. */
const INTERFACE_VERSION = '1.0.0';
const DEFAULT_PORTAL_URL = 'http://127.0.0.1:8101';

const SNAPSHOTS = 'Snapshots';

const TAGS = [
  { name: 'Historical SQL', description: 'SELECT over individual option trades, at least 15 minutes old.' },
  { name: SNAPSHOTS, description: 'Option chain and market structure, as of an instant.' },
  { name: 'Session', description: 'A cookie in place of a key.' },
  { name: 'Service', description: 'For operators and tools; no key needed.' },
] as const;

const SECURITY_SCHEMES = {
  bearer: {
    type: 'http',
    scheme: 'bearer',
    description: 'The API key, which begins with cus_ or apikey_, in the Authorization header.',
  },
  session: {
    type: 'apiKey',
    in: 'cookie',
    name: SESSION_COOKIE,
    description: 'The cookie that POST /api/session sets. The POST endpoints of the main address then need no api_key.',
  },
} as const;

const HEADERS = {
  'Retry-After': {
    description: 'Seconds to wait before the next request.',
    schema: { type: 'integer', minimum: 0 },
  },
  Allow: { description: 'The methods that are allowed here.', schema: { type: 'string' } },
  'Set-Cookie': { description: 'The cookie of the session, or its end.', schema: { type: 'string' } },
  'X-Service-Historical-Sql-Minimum-Data-Delay-Minutes': {
    description: 'Visible trades are at least this old.',
    schema: { type: 'integer', const: MINIMUM_DATA_DELAY_MINUTES },
  },
} as const satisfies Readonly<Record<HeaderName, object>>;

function describeInterface({ operations, lookbackDays }: OpenApiOptions): string {
  const hasSnapshots = operations.some(({ tag }) => tag === SNAPSHOTS);
  const products = hasSnapshots
    ? 'Historical option trades over SQL, option chain snapshots and market structure (dealer gamma exposure).'
    : 'Historical option trades over SQL.';
  const keys = hasSnapshots
    ? 'Three ways to authenticate: an API key as the member `api_key` of the body (the POST endpoints), an API key in the ' +
      'Authorization header (market structure), or the cookie of a session (the POST endpoints).'
    : 'Two ways to authenticate: an API key as the member `api_key` of the body, or the cookie of a session.';
  const dates =
    lookbackDays === undefined
      ? 'every date of the archive is visible'
      : `active subscriptions see the last ${lookbackDays} days, measured at execution; data starts on ${EARLIEST_DATE}`;
  const limits =
    `Limits of historical SQL: trades are at least ${MINIMUM_DATA_DELAY_MINUTES} minutes old; ${dates}; one request per ` +
    'second and key, both entry points together.';
  return [products, keys, limits].join('\n\n');
}

/** The whole document, ready for `JSON.stringify`. */
export function buildOpenApi(options: OpenApiOptions): object {
  const { operations, version, portalUrl } = options;
  const paths: Record<string, Record<string, unknown>> = {};
  for (const operation of operations) {
    const path = operation.path.replace(/:(\w+)/g, '{$1}');
    paths[path] = {
      ...paths[path],
      ...(operation.address === 'portal' ? { servers: [describePortal(portalUrl)] } : {}),
      [operation.method.toLowerCase()]: describeOperation(operation),
    };
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Options Data API',
      version: INTERFACE_VERSION,
      description: describeInterface(options),
      'x-flowdrop-version': version,
    },
    servers: [{ url: '/', description: 'The main address: the one that this document comes from.' }],
    tags: TAGS.filter(({ name }) => operations.some(({ tag }) => tag === name)),
    paths,
    components: {
      schemas: describeSchemas(operations),
      headers: HEADERS,
      securitySchemes: SECURITY_SCHEMES,
    },
  };
}

function describePortal(url: string | undefined): object {
  const description = 'The separate address of the second historical SQL entry point.';
  if (url !== undefined) return { url, description };
  return { url: '{portal_url}', description, variables: { portal_url: { default: DEFAULT_PORTAL_URL } } };
}

function describeOperation(operation: Operation): object {
  const { operationId, summary, description, tag, security, request, responses } = operation;
  const parameters = [
    ...describeParameters('path', operation.pathParameters),
    ...describeParameters('query', operation.queryParameters),
  ];
  return {
    operationId,
    summary,
    description,
    tags: [tag],
    // OpenAPI has no scheme for a key in the body: it becomes the empty requirement `{}`. An empty list: no key needed.
    security: security.map((scheme) => (scheme === 'body' ? {} : { [scheme]: [] })),
    ...(parameters.length > 0 ? { parameters } : {}),
    ...(request ? { requestBody: { required: true, content: describeContent(request) } } : {}),
    responses: Object.fromEntries(responses.map((response) => [String(response.status), describeResponse(response)])),
  };
}

function describeResponse({ description, headers, schema, examples, contentType }: OperationResponse): object {
  const media = { contentTypes: [contentType ?? 'application/json'], schema, ...(examples ? { examples } : {}) };
  return {
    description,
    ...(headers
      ? { headers: Object.fromEntries(headers.map((name) => [name, { $ref: `#/components/headers/${name}` }])) }
      : {}),
    content: describeContent(media),
  };
}

interface Media {
  readonly contentTypes: readonly string[];
  readonly schema: SchemaName | readonly SchemaName[];
  readonly examples?: Examples;
}

function describeContent({ contentTypes, schema, examples }: Media): object {
  const references = [schema].flat().map((name) => ({ $ref: refer(name) }));
  const media = {
    schema: references.length === 1 ? references[0] : { anyOf: references },
    ...(examples
      ? { examples: Object.fromEntries(Object.entries(examples).map(([name, value]) => [name, { value }])) }
      : {}),
  };
  return Object.fromEntries(contentTypes.map((type) => [type, media]));
}

function describeParameters(place: 'path' | 'query', parameters: z.ZodObject | undefined): readonly object[] {
  if (!parameters) return [];
  const json: z.core.JSONSchema.BaseSchema = z.toJSONSchema(parameters, { io: 'input', override: simplify });
  const { properties = {}, required = [] } = json;
  return Object.entries(properties).map(([name, property]) => {
    const { description, ...schema } = property as z.core.JSONSchema.BaseSchema; // zod makes no `true` or `false` here.
    return { name, in: place, required: required.includes(name), ...(description ? { description } : {}), schema };
  });
}

/** The schemas that the operations refer to, and those that these refer to. */
function describeSchemas(operations: readonly Operation[]): object {
  const registry = z.registry<{ id: string }>();
  for (const [id, schema] of Object.entries(SCHEMAS)) registry.add(schema, { id });
  const { schemas } = z.toJSONSchema(registry, { uri: refer, io: 'input', override: simplify });
  const named = operations.flatMap(({ request, responses }) => [
    ...(request ? [request.schema] : []),
    ...responses.flatMap(({ schema }) => schema),
  ]);
  const used = new Set<string>(named);
  // A set also yields what is added while it is walked.
  for (const name of used) {
    const text = JSON.stringify(schemas[name]);
    for (const other of Object.keys(schemas)) if (text.includes(`"${refer(other)}"`)) used.add(other);
  }
  return Object.fromEntries(
    Object.entries(schemas)
      .filter(([id]) => used.has(id))
      .map(([id, schema]) => [id, dropMeta(schema)]),
  );
}

/** Removes members that belong in a standalone schema document but not in a component. */
function dropMeta<T extends { $schema?: unknown; $id?: unknown }>(schema: T): Omit<T, '$schema' | '$id'> {
  const { $schema, $id, ...rest } = schema;
  return rest;
}

/** Removes redundant limits: a pattern that repeats the format, and JavaScript's bounds of exact integers. */
function simplify({ jsonSchema }: { readonly jsonSchema: z.core.JSONSchema.BaseSchema }): void {
  if (jsonSchema.format !== undefined) delete jsonSchema.pattern;
  if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
  if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
}

function refer(name: string): string {
  return `#/components/schemas/${name}`;
}
