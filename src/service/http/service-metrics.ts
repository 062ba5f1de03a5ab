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

export class ServiceMetrics {
  readonly contentType = Registry.PROMETHEUS_CONTENT_TYPE;
  readonly #registry = new Registry();
  readonly #duration = new Histogram({
    name: 'flowdrop_service_request_duration_seconds',
    help: 'Time from the head of a request to the last byte of its answer.',
    labelNames: ['endpoint', 'status'],
    buckets: DURATION_BUCKETS_SECONDS,
    registers: [this.#registry],
  });
  readonly #errors = this.#counter('errors', 'Failed requests by error code of the API.', 'endpoint', 'error_code');
  readonly #rows = this.#counter('response_rows', 'Rows in answers.', 'endpoint');
  readonly #bytes = this.#counter('response_bytes', 'Bytes of answer bodies before compression.', 'endpoint');
  readonly #restarts = this.#counter('engine_restarts', 'Engines that died or were killed, and were started again.');
  readonly #hits = this.#counter('cache_hits', 'Answers taken from a cache.', 'cache');
  readonly #misses = this.#counter('cache_misses', 'Answers that were not in a cache and were computed.', 'cache');

  /** @param version of the program */
  constructor(version: string) {
    new Gauge({
      name: 'flowdrop_service_build_info',
      help: 'Always 1; the version is the label.',
      labelNames: ['version'],
      registers: [this.#registry],
    }).set({ version }, 1);
    collectDefaultMetrics({ register: this.#registry });
  }

  observeRequest({ endpoint, status, errorCode, seconds, rows, bytes }: RequestMeasure): void {
    this.#duration.observe({ endpoint, status: String(status) }, seconds);
    this.#rows.inc({ endpoint }, rows);
    this.#bytes.inc({ endpoint }, bytes);
    if (errorCode !== undefined) this.#errors.inc({ endpoint, error_code: errorCode });
  }

  countEngineRestart(): void {
    this.#restarts.inc();
  }

  /** @param cache a name fixed in the program, e.g. `snapshots` */
  countCacheLookup(cache: string, result: 'hit' | 'miss'): void {
    (result === 'hit' ? this.#hits : this.#misses).inc({ cache });
  }

  /** Adds gauges for the engines and the data. Call it once; every read of the metrics looks at them. */
  watchBackend({ pool, rows }: WatchedBackend): void {
    const gauge = (name: string, help: string, read: () => number) =>
      new Gauge({
        name: `flowdrop_service_${name}`,
        help,
        registers: [this.#registry],
        collect() {
          this.set(read());
        },
      });
    gauge('engine_pool_size', 'Engines that can run statements at the same time.', () => pool.size);
    gauge('engine_pool_running', 'Engines that are running a statement.', () => pool.running);
    gauge('engine_pool_waiting', 'Tasks that wait for an engine.', () => pool.waiting);
    gauge('trades', 'Trades held, as far as they can be counted.', () => rows ?? Number.NaN);
  }

  /** The text exposition format; send it with `contentType`. */
  async text(): Promise<string> {
    return await this.#registry.metrics();
  }

  #counter<Label extends string>(name: string, help: string, ...labelNames: Label[]): Counter<Label> {
    return new Counter({ name: `flowdrop_service_${name}_total`, help, labelNames, registers: [this.#registry] });
  }
}
