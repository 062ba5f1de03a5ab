/** The service's metrics as the text that Prometheus reads: names, units and numbers. */
import { describe, expect, test } from 'vitest';
import { createServiceMetrics, type ServiceMetrics } from '../../src/service/http/service-metrics.ts';

interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

interface Exposition {
  readonly types: ReadonlyMap<string, string>;
  readonly helps: ReadonlyMap<string, string>;
  readonly samples: readonly Sample[];
}

/** Reads the text exposition format, version 0.0.4, and refuses any line that it does not allow. */
function parse(text: string): Exposition {
  const [types, helps, samples] = [new Map<string, string>(), new Map<string, string>(), [] as Sample[]];
  for (const line of text.split('\n').filter((it) => it !== '')) {
    const comment = /^# (HELP|TYPE) ([a-zA-Z_:][\w:]*) (.+)$/.exec(line);
    const sample = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (comment) (comment[1] === 'TYPE' ? types : helps).set(comment[2] ?? '', comment[3] ?? '');
    else if (sample) {
      const labels = [...(sample[2] ?? '').matchAll(/([a-zA-Z_]\w*)="((?:[^"\\\n]|\\.)*)"/g)];
      const value = sample[3] === '+Inf' ? Number.POSITIVE_INFINITY : Number(sample[3]);
      samples.push({
        name: sample[1] ?? '',
        labels: Object.fromEntries(labels.map(([, name, it]) => [name ?? '', it ?? ''])),
        value,
      });
    } else throw new Error(`not a line of the format: ${line}`);
  }
  return { types, helps, samples };
}

const read = async (metrics: ServiceMetrics) => parse(await metrics.text());
const find = ({ samples }: Exposition, name: string, labels: Record<string, string> = {}) =>
  samples.find((it) => it.name === name && Object.entries(labels).every(([key, value]) => it.labels[key] === value))
    ?.value;
const request = { endpoint: 'historical', status: 200, errorCode: undefined, seconds: 0.03, rows: 10, bytes: 2_000 };

describe('the metrics', () => {
  test('count requests, rows, bytes and errors by endpoint', async () => {
    const metrics = createServiceMetrics('1.2.3');
    metrics.observeRequest(request);
    metrics.observeRequest({ ...request, seconds: 3 });
    metrics.observeRequest({ ...request, status: 429, errorCode: 'RATE_LIMITED', rows: 0, bytes: 90, seconds: 0.001 });
    const seen = await read(metrics);
    const duration = 'flowdrop_service_request_duration_seconds';
    const ok = { endpoint: 'historical', status: '200' };
    expect(find(seen, `${duration}_count`, ok)).toBe(2);
    expect(find(seen, `${duration}_sum`, ok)).toBeCloseTo(3.03);
    expect(find(seen, `${duration}_bucket`, { ...ok, le: '0.05' })).toBe(1);
    expect(find(seen, `${duration}_bucket`, { ...ok, le: '+Inf' })).toBe(2);
    expect(find(seen, `${duration}_count`, { endpoint: 'historical', status: '429' })).toBe(1);
    expect(find(seen, 'flowdrop_service_response_rows_total', { endpoint: 'historical' })).toBe(20);
    expect(find(seen, 'flowdrop_service_response_bytes_total', { endpoint: 'historical' })).toBe(4_090);
    expect(find(seen, 'flowdrop_service_errors_total', { endpoint: 'historical', error_code: 'RATE_LIMITED' })).toBe(1);
    expect(find(seen, 'flowdrop_service_build_info', { version: '1.2.3' })).toBe(1);
  });

  test('ask the pool at each reading, and count restarts and cache lookups', async () => {
    const metrics = createServiceMetrics('1.2.3');
    const pool = { size: 4, running: 1, waiting: 7 };
    metrics.watchBackend({ pool, rows: 12 });
    metrics.countEngineRestart();
    metrics.countCacheLookup('chain', 'hit');
    metrics.countCacheLookup('chain', 'hit');
    metrics.countCacheLookup('chain', 'miss');
    expect(find(await read(metrics), 'flowdrop_service_engine_pool_running')).toBe(1);
    pool.running = 3;
    const seen = await read(metrics);
    expect(find(seen, 'flowdrop_service_engine_pool_size')).toBe(4);
    expect(find(seen, 'flowdrop_service_engine_pool_running')).toBe(3);
    expect(find(seen, 'flowdrop_service_engine_pool_waiting')).toBe(7);
    expect(find(seen, 'flowdrop_service_trades')).toBe(12);
    expect(find(seen, 'flowdrop_service_engine_restarts_total')).toBe(1);
    expect(find(seen, 'flowdrop_service_cache_hits_total', { cache: 'chain' })).toBe(2);
    expect(find(seen, 'flowdrop_service_cache_misses_total', { cache: 'chain' })).toBe(1);
  });

  test('have help and a type each, a unit at the end of the name, and _total on counters only', async () => {
    const metrics = createServiceMetrics('1.2.3');
    metrics.watchBackend({ pool: { size: 1, running: 0, waiting: 0 }, rows: 12 });
    metrics.observeRequest(request);
    const { types, helps, samples } = await read(metrics);
    expect([...helps.keys()].sort()).toEqual([...types.keys()].sort());
    for (const [name, type] of types) {
      if (name.startsWith('flowdrop_')) expect(name.endsWith('_total'), name).toBe(type === 'counter');
    }
    for (const { name } of samples) {
      const family = name.replace(/_(bucket|sum|count)$/, '');
      expect(types.has(name) || types.get(family) === 'histogram', name).toBe(true);
    }
    expect(find({ types, helps, samples }, 'process_resident_memory_bytes')).toBeGreaterThan(1_000_000);
    expect(find({ types, helps, samples }, 'process_cpu_seconds_total')).toBeGreaterThan(0);
  });
});
