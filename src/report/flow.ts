/**
 * The flow report as data: every number of the mail, computed by the engine from one sealed file. Invariants: the model
 * is plain JSON; rows never come to JavaScript, only bounded results do; a file whose row count is not the sealed one
 * makes no report. How it looks is `view.ts` and the templates' affair.
 */
import { Fault } from '../core/errors.ts';
import type { Engine } from '../engine/engine.ts';
import type { SealedDrop, ShownDrop } from './drop.ts';
import { type Gex, queryGex, type SymbolGex } from './gex.ts';
import { buildHeadlineQuery, type Premium, type PremiumRow, readPremium } from './premium.ts';
import { type HalfHour, queryHalfHours } from './session.ts';
import { assertColumns, openDropSource } from './source.ts';
import { querySymbolFlows, type SymbolFlow } from './symbol.ts';
import { type BigTrade, queryBiggestTrades } from './trade.ts';

/** More would push the mail over the size at which Gmail clips it; the rest is counted in the mail. */
export const MAX_WATCHLIST = 25;

export interface FlowOptions {
  /** Symbols of the watchlist table, in the order to show; empty for none. The totals are always the whole market's. */
  readonly symbols: readonly string[];
  readonly now: Date;
  /** Name of the job, for the reader. */
  readonly job: string;
  readonly signal?: AbortSignal;
}

/** One symbol of the focus list; null where it did not trade. */
export interface WatchedSymbol {
  readonly symbol: string;
  readonly flow: SymbolFlow | null;
  readonly gex: SymbolGex | null;
}

export interface FlowReport {
  readonly kind: 'flow';
  readonly job: string;
  /** UTC, ISO 8601. */
  readonly createdAt: string;
  readonly drop: ShownDrop;
  readonly headline: Premium;
  readonly halfHours: readonly HalfHour[];
  /** Symbols that traded. */
  readonly symbolCount: number;
  readonly topSymbols: readonly SymbolFlow[];
  readonly biggestTrades: readonly BigTrade[];
  readonly gex: Gex;
  readonly watchlist: readonly WatchedSymbol[];
  /** Symbols of the focus list beyond `MAX_WATCHLIST`, not shown. */
  readonly watchlistLeftOut: number;
  /** SQL that rebuilds `headline` from the object, saved under its own name, in DuckDB or ClickHouse. */
  readonly rebuildQuery: string;
}

/**
 * Computes the report of one sealed drop.
 * @throws Fault `REPORT_COLUMNS_MISSING`, `REPORT_DROP_DIFFERS` (the file is not the one that was sealed); EngineFault
 */
export async function buildFlowReport(engine: Engine, drop: SealedDrop, options: FlowOptions): Promise<FlowReport> {
  const wanted = [...new Set(options.symbols)];
  const focus = wanted.slice(0, MAX_WATCHLIST);
  const source = openDropSource(engine, drop, options.signal);
  await assertColumns(source, drop);
  const headline = readPremium((await source.rows<PremiumRow>(buildHeadlineQuery(source.table)))[0]);
  assertSealedRows(drop, headline.trades);
  const symbols = await querySymbolFlows(source, focus);
  const gex = await queryGex(source, focus);
  return {
    kind: 'flow',
    job: options.job,
    createdAt: options.now.toISOString(),
    drop: pickShown(drop),
    headline,
    halfHours: await queryHalfHours(source),
    symbolCount: symbols.count,
    topSymbols: symbols.top,
    biggestTrades: await queryBiggestTrades(source),
    gex,
    watchlist: focus.map((symbol) => ({
      symbol,
      flow: symbols.focus.find((flow) => flow.symbol === symbol) ?? null,
      gex: gex.focus.find((row) => row.symbol === symbol) ?? null,
    })),
    watchlistLeftOut: wanted.length - focus.length,
    rebuildQuery: buildRebuildQuery(drop.location),
  };
}

/**
 * The query that is printed in the mail. A double-quoted file name is a table in DuckDB and in clickhouse-local alike.
 * @param location URL of the object; the reader has it under its last name
 */
export function buildRebuildQuery(location: string): string {
  const name = location.slice(location.lastIndexOf('/') + 1).replaceAll('"', '""');
  return `${buildHeadlineQuery(`"${name}"`)};`;
}

function assertSealedRows(drop: SealedDrop, rows: number): void {
  if (rows === drop.rows) return;
  throw new Fault(
    'REPORT_DROP_DIFFERS',
    `${drop.dataset} ${drop.date} revision ${drop.revision} was sealed with ${drop.rows} rows, the file has ${rows}`,
    { hint: 'Run `flowdrop verify` for this date; seal it again if the object was changed.' },
  );
}

/** A caller may hand over its whole manifest: only what the report knows of goes on. */
function pickShown(drop: ShownDrop): ShownDrop {
  const { dataset, date, revision, condition, rows, min_time, max_time, sealed_at, sha256, location } = drop;
  return { dataset, date, revision, condition, rows, min_time, max_time, sealed_at, sha256, location };
}
