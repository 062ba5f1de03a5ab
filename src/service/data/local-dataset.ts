/**
 * The data of a folder in a process that mounts it read-only: tables in a database with a random name that no query may
 * contain, and the views in another one, the current database. Invariant: each engine mounts the data once, and its
 * views follow the service's clock.
 */
import { randomBytes } from 'node:crypto';
import {
  EXCHANGE_TIME_ZONE,
  LOOKBACK_DAYS,
  MINIMUM_DATA_DELAY_MINUTES,
  TABLES,
} from '../../api-contract/published-limits.ts';
import { TRADE_COLUMNS } from '../../api-contract/trade.ts';
import { type Clock, systemClock } from '../../core/clock.ts';
import { formatSettings, quoteIdentifier, quoteString } from '../../engine/literal.ts';
import type { PooledEngine } from '../../engine/pool.ts';
import type { AdmittedStatement, Dataset, SnapshotDataset } from '../dataset.ts';
import type { LoadedSource } from './catalog.ts';

/** Recreate the views when the offset between service clock and engine clock has changed by more than this. */
const CLOCK_TOLERANCE_MS = 500;

export class LocalDataset implements Dataset, SnapshotDataset {
  readonly tables;
  readonly delayMs = 0;
  readonly lookbackDays = LOOKBACK_DAYS;
  readonly databases: readonly string[];
  readonly rows: number;
  readonly earliest: string;
  readonly #clock: Clock;
  readonly #dates: readonly LoadedSource['dates'][number][];
  readonly #mountStatements: (hidden: string) => readonly string[];
  /** For each prepared process, the clock offset in its views. */
  readonly #offsets = new WeakMap<object, number>();

  constructor(
    dates: readonly LoadedSource['dates'][number][],
    mountStatements: (hidden: string) => readonly string[],
    given: { readonly earliest: string; readonly clock: Clock; readonly rows: number },
  ) {
    const hidden = `trades_${randomBytes(12).toString('hex')}`;
    this.databases = [hidden, `service_${randomBytes(12).toString('hex')}`];
    this.tables = { trades: `${hidden}.trades`, chains: `${hidden}.chains`, dates: `${hidden}.dates` };
    this.rows = given.rows;
    this.earliest = given.earliest;
    this.#clock = given.clock;
    this.#dates = dates;
    this.#mountStatements = mountStatements;
  }

  async stream(
    engine: PooledEngine,
    { text, settings, format }: AdmittedStatement,
  ): Promise<AsyncIterable<Uint8Array>> {
    await this.prepare(engine);
    return await engine.stream(`${text} ${formatSettings(settings)}`, format);
  }

  async prepare(engine: PooledEngine): Promise<void> {
    const offsetMs = Math.round(this.#clock.now() - systemClock.now());
    const known = this.#offsets.get(engine.state);
    if (known !== undefined && Math.abs(known - offsetMs) <= CLOCK_TOLERANCE_MS) return;
    if (known === undefined) await this.#mount(engine);
    const source = { trades: this.tables.trades, dates: this.tables.dates, earliest: this.earliest, offsetMs };
    for (const statement of listViewStatements(source)) await engine.command(statement);
    this.#offsets.set(engine.state, offsetMs);
  }

  async #mount(engine: PooledEngine): Promise<void> {
    const [hidden = '', visible = ''] = this.databases;
    await engine.command(`CREATE DATABASE ${hidden} ENGINE = Atomic`);
    for (const statement of this.#mountStatements(hidden)) await engine.command(statement);
    await engine.command(`CREATE TABLE ${this.tables.dates} (date String, first_time String) ENGINE = Memory`);
    const values = this.#dates.map(({ date, first_time }) => `(${quoteString(date)}, ${quoteString(first_time)})`);
    if (values.length > 0) await engine.command(`INSERT INTO ${this.tables.dates} VALUES ${values.join(', ')}`);
    // Unqualified names resolve here. In the default database of the embedded engine they would be file names.
    await engine.command(`CREATE DATABASE ${visible} ENGINE = Atomic`);
    await engine.command(`USE ${visible}`);
  }
}

interface ViewSource {
  /** Quoted name of the table of all trades. */
  readonly trades: string;
  /** Quoted name of a table of `date` and `first_time`, one row for each date with trades. */
  readonly dates: string;
  /** First visible date, YYYY-MM-DD. */
  readonly earliest: string;
  /** The service's clock minus the engine's, milliseconds. */
  readonly offsetMs: number;
}

const [ALL_TRADES, LATEST_TRADES] = TABLES;

/** Statements that create or replace the views in the current database. */
function listViewStatements({ trades, dates, earliest, offsetMs }: ViewSource): readonly string[] {
  const columns = TRADE_COLUMNS.map((column) => quoteIdentifier(column.name)).join(', ');
  const newest = boundSql(offsetMs, `toIntervalMinute(${MINIMUM_DATA_DELAY_MINUTES})`);
  const oldest = boundSql(offsetMs, `toIntervalDay(${LOOKBACK_DAYS})`);
  const latest = (value: string) => `(SELECT max(${value}) FROM ${dates} WHERE first_time <= ${newest})`;
  return [
    `CREATE OR REPLACE VIEW ${ALL_TRADES} AS SELECT ${columns} FROM ${trades}
     WHERE time <= ${newest} AND time >= ${oldest} AND date >= ${quoteString(earliest)}`,
    // The date filter decides; the time filter only lets the primary key skip other dates.
    `CREATE OR REPLACE VIEW ${LATEST_TRADES} AS SELECT ${columns} FROM ${ALL_TRADES}
     WHERE date = ${latest('date')} AND time >= ${latest('first_time')}`,
  ];
}

/** SQL of the exchange's wall clock, `ago` before the service's present. */
function boundSql(offsetMs: number, ago: string): string {
  const present = `now64(3) + toIntervalMillisecond(${offsetMs})`;
  return `formatDateTime(toTimeZone(${present} - ${ago}, ${quoteString(EXCHANGE_TIME_ZONE)}), '%F %T')`;
}
