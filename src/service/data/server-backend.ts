/**
 * The backend over a ClickHouse server, or a cluster behind one address. Callers' queries run there as a user that may
 * only read the views; a local engine process parses them first, so the guard is the same everywhere. With an
 * administrator URL, the service also creates the databases and views and loads files; without one it uses the existing
 * ones. It checks the server in both cases.
 */
import { join } from 'node:path';
import { EARLIEST_DATE, LOOKBACK_DAYS, MINIMUM_DATA_DELAY_MINUTES } from '../../api-contract/published-limits.ts';
import { systemClock } from '../../core/clock.ts';
import { formatSettings } from '../../engine/literal.ts';
import type { EnginePool, PooledEngine } from '../../engine/pool.ts';
import {
  type Backend,
  type BackendParts,
  type Dataset,
  type EngineOpeners,
  MAX_WAITING,
  type SnapshotDataset,
} from '../backend.ts';
import { invalidOption, type ServiceOptions } from '../options.ts';
import { checkServer } from './server-check.ts';
import { loadServer } from './server-load.ts';
import { CLUSTER_SETTINGS, SERVER_DATABASES, SERVER_TABLES, setUpServer } from './server-setup.ts';
import { granularityFor } from './tables.ts';

/** Warn when the server's clock, which the views follow, is off by more than this, seconds. */
const CLOCK_WARNING_SECONDS = 5;

export interface ServerPlaces {
  /** URL of the service's own user. */
  readonly url: string;
  /** URL of an administrator. */
  readonly adminUrl?: string | undefined;
  /** Cluster that the administrator sets up; default: one server. */
  readonly cluster?: string | undefined;
}

type Parts = BackendParts & EngineOpeners;

/** @throws Fault `SERVER_NOT_READY`, `SERVICE_OPTION_INVALID`, `DATA_INVALID`, `DATA_UNREADABLE` (kind `usage`) */
export async function openServerBackend(options: ServiceOptions, parts: Parts, places: ServerPlaces): Promise<Backend> {
  assertPossible(options, places);
  const { log, closers } = parts;
  const earliest = options.earliest ?? EARLIEST_DATE;
  const size = options.concurrency;
  const local = await parts.startEngines(join(parts.folder, 'parser'), 1);
  if (places.adminUrl !== undefined) {
    await makeReady(places.adminUrl, local, { ...options, earliest }, parts, places.cluster);
  }
  const pool = await parts.openServerPool({ url: places.url, size, maxWaiting: MAX_WAITING });
  closers.push(() => pool.close());
  const use = <T>(act: (engine: PooledEngine) => Promise<T>) =>
    pool.use({ owner: 'start', signal: new AbortController().signal }, act);
  const { databases, presentMs, warnings } = await use((engine) => checkServer(engine, pool.capabilities));
  for (const warning of warnings) log.warn({ event: 'server-unlike' }, warning);
  const apartSeconds = Math.abs(presentMs - systemClock.now()) / 1_000;
  if (apartSeconds > CLOCK_WARNING_SECONDS) {
    const said = "the server's clock, which delay and lookback follow, differs";
    log.warn({ event: 'server-clock-apart', apartSeconds }, said);
  }
  const { visibleTrades: trades, chains, dates } = SERVER_TABLES;
  // It fails where there are more trades than the user may read at once.
  const [counted] = await use((engine) => engine.rows<{ rows: number }>(`SELECT count() AS rows FROM ${trades}`)).catch(
    () => [],
  );
  const dataset: Dataset & SnapshotDataset = {
    tables: { trades, chains, dates },
    databases: [...new Set([...databases, ...SERVER_DATABASES])],
    rows: counted === undefined ? null : Number(counted.rows),
    lookbackDays: LOOKBACK_DAYS,
    stream: (engine, { text, settings, format }) => engine.stream(`${text} ${formatSettings(settings)}`, format),
    earliest,
    // The service's user sees only the views, which already apply the delay.
    delayMs: MINIMUM_DATA_DELAY_MINUTES * 60_000,
    // The views are on the server and follow its clock.
    prepare: async () => {},
  };
  return { pool, parser: local, dataset, snapshots: dataset, capabilities: pool.capabilities };
}

function assertPossible(options: ServiceOptions, { adminUrl, cluster }: ServerPlaces): void {
  if (options.dataDir !== undefined)
    throw invalidOption('dataDir', options.dataDir, 'nothing: the server keeps the data');
  if (adminUrl !== undefined) return;
  const loads = options.data.length + options.chain.length + options.generateSessions > 0;
  if (!loads && options.asOf === undefined && cluster === undefined) return;
  throw invalidOption(
    'clickhouseAdminUrl',
    undefined,
    "an administrator's address, without which data, chain, generate, asOf and cluster are not possible",
  );
}

/** Creates databases, tables and views, and loads the rows. */
async function makeReady(
  url: string,
  local: EnginePool,
  options: ServiceOptions & { readonly earliest: string },
  { clock, log, openServer }: Parts,
  cluster: string | undefined,
): Promise<void> {
  const admin = await openServer({ url, settings: cluster === undefined ? {} : CLUSTER_SETTINGS });
  try {
    const offsetSeconds = options.asOf === undefined ? 0 : (clock.now() - systemClock.now()) / 1_000;
    const granularity = granularityFor(options.scanLimit);
    await setUpServer(admin, { ...options, cluster, offsetSeconds, granularity });
    await loadServer(options, admin, local, { clock, log });
  } finally {
    await admin.close();
  }
}
