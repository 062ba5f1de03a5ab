/**
 * What the tests of the chain and market-structure endpoints share: tables filled with generated trades, and a pool over
 * the one engine of the test.
 */
import type { Clock } from '../../src/core/clock.ts';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { EnginePool, PooledEngine } from '../../src/engine/pool.ts';
import { loadChainFile } from '../../src/service/data/chain-file.ts';
import { findDataFile } from '../../src/service/data/data-file.ts';
import { listSortColumns, STORED_TABLES } from '../../src/service/data/tables.ts';
import { generateSession } from '../../src/service/generate/generate.ts';
import { createSnapshotReader } from '../../src/service/snapshot/snapshot.ts';
import type { Trade } from '../report/drop-file.ts';
import { insertRows } from '../support/engine-source.ts';

export const KEY = 'cus_test_key_1';

export type Bench = Awaited<ReturnType<typeof openBench>>;

export async function openBench() {
  const engine = await openEmbeddedEngine();
  await engine.command('CREATE DATABASE bench ENGINE = Atomic');
  const tables = { trades: '`bench`.`trades`', chains: '`bench`.`chains`', dates: '`bench`.`dates`' };
  for (const { name, columns } of STORED_TABLES) {
    const all = [...columns, ...(name === 'chains' ? [{ name: 'source_of_load', type: 'String' }] : [])];
    await engine.command(
      `CREATE TABLE ${tables[name]} (${all.map((column) => `${column.name} ${column.type}`).join(', ')})
       ENGINE = MergeTree ORDER BY (${listSortColumns(name, 'time').join(', ')})`,
    );
  }
  // A view, so that it follows the tests; the service keeps a table.
  await engine.command(
    `CREATE VIEW ${tables.dates} AS SELECT date, min(time) AS first_time, max(time) AS last_time
     FROM ${tables.trades} GROUP BY date`,
  );
  /** What the pool is made to do for one test: every task fails with it, or waits for its signal. */
  let trouble: Error | 'hang' | undefined;
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
    /** Credentials that entered, in order. */
    entered,
    /** Tasks that the pool has begun. */
    tasks: () => tasks,
    /** Tasks that were given up. */
    aborted: () => aborted,
    setTrouble: (value: typeof trouble) => {
      trouble = value;
    },
    gate: {
      enter: async (credentials: object, product: string) => {
        entered.push({ ...credentials, product });
        return { id: 'c0ffee', name: 'desk', historical: 'active' as const, realtime: true };
      },
    },
    setNow: (instant: string) => {
      nowMs = Date.parse(instant);
    },
    createReader: (earliest = '2000-01-01') => createSnapshotReader(pool, { tables, earliest, delayMs: 0 }, clock),
    insert: (trades: readonly object[]) => insertRows(engine, 'bench.trades', trades),
    /** The records of a symbol and date up to a wall-clock time, by time and id. */
    readTrades: async (symbol: string, date: string, until = `${date} 24:00:00`): Promise<readonly Trade[]> =>
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
