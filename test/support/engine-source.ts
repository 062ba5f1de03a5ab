/**
 * A source that answers from a table of an embedded engine: real SQL, real counts, and faults that a test scripts. It
 * stands where the HTTP client would; what the client makes of real answers is tested in `test/source`.
 */

import { TRADE_COLUMNS } from '../../src/api-contract/trade.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { CLICKHOUSE_CODES, EngineFault } from '../../src/engine/engine-fault.ts';
import { quoteIdentifier } from '../../src/engine/literal.ts';
import { type Page, type Source, SourceFault } from '../../src/source/source.ts';

export interface EngineSourceOptions {
  readonly rowLimit: number;
  /** The portal sends no `meta` and truncates without a word. */
  readonly meta: boolean;
  /** Called before a query is answered; may throw a fault, or change the table. */
  readonly before?: (sql: string) => Promise<void> | void;
  /** Rows that an answer loses at its end. */
  readonly loses?: (sql: string, rows: number) => number;
  readonly nowMs: number;
  /** Most rows that a query may read, as the server's own setting has it. */
  readonly scanLimit?: number;
}

export interface EngineSource extends Source {
  readonly asked: string[];
  /** Queries that were answered with a fault of the kind that is to be split. */
  readonly refused: string[];
  /** Queries for pages, as against probes, cuts and the like. */
  pages(): readonly string[];
}

/** Types of a table of the contract's columns. */
export const WIRE_TYPES = { string: 'String', integer: 'Int32', float: 'Float64' } as const;
/** Keys of a table, by what it is said to be ordered by. */
export const ORDERS = { time: 'date, time, id', symbol: 'symbol, date, time, id', clock: 'time' } as const;

/** Creates an empty `RawOptionTrades` of the contract's columns. @param order what the table is ordered by; `clock`: by nothing but the time */
export async function createTradesTable(engine: Engine, order: keyof typeof ORDERS = 'time'): Promise<void> {
  const columns = TRADE_COLUMNS.map(({ name, wire }) => `${quoteIdentifier(name)} ${WIRE_TYPES[wire]}`).join(', ');
  await engine.command(
    `CREATE OR REPLACE TABLE RawOptionTrades (${columns}) ENGINE = MergeTree ORDER BY (${ORDERS[order]}) SETTINGS index_granularity = 16`,
  );
}

/** A new table with these rows. */
export async function fillTrades(
  engine: Engine,
  rows: readonly Readonly<Record<string, unknown>>[],
  order: keyof typeof ORDERS = 'time',
): Promise<void> {
  await createTradesTable(engine, order);
  await insertTrades(engine, rows);
}

export async function insertTrades(engine: Engine, rows: readonly Readonly<Record<string, unknown>>[]): Promise<void> {
  await insertRows(engine, 'RawOptionTrades', rows);
}

export async function insertRows(engine: Engine, table: string, rows: readonly object[]): Promise<void> {
  // The engine refuses an insert of nothing.
  if (rows.length === 0) return;
  const lines = rows.map((row) => JSON.stringify(row));
  await engine.command(`INSERT INTO ${table} FORMAT JSONEachRow\n${lines.join('\n')}`);
}

/** Whether a query asks for rows, and not for counts or cuts. */
export function isPage(sql: string): boolean {
  return sql.startsWith('SELECT id,') || sql.startsWith('SELECT symbol,');
}

/** Whether a query counts rows: before the first page, or again at the end. */
export const isCount = (sql: string): boolean => sql.includes('AS dates');

export function createEngineSource(engine: Engine, options: EngineSourceOptions): EngineSource {
  const asked: string[] = [];
  const refused: string[] = [];
  const answer = async (sql: string) => {
    await options.before?.(sql);
    return await query(engine, sql, options.scanLimit);
  };
  const stats = { requests: 0, retries: 0, rateLimited: 0, bytes: 0, answerMs: 0 };
  return {
    url: 'engine://trades',
    stats,
    asked,
    refused,
    pages: () => asked.filter(isPage),
    async ask(sql): Promise<Page> {
      stats.requests += 1;
      asked.push(sql);
      const all = await answer(sql).catch((error: unknown) => {
        if (error instanceof SourceFault && error.action === 'split') refused.push(sql);
        throw error;
      });
      const lost = options.loses?.(sql, all.length) ?? 0;
      const kept = all.slice(0, Math.max(0, Math.min(options.rowLimit, all.length - lost)));
      return {
        data: Buffer.from(JSON.stringify(kept)),
        rows: kept.length,
        firstRow: kept[0],
        meta: options.meta
          ? {
              entitlement: 'active',
              row_limit: options.rowLimit,
              capped: false,
              truncated: all.length > options.rowLimit,
              minimum_data_delay_minutes: 15,
            }
          : undefined,
      };
    },
    serverNow: () => options.nowMs,
    tellsTime: () => true,
    intervalMs: () => 1000,
  };
}

async function query(engine: Engine, sql: string, scanLimit: number | undefined) {
  const limited = scanLimit === undefined ? sql : `${sql} SETTINGS max_rows_to_read = ${scanLimit}`;
  try {
    return await engine.rows<Record<string, unknown>>(limited);
  } catch (error) {
    if (error instanceof EngineFault && error.clickhouseCode === CLICKHOUSE_CODES.TOO_MANY_ROWS) throw tooBroad();
    throw error;
  }
}

/** The fault of a server whose scan limit was met. */
export function tooBroad(): SourceFault {
  return new SourceFault('QUERY_TOO_BROAD', 'the API answered HTTP 422 QUERY_TOO_BROAD', { action: 'split' });
}

/** The fault of a window whose retries are used up. */
export function unreachable(): SourceFault {
  return new SourceFault('API_UNREACHABLE', 'the API cannot be reached', { action: 'fail' });
}
