/**
 * The addresses of the JSON API and of the pages. Each has one document; a page at the same address without `/api` is
 * drawn from it, so that page and API cannot differ. The OpenAPI document is made of the same schemas.
 */
import { z } from 'zod';
import { runLogSchema } from '../../state/run-log.ts';
import { renderActionsPage } from './action-form.ts';
import type { ApiReader } from './api-reader.ts';
import {
  actionAnswerSchema,
  actionLogSchema,
  actionRequestSchema,
  dropDetailSchema,
  errorSchema,
  jobSchema,
  jobsSchema,
  reportsSchema,
  runQuerySchema,
  runSchema,
  runsSchema,
} from './api-shape.ts';
import { renderDropPage } from './drop-page.ts';
import { renderJobPage, renderOverview, renderReportsPage } from './job-page.ts';
import type { PageContext } from './page-frame.ts';
import { answerJson, type PageAnswer, Refusal } from './page-frame.ts';
import { LOG_LEVELS, renderRunPage, renderRunsPage } from './run-page.ts';

type Words = Readonly<Record<string, string>>;

interface Asked {
  readonly api: ApiReader;
  /** Parts of the address, by name. */
  readonly parts: Words;
  /** Without empty values. */
  readonly query: Words;
}

interface Route<S extends z.ZodType = z.ZodType> {
  readonly summary: string;
  readonly answer: S;
  readonly query?: Words;
  /** `undefined` if there is none. @throws z.ZodError, Fault */
  read(asked: Asked): Promise<z.infer<S> | undefined>;
  /** Its page, if it has one. */
  readonly draw?: ((document: z.infer<S>, context: PageContext, asked: Asked) => string | Promise<string>) | undefined;
}

/** By address; `{job}` and the like are parts of it. */
const ROUTES: Readonly<Record<string, Route>> = {
  '/api/jobs': route({
    summary: 'All jobs, with problems and the last sessions of each',
    answer: jobsSchema,
    read: ({ api }) => api.jobs(),
    draw: renderOverview,
  }),
  '/api/jobs/{job}': route({
    summary: 'One job: all dates, last runs, reports, progress',
    answer: jobSchema,
    read: ({ api, parts: { job = '' } }) => api.job(job),
    draw: renderJobPage,
  }),
  '/api/runs': route({
    summary: 'Runs of this machine, newest first',
    answer: runsSchema,
    query: {
      job: 'only of this job',
      command: 'only of this command',
      outcome: 'only with this outcome, or `running`',
      before: '`next` of an answer: older runs',
      limit: 'maximum number of runs, 1 to 500',
    },
    read: async ({ api, query }) => await api.runs(runQuerySchema.parse(query)),
    draw: (document, context, { query }) => renderRunsPage(document, query, context),
  }),
  '/api/runs/{job}/{run}': route({
    summary: 'One run with its windows',
    answer: runSchema,
    read: ({ api, parts: { job = '', run = '' } }) => api.run(job, run),
    async draw(document, context, { api, parts: { job = '', run = '' }, query: { text = '', level: asked } }) {
      const level = LOG_LEVELS.find((each) => each === asked) ?? 'all';
      const log = (await api.log(job, run, { level, text })) ?? { lines: [], size: 0, is_cut: false };
      return renderRunPage(document, log, { level, text }, context);
    },
  }),
  '/api/runs/{job}/{run}/log': route({
    summary: 'The last lines of a log',
    answer: runLogSchema,
    query: { level: 'minimum level: info, warn, error', text: 'only lines that contain this text' },
    read: ({ api, parts: { job = '', run = '' }, query }) => api.log(job, run, query),
  }),
  '/api/drops/{job}/{date}': route({
    summary: 'One drop: manifest, revisions, checks, audit',
    answer: dropDetailSchema,
    query: { rows: '1: also the first rows, and sums by symbol' },
    read: ({ api, parts: { job = '', date = '' }, query }) => api.drop(job, date, query['rows'] === '1'),
    async draw(document, context, { api, parts: { job = '', date = '' } }) {
      return renderDropPage(document, await api.reports({ job, from: date, to: date }), context);
    },
  }),
  '/api/reports': route({
    summary: 'Archived reports, newest first',
    answer: reportsSchema,
    query: { job: 'only of this job', from: 'first date', to: 'last date' },
    read: async ({ api, query }) => ({ reports: await api.reports(query) }),
    draw: (document, context, { query }) => renderReportsPage(document, query, context),
  }),
  '/api/actions': route({
    summary: 'What was done on the page, newest first',
    answer: actionLogSchema,
    read: async ({ api }) => ({ actions: await api.actions() }),
    draw: renderActionsPage,
  }),
};

/** @param path begins with `/api/` @throws Fault, Refusal */
export async function answerApi(api: ApiReader, path: string, query: URLSearchParams): Promise<PageAnswer> {
  if (path === '/api/openapi.json') return answerJson(200, describeApi((await api.look()).version));
  return answerJson(200, (await readRoute(api, path, query)).document);
}

/** @throws Fault, Refusal */
export async function drawPage(
  api: ApiReader,
  path: string,
  query: URLSearchParams,
  context: PageContext,
): Promise<string> {
  const { draw, document, asked } = await readRoute(api, path === '/' ? '/api/jobs' : `/api${path}`, query);
  if (!draw) throw nothingHere();
  return await draw(document, context, asked);
}

/** The parts of an address, decoded; none if one of them is not encoded as it must be: no page has such an address. */
export function splitPath(path: string): readonly string[] {
  try {
    return path.slice(1).split('/').map(decodeURIComponent);
  } catch {
    return [];
  }
}

export function nothingHere(): Refusal {
  const text = 'The status page is at /, beside /healthz and /metrics; /api/openapi.json lists the documents.';
  return new Refusal(404, ['NOT_FOUND', 'Nothing here', text]);
}

async function readRoute(api: ApiReader, path: string, query: URLSearchParams) {
  const given = splitPath(path);
  for (const [address, { read, draw }] of Object.entries(ROUTES)) {
    const parts = matchAddress(address.slice(1).split('/'), given);
    if (!parts) continue;
    const asked = { api, parts, query: Object.fromEntries([...query].filter(([, value]) => value !== '')) };
    const document = await read(asked).catch(refuseParameter);
    if (document === undefined) throw nothingHere();
    return { draw, document, asked };
  }
  throw nothingHere();
}

/** The named parts; `undefined` if it is another address. */
function matchAddress(names: readonly string[], given: readonly string[]): Words | undefined {
  const isSame = names.every((name, at) => (name.startsWith('{') ? Boolean(given[at]) : name === given[at]));
  if (!isSame || names.length !== given.length) return undefined;
  return Object.fromEntries(names.map((name, at) => [name.replace(/[{}]/g, ''), given[at] ?? '']));
}

function refuseParameter(error: unknown): never {
  if (!(error instanceof z.ZodError)) throw error;
  const [issue] = error.issues;
  throw new Refusal(400, ['PARAMETER_INVALID', 'Wrong parameter', `${issue?.path.join('.')}: ${issue?.message}`]);
}

function route<S extends z.ZodType>(row: Route<S>): Route {
  return row as unknown as Route;
}

/** @param version of the program */
function describeApi(version: string): unknown {
  const paths = Object.entries(ROUTES).map(([path, operation]) => [path, describePath(path, operation)]);
  return {
    openapi: '3.1.0',
    info: {
      title: 'flowdrop',
      version,
      description:
        'What the daemon shows and does. Fields may be added; none is renamed or removed. With FLOWDROP_STATUS_TOKEN each request needs it as a bearer token.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/' }],
    security: [{ token: [] }, {}],
    paths: Object.fromEntries(paths),
    components: { securitySchemes: { token: { type: 'http', scheme: 'bearer' } } },
  };
}

function describePath(path: string, { summary, answer, query = {} }: Route) {
  const parts = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => parameter(name ?? '', 'path', `the ${name}`));
  const queries = Object.entries(query).map(([name, text]) => parameter(name, 'query', text));
  const get = {
    summary,
    operationId: nameOperation('read', path),
    parameters: [...parts, ...queries],
    responses: { 200: describeAnswer('the document', answer), ...FAILURES },
  };
  if (path !== '/api/actions') return { get };
  const post = {
    summary: 'Does what a command does: a run, a backfill, a stop. For programs; pages have forms',
    operationId: 'act',
    requestBody: {
      required: true,
      content: { 'application/json': { schema: toSchema(actionRequestSchema, 'input') } },
    },
    responses: {
      ...FAILURES,
      202: describeAnswer('started, or done', actionAnswerSchema),
      409: describeAnswer('refused, with the reason', actionAnswerSchema),
      413: describeAnswer('the body is too large', errorSchema),
      415: describeAnswer('the body is not JSON', errorSchema),
      502: describeAnswer('it failed, with the reason', actionAnswerSchema),
    },
  };
  return { get, post };
}

const FAILURES = {
  400: describeAnswer('a parameter is wrong', errorSchema),
  401: describeAnswer('the token is missing or wrong', errorSchema),
  403: describeAnswer('not allowed', errorSchema),
  404: describeAnswer('not found', errorSchema),
};

function describeAnswer(description: string, schema: z.ZodType) {
  return { description, content: { 'application/json': { schema: toSchema(schema) } } };
}

function parameter(name: string, place: 'path' | 'query', description: string) {
  const known = Object.entries(runQuerySchema.shape).find(([key]) => key === name && place === 'query')?.[1];
  const schema = known ? toSchema(known, 'input') : { type: 'string' };
  return { name, in: place, description, required: place === 'path', schema };
}

function toSchema(schema: z.ZodType, io: 'input' | 'output' = 'output') {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io });
  return rest;
}

function nameOperation(verb: string, path: string): string {
  const words = path.replace('/api/', '').split(/[/{}]+/);
  return verb + words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join('');
}
