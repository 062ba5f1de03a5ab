/**
 * Snapshots of one symbol: its chain and its flow at an instant of a session, for the option chain and market-structure
 * endpoints. Invariants: a snapshot contains nothing later than its instant; while it is kept, a computed snapshot does
 * not change; concurrent calls for one snapshot cost one computation.
 */

import type { ChainRow } from '../../api-contract/chain.ts';
import { formatWallDate } from '../../calendar/wall-clock.ts';
import type { Clock } from '../../core/clock.ts';
import type { EnginePool, PooledEngine } from '../../engine/pool.ts';
import type { SnapshotDataset } from '../backend.ts';
import { ApiFailure } from '../http/api-failure.ts';
import { SnapshotCache } from './snapshot-cache.ts';
import {
  buildDatesQuery,
  buildFlowQuery,
  buildLastTimeQuery,
  buildLoadedChainQuery,
  buildLoadedQuery,
  buildTradedChainQuery,
  type FlowRow,
  NO_FLOW,
} from './snapshot-sql.ts';
import { countRefreshes, findMoment, isClosed, type Moment } from './snapshot-time.ts';

interface SnapshotRequest {
  readonly symbol: string;
  /** YYYY-MM-DD; undefined: the latest session. */
  readonly date?: string | undefined;
}

export interface Snapshot {
  readonly symbol: string;
  /** Session date, YYYY-MM-DD. */
  readonly date: string;
  readonly source: 'trades' | 'file';
  /** Instants of the chain and of the flow, milliseconds since the epoch. */
  readonly chainAsOfMs: number;
  readonly flowAsOfMs: number;
  /** Instant of the next snapshot; undefined for the session's last. */
  readonly nextMs: number | undefined;
  /**
   * Price of the underlying, dollars: that of the chain file if positive, else the latest positive one of the trades.
   */
  readonly spot: number | undefined;
  /** Sorted by expiration, strike, call or put. */
  readonly contracts: readonly ChainRow[];
  readonly flow: FlowRow;
}

/** A chain from a file, with the column names of its table. */
interface LoadedChain {
  readonly symbol: string;
  readonly date: string;
  readonly as_of: string;
  readonly spot: number;
}

/** A date with trades, and the time of its first trade. */
interface Session {
  readonly date: string;
  readonly first: string;
}

/** Sessions by date; loaded chains by symbol, date and instant. */
interface Contents {
  readonly sessions: readonly Session[];
  readonly loaded: readonly LoadedChain[];
}

/** Source of a snapshot; at least one of `moment` and `chain` is set. */
interface Place {
  readonly date: string;
  readonly moment: Moment | undefined;
  readonly chain: LoadedChain | undefined;
}

/**
 * Contracts kept in memory, about 700 bytes each: a few of the largest chains, or those of all commonly used symbols.
 */
const MAX_KEPT_CONTRACTS = 100_000;
/** Weight of a snapshot without contracts. */
const SNAPSHOT_WEIGHT = 10;

/** Dates whose last trade is kept; the exchange has about 250 sessions a year. */
const MAX_KEPT_DATES = 1_000;

/** All snapshots share one owner, so together they leave engines to the historical queries. */
const OWNER = 'snapshots';

export class SnapshotReader {
  readonly #pool: Pick<EnginePool, 'use'>;
  readonly #dataset: SnapshotDataset;
  readonly #clock: Clock;
  readonly #contents = new SnapshotCache<Contents>({ maxWeight: 1, weigh: () => 1 });
  readonly #lastTimes = new SnapshotCache<{ readonly last: string }>({ maxWeight: MAX_KEPT_DATES, weigh: () => 1 });
  readonly #snapshots: SnapshotCache<Snapshot>;

  /** @param onLookup called on every lookup: `hit` when the snapshot was kept or already being computed */
  constructor(
    pool: Pick<EnginePool, 'use'>,
    dataset: SnapshotDataset,
    clock: Clock,
    onLookup?: (result: 'hit' | 'miss') => void,
  ) {
    this.#pool = pool;
    this.#dataset = dataset;
    this.#clock = clock;
    this.#snapshots = new SnapshotCache({
      maxWeight: MAX_KEPT_CONTRACTS,
      weigh: ({ contracts }) => SNAPSHOT_WEIGHT + contracts.length,
      onLookup,
    });
  }

  /**
   * The symbol's snapshot at the service's present time. Without a date it is that of the latest session with trades, or
   * the symbol's own loaded chain if that is later.
   * @throws ApiFailure 404 `SNAPSHOT_NOT_FOUND` when the date has none, 404 `SYMBOL_NOT_FOUND` when the symbol has none
   *   on that date; EngineFault, PoolBusyFault, the signal's reason
   */
  async read({ symbol, date }: SnapshotRequest, signal: AbortSignal): Promise<Snapshot> {
    const { contents, nowMs } = await this.#open(signal);
    const isAsked = (item: { readonly date: string }) => date === undefined || item.date === date;
    let moment: Moment | undefined;
    for (const session of contents.sessions.filter(isAsked).reverse()) {
      // Only today's session can be without a moment: earlier sessions have ended.
      moment = await this.#findMoment(session, nowMs, signal);
      if (moment) break;
    }
    const loaded = contents.loaded.filter(isAsked);
    const own = loaded.findLast((chain) => chain.symbol === symbol);
    const chain = own && own.date >= (moment?.date ?? '') ? own : undefined;
    const found = chain?.date ?? moment?.date;
    if (found === undefined) {
      const asked = date ?? 'the latest session';
      if (loaded.length > 0) throw symbolNotFound(symbol, asked);
      throw new ApiFailure(404, 'SNAPSHOT_NOT_FOUND', `There is no snapshot for ${asked}.`);
    }
    const place = { date: found, moment: moment?.date === found ? moment : undefined, chain };
    const key = [symbol, found, chain?.as_of ?? '', place.moment?.asOfMs ?? ''].join(' ');
    return await this.#snapshots.get(key, signal, (shared) => this.#compute(symbol, place, shared));
  }

  /** Lists the visible contents of the tables. Read again at each refresh, because a server may receive new data. */
  async #open(signal: AbortSignal): Promise<{ readonly contents: Contents; readonly nowMs: number }> {
    const nowMs = this.#clock.now() - this.#dataset.delayMs;
    const { earliest, tables } = this.#dataset;
    const held = await this.#contents.get(String(countRefreshes(nowMs)), signal, (shared) =>
      this.#use(shared, async (engine) => ({
        sessions: await engine.rows<Session>(buildDatesQuery(tables)),
        loaded: await engine.rows<LoadedChain>(buildLoadedQuery(tables)),
      })),
    );
    const today = formatWallDate(nowMs);
    const isVisible = ({ date }: { readonly date: string }) => date >= earliest && date <= today;
    const loaded = held.loaded.filter((chain) => isVisible(chain) && Date.parse(chain.as_of) <= nowMs);
    return { contents: { sessions: held.sessions.filter(isVisible), loaded }, nowMs };
  }

  async #findMoment({ date, first }: Session, nowMs: number, signal: AbortSignal): Promise<Moment | undefined> {
    if (!isClosed(date, nowMs)) return findMoment(date, nowMs, first);
    // Today's session may still get more trades.
    const key = date === formatWallDate(nowMs) ? `${date} ${countRefreshes(nowMs)}` : date;
    const sql = buildLastTimeQuery(this.#dataset.tables, date);
    const { last } = await this.#lastTimes.get(key, signal, (shared) =>
      this.#use(shared, async (engine) => (await engine.rows<{ last: string }>(sql))[0] ?? { last: '' }),
    );
    return findMoment(date, nowMs, first, last);
  }

  async #compute(symbol: string, { date, moment, chain }: Place, signal: AbortSignal): Promise<Snapshot> {
    const { tables } = this.#dataset;
    const { contracts, flow } = await this.#use(signal, async (engine) => {
      const sql = chain
        ? buildLoadedChainQuery(tables, chain)
        : moment && buildTradedChainQuery(tables, symbol, moment);
      return {
        contracts: sql ? await engine.rows<ChainRow>(sql) : [],
        flow: (moment && (await engine.rows<FlowRow>(buildFlowQuery(tables, symbol, moment)))[0]) ?? NO_FLOW,
      };
    });
    if (contracts.length === 0) throw symbolNotFound(symbol, date);
    const chainAsOfMs = chain ? Date.parse(chain.as_of) : (moment?.asOfMs ?? 0);
    return {
      symbol,
      date,
      source: chain ? 'file' : 'trades',
      chainAsOfMs,
      flowAsOfMs: moment?.asOfMs ?? chainAsOfMs,
      nextMs: moment?.nextMs,
      spot: [chain?.spot, flow.spot].find((price) => price !== undefined && price > 0),
      contracts,
      flow,
    };
  }

  async #use<T>(signal: AbortSignal, task: (engine: PooledEngine) => Promise<T>): Promise<T> {
    return await this.#pool.use({ owner: OWNER, signal }, async (engine) => {
      await this.#dataset.prepare(engine);
      return await task(engine);
    });
  }
}

function symbolNotFound(symbol: string, date: string): ApiFailure {
  return new ApiFailure(404, 'SYMBOL_NOT_FOUND', `There is no snapshot of ${symbol} for ${date}.`);
}
