/** The JSON API: each address with its document and its description, everything else with an error in one shape. */
import { z } from 'zod';
import { answerJson, type PageAnswer } from './answer.ts';
import type { ApiReader } from './api-reader.ts';
import {
  actionAnswerSchema,
  actionLogSchema,
  actionRequestSchema,
  dropDetailSchema,
  errorSchema,
  jobSchema,
  jobsSchema,
  logSchema,
  reportsSchema,
  runQuerySchema,
  runSchema,
  runsSchema,
} from './api-shape.ts';
import { splitPath } from './page-path.ts';

type Words = Readonly<Record<string, string>>;

interface Operation {
  readonly summary: string;
  readonly answer: z.ZodType;
  readonly query?: Words;
  /** `undefined` if there is none. @param parts those of the address, by name @throws z.ZodError, Fault */
  read(api: ApiReader, parts: Words, query: Words): Promise<unknown>;
}

/** What can be read, by address; `{job}` and the like are parts of it. */
const OPERATIONS: Readonly<Record<string, Operation>> = {
  '/api/jobs': {
    summary: 'All jobs, with problems and the last sessions of each',
    answer: jobsSchema,
    read: (api) => api.jobs(),
  },
  '/api/jobs/{job}': {
    summary: 'One job: all dates, last runs, reports, progress',
    answer: jobSchema,
    read: async (api, { job = '' }) => (await api.job(job))?.document,
  },
  '/api/runs': {
    summary: 'Runs of this machine, newest first',
    answer: runsSchema,
    query: {
      job: 'only of this job',
      command: 'only of this command',
      outcome: 'only with this outcome, or `running`',
      before: '`next` of an answer: older runs',
      limit: 'maximum number of runs, 1 to 500',
    },
    read: (api, _, query) => api.runs(runQuerySchema.parse(query)),
  },
  '/api/runs/{job}/{run}': {
    summary: 'One run with its windows',
    answer: runSchema,
    read: (api, { job = '', run = '' }) => api.run(job, run),
  },
  '/api/runs/{job}/{run}/log': {
    summary: 'The last lines of a log',
    answer: logSchema,
    query: { level: 'minimum level: info, warn, error', text: 'only lines that contain this text' },
    read: (api, { job = '', run = '' }, query) => api.log(job, run, query),
  },
  '/api/drops/{job}/{date}': {
    summary: 'One drop: manifest, revisions, checks, audit',
    answer: dropDetailSchema,
    query: { rows: '1: also the first rows, and sums by symbol' },
    read: (api, { job = '', date = '' }, { rows }) => api.drop(job, date, rows === '1'),
  },
  '/api/reports': {
    summary: 'Archived reports, newest first',
    answer: reportsSchema,
    query: { job: 'only of this job', from: 'first date', to: 'last date' },
    read: async (api, _, query) => ({ reports: await api.reports(query) }),
  },
  '/api/actions': {
    summary: 'What was done on the page, newest first',
    answer: actionLogSchema,
    read: async (api) => ({ actions: await api.actions() }),
  },
};

/** For reading. @param path begins with `/api/` @throws Fault */
export async function answerApi(api: ApiReader, path: string, query: URLSearchParams): Promise<PageAnswer> {
  if (path === '/api/openapi.json') return answerJson(200, describeApi((await api.look()).version));
  const given = splitPath(path);
  for (const [address, { read }] of Object.entries(OPERATIONS)) {
    const parts = matchAddress(address.slice(1).split('/'), given);
    if (!parts) continue;
    try {
      const document = await read(api, parts, Object.fromEntries([...query].filter(([, value]) => value !== '')));
      return document === undefined
        ? refuse(404, 'NOT_FOUND', 'there is none of that name')
        : answerJson(200, document);
    } catch (error) {
      if (!(error instanceof z.ZodError)) throw error;
      const [issue] = error.issues;
      return refuse(400, 'PARAMETER_INVALID', `${issue?.path.join('.')}: ${issue?.message}`);
    }
  }
  return refuse(404, 'NOT_FOUND', 'there is no such address; /api/openapi.json lists them');
}

/** The named parts; `undefined` if it is another address. */
function matchAddress(names: readonly string[], given: readonly string[]): Words | undefined {
  const isSame = names.every((name, at) => (name.startsWith('{') ? Boolean(given[at]) : name === given[at]));
  if (!isSame || names.length !== given.length) return undefined;
  return Object.fromEntries(names.map((name, at) => [name.replace(/[{}]/g, ''), given[at] ?? '']));
}

export function refuse(status: number, code: string, message: string): PageAnswer {
  return answerJson(status, { error: { code, message } });
}

/** @param version of the program */
function describeApi(version: string): unknown {
  const paths = Object.entries(OPERATIONS).map(([path, operation]) => [path, describePath(path, operation)]);
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

function describePath(path: string, { summary, answer, query = {} }: Operation) {
  const parts = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => parameter(name ?? '', 'path', `the ${name}`));
  const queries = Object.entries(query).map(([name, text]) => parameter(name, 'query', text));
  const get = {
    ...{ summary, operationId: nameOperation('read', path), parameters: [...parts, ...queries] },
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
