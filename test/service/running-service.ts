/**
 * A really started service for tests: free ports, a clock that the test moves, generated trades, engines in processes of
 * their own.
 */
import { EventEmitter, once, setMaxListeners } from 'node:events';
import { HISTORICAL_PATH, PORTAL_PATH } from '../../src/api-contract/published-limits.ts';
import { type Clock, systemClock } from '../../src/core/clock.ts';
import { createLog } from '../../src/core/log.ts';
import { SERVICE_DEFAULTS, type ServiceOptions } from '../../src/service/options.ts';
import { type RunningService, type ServiceParts, startService } from '../../src/service/start-service.ts';
import { WORKER_COMMAND } from '../support/engine-workers.ts';

export const KEY = 'cus_test_key_1';
/** A Thursday without holidays near it, two hours after the close: 18:15 in New York. */
export const EVENING = '2026-11-19T23:15:00Z';

export interface Reply {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: bodies are compared with literals, which checks their shape.
  readonly body: any;
}

export interface TestService extends RunningService {
  readonly lines: Record<string, unknown>[];
  /** Moves the service's clock; what sleeps until a time that has come so wakes. */
  advance(ms: number): void;
  /** Sends SQL to the main entry point. */
  ask(sql: string): Promise<Reply>;
  askPortal(sql: string): Promise<Reply>;
  send(path: string, init: RequestInit): Promise<Reply>;
  sendPortal(path: string, init: RequestInit): Promise<Reply>;
  /** Closes the service and its engines. */
  stop(): Promise<void>;
}

/** @param data where the trades are; default: the embedded engine */
export async function startTestService(
  overrides: Partial<ServiceOptions> = {},
  data: Pick<ServiceParts, 'clickhouse' | 'openBackend'> = {},
): Promise<TestService> {
  const lines: Record<string, unknown>[] = [];
  const log = createLog({
    level: 'info',
    pretty: false,
    secrets: [KEY],
    write: (line) => lines.push(JSON.parse(line)),
  });
  const { clock, advance } = createMovedClock();
  const options = {
    ...SERVICE_DEFAULTS,
    asOf: EVENING,
    keys: [KEY],
    requestsPerSecond: 1_000_000,
    port: 0,
    portalPort: 0,
  };
  const service = await startService(
    { ...options, ...overrides },
    {
      command: WORKER_COMMAND,
      ...data,
      clock,
      log,
      version: '0.0.0-test',
    },
  );
  const send = (path: string, init: RequestInit) => request(`${service.url}${path}`, init);
  const sendPortal = (path: string, init: RequestInit) => request(`${service.portalUrl}${path}`, init);
  return {
    ...service,
    lines,
    advance,
    ask: (sql) => send(HISTORICAL_PATH, postJson({ api_key: KEY, sql })),
    askPortal: (sql) => sendPortal(PORTAL_PATH, postJson({ api_key: KEY, sql })),
    send,
    sendPortal,
    stop: () => service.close(),
  };
}

/** The real clock, and how far a test has moved it. Who sleeps wakes when either has brought the time. */
function createMovedClock(): { readonly clock: Clock; advance(ms: number): void } {
  let movedMs = 0;
  const moves = new EventEmitter();
  setMaxListeners(0, moves);
  const now = () => systemClock.now() + movedMs;
  const sleep = async (ms: number, signal?: AbortSignal) => {
    const dueMs = now() + ms;
    while (now() < dueMs) {
      const over = new AbortController();
      const stop = signal ? AbortSignal.any([signal, over.signal]) : over.signal;
      const moved = once(moves, 'moved', { signal: stop });
      await Promise.race([systemClock.sleep(dueMs - now(), stop), moved]).finally(() => over.abort());
    }
  };
  const advance = (ms: number) => {
    movedMs += ms;
    moves.emit('moved');
  };
  return { clock: { now, sleep }, advance };
}

export function postJson(body: unknown): RequestInit {
  return { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
}

export function postForm(fields: Record<string, string>): RequestInit {
  return { method: 'POST', body: new URLSearchParams(fields) };
}

async function request(url: string, init: RequestInit): Promise<Reply> {
  const response = await fetch(url, init);
  const text = await response.text();
  return { status: response.status, headers: response.headers, text, body: text === '' ? undefined : JSON.parse(text) };
}
