/**
 * Checks that a ClickHouse server is ready, as the service's own user and without administrator rights. Invariant: it
 * changes nothing; the service does not start if its user could write, or could not be limited. A fault names what is
 * missing and the SQL that creates it; `docs/service.md` has the complete SQL.
 */

import { TABLES } from '../../api-contract/published-limits.ts';
import { TRADE_COLUMNS, type TradeColumn } from '../../api-contract/trade.ts';
import { describeError, Fault } from '../../core/errors.ts';
import { type Capabilities, isTooOld, OLDEST_VERSION } from '../../engine/capabilities.ts';
import { EngineFault } from '../../engine/engine-fault.ts';
import { quoteIdentifier, quoteString } from '../../engine/literal.ts';
import type { PooledEngine } from '../../engine/pool.ts';

type Asker = Pick<PooledEngine, 'command' | 'rows'>;

export interface ServerReport {
  /** The database that contains the views. */
  readonly database: string;
  /** Databases that the user can see; no query may name them. */
  readonly databases: readonly string[];
  /**
   * The server's clock at the time of the check, ms since the epoch, whole seconds. The views follow this clock, not
   * ours.
   */
  readonly presentMs: number;
  /** Reduced safety, for the log. */
  readonly warnings: readonly string[];
}

/** Error codes of refused writes; they vary with the server's version: READONLY, QUERY_IS_PROHIBITED, ACCESS_DENIED. */
const REFUSED_CODES: readonly number[] = [164, 392, 497];
/** SETTING_CONSTRAINT_VIOLATION. */
const CONSTRAINT_CODE = 452;
/** Databases that every server has and that hold no data. */
const SYSTEM_DATABASES = /^(system|information_schema)$/i;

const SEE = 'See "Over a ClickHouse server" in docs/service.md.';

/**
 * @param capabilities those of the server, for the service's user
 * @throws Fault `SERVER_NOT_READY` (kind `usage`)
 */
export async function checkServer(engine: Asker, capabilities: Capabilities): Promise<ServerReport> {
  assertReadOnlyLevel(capabilities);
  try {
    const [current] = await engine.rows<{ name: string; seconds: number }>(
      'SELECT currentDatabase() AS name, toUnixTimestamp(now()) AS seconds',
    );
    const database = current?.name ?? '';
    const presentMs = (current?.seconds ?? 0) * 1000;
    for (const table of TABLES) await assertColumns(engine, database, table);
    await assertRefused(engine, database);
    const databases = (await engine.rows<{ name: string }>('SELECT name FROM system.databases')).map(
      ({ name }) => name,
    );
    return { database, databases, presentMs, warnings: await listWarnings(engine, capabilities, database) };
  } catch (cause) {
    if (!(cause instanceof EngineFault) || cause.clickhouseCode !== CONSTRAINT_CODE) throw cause;
    throw notReady(
      `the server does not allow the service's limits: ${describeError(cause)}`,
      `ALTER SETTINGS PROFILE flowdrop_reader with a larger MAX, or start the service with smaller limits`,
    );
  }
}

function assertReadOnlyLevel({ readonly }: Capabilities): void {
  const remedy = 'ALTER SETTINGS PROFILE flowdrop_reader SETTINGS readonly = 2';
  if (readonly === 0) throw notReady("the service's user may write: its setting `readonly` is 0", remedy);
  if (readonly === 1)
    throw notReady("the service cannot limit its queries: its user's setting `readonly` is 1, not 2", remedy);
}

async function assertColumns(engine: Asker, database: string, table: string): Promise<void> {
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
async function assertRefused(engine: Asker, database: string): Promise<void> {
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

async function listWarnings(engine: Asker, { version }: Capabilities, database: string): Promise<readonly string[]> {
  const seen = await engine.rows<{ database: string }>('SELECT DISTINCT database FROM system.tables ORDER BY database');
  const others = seen.map((row) => row.database).filter((name) => name !== database && !SYSTEM_DATABASES.test(name));
  return [
    ...(isTooOld(version)
      ? [`the server has ClickHouse ${version}; ${OLDEST_VERSION} is the oldest that is supported`]
      : []),
    ...(others.length === 0
      ? []
      : [
          `the service's user can read ${others.join(', ')} beside ${database}, which its views do not need: REVOKE it`,
        ]),
  ];
}

function notReady(message: string, remedy: string): Fault {
  return new Fault('SERVER_NOT_READY', message, { kind: 'usage', hint: `${remedy}. ${SEE}` });
}
