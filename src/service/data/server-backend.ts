/**
 * The backend over a ClickHouse server, or a cluster behind one address. Callers' queries run there as a user that may
 * only read the views; a local engine process parses them first, so the guard is the same everywhere. With an
 * administrator URL, the service also creates the databases and views and loads files; without one it uses the existing
 * ones. In both cases it checks the server as its own user, which changes nothing: the service does not start if this user
 * could write, or could not be limited. A fault names what is missing and the SQL that creates it; `docs/clickhouse.md` has
 * the complete SQL.
 */
import { createReadStream } from 'node:fs';
import { join } from 'node:path';
import { pipeline, Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { createGunzip } from 'node:zlib';
import {
  EARLIEST_DATE,
  LOOKBACK_DAYS,
  MINIMUM_DATA_DELAY_MINUTES,
  TABLES,
} from '../../api-contract/published-limits.ts';
import { TRADE_COLUMNS, type TradeColumn } from '../../api-contract/trade.ts';
import { systemClock } from '../../core/clock.ts';
import { describeError, Fault } from '../../core/errors.ts';
import { EngineFault } from '../../engine/engine-fault.ts';
import { quoteIdentifier, quoteString } from '../../engine/literal.ts';
import type { EnginePool } from '../../engine/pool.ts';
import {
  type Capabilities,
  isTooOld,
  keepKnown,
  OLDEST_VERSION,
  openServerEngine,
  openServerPool,
  readCapabilities,
  type ServerEngine,
} from '../../engine/server.ts';
import { type Backend, type BackendParts, MAX_WAITING, runOn, type StatementRunner } from '../backend.ts';
import { generateSession, listClosedSessions, planRows } from '../generate/generate.ts';
import { invalidOption, type ServiceOptions } from '../options.ts';
import { loadChainFile } from './chain-file.ts';
import { findDataFile, invalidData, readRecords } from './data-file.ts';
import { CLUSTER_SETTINGS, SERVER_DATABASES, SERVER_TABLES, setUpServer } from './server-setup.ts';
import { CHAIN_COLUMNS } from './tables.ts';

const { trades, visibleTrades, incoming, chains, dates } = SERVER_TABLES;

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

/** @throws Fault `SERVER_NOT_READY`, `SERVICE_OPTION_INVALID`, `DATA_INVALID`, `DATA_UNREADABLE` (kind `usage`) */
export async function openServerBackend(
  options: ServiceOptions,
  parts: BackendParts,
  places: ServerPlaces,
): Promise<Backend> {
  assertPossible(options, places);
  const { clock, log, closers } = parts;
  const { adminUrl, cluster } = places;
  const size = options.concurrency;
  const local = await parts.startEngines(join(parts.folder, 'parser'), 1);
  if (adminUrl !== undefined) {
    const admin = await openServerEngine({ url: adminUrl, settings: cluster === undefined ? {} : CLUSTER_SETTINGS });
    try {
      const offsetSeconds = options.asOf === undefined ? 0 : (clock.now() - systemClock.now()) / 1_000;
      await setUpServer(admin, { ...options, cluster, offsetSeconds });
      await loadServer(options, admin, local, parts);
    } finally {
      await admin.close();
    }
  }
  const pool = await openServerPool({ url: places.url, size, maxWaiting: MAX_WAITING });
  closers.push(() => pool.close());
  const own = runOn(pool);
  const { databases, presentMs, warnings } = await checkServer(own, pool.capabilities);
  for (const warning of warnings) log.warn({ event: 'server-unlike' }, warning);
  const apartSeconds = Math.abs(presentMs - systemClock.now()) / 1_000;
  if (apartSeconds > CLOCK_WARNING_SECONDS) {
    const said = "the server's clock, which delay and lookback follow, differs";
    log.warn({ event: 'server-clock-apart', apartSeconds }, said);
  }
  // It fails where there are more trades than the user may read at once.
  const [counted] = await own.rows<{ rows: number }>(`SELECT count() AS rows FROM ${visibleTrades}`).catch(() => []);
  return {
    pool,
    parser: local,
    databases: [...new Set([...databases, ...SERVER_DATABASES])],
    rows: counted === undefined ? null : Number(counted.rows),
    lookbackDays: LOOKBACK_DAYS,
    // The service's user sees only the views, which already apply the delay.
    snapshots: {
      tables: { trades: visibleTrades, chains, dates },
      delayMs: MINIMUM_DATA_DELAY_MINUTES * 60_000,
      earliest: options.earliest ?? EARLIEST_DATE,
    },
    capabilities: pool.capabilities,
  };
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

/**
 * Ignore columns that the record does not have. Parse numbers exactly, so that 7.94 stays 7.94: the fast parser's last
 * digit may be wrong.
 */
const INSERT_SETTINGS = { input_format_skip_unknown_fields: 1, precise_float_parsing: 1 };

/**
 * Loads trades and chains. The files are on this machine: its engine reads a file's columns, and the bytes of trades are
 * sent as they are. Trades come by way of a table of their own, so a file that cannot be read to its end adds none, and
 * loading again adds those whose ids are missing. Memory holds a piece of the file.
 * @param admin an administrator's connection
 * @param local an engine of this machine
 * @throws Fault `DATA_UNREADABLE` or `DATA_INVALID` (kind `usage`), EngineFault
 */
export async function loadServer(
  options: ServiceOptions,
  admin: ServerEngine,
  local: EnginePool,
  { clock, log }: Pick<BackendParts, 'clock' | 'log'>,
): Promise<void> {
  const { rows } = runOn(local);
  for (const file of options.data) {
    const found = await findDataFile(file);
    await readRecords(found, { rows }, () =>
      addTrades(admin, async () => {
        const settings = keepKnown(INSERT_SETTINGS, await readCapabilities(admin));
        await admin.send(`INSERT INTO ${incoming} FORMAT ${found.format}`, readBytes(found.path), { settings });
        const [nameless] = await admin.rows<{ n: number }>(`SELECT count() AS n FROM ${incoming} WHERE id = ''`);
        if (Number(nameless?.n) === 0) return;
        throw invalidData(`${file}: ${nameless?.n} rows have an empty id; each must have its own`);
      }),
    );
    log.info({ event: 'loaded', file }, `loaded ${file}`);
  }
  const { generateSessions, generateRows, seed } = options;
  for (const date of listClosedSessions(clock.now(), generateSessions)) {
    const [found] = await admin.rows<{ n: number }>(`SELECT count() AS n FROM ${trades} WHERE date = '${date}'`);
    if (Number(found?.n) > 0) continue;
    const session = { date, seed, ...planRows(date, seed, generateRows) };
    const insertSql = (select: string) => `INSERT INTO ${incoming} ${select}`;
    await addTrades(admin, () => generateSession(session, { engine: admin, insertSql }));
    log.info({ event: 'generated', date, rows: session.rows }, `generated ${date}`);
  }
  // The target's columns are given by position, but rows as objects need its column names. Chains are small.
  const insertSql = (select: string) =>
    `SELECT * FROM (${select}) AS chain (${CHAIN_COLUMNS.map(({ name }) => name).join(', ')})`;
  const command = async (select: string) => {
    const request = { owner: 'loader', signal: new AbortController().signal };
    const payload = await local.use(request, async (engine) => buffer(await engine.stream(select, 'JSONEachRow')));
    await admin.send(`INSERT INTO ${chains} FORMAT JSONEachRow`, Readable.from([payload], { objectMode: false }));
  };
  for (const file of options.chain) {
    await loadChainFile(await findDataFile(file), { engine: { rows, command }, insertSql });
  }
}

/** @param fill inserts the rows into `incoming` */
async function addTrades(admin: ServerEngine, fill: () => Promise<void>): Promise<void> {
  await admin.command(`DROP TABLE IF EXISTS ${incoming}`);
  await admin.command(`CREATE TABLE ${incoming} AS ${trades} ENGINE = MergeTree ORDER BY (date, time, id)`);
  try {
    await fill();
    // Only this server has the incoming rows; GLOBAL sends their dates to the shards, where the trades have some.
    const present = `SELECT id FROM ${trades} WHERE date GLOBAL IN (SELECT DISTINCT date FROM ${incoming})`;
    await admin.command(`INSERT INTO ${trades} SELECT * FROM ${incoming} WHERE id NOT IN (${present})`);
  } finally {
    await admin.command(`DROP TABLE IF EXISTS ${incoming}`);
  }
}

function readBytes(file: string): Readable {
  const source = createReadStream(file);
  if (!/\.gz$/i.test(file)) return source;
  // The reader of the last stream gets the errors of both.
  return pipeline(source, createGunzip(), () => {});
}

/** Error codes of refused writes; they vary with the server's version: READONLY, QUERY_IS_PROHIBITED, ACCESS_DENIED. */
const REFUSED_CODES: readonly number[] = [164, 392, 497];
/** SETTING_CONSTRAINT_VIOLATION. */
const CONSTRAINT_CODE = 452;
/** Databases that every server has and that hold no data. */
const SYSTEM_DATABASES = /^(system|information_schema)$/i;

/**
 * @returns the databases that the service's user can see, which no query may name; the server's clock, which the views
 *   follow, ms since the epoch in whole seconds; and warnings of reduced safety
 * @throws Fault `SERVER_NOT_READY` (kind `usage`)
 */
export async function checkServer(engine: StatementRunner, { readonly: level, version }: Capabilities) {
  if (level !== 2) {
    const why =
      level === 0
        ? "the service's user may write: its setting `readonly` is 0"
        : "the service cannot limit its queries: its user's setting `readonly` is 1, not 2";
    throw notReady(why, 'ALTER SETTINGS PROFILE flowdrop_reader SETTINGS readonly = 2');
  }
  try {
    const [current] = await engine.rows<{ name: string; seconds: number }>(
      'SELECT currentDatabase() AS name, toUnixTimestamp(now()) AS seconds',
    );
    const own = current?.name ?? '';
    for (const table of TABLES) await assertColumns(engine, own, table);
    await assertRefused(engine, own);
    const all = await engine.rows<{ name: string }>('SELECT name FROM system.databases');
    const seen = await engine.rows<{ name: string }>(
      'SELECT DISTINCT database AS name FROM system.tables ORDER BY name',
    );
    const others = seen.map(({ name }) => name).filter((name) => name !== own && !SYSTEM_DATABASES.test(name));
    const warnings = [
      ...(isTooOld(version) ? [`it has ClickHouse ${version}; ${OLDEST_VERSION} is the oldest that is supported`] : []),
      ...(others.length > 0
        ? [`the service's user can read ${others.join(', ')} beside ${own}, which its views do not need: REVOKE it`]
        : []),
    ];
    return { databases: all.map(({ name }) => name), presentMs: (current?.seconds ?? 0) * 1000, warnings };
  } catch (cause) {
    if (!(cause instanceof EngineFault) || cause.clickhouseCode !== CONSTRAINT_CODE) throw cause;
    throw notReady(
      `the server does not allow the service's limits: ${describeError(cause)}`,
      `ALTER SETTINGS PROFILE flowdrop_reader with a larger MAX, or start the service with smaller limits`,
    );
  }
}

async function assertColumns(engine: StatementRunner, database: string, table: string): Promise<void> {
  const columns = await engine.rows<{ name: string; type: string }>(
    `SELECT name, type FROM system.columns
     WHERE database = ${quoteString(database)} AND table = ${quoteString(table)}`,
  );
  const place = `${database}.${table}`;
  if (columns.length === 0)
    throw notReady(
      `there is no ${place} that the service's user may read`,
      `GRANT SELECT ON ${place} TO flowdrop_reader; where it does not exist, let the service create it, with an administrator's address`,
    );
  const types = new Map(columns.map(({ name, type }) => [name, type]));
  const wrong = TRADE_COLUMNS.filter((column) => !isType(types.get(column.name), column));
  if (wrong.length === 0) return;
  const list = wrong.map(({ name, wire }) => `${name} (${types.get(name) ?? 'missing'}; allowed is ${wire})`);
  throw notReady(`${place} has wrong columns: ${list.join(', ')}`, `CREATE OR REPLACE VIEW ${place} AS SELECT ...`);
}

function isType(type: string | undefined, { wire }: TradeColumn): boolean {
  const plain = type?.replace(/^(LowCardinality|Nullable)\((.*)\)$/, '$2').replace(/^Nullable\((.*)\)$/, '$1') ?? '';
  if (wire === 'string') return plain === 'String' || plain.startsWith('FixedString');
  // A 64-bit integer would appear in JSON as a number that many callers cannot represent exactly.
  return wire === 'integer' ? /^U?Int(8|16|32)$/.test(plain) : /^Float(32|64)$/.test(plain);
}

/** Tries an INSERT that changes nothing even if it is allowed: it selects no rows, and views store none. */
async function assertRefused(engine: StatementRunner, database: string): Promise<void> {
  const view = `${quoteIdentifier(database)}.${TABLES[0]}`;
  const refused = await engine.command(`INSERT INTO ${view} (id) SELECT '' FROM system.one WHERE 0`).then(
    () => false,
    (error: unknown) => {
      if (error instanceof EngineFault) return REFUSED_CODES.includes(error.clickhouseCode);
      throw error;
    },
  );
  if (!refused) throw notReady("the service's user may insert", 'REVOKE ALL ON *.* FROM flowdrop');
}

function notReady(message: string, remedy: string): Fault {
  const hint = `${remedy}. See docs/clickhouse.md.`;
  return new Fault('SERVER_NOT_READY', message, { kind: 'usage', hint });
}
