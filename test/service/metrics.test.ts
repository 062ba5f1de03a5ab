/** The service's metrics as the text that Prometheus reads: names, units and numbers. */
import { expect, test } from 'vitest';
import { createServiceMetrics } from '../../src/service/http/service-metrics.ts';

const request = { endpoint: 'historical', status: 200, errorCode: undefined, seconds: 0.03, rows: 10, bytes: 2_000 };
/** A line of the text exposition format, version 0.0.4. */
const LINE = /^(# (HELP|TYPE) [a-zA-Z_:][\w:]* .+|[a-zA-Z_:][\w:]*(\{([a-zA-Z_]\w*="([^"\\\n]|\\.)*",?)+\})? \S+|)$/;

test('the metrics count requests, rows, bytes and errors by endpoint', async () => {
  const metrics = createServiceMetrics('1.2.3');
  metrics.observeRequest(request);
  metrics.observeRequest({ ...request, seconds: 3 });
  metrics.observeRequest({ ...request, status: 429, errorCode: 'RATE_LIMITED', rows: 0, bytes: 90, seconds: 0.001 });
  const lines = (await metrics.text()).split('\n');
  const ok = 'endpoint="historical",status="200"';
  for (const line of [
    `request_duration_seconds_count{${ok}} 2`,
    `request_duration_seconds_sum{${ok}} 3.03`,
    `request_duration_seconds_bucket{le="0.05",${ok}} 1`,
    `request_duration_seconds_bucket{le="+Inf",${ok}} 2`,
    'request_duration_seconds_count{endpoint="historical",status="429"} 1',
    'response_rows_total{endpoint="historical"} 20',
    'response_bytes_total{endpoint="historical"} 4090',
    'errors_total{endpoint="historical",error_code="RATE_LIMITED"} 1',
    'build_info{version="1.2.3"} 1',
  ])
    expect(lines).toContain(`flowdrop_service_${line}`);
});

test('the metrics ask the pool at each reading, and count restarts and cache lookups', async () => {
  const metrics = createServiceMetrics('1.2.3');
  const pool = { size: 4, running: 1, waiting: 7 };
  metrics.watchBackend({ pool, rows: 12 });
  metrics.countEngineRestart();
  metrics.countCacheLookup('chain', 'hit');
  metrics.countCacheLookup('chain', 'hit');
  metrics.countCacheLookup('chain', 'miss');
  expect(await metrics.text()).toContain('\nflowdrop_service_engine_pool_running 1\n');
  pool.running = 3;
  const lines = (await metrics.text()).split('\n');
  for (const line of [
    'engine_pool_size 4',
    'engine_pool_running 3',
    'engine_pool_waiting 7',
    'trades 12',
    'engine_restarts_total 1',
    'cache_hits_total{cache="chain"} 2',
    'cache_misses_total{cache="chain"} 1',
  ])
    expect(lines).toContain(`flowdrop_service_${line}`);
});

test('the metrics have help and a type each, and _total on counters only', async () => {
  const metrics = createServiceMetrics('1.2.3');
  metrics.watchBackend({ pool: { size: 1, running: 0, waiting: 0 }, rows: 12 });
  metrics.observeRequest(request);
  const text = await metrics.text();
  expect(text.split('\n').filter((line) => !LINE.test(line))).toEqual([]);
  const types = new Map([...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name = '', type]) => [name, type]));
  expect([...text.matchAll(/^# HELP (\S+)/gm)].map(([, name]) => name)).toEqual([...types.keys()]);
  for (const [name, type] of types) {
    if (name.startsWith('flowdrop_')) expect(name.endsWith('_total'), name).toBe(type === 'counter');
  }
  for (const [, name = ''] of text.matchAll(/^([a-z]\w*)/gm)) {
    expect(types.has(name) || types.get(name.replace(/_(bucket|sum|count)$/, '')) === 'histogram', name).toBe(true);
  }
  expect(text).toMatch(/^process_resident_memory_bytes [1-9]\d{6,}$/m);
  expect(text).toMatch(/^process_cpu_seconds_total .*[1-9]/m);
});
