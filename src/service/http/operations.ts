/** Endpoints for operators: health, metrics, and the interface description. They use no engine. */
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
  /** Formats failures as at the main entry point. */
  readonly fail: Endpoint['fail'];
}

/** GET /healthz: answers in any state of the engines. */
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

/** GET /metrics: the Prometheus text format. */
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
