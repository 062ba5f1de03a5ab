/** The OpenAPI document of the JSON API, made of the same schemas as its answers. */
import { z } from 'zod';
import { actionAnswerSchema, actionRequestSchema, errorSchema, runQuerySchema } from '../shapes.ts';

export interface DescribedRoute {
  readonly summary: string;
  readonly answer: z.ZodType;
  /** Names of parameters, with what they mean. */
  readonly query?: Readonly<Record<string, string>>;
}

/** @param routes by address; `{job}` and the like are parts of it @param version of the program */
export function describeApi(routes: Readonly<Record<string, DescribedRoute>>, version: string): unknown {
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
    paths: Object.fromEntries(Object.entries(routes).map(([path, route]) => [path, describePath(path, route)])),
    components: { securitySchemes: { token: { type: 'http', scheme: 'bearer' } } },
  };
}

function describePath(path: string, { summary, answer, query = {} }: DescribedRoute) {
  const words = path.replace('/api/', '').split(/[/{}]+/);
  const parts = [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => ({
    name,
    in: 'path',
    description: `the ${name}`,
    required: true,
    schema: { type: 'string' },
  }));
  const queries = Object.entries(query).map(([name, description]) => {
    const known = Object.entries(runQuerySchema.shape).find(([key]) => key === name)?.[1];
    const schema = known ? toSchema(known, 'input') : { type: 'string' };
    return { name, in: 'query', description, required: false, schema };
  });
  const get = {
    summary,
    operationId: `read${words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join('')}`,
    parameters: [...parts, ...queries],
    responses: { 200: describeAnswer('the document', answer), ...FAILURES },
  };
  return path === '/api/actions' ? { get, post: ACT } : { get };
}

const FAILURES = {
  400: describeAnswer('a parameter is wrong', errorSchema),
  401: describeAnswer('the token is missing or wrong', errorSchema),
  403: describeAnswer('not allowed', errorSchema),
  404: describeAnswer('not found', errorSchema),
};

const ACT = {
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

function describeAnswer(description: string, schema: z.ZodType) {
  return { description, content: { 'application/json': { schema: toSchema(schema) } } };
}

function toSchema(schema: z.ZodType, io: 'input' | 'output' = 'output') {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io });
  return rest;
}
