/**
 * Snapshots of one symbol: its chain and its flow at an instant of a session, for the option chain and market-structure
 * endpoints. A session has one every 90 seconds after the open, and a last one at the close, or at its last trade if that
 * printed later. Invariants: a snapshot contains nothing later than its instant, which is never in the future; while it is
 * kept, a computed snapshot does not change, and the last of a session never does; concurrent calls for one snapshot cost
 * one computation.
 */

import type { ChainRow } from '../../api-contract/chain.ts';
import { SNAPSHOT_REFRESH_SECONDS } from '../../api-contract/snapshot.ts';
import { OPEN_SECOND, sessionCloseSecond } from '../../calendar/session.ts';
import { formatWallClock, formatWallDate, parseWallClock } from '../../calendar/wall-clock.ts';
import type { Clock } from '../../core/clock.ts';
import { untilAborted } from '../../core/side-by-side.ts';
import type { EnginePool } from '../../engine/pool.ts';
import type { SnapshotDataset } from '../backend.ts';
import { ApiFailure } from '../http/api-failure.ts';
import {
  buildDatesQuery,
  buildFlowQuery,
  buildLoadedChainQuery,
  buildLoadedQuery,
  buildTradedChainQuery,
  type FlowRow,
  type Moment,
  NO_FLOW,
} from './snapshot-sql.ts';

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

/** A date with trades, and the times of its first and last trade, `YYYY-MM-DD HH:MM:SS`. */
interface Session {
  readonly date: string;
  readonly first: string;
  readonly last: string;
}

const REFRESH_MS = SNAPSHOT_REFRESH_SECONDS * 1000;

/**
 * Contracts kept in memory, about 700 bytes each: a few of the largest chains, or those of all commonly used symbols.
 */
const MAX_KEPT_CONTRACTS = 100_000;
/** Weight of a snapshot without contracts. */
const SNAPSHOT_WEIGHT = 10;

/** All snapshots share one owner, so together they leave engines to the historical queries. */
const OWNER = 'snapshots';

export type SnapshotReader = ReturnType<typeof createSnapshotReader>;

/** @param onLookup called on every lookup: `hit` when the snapshot was kept or already being computed */
export function createSnapshotReader(
  pool: Pick<EnginePool, 'use'>,
  dataset: SnapshotDataset,
  clock: Clock,
  onLookup?: (result: 'hit' | 'miss') => void,
) {
  const { tables, earliest, delayMs } = dataset;
  /** What the tables have: sessions by date; loaded chains by symbol, date and instant. */
  const contents = createCache<{ readonly sessions: readonly Session[]; readonly loaded: readonly LoadedChain[] }>(
    1,
    () => 1,
  );
  const snapshots = createCache<Snapshot>(
    MAX_KEPT_CONTRACTS,
    ({ contracts }) => SNAPSHOT_WEIGHT + contracts.length,
    onLookup,
  );
  return {
    /**
     * The symbol's snapshot at the service's present time. Without a date it is that of the latest session with trades,
     * or the symbol's own loaded chain if that is later.
     * @param date YYYY-MM-DD; undefined: the latest session
     * @throws ApiFailure 404 `SNAPSHOT_NOT_FOUND` when the date has none, 404 `SYMBOL_NOT_FOUND` when the symbol has none
     *   on that date; EngineFault, PoolBusyFault, the signal's reason
     */
    async read(
      { symbol, date }: { readonly symbol: string; readonly date?: string | undefined },
      signal: AbortSignal,
    ): Promise<Snapshot> {
      const nowMs = clock.now() - delayMs;
      const today = formatWallDate(nowMs);
      // Read again at each refresh, because a server may receive new data.
      const found = await contents.get(String(countRefreshes(nowMs)), signal, (shared) =>
        pool.use({ owner: OWNER, signal: shared }, async (engine) => ({
          sessions: await engine.rows<Session>(buildDatesQuery(tables)),
          loaded: await engine.rows<LoadedChain>(buildLoadedQuery(tables)),
        })),
      );
      const isAsked = (item: { readonly date: string }) =>
        item.date >= earliest && item.date <= today && (date === undefined || item.date === date);
      let moment: Moment | undefined;
      // Only today's session can be without a moment: earlier sessions have ended.
      for (const session of found.sessions.filter(isAsked).reverse()) moment ??= computeMoment(session, nowMs);
      const loaded = found.loaded.filter((chain) => isAsked(chain) && Date.parse(chain.as_of) <= nowMs);
      const own = loaded.findLast((chain) => chain.symbol === symbol);
      const chain = own && own.date >= (moment?.date ?? '') ? own : undefined;
      const place = chain?.date ?? moment?.date;
      if (place === undefined) {
        const asked = date ?? 'the latest session';
        if (loaded.length > 0) throw symbolNotFound(symbol, asked);
        throw new ApiFailure(404, 'SNAPSHOT_NOT_FOUND', `There is no snapshot for ${asked}.`);
      }
      const shown = moment?.date === place ? moment : undefined;
      const key = [symbol, place, chain?.as_of ?? '', shown?.asOfMs ?? ''].join(' ');
      return await snapshots.get(key, signal, (shared) => compute(symbol, place, shown, chain, shared));
    },
  };

  /** At least one of `moment` and `chain` is given. */
  async function compute(
    symbol: string,
    date: string,
    moment: Moment | undefined,
    chain: LoadedChain | undefined,
    signal: AbortSignal,
  ): Promise<Snapshot> {
    const { contracts, flow } = await pool.use({ owner: OWNER, signal }, async (engine) => {
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
}

function symbolNotFound(symbol: string, date: string): ApiFailure {
  return new ApiFailure(404, 'SYMBOL_NOT_FOUND', `There is no snapshot of ${symbol} for ${date}.`);
}

/** Number of the refresh interval that an instant falls in, across all snapshots. */
function countRefreshes(nowMs: number): number {
  return Math.floor(nowMs / REFRESH_MS);
}

/** The latest snapshot of a session at `nowMs`; undefined before the first one, or while it would contain no trade. */
function computeMoment({ date, first, last }: Session, nowMs: number): Moment | undefined {
  const openMs = parseWallClock(date, OPEN_SECOND);
  const endMs = Math.max(parseWallClock(date, sessionCloseSecond(date)), parseTime(last, date));
  const taken = Math.floor((nowMs - openMs) / REFRESH_MS);
  // At the open nothing has traded: the first snapshot is 90 seconds later.
  if (taken < 1) return undefined;
  const dueMs = openMs + taken * REFRESH_MS;
  const asOfMs = nowMs >= endMs ? endMs : dueMs;
  const wallTime = formatWallClock(asOfMs);
  if (first > wallTime) return undefined;
  return { date, asOfMs, wallTime, nextMs: nowMs >= endMs ? undefined : Math.min(dueMs + REFRESH_MS, endMs) };
}

/** The instant of a trade's time; 0 for a time on another date, which does not extend the session. */
function parseTime(time: string, date: string): number {
  const match = /^(\d{4}-\d{2}-\d{2}) (\d{2}):(\d{2}):(\d{2})/.exec(time);
  if (match?.[1] !== date) return 0;
  return parseWallClock(date, Number(match[2]) * 3600 + Number(match[3]) * 60 + Number(match[4]));
}

interface Pending<Value> {
  readonly result: Promise<Value>;
  readonly controller: AbortController;
  waiters: number;
}

/**
 * Computed values that several calls share. Invariants: a value is computed once, however many calls wait for it; a
 * caller who leaves does not cancel it for the others; when the last caller leaves, the computation is canceled; a
 * failure is not kept. The cache is bounded by weight and evicts the least recently used values first.
 * @param maxWeight of all kept values together; a heavier value is computed and returned, but not kept
 * @param onLookup called on every lookup: `hit` when the value was kept or already being computed
 */
export function createCache<Value extends object>(
  maxWeight: number,
  weigh: (value: Value) => number,
  onLookup?: (result: 'hit' | 'miss') => void,
) {
  /** Least recently used first. */
  const kept = new Map<string, Value>();
  const pending = new Map<string, Pending<Value>>();
  let weight = 0;
  return { get };

  /**
   * Returns the value of `key`, computing it when it is missing.
   * @param signal stops the waiting of this caller only
   * @throws what `compute` throws, or the signal's reason
   */
  async function get(
    key: string,
    signal: AbortSignal,
    compute: (signal: AbortSignal) => Promise<Value>,
  ): Promise<Value> {
    signal.throwIfAborted();
    const found = kept.get(key);
    onLookup?.(found || pending.has(key) ? 'hit' : 'miss');
    if (found) {
      kept.delete(key);
      kept.set(key, found);
      return found;
    }
    const running = pending.get(key) ?? start(key, compute);
    running.waiters += 1;
    try {
      return await untilAborted(running.result, signal);
    } finally {
      running.waiters -= 1;
      if (running.waiters === 0 && pending.get(key) === running) {
        pending.delete(key);
        running.controller.abort(signal.reason);
      }
    }
  }

  function start(key: string, compute: (signal: AbortSignal) => Promise<Value>): Pending<Value> {
    const controller = new AbortController();
    const running: Pending<Value> = { result: compute(controller.signal), controller, waiters: 0 };
    pending.set(key, running);
    const settle = (value?: Value) => {
      if (pending.get(key) !== running) return;
      pending.delete(key);
      if (value) keep(key, value);
    };
    // The waiting callers get the failure; this handler covers the case that none is left.
    running.result.then(settle, () => settle());
    return running;
  }

  function keep(key: string, value: Value): void {
    if (weigh(value) > maxWeight) return;
    kept.set(key, value);
    weight += weigh(value);
    for (const [oldest, dropped] of kept) {
      if (weight <= maxWeight) break;
      kept.delete(oldest);
      weight -= weigh(dropped);
    }
  }
}
