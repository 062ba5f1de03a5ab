/**
 * A source that answers from a table of an embedded engine: real SQL, real counts, and faults that a test scripts. It
 * stands where the HTTP client would; what the client makes of real answers is tested in `test/source`.
 */
import type { Engine } from '../../src/engine/engine.ts';
import { quoteIdentifier } from '../../src/engine/literal.ts';
import { type Page, type Source, SourceFault } from '../../src/source/source.ts';
import { TRADE_COLUMNS } from '../../src/wire/trade.ts';

export interface EngineSourceOptions {
  readonly rowLimit: number;
  /** The portal sends no `meta` and truncates without a word. */
  readonly meta: boolean;
  /** Called before a query is answered; may throw a fault, or change the table. */
  readonly before?: (sql: string) => Promise<void> | void;
  /** Rows that an answer loses at its end. */
  readonly loses?: (sql: string, rows: number) => number;
  readonly nowMs: number;
}

export interface EngineSource extends Source {
  readonly asked: string[];
  /** Queries for pages, as against probes, cuts and the like. */
  pages(): readonly string[];
}

/** Creates an empty `RawOptionTrades` of the contract's columns. */
export async function createTradesTable(engine: Engine): Promise<void> {
  const type = { string: 'String', integer: 'Int32', float: 'Float64' } as const;
  const columns = TRADE_COLUMNS.map(({ name, wire }) => `${quoteIdentifier(name)} ${type[wire]}`).join(', ');
  await engine.command(
    `CREATE OR REPLACE TABLE RawOptionTrades (${columns}) ENGINE = MergeTree ORDER BY (date, time, id)`,
  );
}

export async function insertTrades(engine: Engine, rows: readonly Readonly<Record<string, unknown>>[]): Promise<void> {
  await engine.insert({ table: 'RawOptionTrades', format: 'JSONEachRow', payload: Buffer.from(JSON.stringify(rows)) });
}

export function createEngineSource(engine: Engine, options: EngineSourceOptions): EngineSource {
  const asked: string[] = [];
  const stats = { requests: 0, retries: 0, rateLimited: 0, bytes: 0 };
  return {
    url: 'engine://trades',
    stats,
    asked,
    pages: () => asked.filter((sql) => sql.startsWith('SELECT id,') || sql.startsWith('SELECT symbol,')),
    async ask(sql): Promise<Page> {
      stats.requests += 1;
      asked.push(sql);
      await options.before?.(sql);
      const all = await engine.rows<Record<string, unknown>>(sql);
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
    intervalMs: () => 1000,
  };
}

/** The fault of a server whose scan limit was met. */
export function tooBroad(): SourceFault {
  return new SourceFault('QUERY_TOO_BROAD', 'the API answered HTTP 422 QUERY_TOO_BROAD', { action: 'split' });
}

/** The fault of a window whose retries are used up. */
export function unreachable(): SourceFault {
  return new SourceFault('API_UNREACHABLE', 'the API cannot be reached', { action: 'fail' });
}
