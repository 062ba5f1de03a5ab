/**
 * The service's own metrics, for Prometheus. Invariant: labels come from small fixed sets (names of endpoints and
 * caches, statuses, error codes), never from caller input: no key, symbol or SQL can become a series. Each service has
 * its own registry, and reading it leaves no timer behind. prom-client's default metrics are not used, because they
 * start an endless event-loop monitor.
 */
import { performance } from 'node:perf_hooks';
import { Counter, Gauge, Histogram, Registry } from 'prom-client';

interface MetricsOptions {
  /** Version of the program. */
  readonly version: string;
}

/** One answered request. */
interface RequestMeasure {
  /** The endpoint's name, as in its definition. */
  readonly endpoint: string;
  readonly status: number;
  /** The error code of a failure. */
  readonly errorCode?: string | undefined;
  /** From the head of the request to the last byte of the answer. */
  readonly seconds: number;
  /** Rows in the body; 0 for a failure. */
  readonly rows: number;
  /** Bytes of the body before compression. */
  readonly bytes: number;
}

/** The engine pool when the metrics are read. */
interface PoolState {
  /** Engines that can run statements at the same time. */
  readonly size: number;
  /** Engines that are running a statement. */
  readonly running: number;
  /** Tasks that wait for an engine. */
  readonly waiting: number;
}

/** From a cached answer to a query time-out. */
const DURATION_BUCKETS_SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
/** Maximum values per label. Every further value would be a permanent series, so it is counted as `other`. */
const MAX_LABEL_VALUES = 32;
const OTHER = 'other';

const PLAIN_NAME = /^[a-z][a-z0-9-]{0,39}$/;
const ERROR_CODE = /^[A-Z][A-Z_]{0,39}$/;

export class ServiceMetrics {
  readonly contentType = Registry.PROMETHEUS_CONTENT_TYPE;
  readonly #registry = new Registry();
  readonly #endpoints = new LabelValues(PLAIN_NAME);
  readonly #errorCodes = new LabelValues(ERROR_CODE);
  readonly #caches = new LabelValues(PLAIN_NAME);
  readonly #duration: Histogram<'endpoint' | 'status'>;
  readonly #errors: Counter<'endpoint' | 'error_code'>;
  readonly #rows: Counter<'endpoint'>;
  readonly #bytes: Counter<'endpoint'>;
  readonly #restarts: Counter;
  readonly #hits: Counter<'cache'>;
  readonly #misses: Counter<'cache'>;

  constructor({ version }: MetricsOptions) {
    const registers = [this.#registry];
    this.#duration = new Histogram({
      name: 'flowdrop_service_request_duration_seconds',
      help: 'Time from the head of a request to the last byte of its answer.',
      labelNames: ['endpoint', 'status'],
      buckets: DURATION_BUCKETS_SECONDS,
      registers,
    });
    this.#errors = new Counter({
      name: 'flowdrop_service_errors_total',
      help: 'Failed requests by error code of the API.',
      labelNames: ['endpoint', 'error_code'],
      registers,
    });
    this.#rows = new Counter({
      name: 'flowdrop_service_response_rows_total',
      help: 'Rows in answers.',
      labelNames: ['endpoint'],
      registers,
    });
    this.#bytes = new Counter({
      name: 'flowdrop_service_response_bytes_total',
      help: 'Bytes of answer bodies before compression.',
      labelNames: ['endpoint'],
      registers,
    });
    this.#restarts = new Counter({
      name: 'flowdrop_service_engine_restarts_total',
      help: 'Engines that died or were killed, and were started again.',
      registers,
    });
    this.#hits = new Counter({
      name: 'flowdrop_service_cache_hits_total',
      help: 'Answers taken from a cache.',
      labelNames: ['cache'],
      registers,
    });
    this.#misses = new Counter({
      name: 'flowdrop_service_cache_misses_total',
      help: 'Answers that were not in a cache and were computed.',
      labelNames: ['cache'],
      registers,
    });
    new Gauge({
      name: 'flowdrop_service_build_info',
      help: 'Always 1; the version is the label.',
      labelNames: ['version'],
      registers,
    }).set({ version }, 1);
    addProcessMetrics(this.#registry);
  }

  observeRequest({ endpoint: name, status, errorCode, seconds, rows, bytes }: RequestMeasure): void {
    const endpoint = this.#endpoints.bound(name);
    const isStatus = Number.isInteger(status) && status >= 100 && status <= 599;
    this.#duration.observe({ endpoint, status: isStatus ? String(status) : OTHER }, Math.max(0, seconds));
    this.#rows.inc({ endpoint }, rows);
    this.#bytes.inc({ endpoint }, bytes);
    if (errorCode !== undefined) this.#errors.inc({ endpoint, error_code: this.#errorCodes.bound(errorCode) });
  }

  countEngineRestart(): void {
    this.#restarts.inc();
  }

  /** @param cache a name fixed in the program, e.g. `snapshots` */
  countCacheLookup(cache: string, result: 'hit' | 'miss'): void {
    const counter = result === 'hit' ? this.#hits : this.#misses;
    counter.inc({ cache: this.#caches.bound(cache) });
  }

  /** Adds gauges for the engine pool. Call it once; every read of the metrics calls `read`. */
  watchPool(read: () => PoolState): void {
    const gauge = (name: string, help: string, value: (state: PoolState) => number) =>
      addGauge(this.#registry, `flowdrop_service_engine_pool_${name}`, help, () => value(read()));
    gauge('size', 'Engines that can run statements at the same time.', (state) => state.size);
    gauge('running', 'Engines that are running a statement.', (state) => state.running);
    gauge('waiting', 'Tasks that wait for an engine.', (state) => state.waiting);
  }

  /** Adds one gauge, e.g. `flowdrop_service_trades` or `flowdrop_service_data_age_seconds`. */
  watch(name: `flowdrop_service_${string}`, help: string, read: () => number): void {
    addGauge(this.#registry, name, help, read);
  }

  /** The text exposition format; send it with `contentType`. */
  async text(): Promise<string> {
    return await this.#registry.metrics();
  }
}

/** Limits a label to a few well-formed values; others become `other`. */
class LabelValues {
  readonly #pattern: RegExp;
  readonly #known = new Set<string>();

  constructor(pattern: RegExp) {
    this.#pattern = pattern;
  }

  bound(value: string): string {
    if (this.#known.has(value)) return value;
    if (!this.#pattern.test(value) || this.#known.size >= MAX_LABEL_VALUES) return OTHER;
    this.#known.add(value);
    return value;
  }
}

function addGauge(registry: Registry, name: string, help: string, read: () => number): void {
  new Gauge({
    name,
    help,
    registers: [registry],
    collect() {
      this.set(read());
    },
  });
}

/** Uses the standard metric names of Prometheus clients for their process. */
function addProcessMetrics(registry: Registry): void {
  const startSeconds = performance.timeOrigin / 1000;
  let seen = performance.eventLoopUtilization();
  let countedSeconds = 0;
  new Counter({
    name: 'process_cpu_seconds_total',
    help: 'User and system CPU time of the process; engines in separate processes are not included.',
    registers: [registry],
    collect() {
      const { user, system } = process.cpuUsage();
      const totalSeconds = (user + system) / 1_000_000;
      this.inc(Math.max(0, totalSeconds - countedSeconds));
      countedSeconds = totalSeconds;
    },
  });
  addGauge(
    registry,
    'process_start_time_seconds',
    'Start of the process, seconds since the epoch.',
    () => startSeconds,
  );
  addGauge(registry, 'process_resident_memory_bytes', 'Resident memory of the process.', () =>
    process.memoryUsage.rss(),
  );
  addGauge(registry, 'nodejs_heap_size_used_bytes', 'JavaScript heap in use.', () => process.memoryUsage().heapUsed);
  addGauge(registry, 'nodejs_eventloop_utilization_ratio', 'Share of time in which the event loop was busy.', () => {
    const now = performance.eventLoopUtilization();
    const { utilization } = performance.eventLoopUtilization(now, seen);
    seen = now;
    return utilization;
  });
}
