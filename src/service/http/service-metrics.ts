/**
 * The service's own metrics, for Prometheus. Invariant: labels are names, statuses and error codes of the program, never
 * caller input: no key, symbol or SQL can become a series. Each service has its own registry.
 */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { EnginePool } from '../../engine/pool.ts';
import type { Backend } from '../backend.ts';

/** One answered request. */
interface RequestMeasure {
  /** The route's name. */
  readonly endpoint: string;
  readonly status: number;
  /** The error code of a failure. */
  readonly errorCode: string | undefined;
  /** From the head of the request to the last byte of the answer. */
  readonly seconds: number;
  /** Rows in the body; 0 for a failure. */
  readonly rows: number;
  /** Bytes of the body before compression. */
  readonly bytes: number;
}

type WatchedBackend = Pick<Backend, 'rows'> & { readonly pool: Pick<EnginePool, 'running' | 'size' | 'waiting'> };

/** From a cached answer to a query time-out. */
const DURATION_BUCKETS_SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

export type ServiceMetrics = ReturnType<typeof createServiceMetrics>;

/** @param version of the program */
export function createServiceMetrics(version: string) {
  const registry = new Registry();
  const registers = [registry];
  const count = <Label extends string>(name: string, help: string, ...labelNames: Label[]) =>
    new Counter({ name: `flowdrop_service_${name}_total`, help, labelNames, registers });
  const measure = (name: string, help: string, read: () => number) =>
    new Gauge({
      name: `flowdrop_service_${name}`,
      help,
      registers,
      collect() {
        this.set(read());
      },
    });
  const durations = new Histogram({
    name: 'flowdrop_service_request_duration_seconds',
    help: 'Time from the head of a request to the last byte of its answer.',
    labelNames: ['endpoint', 'status'],
    buckets: DURATION_BUCKETS_SECONDS,
    registers,
  });
  const errors = count('errors', 'Failed requests by error code of the API.', 'endpoint', 'error_code');
  const answeredRows = count('response_rows', 'Rows in answers.', 'endpoint');
  const answeredBytes = count('response_bytes', 'Bytes of answer bodies before compression.', 'endpoint');
  const restarts = count('engine_restarts', 'Engines that died or were killed, and were started again.');
  const hits = count('cache_hits', 'Answers taken from a cache.', 'cache');
  const misses = count('cache_misses', 'Answers that were not in a cache and were computed.', 'cache');
  new Gauge({
    name: 'flowdrop_service_build_info',
    help: 'Always 1; the version is the label.',
    labelNames: ['version'],
    registers,
  }).set({ version }, 1);
  collectDefaultMetrics({ register: registry });
  return {
    contentType: Registry.PROMETHEUS_CONTENT_TYPE,
    observeRequest({ endpoint, status, errorCode, seconds, rows, bytes }: RequestMeasure): void {
      durations.observe({ endpoint, status: String(status) }, seconds);
      answeredRows.inc({ endpoint }, rows);
      answeredBytes.inc({ endpoint }, bytes);
      if (errorCode !== undefined) errors.inc({ endpoint, error_code: errorCode });
    },
    countEngineRestart: () => restarts.inc(),
    /** @param cache a name fixed in the program, e.g. `snapshots` */
    countCacheLookup: (cache: string, result: 'hit' | 'miss') => (result === 'hit' ? hits : misses).inc({ cache }),
    /** Adds gauges for the engines and the data. Call it once; every read of the metrics looks at them. */
    watchBackend({ pool, rows }: WatchedBackend): void {
      measure('engine_pool_size', 'Engines that can run statements at the same time.', () => pool.size);
      measure('engine_pool_running', 'Engines that are running a statement.', () => pool.running);
      measure('engine_pool_waiting', 'Tasks that wait for an engine.', () => pool.waiting);
      measure('trades', 'Trades held, as far as they can be counted.', () => rows ?? Number.NaN);
    },
    /** The text exposition format; send it with `contentType`. */
    text: () => registry.metrics(),
  };
}
