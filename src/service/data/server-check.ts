/**
 * Checks that a ClickHouse server is ready, as the service's own user and without administrator rights. Invariant: it
 * changes nothing; the service does not start if its user could write, or could not be limited. A fault names what is
 * missing and the SQL that creates it; `docs/service.md` has the complete SQL.
 */
import { TABLES } from '../../api-contract/published-limits.ts';
import { TRADE_COLUMNS, type TradeColumn } from '../../api-contract/trade.ts';
import { describeError, Fault } from '../../core/errors.ts';
import { EngineFault } from '../../engine/engine-fault.ts';
import { quoteIdentifier, quoteString } from '../../engine/literal.ts';
import { type Capabilities, isTooOld, OLDEST_VERSION } from '../../engine/server.ts';
import type { StatementRunner } from '../backend.ts';

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
  const hint = `${remedy}. See "Over a ClickHouse server" in docs/service.md.`;
  return new Fault('SERVER_NOT_READY', message, { kind: 'usage', hint });
}
