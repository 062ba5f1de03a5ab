/**
 * The data of a folder in a process that mounts it read-only: tables in a database with a random name that no query may
 * contain, and the views in another one, the current database. Invariant: each engine mounts the data once, and its
 * views follow the service's clock.
 */
import { randomBytes } from 'node:crypto';
import { LOOKBACK_DAYS } from '../../api-contract/published-limits.ts';
import { type Clock, systemClock } from '../../core/clock.ts';
import { formatSettings, quoteString } from '../../engine/literal.ts';
import type { PooledEngine } from '../../engine/pool.ts';
import type { AdmittedStatement, Dataset, SnapshotDataset } from '../dataset.ts';
import type { LoadedSource } from './catalog.ts';
import { listViewStatements } from './views.ts';

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
