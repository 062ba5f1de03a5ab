/**
 * The options data service: every endpoint over trades from files, from the generator, or from a ClickHouse server.
 * This module joins the parts and owns their order: read keys, load data, open listeners; closing is the reverse. It
 * contains no SQL and no HTTP.
 */
import type { AddressInfo } from 'node:net';
import type { FastifyInstance } from 'fastify';
import { type Clock, shiftClock } from '../core/clock.ts';
import { describeError, Fault } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import { openGuard } from '../guard/guard.ts';
import { Gate } from './access/gate.ts';
import { openKeys } from './access/key-source.ts';
import { createLogin, SESSION_SECONDS, Sessions } from './access/login-session.ts';
import type { EngineOpeners } from './backend.ts';
import { openLocalBackend } from './data/local-backend.ts';
import { openServerBackend } from './data/server-backend.ts';
import { createHistorical } from './historical/historical.ts';
import { createPortal } from './historical/portal.ts';
import { createQueryRunner } from './historical/query-runner.ts';
import type { Served } from './http/answer-log.ts';
import { createListener } from './http/listener.ts';
import { createHealth, createInterface, createMetrics } from './http/operations.ts';
import { ServiceMetrics } from './http/service-metrics.ts';
import { assertOptions, type ServiceOptions } from './options.ts';
import { createChain } from './snapshot/chain.ts';
import { createMarketStructure } from './snapshot/market-structure.ts';
import { SnapshotReader } from './snapshot/snapshot.ts';
import { rememberAdmitted } from './sql/admitted.ts';

export interface RunningService {
  /** Base URL of the main entry point. */
  readonly url: string;
  /** Base URL of the separate entry point. */
  readonly portalUrl: string;
  /** Number of stored trades, including hidden ones where they can be counted; `null` where they cannot. */
  readonly rows: number | null;
  /** Stops listening, lets requests in flight finish, then ends the engines. */
  close(): Promise<void>;
}

export interface ServiceParts extends EngineOpeners {
  readonly clock: Clock;
  readonly log: Log;
  /** Program version. */
  readonly version: string;
  /** A ClickHouse server: URL of the service's own user, and of an administrator. Default: the embedded engine. */
  readonly clickhouse?: { readonly url: string; readonly adminUrl?: string | undefined } | undefined;
}

/**
 * Loads or generates the trades and starts both listeners.
 * @throws Fault `SERVICE_OPTION_INVALID`, `KEY_INVALID`, `DATA_INVALID`, `DATA_UNREADABLE` (kind `usage`), or
 *   `LISTEN_FAILED`
 */
export async function startService(options: ServiceOptions, parts: ServiceParts): Promise<RunningService> {
  assertOptions(options);
  const { log } = parts;
  const clock = options.asOf === undefined ? parts.clock : shiftClock(parts.clock, Date.parse(options.asOf));
  // Run in reverse order.
  const closers: (() => Promise<void>)[] = [];
  const close = async () => {
    for (const end of closers.splice(0).reverse()) await end();
  };
  try {
    const keys = await openKeys(options, clock, log);
    closers.push(keys.close);
    const gate = new Gate(clock, keys.ring, options);
    const metrics = new ServiceMetrics({ version: parts.version });
    const onRestart = () => metrics.countEngineRestart();
    const { clickhouse } = parts;
    const backend = clickhouse
      ? await openServerBackend(options, { ...parts, ...clickhouse, clock })
      : await openLocalBackend(options, { ...parts, clock, onRestart });
    closers.push(backend.close);
    metrics.watchPool(() => backend.pool);
    const { dataset, pool, knownSettings } = backend;
    metrics.watch(
      'flowdrop_service_trades',
      'Trades held, as far as they can be counted.',
      () => dataset.rows ?? Number.NaN,
    );
    const guard = rememberAdmitted(await openGuard(backend.parser, dataset.databases, backend.knownFunctions));
    const { scanLimit, rowLimit, trialRowLimit } = options;
    const known = knownSettings ? { knownSettings } : {};
    const runner = createQueryRunner({ pool, guard, dataset, scanLimit, ...known });
    const entry = { gate, runner, limits: { rowLimit, trialRowLimit } };
    const historical = createHistorical(entry);
    const secure = options.secureCookies;
    const sessions = new Sessions(clock, keys.ring, { lifetimeSeconds: SESSION_SECONDS, secure });
    const login = createLogin({ gate, sessions, fail: historical.fail });
    const readSession = (header: string | undefined) => sessions.read(header);
    const onLookup = (result: 'hit' | 'miss') => metrics.countCacheLookup('snapshots', result);
    const reader = new SnapshotReader({ pool, dataset, clock, onLookup });
    const { chainLimit } = options;
    const snapshots = [createChain({ gate, reader, chainLimit }), createMarketStructure({ gate, reader })];
    const { fail } = historical;
    const common = { clock, log, onServed: (served: Served) => metrics.observeRequest(served) };
    const portalEndpoint = createPortal(entry);
    const portal = await createListener({ ...common, endpoints: [portalEndpoint] });
    const listeners = [portal];
    closers.push(async () => void (await Promise.all(listeners.map((listener) => listener.close()))));
    const portalUrl = await listen(portal, options.host, options.portalPort);
    const described = [
      historical,
      ...snapshots,
      ...login,
      createHealth({ pool, dataset, clock, fail }),
      createMetrics(metrics, fail),
    ] as const;
    const operations = [historical, portalEndpoint, ...described.slice(1)].map(({ operation }) => operation);
    const endpoints = [...described, createInterface({ operations, version: parts.version, portalUrl }, fail)] as const;
    const main = await createListener({ ...common, endpoints, readSession });
    listeners.push(main);
    const url = await listen(main, options.host, options.port);
    return { url, portalUrl, rows: dataset.rows, close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function listen(listener: FastifyInstance, host: string, port: number): Promise<string> {
  try {
    await listener.listen({ host, port });
  } catch (cause) {
    throw new Fault('LISTEN_FAILED', `cannot listen on ${host}:${port}: ${describeError(cause)}`, {
      cause,
      hint: 'Choose another port; 0 picks a free one.',
    });
  }
  const address = listener.server.address() as AddressInfo; // A TCP listener, so never a path or null.
  return `http://${address.family === 'IPv6' ? `[${address.address}]` : address.address}:${address.port}`;
}
