/**
 * The options data service: every endpoint over trades from files, from the generator, or from a ClickHouse server.
 * This module joins the parts and owns their order: read keys, load data, open listeners; closing is the reverse. It
 * contains no SQL and no HTTP.
 */
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pid } from 'node:process';
import { type Clock, shiftClock } from '../core/clock.ts';
import { isProcessAlive } from '../core/liveness.ts';
import type { Log } from '../core/log.ts';
import { openWorkerPool, type WorkerPoolOptions } from '../engine/worker-pool.ts';
import { openGuard } from '../guard/guard.ts';
import { createGate, openSharedPace } from './access/gate.ts';
import { openKeys } from './access/keys.ts';
import { createLogin, createSessions, type Sessions } from './access/login-session.ts';
import { type Backend, type BackendParts, MAX_WAITING } from './backend.ts';
import { openLocalBackend } from './data/local-data.ts';
import type { ServerPlaces } from './data/server-backend.ts';
import { createHistorical, createPortal } from './historical/historical.ts';
import { createQueryRunner, MAX_RESULT_BYTES } from './historical/query-runner.ts';
import { startListener } from './http/listener.ts';
import { createHealth, createInterface, createMetrics } from './http/operations.ts';
import type { Route } from './http/route.ts';
import { createServiceMetrics } from './http/service-metrics.ts';
import { assertOptions, type ServiceOptions } from './options.ts';
import { createChain } from './snapshot/chain.ts';
import { createMarketStructure } from './snapshot/market-structure.ts';
import { createSnapshotReader } from './snapshot/snapshot.ts';

const FOLDER_PREFIX = 'flowdrop-service-';
const FOLDER_NAME = new RegExp(`^${FOLDER_PREFIX}(\\d+)-`);

export type RunningService = Awaited<ReturnType<typeof startService>>;

export interface ServiceParts {
  /** Starts an engine process of this machine. */
  readonly command: WorkerPoolOptions['command'];
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
export async function startService(options: ServiceOptions, parts: ServiceParts) {
  assertOptions(options);
  const { log } = parts;
  const clock = options.asOf === undefined ? parts.clock : shiftClock(parts.clock, Date.parse(options.asOf));
  // Run in reverse order.
  const closers: (() => Promise<void>)[] = [];
  /** Stops listening, lets requests in flight finish, then ends the engines. */
  const close = async () => {
    for (const end of closers.splice(0).reverse()) await end();
  };
  try {
    const keys = await openKeys(options, clock, log);
    closers.push(keys.close);
    const shared = parts.redisUrl === undefined ? undefined : await openSharedPace(parts.redisUrl);
    if (shared) closers.push(shared.close);
    const gate = createGate(clock, keys.ring, options, shared?.open);
    const metrics = createServiceMetrics(parts.version);
    const folder = await makeServiceFolder();
    closers.push(() => rm(folder, { recursive: true, force: true, maxRetries: 3 }));
    const limits = { maxWaiting: MAX_WAITING, maxResultBytes: MAX_RESULT_BYTES };
    const onRestart = () => metrics.countEngineRestart();
    const startEngines: BackendParts['startEngines'] = async (place, size, more) => {
      const { command } = parts;
      const engines = await openWorkerPool({ ...limits, ...more, command, onRestart, folder: place, size });
      closers.push(() => engines.close());
      return engines;
    };
    const given = { clock, log, folder, startEngines, closers };
    const backend = parts.openBackend
      ? await parts.openBackend(given)
      : parts.clickhouse
        ? await (await import('./data/server-backend.ts')).openServerBackend(options, given, parts.clickhouse)
        : await openLocalBackend(options, given);
    const { lookbackDays, pool, rows, snapshots } = backend;
    metrics.watchBackend(backend);
    const guard = await openGuard(backend.parser, backend.databases, backend.capabilities?.functions);
    const run = createQueryRunner(backend, guard, options.scanLimit);
    const rowLimits = { ...options, lookbackDays };
    const sessions = createSessions(clock, keys.ring, options.secureCookies);
    const portal = createPortal(gate, run, rowLimits);
    const main: [Route, ...Route[]] = [createHistorical(gate, run, rowLimits)];
    if (snapshots !== undefined) {
      const onLookup = (result: 'hit' | 'miss') => metrics.countCacheLookup('snapshots', result);
      const reader = createSnapshotReader(pool, snapshots, clock, onLookup);
      main.push(createChain(gate, reader, options.chainLimit), createMarketStructure(gate, reader));
    }
    main.push(...createLogin(gate, sessions), createHealth(backend, clock), createMetrics(metrics));
    const common = { clock, log, metrics, host: options.host };
    // Both stop at once: while one waits for its last requests, the other must not take new ones.
    const listeners: (() => Promise<void>)[] = [];
    closers.push(async () => void (await Promise.all(listeners.map((end) => end()))));
    const listen = async (routes: [Route, ...Route[]], port: number, readSession?: Sessions['read']) => {
      const listener = await startListener(routes, { ...common, port, readSession });
      listeners.push(listener.close);
      return listener.url;
    };
    const portalUrl = await listen([portal], options.portalPort);
    main.push(createInterface([...main, portal], { version: parts.version, portalUrl, lookbackDays }));
    const url = await listen(main, options.port, sessions.read);
    return {
      /** Base URLs of the main entry point and of the separate one. */
      url,
      portalUrl,
      rows,
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/**
 * Makes the temporary folder of one service: its data, unless a data folder is named, and its engines' files. The service
 * removes it at the end; the next service removes what a killed one left behind.
 */
async function makeServiceFolder(): Promise<string> {
  for (const name of await readdir(tmpdir())) {
    const owner = Number(FOLDER_NAME.exec(name)?.[1]);
    if (!Number.isInteger(owner) || isProcessAlive(owner)) continue;
    // Another user's folder: it stays, because it is not ours to remove.
    await rm(join(tmpdir(), name), { recursive: true, force: true, maxRetries: 3 }).catch(() => {});
  }
  return await mkdtemp(join(tmpdir(), `${FOLDER_PREFIX}${pid}-`));
}
