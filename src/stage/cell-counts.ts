/**
 * The counts of a stage by cell, for comparison with the source's, and the totals of the date. They include the rows in
 * quarantine, because the source counts those as well; the totals do not.
 */
import { compareText } from '../calendar/window.ts';
import type { Engine } from '../engine/engine.ts';
import type { HashedColumn } from '../engine/row-hash.ts';
import type { Job } from '../job/job.ts';
import type { DayCounts } from '../plan/counts.ts';
import {
  type CountOptions,
  countStaged,
  countTotals,
  type HashedCount,
  hashStaged,
  type StagedCount,
  type StageTotals,
  secondKey,
} from './count.ts';
import type { QuarantineTable } from './quarantine.ts';

interface CountedStage {
  readonly date: string;
  /** Quoted name. */
  readonly table: string;
}

export class CellCounts {
  readonly #engine: Engine;
  readonly #job: Job;
  readonly #stage: CountedStage;
  readonly #quarantine: QuarantineTable;
  /** `undefined` after every change of the rows. */
  #totals: Promise<StageTotals> | undefined;

  constructor(engine: Engine, job: Job, stage: CountedStage, quarantine: QuarantineTable) {
    this.#engine = engine;
    this.#job = job;
    this.#stage = stage;
    this.#quarantine = quarantine;
  }

  async bySecond({ symbol, hashed }: Pick<CountOptions, 'symbol' | 'hashed'>): Promise<DayCounts> {
    const counts = await this.#count<number>(this.#secondKey(), { symbol, hashed });
    const of = symbol === undefined ? {} : { symbol };
    return [...counts].map(([second, count]) => ({ ...of, second, ...count })).sort((a, b) => a.second - b.second);
  }

  async bySymbol({ hashed }: Pick<CountOptions, 'hashed'>): Promise<DayCounts> {
    const counts = await this.#count<string>('symbol', { hashed });
    return [...counts]
      .map(([symbol, count]) => ({ symbol, second: 0, ...count }))
      .sort((a, b) => compareText(a.symbol, b.symbol));
  }

  /** @returns `undefined` if rows are odd, so that the hash of their values says nothing */
  async hash(
    axis: 'symbol' | 'time',
    hashed: readonly HashedColumn[],
  ): Promise<ReadonlyMap<number | string, HashedCount> | undefined> {
    const names = hashed.map(({ name }) => name);
    const key = axis === 'symbol' ? 'symbol' : this.#secondKey();
    const odd = [...(await this.#quarantine.oddKeys(key, names)), ...(await this.#quarantine.markKeys(key))];
    if (odd.length > 0) return undefined;
    const table = await this.#quarantine.countedRows(names);
    return await hashStaged(this.#engine, this.#job, table, key, hashed);
  }

  /** Counted once, until rows change. */
  async totals(): Promise<StageTotals> {
    this.#totals ??= countTotals(this.#engine, this.#job, this.#stage.table);
    const counting = this.#totals;
    try {
      return await counting;
    } catch (error) {
      if (this.#totals === counting) this.#totals = undefined;
      throw error;
    }
  }

  noteChange(): void {
    this.#totals = undefined;
  }

  async #count<Key extends number | string>(
    key: string,
    options: CountOptions,
  ): Promise<ReadonlyMap<Key, StagedCount>> {
    const names = (options.hashed ?? []).map(({ name }) => name);
    const table = await this.#quarantine.countedRows(names);
    const counts = await countStaged<Key>(this.#engine, this.#job, table, key, options);
    // The source hashes its own values; for quarantined rows and nulls, these differ from ours.
    const odd = options.hashed === undefined ? [] : await this.#quarantine.oddKeys<Key>(key, names);
    const unmarked = await this.#quarantine.markKeys<Key>(key);
    if (odd.length + unmarked.length === 0) return counts;
    const [isOdd, isUnmarked] = [new Set(odd), new Set(unmarked)];
    return new Map(
      [...counts].map(([k, count]) => [
        k,
        {
          ...count,
          mark: isUnmarked.has(k) ? '' : count.mark,
          valueHash: isOdd.has(k) ? undefined : count.valueHash,
        },
      ]),
    );
  }

  #secondKey(): string {
    return secondKey(this.#job, this.#stage.date);
  }
}
