/** Routes for operators: health, metrics, and the interface description. They use no engine. */
import { z } from 'zod';
import type { Clock } from '../../core/clock.ts';
import type { Backend } from '../backend.ts';
import { buildOpenApi, type InterfaceOptions } from './openapi.ts';
import type { Route } from './route.ts';
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
export function createHealth({ pool, dataset }: Backend, clock: Clock): Route {
  return {
    ...OPERATION,
    name: 'healthz',
    operationId: 'readHealth',
    path: '/healthz',
    summary: 'State of the service',
    description: 'Answers 200 as soon as requests are answered.',
    success: {
      description: 'The service answers requests.',
      schema: healthSchema,
      examples: { ok: { status: 'ok' } },
    },
    answer: async () => {
      const time = new Date(clock.now()).toISOString();
      const health = { status: 'ok', rows: dataset.rows, time, engines: pool.size, waiting: pool.waiting };
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
