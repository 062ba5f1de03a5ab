/**
 * The table that a chaos run reads: rows in a real engine, which the run alters by SQL at the moments that its seed drew,
 * and the same rows as plain values, which are the truth. Invariant: no query sees half an alteration, and `rows` is what
 * the table holds.
 */
import { TRADE_COLUMNS } from '../../src/api-contract/trade.ts';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { ORDERS, WIRE_TYPES } from '../support/engine-source.ts';
import { createTurns } from '../support/turns.ts';
import {
  type Alteration,
  type Lag,
  lastSecondOf,
  planAlteration,
  type RowChange,
  SETTLED,
  type TableRow,
} from './rows.ts';

/** Null stands in every column but those that tell which row it is and where it lies. */
const NEVER_NULL: ReadonlySet<string> = new Set(['id', 'symbol', 'date', 'time']);
/** Most rows of one INSERT with values spelt as SQL. */
const INSERT_ROWS = 500;

let engine: Promise<Engine> | undefined;
let tables = 0;

/** The one engine of this process; each run has a table of its own in it. */
function openEngine(): Promise<Engine> {
  engine ??= openEmbeddedEngine({ settings: { max_threads: 1 } });
  return engine;
}

export async function closeTables(): Promise<void> {
  await (await engine)?.close();
  engine = undefined;
}

export class ChaosTable {
  readonly #engine: Engine;
  readonly #rows = new Map<string, TableRow>();
  readonly #inTurn = createTurns();
  #due: Alteration[] = [];
  #requests = 0;
  #pages = 0;
  readonly #done: Alteration[] = [];
  #lag: Lag | undefined;
  readonly #lags: Lag[] = [];
  /** Rows that are there twice until the next plan, and those that ever were. */
  #twice: readonly string[] = [];
  readonly doubles = new Set<string>();
  readonly name: string;

  private constructor(opened: Engine, name: string) {
    this.#engine = opened;
    this.name = name;
  }

  static async create(order: keyof typeof ORDERS, rows: readonly TableRow[]): Promise<ChaosTable> {
    tables += 1;
    const name = `chaos_${tables}`;
    const table = new ChaosTable(await openEngine(), name);
    const columns = TRADE_COLUMNS.map(({ name, wire }) =>
      NEVER_NULL.has(name) ? `${name} ${WIRE_TYPES[wire]}` : `${name} Nullable(${WIRE_TYPES[wire]})`,
    );
    await table.#engine.command(
      `CREATE TABLE ${table.name} (${columns.join(', ')}) ENGINE = MergeTree ORDER BY (${ORDERS[order]}) SETTINGS index_granularity = 16`,
    );
    await table.change({ remove: [], add: rows });
    return table;
  }

  /** What the table holds. */
  get rows(): readonly TableRow[] {
    return [...this.#rows.values()];
  }

  /** Alterations that were done. */
  get done(): readonly Alteration[] {
    return this.#done;
  }

  /** Replicas that answered and were behind. */
  get lags(): readonly Lag[] {
    return this.#lags;
  }

  /**
   * What happens from now on; requests and pages count from 1 again. What has not come by then never does; rows that were
   * loaded twice are there once again.
   */
  async plan(alterations: readonly Alteration[], lag?: Lag): Promise<void> {
    await this.change({ remove: this.#twice, add: [] });
    this.#twice = [];
    this.#lag = lag;
    this.#due = [...alterations];
    this.#requests = 0;
    this.#pages = 0;
  }

  /** Answers a query as JSON lines, after the alterations that are due with it. @throws EngineFault */
  async query(sql: string, isPage: boolean): Promise<Buffer> {
    return await this.#inTurn(async () => {
      this.#requests += 1;
      if (isPage) this.#pages += 1;
      for (const alteration of this.#due.filter((each) => this.#isDue(each, isPage))) {
        this.#due = this.#due.filter((each) => each !== alteration);
        const settled = this.rows.filter(({ values }) => values['date'] === SETTLED);
        const change = planAlteration(alteration, settled);
        await this.#apply(change);
        this.#done.push(alteration);
        if (alteration.move !== 'rows-twice') continue;
        this.#twice = [...this.#twice, ...change.add.map(({ id }) => id)];
        for (const id of this.#twice) this.doubles.add(id);
      }
      const lag = this.#lag && this.#requests >= this.#lag.request ? this.#lag : undefined;
      if (lag && this.#lags.at(-1) !== lag) this.#lags.push(lag);
      const from = lag ? `(SELECT * FROM ${this.name} WHERE time <= '${lastSecondOf(lag)}')` : this.name;
      const bytes = await this.#engine.format(sql.replaceAll(/\bRawOptionTrades\b/gi, from), 'JSONEachRow');
      return Buffer.from(bytes);
    });
  }

  async change(change: RowChange): Promise<void> {
    await this.#inTurn(() => this.#apply(change));
  }

  async drop(): Promise<void> {
    await this.#inTurn(() => this.#engine.command(`DROP TABLE IF EXISTS ${this.name} SYNC`));
  }

  #isDue({ at: { on, number } }: Alteration, isPage: boolean): boolean {
    if (on === 'request') return this.#requests >= number;
    return on === 'page' ? this.#pages >= number : !isPage && this.#pages >= number;
  }

  async #apply({ remove, add }: RowChange): Promise<void> {
    const ids = remove.filter((id) => this.#rows.delete(id));
    if (ids.length > 0) {
      await this.#engine.command(
        `ALTER TABLE ${this.name} DELETE WHERE id IN (${ids.map(toSql).join(', ')}) SETTINGS mutations_sync = 2`,
      );
    }
    for (const row of add) this.#rows.set(row.id, row);
    for (let at = 0; at < add.length; at += INSERT_ROWS) {
      const values = add
        .slice(at, at + INSERT_ROWS)
        .map((row) => `(${TRADE_COLUMNS.map(({ name }) => toSql(row.values[name])).join(', ')})`);
      await this.#engine.command(`INSERT INTO ${this.name} VALUES ${values.join(', ')}`);
    }
  }
}

function toSql(value: unknown): string {
  if (value === null || value === undefined) return 'NULL';
  if (Buffer.isBuffer(value)) return `unhex('${value.toString('hex')}')`;
  if (typeof value !== 'number') return `'${String(value).replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
  if (Number.isNaN(value)) return 'nan';
  return Number.isFinite(value) ? String(value) : value > 0 ? 'inf' : '-inf';
}
