/**
 * The source's table in a simulated life: its rows in a real engine, the same rows as plain values, and every state that
 * they were ever in, which is the truth. Invariant: a query sees one state, and of it what the API's lookback and delay show.
 */
import { TRADE_COLUMNS } from '../../src/api-contract/trade.ts';
import { formatWallClock } from '../../src/calendar/wall-clock.ts';
import type { Engine } from '../../src/engine/engine.ts';
import type { RowChange, TableRow } from '../chaos/rows.ts';
import { insertRows, WIRE_TYPES } from '../support/engine-source.ts';
import type { TradeRow } from '../support/trades.ts';
import { createTurns } from '../support/turns.ts';

const NAME = 'simulated_trades';
const DAY_MS = 86_400_000;
const LOOKBACK_MS = 15 * DAY_MS;
const DELAY_MS = 15 * 60_000;
/** After every time. */
const NEVER = '9999';

/** What a date was from an instant on. */
export interface Version {
  readonly atMs: number;
  readonly rows: ReadonlyMap<string, TradeRow>;
}

export class LifeTable {
  readonly #engine: Engine;
  #now: () => number = () => 0;
  #rows = new Map<string, TableRow>();
  #versions = new Map<string, Version[]>();
  #behind: string | undefined;
  readonly #inTurn = createTurns();
  /** Since the rows last changed: what a run asks the next one asks again. */
  readonly #answers = new Map<string, Buffer>();

  private constructor(engine: Engine) {
    this.#engine = engine;
  }

  /** @param engine that the lives share, so each begins with `restart` */
  static async create(engine: Engine): Promise<LifeTable> {
    const columns = TRADE_COLUMNS.map(({ name, wire }) => `${name} ${WIRE_TYPES[wire]}`).join(', ');
    await engine.command(`CREATE OR REPLACE TABLE ${NAME} (${columns}) ENGINE = Memory`);
    return new LifeTable(engine);
  }

  /** @param now the clock by which rows become visible and leave the lookback */
  async restart(rows: readonly TableRow[], now: () => number): Promise<void> {
    this.#now = now;
    this.#rows = new Map();
    this.#behind = undefined;
    this.#versions = new Map();
    await this.change({ remove: [], add: rows });
  }

  /** Those that a replica that is behind has. */
  get rows(): readonly TableRow[] {
    return [...this.#rows.values()].filter(({ values }) => !(String(values['time']) > (this.#behind ?? NEVER)));
  }

  /** Oldest first. */
  versions(date: string): readonly Version[] {
    return this.#versions.get(date) ?? [];
  }

  async change({ remove, add }: RowChange): Promise<void> {
    await this.#inTurn(async () => {
      for (const id of remove) this.#rows.delete(id);
      for (const row of add) this.#rows.set(row.id, row);
      await this.#load();
    });
  }

  /** From now on a replica answers that has no rows after a time; `undefined`: one that has all. @returns rows it lacks */
  async lag(behind: string | undefined): Promise<number> {
    return await this.#inTurn(async () => {
      this.#behind = behind;
      await this.#load();
      return this.#rows.size - this.rows.length;
    });
  }

  /** Answers a query as JSON lines. @throws EngineFault */
  async query(sql: string): Promise<Buffer> {
    const since = formatWallClock(this.#now() - LOOKBACK_MS);
    const until = formatWallClock(this.#now() - DELAY_MS);
    // To name all columns takes most of the time of a count.
    const names = TRADE_COLUMNS.filter(({ name }) => sql.includes(name) || sql.includes('*')).map(({ name }) => name);
    const visible = `(SELECT ${['time', ...names.filter((name) => name !== 'time')].join(', ')} FROM ${NAME} WHERE time >= '${since}' AND time <= '${until}')`;
    return await this.#inTurn(async () => {
      const times = this.rows.map(({ values }) => String(values['time']));
      const key = `${times.filter((time) => time < since).length} ${times.filter((time) => time <= until).length} ${sql}`;
      const known = this.#answers.get(key);
      if (known !== undefined) return known;
      const bytes = await this.#engine.format(sql.replaceAll(/\bRawOptionTrades\b/gi, visible), 'JSONEachRow');
      const answer = Buffer.from(bytes);
      this.#answers.set(key, answer);
      return answer;
    });
  }

  async #load(): Promise<void> {
    this.#answers.clear();
    await this.#engine.command(`TRUNCATE TABLE ${NAME}`);
    const rows = this.rows.map(({ values }) => values);
    if (rows.length > 0) await insertRows(this.#engine, NAME, rows);
    this.#note();
  }

  #note(): void {
    const dates = new Map<string, Map<string, TradeRow>>([...this.#versions.keys()].map((date) => [date, new Map()]));
    for (const { id, values } of this.rows) {
      const date = String(values['date']);
      const rows = dates.get(date) ?? new Map<string, TradeRow>();
      dates.set(date, rows.set(id, values));
    }
    for (const [date, rows] of dates) {
      const all = this.#versions.get(date) ?? [];
      const last = all.at(-1)?.rows;
      const isSame = last?.size === rows.size && [...rows].every(([id, values]) => last.get(id) === values);
      if (!isSame) this.#versions.set(date, [...all, { atMs: this.#now(), rows }]);
    }
  }
}
