/**
 * Routes for operators: health, metrics, and the interface description, OpenAPI 3.1, which is built from the routes and the
 * zod schemas that validate their requests; a schema with an id is a component. They use no engine.
 */
import { z } from 'zod';
import { EARLIEST_DATE, MINIMUM_DATA_DELAY_MINUTES } from '../../api-contract/published-limits.ts';
import type { Clock } from '../../core/clock.ts';
import { SESSION_COOKIE } from '../access/login-session.ts';
import type { Backend } from '../backend.ts';
import type { Described, HeaderName, Route } from './route.ts';
import type { ServiceMetrics } from './service-metrics.ts';

const healthSchema = z
  .looseObject({ status: z.string().describe('ok when requests are answered.') })
  .describe('State of the service; further members are for operators.')
  .meta({ id: 'Health' });
const metricsSchema = z.string().describe('Prometheus text exposition format.').meta({ id: 'Metrics' });
const descriptionSchema = z
  .looseObject({ openapi: z.string().describe('Version of OpenAPI.') })
  .describe('This document.')
  .meta({ id: 'Description' });

const OPERATION = { method: 'GET', tag: 'Service', security: [] } as const;

/** GET /healthz: answers in any state of the engines. */
export function createHealth({ pool, rows }: Backend, clock: Clock): Route {
  return {
    ...OPERATION,
    name: 'healthz',
    operationId: 'readHealth',
    path: '/healthz',
    summary: 'State of the service',
    description: 'Answers 200 as soon as requests are answered.',
    success: { description: 'The service answers requests.', schema: healthSchema },
    answer: async () => {
      const time = new Date(clock.now()).toISOString();
      const health = { status: 'ok', rows, time, engines: pool.size, waiting: pool.waiting };
      return { body: JSON.stringify(health) };
    },
  };
}

/** GET /metrics: the Prometheus text format. */
export function createMetrics(metrics: ServiceMetrics): Route {
  return {
    ...OPERATION,
    name: 'metrics',
    operationId: 'readMetrics',
    path: '/metrics',
    summary: 'Metrics for Prometheus',
    description: 'Counts and durations of requests, state of the engines, process.',
    success: { description: 'The metrics.', schema: metricsSchema, contentType: 'text/plain' },
    answer: async () => ({ body: await metrics.text(), contentType: metrics.contentType }),
  };
}

/** GET /openapi.json: the interface description, which does not change while the service runs. */
export function createInterface(others: readonly Route[], options: InterfaceOptions): Route {
  const route: Route = {
    ...OPERATION,
    name: 'openapi',
    operationId: 'readDescription',
    path: '/openapi.json',
    summary: 'This description',
    description: 'OpenAPI 3.1, made from the schemas that validate requests.',
    success: { description: 'The description.', schema: descriptionSchema },
    answer: async () => ({ body }),
  };
  const body = JSON.stringify(buildOpenApi([...others, route], options));
  return route;
}

interface InterfaceOptions {
  /** Program version. The interface has its own version. */
  readonly version: string;
  /** Base URL of the separate entry point. */
  readonly portalUrl: string;
  /** Days back that active subscriptions see; `undefined`: all dates. */
  readonly lookbackDays: number | undefined;
}

/** The interface version given in the specification. */
const INTERFACE_VERSION = '1.0.0';

const JSON_TYPE = 'application/json';
const REQUEST_TYPES = [JSON_TYPE, 'application/x-www-form-urlencoded'];
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

/** Headers of failures, by status. */
const FAILURE_HEADERS: Readonly<Record<string, readonly HeaderName[]>> = {
  405: ['Allow'],
  429: ['Retry-After'],
  503: ['Retry-After'],
};

function describeInterface(hasSnapshots: boolean, lookbackDays: number | undefined): string {
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

/** The whole document, ready for `JSON.stringify`. @param routes those of both addresses */
function buildOpenApi(routes: readonly Route[], { version, portalUrl, lookbackDays }: InterfaceOptions): object {
  const hasTag = (name: Route['tag']) => routes.some(({ tag }) => tag === name);
  const portal = { url: portalUrl, description: 'The separate address of the second historical SQL entry point.' };
  const paths: Record<string, Record<string, unknown>> = {};
  for (const route of routes) {
    const path = route.path.replace(/:(\w+)/g, '{$1}');
    paths[path] = {
      ...paths[path],
      ...(route.isPortal ? { servers: [portal] } : {}),
      [route.method.toLowerCase()]: describeOperation(route),
    };
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Options Data API',
      version: INTERFACE_VERSION,
      description: describeInterface(hasTag(SNAPSHOTS), lookbackDays),
      'x-flowdrop-version': version,
    },
    servers: [{ url: '/', description: 'The main address: the one that this document comes from.' }],
    tags: TAGS.filter(({ name }) => hasTag(name)),
    paths,
    components: {
      schemas: listComponents(JSON.stringify(paths)),
      headers: HEADERS,
      securitySchemes: SECURITY_SCHEMES,
    },
  };
}

function describeOperation(route: Route): object {
  const { operationId, summary, description, tag, security, request, success, failures = {} } = route;
  const parameters = [
    ...describeParameters('path', route.pathParameters),
    ...describeParameters('query', route.queryParameters),
  ];
  const failed = Object.entries(failures).map(([status, text]) => {
    const failure = typeof text === 'string' ? { description: text } : text;
    return [status, describeResponse({ schema: route.failureSchema, ...failure }, FAILURE_HEADERS[status])];
  });
  return {
    operationId,
    summary,
    description,
    tags: [tag],
    // OpenAPI has no scheme for a key in the body: it becomes the empty requirement `{}`. An empty list: no key needed.
    security: security.map((scheme) => (scheme === 'body' ? {} : { [scheme]: [] })),
    parameters: parameters.length > 0 ? parameters : undefined,
    requestBody: request && { required: true, content: describeContent(REQUEST_TYPES, [request]) },
    responses: {
      200: describeResponse(success, success.headers, success.contentType),
      ...Object.fromEntries(failed),
    },
  };
}

function describeResponse(response: Described, headers: readonly HeaderName[] = [], type: string = JSON_TYPE): object {
  const references = headers.map((name) => [name, { $ref: `#/components/headers/${name}` }]);
  return {
    description: response.description,
    headers: headers.length > 0 ? Object.fromEntries(references) : undefined,
    content: describeContent([type], [response.schema ?? []].flat()),
  };
}

function describeContent(types: readonly string[], schemas: readonly z.ZodType[]): object {
  const references = schemas.map((named) => ({ $ref: refer(z.globalRegistry.get(named)?.id ?? '') }));
  const media = { schema: references.length === 1 ? references[0] : { anyOf: references } };
  return Object.fromEntries(types.map((type) => [type, media]));
}

function describeParameters(place: 'path' | 'query', parameters: z.ZodObject | undefined): readonly object[] {
  if (!parameters) return [];
  const json: z.core.JSONSchema.BaseSchema = z.toJSONSchema(parameters, { io: 'input', override: simplify });
  const { properties = {}, required = [] } = json;
  return Object.entries(properties).map(([name, property]) => {
    const { description, ...schema } = property as z.core.JSONSchema.BaseSchema; // zod makes no `true` or `false` here.
    return { name, in: place, required: required.includes(name), description, schema };
  });
}

/** The schemas that the text refers to, and those that these refer to. */
function listComponents(text: string): object {
  const { schemas } = z.toJSONSchema(z.globalRegistry, { uri: refer, io: 'input', override: simplify });
  const used: Record<string, object> = {};
  const texts = [text];
  // A list also yields what is added while it is walked.
  for (const referring of texts) {
    for (const [id, { $schema, $id, ...schema }] of Object.entries(schemas)) {
      if (id in used || !referring.includes(`"${refer(id)}"`)) continue;
      used[id] = schema;
      texts.push(JSON.stringify(schema));
    }
  }
  return used;
}

/** Removes redundant limits: a pattern that repeats the format, and JavaScript's bounds of exact integers. */
function simplify({ jsonSchema }: { readonly jsonSchema: z.core.JSONSchema.BaseSchema }): void {
  delete jsonSchema['id'];
  if (jsonSchema.format !== undefined) delete jsonSchema.pattern;
  if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
  if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
}

function refer(name: string): string {
  return `#/components/schemas/${name}`;
}
