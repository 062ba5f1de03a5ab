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
import { createLogin, Sessions } from './access/login-session.ts';
import type { Backend, EngineOpeners } from './backend.ts';
import { openLocalBackend } from './data/local-backend.ts';
import { openServerBackend, type ServerPlaces } from './data/server-backend.ts';
import { createHistorical } from './historical/historical.ts';
import { createPortal } from './historical/portal.ts';
import { createQueryRunner } from './historical/query-runner.ts';
import type { Served } from './http/answer-log.ts';
import type { Endpoint } from './http/endpoint.ts';
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

/** What the service gives to a backend that the command brings. */
export interface BackendParts {
  readonly log: Log;
  /** To be called when an engine process has ended and will be replaced. */
  readonly onRestart: () => void;
}

export interface ServiceParts extends EngineOpeners {
  readonly clock: Clock;
  readonly log: Log;
  /** Program version. */
  readonly version: string;
  /** Opens data that is not the service's own. Default: none. */
  readonly openBackend?: ((parts: BackendParts) => Promise<Backend>) | undefined;
  /** Redis through which services share the budgets of keys. Default: this service counts by itself. */
  readonly redisUrl?: string | undefined;
  /** A ClickHouse server or cluster. Default: the embedded engine. */
  readonly clickhouse?: ServerPlaces | undefined;
}

/**
 * Loads or generates the trades and starts both listeners.
 * @throws Fault `SERVICE_OPTION_INVALID`, `KEY_INVALID`, `DATA_INVALID`, `DATA_UNREADABLE` (kind `usage`),
 *   `SERVICE_REDIS_FAILED`, or `LISTEN_FAILED`
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
    const shared =
      // Loaded only where services share.
      parts.redisUrl === undefined
        ? undefined
        : await (await import('./access/shared-pace.ts')).openSharedPace(parts.redisUrl);
    if (shared) closers.push(shared.close);
    const gate = new Gate(clock, keys.ring, options, shared?.open);
    const metrics = new ServiceMetrics({ version: parts.version });
    const onRestart = () => metrics.countEngineRestart();
    const backend = await openBackend(options, { ...parts, clock, onRestart });
    closers.push(backend.close);
    metrics.watchPool(() => backend.pool);
    const { dataset, pool, knownSettings, settings } = backend;
    metrics.watch(
      'flowdrop_service_trades',
      'Trades held, as far as they can be counted.',
      () => dataset.rows ?? Number.NaN,
    );
    const guard = rememberAdmitted(await openGuard(backend.parser, dataset.databases, backend.knownFunctions));
    const { scanLimit, rowLimit, trialRowLimit } = options;
    const runner = createQueryRunner({ pool, guard, dataset, scanLimit, knownSettings, settings });
    const { lookbackDays } = dataset;
    const entry = { gate, runner, limits: { rowLimit, trialRowLimit, lookbackDays } };
    const historical = createHistorical(entry);
    const sessions = new Sessions(clock, keys.ring, { secure: options.secureCookies });
    const login = createLogin({ gate, sessions, fail: historical.fail });
    const readSession = (header: string | undefined) => sessions.read(header);
    const snapshots = openSnapshots(options, backend, { gate, clock, metrics });
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
    const endpoints = [
      ...described,
      createInterface({ operations, version: parts.version, portalUrl, lookbackDays }, fail),
    ] as const;
    const main = await createListener({ ...common, endpoints, readSession });
    listeners.push(main);
    const url = await listen(main, options.host, options.port);
    return { url, portalUrl, rows: dataset.rows, close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function openBackend(options: ServiceOptions, parts: ServiceParts & BackendParts): Promise<Backend> {
  if (parts.openBackend) return await parts.openBackend(parts);
  const { clickhouse } = parts;
  if (clickhouse) return await openServerBackend(options, { ...parts, ...clickhouse });
  return await openLocalBackend(options, parts);
}

function openSnapshots(
  { chainLimit }: ServiceOptions,
  { pool, snapshots: dataset }: Backend,
  { gate, clock, metrics }: { readonly gate: Gate; readonly clock: Clock; readonly metrics: ServiceMetrics },
): readonly Endpoint[] {
  if (dataset === undefined) return [];
  const onLookup = (result: 'hit' | 'miss') => metrics.countCacheLookup('snapshots', result);
  const reader = new SnapshotReader({ pool, dataset, clock, onLookup });
  return [createChain({ gate, reader, chainLimit }), createMarketStructure({ gate, reader })];
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
