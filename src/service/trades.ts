/**
 * The trades as the service keeps them: one MergeTree table in a database of its own, and over it the two views that a
 * query may name. Invariant: nothing outside the lookback, younger than the delay, or before the earliest date leaves
 * the views, whatever the query says; the table's database has a random name that no query can spell. The views compute
 * their bounds from the engine's clock plus a constant, so that the bounds move by themselves and fold to constants that
 * prune on the primary key.
 */
import { randomBytes } from 'node:crypto';
import type { Clock } from '../core/clock.ts';
import { systemClock } from '../core/clock.ts';
import type { Engine } from '../engine/engine.ts';
import { quoteIdentifier, quoteString } from '../engine/literal.ts';
import { EXCHANGE_TIME_ZONE, LOOKBACK_DAYS, MINIMUM_DATA_DELAY_MINUTES, TABLES } from '../wire/limits.ts';
import { TRADE_COLUMNS, type TradeColumn } from '../wire/trade.ts';

export type TradeOrder = 'time' | 'symbol';

/** Text columns with few distinct values; `id`, `time` and the time of creation have as many as rows. */
const DISTINCT_COLUMNS: ReadonlySet<string> = new Set(['id', 'time', 'updated_timestamp']);

/** The views follow the service's clock when it has moved against the engine's by more than this. */
const CLOCK_TOLERANCE_MS = 500;

const [ALL_TRADES, LATEST_TRADES] = TABLES;

export interface Trades {
  /** Quoted name of the table that rows are inserted into; its columns are the trade record's, in its order. */
  readonly table: string;
  /** Quoted name of a table that a loader may create and drop. */
  readonly scratch: string;
  /** Database names that no query may spell. */
  readonly databases: readonly string[];
  /** Creates the views, once all rows are in. @returns the number of rows, hidden ones included */
  publish(earliest: string): Promise<number>;
  /** The first date among all rows, or `undefined` when there are none. */
  firstDate(): Promise<string | undefined>;
  /** Makes the views agree with the service's clock again. */
  follow(): Promise<void>;
  drop(): Promise<void>;
}

/** ClickHouse's own default, rows. */
const MAX_GRANULARITY = 8192;
/** Below this the index costs more than it saves. */
const MIN_GRANULARITY = 16;
/** A range of rows touches up to two granules more than it holds: they must be small beside the scan limit. */
const GRANULES_PER_SCAN_LIMIT = 64;

/**
 * Creates the empty table and makes the views' database the current one.
 * @param scanLimit most rows read for one answer; the table's granules are made fine enough for it
 */
export async function createTrades(
  engine: Engine,
  clock: Clock,
  order: TradeOrder,
  scanLimit: number,
): Promise<Trades> {
  const hidden = `trades_${randomBytes(12).toString('hex')}`;
  const visible = `service_${randomBytes(12).toString('hex')}`;
  await engine.command(`CREATE DATABASE ${hidden} ENGINE = Atomic`);
  // Unqualified names resolve here. In the default database of the embedded engine they would be file names.
  await engine.command(`CREATE DATABASE ${visible} ENGINE = Atomic`);
  await engine.command(`USE ${visible}`);
  const table = `${hidden}.trades`;
  // The date is the first part of the time, so it does not change the order; it lets a filter on the date prune as well.
  const sortKey = order === 'time' ? 'date, time, id' : 'symbol, date, time, id';
  const columns = TRADE_COLUMNS.map((column) => `${quoteIdentifier(column.name)} ${storedType(column)}`);
  const granularity = Math.min(
    MAX_GRANULARITY,
    Math.max(MIN_GRANULARITY, Math.floor(scanLimit / GRANULES_PER_SCAN_LIMIT)),
  );
  await engine.command(
    `CREATE TABLE ${table} (${columns.join(', ')}) ENGINE = MergeTree ORDER BY (${sortKey})
     SETTINGS index_granularity = ${granularity}`,
  );
  return new EngineTrades(engine, clock, hidden, visible);
}

class EngineTrades implements Trades {
  readonly table: string;
  readonly scratch: string;
  readonly databases: readonly string[];
  readonly #engine: Engine;
  readonly #clock: Clock;
  readonly #hidden: string;
  #earliest = '';
  #offsetMs = 0;

  constructor(engine: Engine, clock: Clock, hidden: string, visible: string) {
    this.#engine = engine;
    this.#clock = clock;
    this.#hidden = hidden;
    this.table = `${hidden}.trades`;
    this.scratch = `${hidden}.scratch`;
    this.databases = [hidden, visible];
  }

  async publish(earliest: string): Promise<number> {
    this.#earliest = earliest;
    await this.#engine.command(
      `CREATE TABLE ${this.#hidden}.dates ENGINE = MergeTree ORDER BY date AS
       SELECT date, min(time) AS first_time FROM ${this.table} GROUP BY date`,
    );
    await this.#createViews();
    const [counted] = await this.#engine.rows<{ rows: number }>(`SELECT count() AS rows FROM ${this.table}`);
    return counted?.rows ?? 0;
  }

  async firstDate(): Promise<string | undefined> {
    const [first] = await this.#engine.rows<{ date: string }>(`SELECT min(date) AS date FROM ${this.table}`);
    return first?.date === '' ? undefined : first?.date;
  }

  async follow(): Promise<void> {
    const offsetMs = this.#clock.now() - systemClock.now();
    if (Math.abs(offsetMs - this.#offsetMs) > CLOCK_TOLERANCE_MS) await this.#createViews();
  }

  async drop(): Promise<void> {
    await this.#engine.command('USE default');
    for (const database of this.databases) await this.#engine.command(`DROP DATABASE IF EXISTS ${database} SYNC`);
  }

  async #createViews(): Promise<void> {
    this.#offsetMs = Math.round(this.#clock.now() - systemClock.now());
    const columns = TRADE_COLUMNS.map((column) => quoteIdentifier(column.name)).join(', ');
    const newest = this.#boundSql(`toIntervalMinute(${MINIMUM_DATA_DELAY_MINUTES})`);
    const oldest = this.#boundSql(`toIntervalDay(${LOOKBACK_DAYS})`);
    await this.#engine.command(
      `CREATE OR REPLACE VIEW ${ALL_TRADES} AS SELECT ${columns} FROM ${this.table}
       WHERE time <= ${newest} AND time >= ${oldest} AND date >= ${quoteString(this.#earliest)}`,
    );
    const latest = (value: string) => `(SELECT max(${value}) FROM ${this.#hidden}.dates WHERE first_time <= ${newest})`;
    // The date decides; the time only lets the primary key skip the other dates.
    await this.#engine.command(
      `CREATE OR REPLACE VIEW ${LATEST_TRADES} AS SELECT ${columns} FROM ${ALL_TRADES}
       WHERE date = ${latest('date')} AND time >= ${latest('first_time')}`,
    );
  }

  /** The exchange's wall clock `ago` before the service's present, as SQL. */
  #boundSql(ago: string): string {
    const present = `now64(3) + toIntervalMillisecond(${this.#offsetMs})`;
    return `formatDateTime(toTimeZone(${present} - ${ago}, ${quoteString(EXCHANGE_TIME_ZONE)}), '%F %T')`;
  }
}

/** The type that a column is stored with and answered as. */
function storedType(column: TradeColumn): string {
  if (column.wire === 'integer') return 'Int32';
  if (column.wire === 'float') return 'Float64';
  return DISTINCT_COLUMNS.has(column.name) ? 'String' : 'LowCardinality(String)';
}
