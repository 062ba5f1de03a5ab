/**
 * The backend over a ClickHouse server, or a cluster behind one address. Callers' queries run there as a user that may only read the views; a
 * local engine process parses them first, so the guard is the same everywhere. With an administrator URL, the service
 * also creates the databases and views and loads files; without one it uses the existing ones. It checks the server in
 * both cases.
 */
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { EARLIEST_DATE, LOOKBACK_DAYS, MINIMUM_DATA_DELAY_MINUTES } from '../../api-contract/published-limits.ts';
import { type Clock, systemClock } from '../../core/clock.ts';
import { Fault } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import type { Engine } from '../../engine/engine.ts';
import { formatSettings } from '../../engine/literal.ts';
import type { EnginePool, PoolRequest } from '../../engine/pool.ts';
import type { ServerPool } from '../../engine/server-pool.ts';
import { openParser } from '../../guard/parser.ts';
import { type Backend, type EngineOpeners, MAX_WAITING } from '../backend.ts';
import type { Dataset, LoadTarget, SnapshotDataset } from '../dataset.ts';
import { generateSession, listClosedSessions, usualRows } from '../generate/generate.ts';
import { MAX_RESULT_BYTES } from '../historical/query-runner.ts';
import type { ServiceOptions } from '../options.ts';
import { makeServiceFolder, removeServiceFolder } from '../service-folder.ts';
import { loadChainFile } from './chain-file.ts';
import { CHAIN_COLUMNS } from './chain-table.ts';
import { checkServer, type ServerReport } from './server-check.ts';
import { loadServerFile } from './server-load.ts';
import { CLUSTER_SETTINGS, SERVER_TABLES, type ServerPlan, setUpServer } from './server-setup.ts';
import { granularityFor, listSortColumns, STORED_TABLES } from './stored-tables.ts';

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

interface ServerBackendParts extends EngineOpeners, ServerPlaces {
  readonly clock: Clock;
  readonly log: Log;
}

/** @throws Fault `SERVER_NOT_READY`, `SERVICE_OPTION_INVALID`, `DATA_INVALID`, `DATA_UNREADABLE` (kind `usage`) */
export async function openServerBackend(options: ServiceOptions, parts: ServerBackendParts): Promise<Backend> {
  assertPossible(options, parts);
  const folder = await makeServiceFolder();
  const closers: (() => Promise<void>)[] = [() => removeServiceFolder(folder)];
  const close = async () => {
    for (const end of closers.splice(0).reverse()) await end();
  };
  try {
    const parserPool = await parts.openWorkers({
      folder: join(folder, 'parser'),
      size: 1,
      maxWaiting: MAX_WAITING,
      maxResultBytes: MAX_RESULT_BYTES,
    });
    closers.push(() => parserPool.close());
    if (parts.adminUrl !== undefined) await makeReady(parts.adminUrl, parserPool, options, parts);
    const pool = await parts.openServerPool({
      url: parts.url,
      size: options.concurrency,
      maxWaiting: MAX_WAITING,
    });
    closers.push(() => pool.close());
    const report = await pool.use(atStart(), (engine) => checkServer(engine, pool.capabilities));
    logReport(report, parts.log);
    const dataset = await openDataset(pool, report, options);
    return {
      pool,
      parser: openParser(parserPool),
      dataset,
      snapshots: dataset,
      knownSettings: pool.capabilities.settings,
      knownFunctions: pool.capabilities.functions,
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

function assertPossible(options: ServiceOptions, { adminUrl, cluster }: ServerBackendParts): void {
  if (options.dataDir !== undefined) throw refuse('dataDir', options.dataDir, 'nothing: the server keeps the data');
  if (adminUrl !== undefined) return;
  const loads = options.data.length + options.chain.length + options.generateSessions > 0;
  const wants = loads || options.asOf !== undefined || cluster !== undefined;
  if (wants) {
    throw refuse(
      'clickhouseAdminUrl',
      undefined,
      "an administrator's address, without which data, chain, generate, asOf and cluster are not possible",
    );
  }
}

function refuse(name: string, value: unknown, allowed: string): Fault {
  return new Fault('SERVICE_OPTION_INVALID', `${name} is ${String(value)}; allowed is ${allowed}`, { kind: 'usage' });
}

/** Creates databases, tables and views, and loads the rows. */
async function makeReady(
  url: string,
  local: EnginePool,
  options: ServiceOptions,
  { clock, log, cluster, openServer }: ServerBackendParts,
): Promise<void> {
  const admin = await openServer({ url, settings: cluster === undefined ? {} : CLUSTER_SETTINGS });
  try {
    await setUpServer(admin, planServer(options, clock, cluster));
    const { load, read } = SERVER_TABLES;
    for (const file of options.data) {
      await loadServerFile(admin, file, load);
      log.info({ event: 'loaded', file }, `loaded ${file}`);
    }
    for (const date of listClosedSessions(clock.now(), options.generateSessions)) {
      const [found] = await admin.rows<{ trades: number }>(
        `SELECT count() AS trades FROM ${load.trades} WHERE date = '${date}'`,
      );
      if (Number(found?.trades) > 0) continue;
      const insertSql = (select: string) => `INSERT INTO ${load.trades} ${select}`;
      const target = { engine: admin, scratch: load.incoming, insertSql };
      const { seed, generateRows: rows = usualRows(date, seed) } = options;
      await generateSession({ date, rows, seed }, target);
      log.info({ event: 'generated', date, rows }, `generated ${date}`);
    }
    for (const file of options.chain) await loadChainFile(file, readHere(local, admin, read.chains));
  } finally {
    await admin.close();
  }
}

/** The file is on this machine: the local engine reads it and its rows are sent. Chains are small. */
function readHere(local: EnginePool, admin: Engine, table: string): LoadTarget {
  const request = atStart();
  return {
    scratch: '',
    // The target's columns are given by position, but rows as objects need its column names.
    insertSql: (select) => `SELECT * FROM (${select}) AS chain (${CHAIN_COLUMNS.map(({ name }) => name).join(', ')})`,
    engine: {
      rows: (sql) => local.use(request, (engine) => engine.rows(sql)),
      command: async (select) => {
        const payload = await local.use(request, async (engine) => buffer(await engine.stream(select, 'JSONEachRow')));
        await admin.insert({ table, format: 'JSONEachRow', payload });
      },
    },
  };
}

function planServer(options: ServiceOptions, clock: Clock, cluster: string | undefined): ServerPlan {
  return {
    cluster,
    earliest: options.earliest ?? EARLIEST_DATE,
    offsetSeconds: options.asOf === undefined ? 0 : (clock.now() - systemClock.now()) / 1_000,
    order: options.order,
    granularity: granularityFor(options.scanLimit),
    tables: STORED_TABLES.filter(({ name }) => name === 'chains').map((table) => ({
      ...table,
      order: listSortColumns(table.name, options.order),
    })),
  };
}

function logReport(report: ServerReport, log: Log): void {
  for (const warning of report.warnings) log.warn({ event: 'server-unlike' }, warning);
  const apartSeconds = Math.abs(report.presentMs - systemClock.now()) / 1_000;
  if (apartSeconds <= CLOCK_WARNING_SECONDS) return;
  log.warn(
    { event: 'server-clock-apart', apartSeconds },
    "the server's clock, which delay and lookback follow, differs",
  );
}

async function openDataset(
  pool: ServerPool,
  report: ServerReport,
  options: ServiceOptions,
): Promise<Dataset & SnapshotDataset> {
  return {
    tables: SERVER_TABLES.read,
    databases: [...new Set([...report.databases, ...SERVER_TABLES.databases])],
    rows: await countRows(pool),
    lookbackDays: LOOKBACK_DAYS,
    stream: (engine, { text, settings, format }) => engine.stream(`${text} ${formatSettings(settings)}`, format),
    earliest: options.earliest ?? EARLIEST_DATE,
    // The service's user sees only the views, which already apply the delay.
    delayMs: MINIMUM_DATA_DELAY_MINUTES * 60_000,
    // The views are on the server and follow its clock.
    prepare: async () => {},
  };
}

/** Counts the visible trades; `null` when that fails, e.g. because there are more than the user may read at once. */
async function countRows(pool: EnginePool): Promise<number | null> {
  const sql = `SELECT count() AS rows FROM ${SERVER_TABLES.read.trades}`;
  const counted = await pool.use(atStart(), (engine) => engine.rows<{ rows: number }>(sql)).catch(() => undefined);
  return counted?.[0] === undefined ? null : Number(counted[0].rows);
}

function atStart(): PoolRequest {
  return { owner: 'start', signal: new AbortController().signal };
}
