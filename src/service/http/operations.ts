/** The endpoints for those who run the service: is it there, how does it do, what does it offer. They ask no engine. */
import type { Clock } from '../../core/clock.ts';
import type { EnginePool } from '../../engine/pool.ts';
import type { Dataset } from '../dataset.ts';
import { buildOpenApi, type OpenApiOptions } from '../openapi/openapi.ts';
import { READ_DESCRIPTION, READ_HEALTH, READ_METRICS } from '../openapi/openapi-service.ts';
import type { Endpoint } from './endpoint.ts';
import type { ServiceMetrics } from './service-metrics.ts';

interface OperationParts {
  readonly pool: EnginePool;
  readonly dataset: Dataset;
  readonly clock: Clock;
  /** Failures in the shape of the main entry point. */
  readonly fail: Endpoint['fail'];
}

/** GET /healthz: answered whatever the engines do. */
export function createHealth({ pool, dataset, clock, fail }: OperationParts): Endpoint {
  return {
    name: 'healthz',
    operation: READ_HEALTH,
    answer: async () => {
      const health = {
        status: 'ok',
        rows: dataset.rows,
        time: new Date(clock.now()).toISOString(),
        engines: pool.size,
        waiting: pool.waiting,
      };
      return { status: 200, headers: {}, body: Buffer.from(JSON.stringify(health)) };
    },
    fail,
  };
}

/** GET /metrics: the text format of Prometheus. */
export function createMetrics(metrics: ServiceMetrics, fail: Endpoint['fail']): Endpoint {
  return {
    name: 'metrics',
    operation: READ_METRICS,
    answer: async () => ({
      status: 200,
      headers: {},
      body: Buffer.from(await metrics.text()),
      contentType: metrics.contentType,
    }),
    fail,
  };
}

/** GET /openapi.json: the interface description, which does not change while the service runs. */
export function createInterface({ operations, ...options }: OpenApiOptions, fail: Endpoint['fail']): Endpoint {
  const all = [...operations, READ_DESCRIPTION];
  const body = Buffer.from(JSON.stringify(buildOpenApi({ ...options, operations: all })));
  return {
    name: 'openapi',
    operation: READ_DESCRIPTION,
    answer: async () => ({ status: 200, headers: {}, body }),
    fail,
  };
}
