/**
 * What the tests of the chain and market-structure endpoints share: tables filled with generated trades, a pool over the
 * one engine of the test, and calls straight to an endpoint. HTTP itself is tested elsewhere.
 */

import { TRADE_COLUMNS, type TradeColumn } from '../../src/api-contract/trade.ts';
import type { Clock } from '../../src/core/clock.ts';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { quoteIdentifier } from '../../src/engine/literal.ts';
import type { EnginePool, PooledEngine } from '../../src/engine/pool.ts';
import type { Caller } from '../../src/service/access/key-file.ts';
import { loadChainFile } from '../../src/service/data/chain-file.ts';
import { findDataFile } from '../../src/service/data/data-file.ts';
import { CHAIN_COLUMNS, CHAIN_SORT } from '../../src/service/data/tables.ts';
import { generateSession } from '../../src/service/generate/generate.ts';
import { ApiFailure } from '../../src/service/http/api-failure.ts';
import type { Answer, Call, Route } from '../../src/service/http/route.ts';
import { createSnapshotReader, type SnapshotReader } from '../../src/service/snapshot/snapshot.ts';
import { insertRows } from '../support/engine-source.ts';

export const KEY = 'cus_test_key_1';

/** A record, as far as the tests read it. */
export interface Trade {
  readonly id: string;
  readonly symbol: string;
  readonly date: string;
  readonly time: string;
  readonly put_call: 'CALL' | 'PUT';
  readonly strike: number;
  readonly expiration_date: string;
  readonly option_symbol: string;
  readonly oi: number;
  readonly size: number;
  readonly price: number;
  readonly underlying_price: number;
  readonly premium: number;
  readonly sentiment: string;
  readonly [column: string]: string | number | null;
}

export interface Reply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: bodies are compared with literals, which checks their shape.
  readonly body: any;
}

/** What a pool is made to do for one test: every task fails with it, or waits for its signal. */
export type PoolTrouble = Error | 'hang';

export interface Bench {
  readonly engine: Engine;
  readonly tables: { readonly trades: string; readonly chains: string; readonly dates: string };
  readonly pool: Pick<EnginePool, 'use'>;
  /** Tasks that the pool has begun. */
  readonly tasks: () => number;
  /** Tasks that were given up. */
  readonly aborted: () => number;
  setTrouble(trouble: PoolTrouble | undefined): void;
  /** Credentials that entered, in order. */
  readonly entered: object[];
  readonly gate: { enter(credentials: object, product: string): Promise<Caller> };
  readonly clock: Clock;
  setNow(instant: string): void;
  createReader(earliest?: string): SnapshotReader;
  insert(trades: readonly object[]): Promise<void>;
  /** The records of a symbol and date up to a wall-clock time, by time and id. */
  readTrades(symbol: string, date: string, until?: string): Promise<readonly Trade[]>;
  close(): Promise<void>;
}

export async function openBench(): Promise<Bench> {
  const engine = await openEmbeddedEngine();
  await engine.command('CREATE DATABASE bench ENGINE = Atomic');
  const tables = { trades: '`bench`.`trades`', chains: '`bench`.`chains`', dates: '`bench`.`dates`' };
  const columns = TRADE_COLUMNS.map((column) => `${quoteIdentifier(column.name)} ${storedType(column)}`);
  await engine.command(
    `CREATE TABLE ${tables.trades} (${columns.join(', ')}) ENGINE = MergeTree ORDER BY (date, time, id)`,
  );
  await engine.command(
    `CREATE TABLE ${tables.chains} (${CHAIN_COLUMNS.map(({ name, type }) => `${name} ${type}`).join(', ')}, source_of_load String)
     ENGINE = MergeTree ORDER BY (${CHAIN_SORT.join(', ')})`,
  );
  // A view, so that it follows the tests; the service keeps a table.
  await engine.command(
    `CREATE VIEW ${tables.dates} AS SELECT date, min(time) AS first_time, max(time) AS last_time
     FROM ${tables.trades} GROUP BY date`,
  );
  let trouble: PoolTrouble | undefined;
  let [tasks, aborted, nowMs] = [0, 0, 0];
  const entered: object[] = [];
  const pooled: PooledEngine = {
    state: {},
    rows: (sql) => engine.rows(sql),
    command: (sql) => engine.command(sql),
    stream: () => Promise.reject(new RangeError('not used by snapshots')),
  };
  const pool: Pick<EnginePool, 'use'> = {
    use: async ({ signal }, task) => {
      tasks += 1;
      if (trouble === 'hang') {
        await new Promise((_resolve, reject) => {
          signal.addEventListener('abort', () => {
            aborted += 1;
            reject(signal.reason);
          });
        });
      }
      if (trouble instanceof Error) throw trouble;
      return await task(pooled);
    },
  };
  const clock: Clock = { now: () => nowMs, sleep: async () => {} };
  return {
    engine,
    tables,
    pool,
    clock,
    entered,
    tasks: () => tasks,
    aborted: () => aborted,
    setTrouble: (value) => {
      trouble = value;
    },
    gate: {
      enter: async (credentials, product) => {
        entered.push({ ...credentials, product });
        return { id: 'c0ffee', name: 'desk', historical: 'active', realtime: true };
      },
    },
    setNow: (instant) => {
      nowMs = Date.parse(instant);
    },
    createReader: (earliest = '2000-01-01') => createSnapshotReader(pool, { tables, earliest, delayMs: 0 }, clock),
    insert: (trades) => insertRows(engine, 'bench.trades', trades),
    readTrades: async (symbol, date, until = `${date} 24:00:00`) =>
      await engine.rows<Trade>(
        `SELECT * FROM ${tables.trades} WHERE symbol = '${symbol}' AND date = '${date}' AND time <= '${until}'
         ORDER BY time, id`,
      ),
    close: () => engine.close(),
  };
}

export async function generate(bench: Bench, dates: readonly string[], rows: number): Promise<void> {
  const insertSql = (select: string) => `INSERT INTO ${bench.tables.trades} ${select}`;
  for (const date of dates) {
    await generateSession({ date, rows, seed: 5 }, { engine: bench.engine, insertSql });
  }
}

/** Loads a chain as the service does: with a column more, which says where a row came from. @returns what is loaded */
export async function loadChain(
  { engine, tables }: Bench,
  file: string,
): Promise<readonly Readonly<Record<string, unknown>>[]> {
  const insertSql = (select: string) => `INSERT INTO ${tables.chains} SELECT *, 'test' FROM (${select})`;
  await loadChainFile(await findDataFile(file), { engine, insertSql });
  return await engine.rows(
    `SELECT symbol, date, as_of, any(spot) AS spot, count() AS contracts FROM ${tables.chains}
     GROUP BY symbol, date, as_of ORDER BY symbol, date, as_of`,
  );
}

/** Calls the endpoint as the listener does: a failure is answered in the endpoint's shape. */
export async function ask(endpoint: Route, call: Partial<Call>): Promise<Reply> {
  const { signal } = new AbortController();
  const whole: Call = {
    body: undefined,
    query: {},
    params: {},
    authorization: undefined,
    session: undefined,
    address: '127.0.0.1',
    signal,
    ...call,
  };
  try {
    const answer = await endpoint.answer(whole);
    const text = await readText(answer);
    return { status: 200, headers: answer.headers ?? {}, text, body: JSON.parse(text) };
  } catch (error) {
    if (!(error instanceof ApiFailure)) throw error;
    const { status, body, details } = endpoint.translate?.(error) ?? error;
    const text = JSON.stringify(body);
    return { status, headers: { 'retry-after': String(details.retryAfterSeconds) }, text, body: JSON.parse(text) };
  }
}

async function readText({ body }: Answer): Promise<string> {
  if (typeof body === 'string' || body instanceof Uint8Array) return Buffer.from(body).toString('utf8');
  const pieces: Uint8Array[] = [];
  for await (const piece of body) pieces.push(piece);
  return Buffer.concat(pieces).toString('utf8');
}

/** The latest record of each contract, computed in a plain loop. */
export function listLatest(trades: readonly Trade[]): readonly (Trade & { readonly volume: number })[] {
  const latest = new Map<string, Trade>();
  const volumes = new Map<string, number>();
  for (const trade of trades) {
    const name = [trade.option_symbol, trade.expiration_date, trade.put_call, trade.strike].join(' ');
    latest.set(name, trade);
    volumes.set(name, (volumes.get(name) ?? 0) + trade.size);
  }
  return [...latest].map(([name, trade]) => ({ ...trade, volume: volumes.get(name) ?? 0 }));
}

/** As the service stores them. */
function storedType({ name, wire }: TradeColumn): string {
  if (wire !== 'string') return wire === 'integer' ? 'Int32' : 'Float64';
  return ['id', 'time', 'updated_timestamp'].includes(name) ? 'String' : 'LowCardinality(String)';
}
