/**
 * The options data service: every endpoint over trades from files, from the generator, or from a ClickHouse server.
 * This module joins the parts and owns their order: read keys, load data, open listeners; closing is the reverse. It
 * contains no SQL and no HTTP.
 */
import { type Clock, shiftClock } from '../core/clock.ts';
import type { Log } from '../core/log.ts';
import { openGuard } from '../guard/guard.ts';
import { Gate } from './access/gate.ts';
import { openKeys } from './access/key-source.ts';
import { createLogin, Sessions } from './access/login-session.ts';
import { openSharedPace } from './access/pace.ts';
import type { Backend, BackendParts, EngineOpeners } from './backend.ts';
import { openLocalBackend } from './data/local-backend.ts';
import { openServerBackend, type ServerPlaces } from './data/server-backend.ts';
import { createHistorical, createPortal } from './historical/historical.ts';
import { createQueryRunner } from './historical/query-runner.ts';
import { startListener } from './http/listener.ts';
import { createHealth, createInterface, createMetrics } from './http/operations.ts';
import type { Route } from './http/route.ts';
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
    const shared = parts.redisUrl === undefined ? undefined : await openSharedPace(parts.redisUrl);
    if (shared) closers.push(shared.close);
    const gate = new Gate(clock, keys.ring, options, shared?.open);
    const metrics = new ServiceMetrics(parts.version);
    const onRestart = () => metrics.countEngineRestart();
    const backend = await openBackend(options, { ...parts, clock, onRestart });
    closers.push(backend.close);
    const { dataset, pool, snapshots } = backend;
    metrics.watchBackend(backend);
    const guard = rememberAdmitted(await openGuard(backend.parser, dataset.databases, backend.knownFunctions));
    const run = createQueryRunner(backend, guard, options.scanLimit);
    const { lookbackDays } = dataset;
    const limits = { ...options, lookbackDays };
    const sessions = new Sessions(clock, keys.ring, options.secureCookies);
    const portal = createPortal(gate, run, limits);
    const main: [Route, ...Route[]] = [createHistorical(gate, run, limits)];
    if (snapshots !== undefined) {
      const onLookup = (result: 'hit' | 'miss') => metrics.countCacheLookup('snapshots', result);
      const reader = new SnapshotReader(pool, snapshots, clock, onLookup);
      main.push(createChain(gate, reader, options.chainLimit), createMarketStructure(gate, reader));
    }
    main.push(...createLogin(gate, sessions), createHealth(backend, clock), createMetrics(metrics));
    const common = { clock, log, metrics, host: options.host };
    const listen = async (routes: [Route, ...Route[]], port: number, readSession?: Sessions['read']) => {
      const listener = await startListener(routes, { ...common, port, readSession });
      closers.push(listener.close);
      return listener.url;
    };
    const portalUrl = await listen([portal], options.portalPort);
    main.push(createInterface([...main, portal], { version: parts.version, portalUrl, lookbackDays }));
    const url = await listen(main, options.port, (header) => sessions.read(header));
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
