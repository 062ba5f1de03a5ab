/**
 * The flow report as data: every number of the mail, computed by the engine from one sealed file and the summaries of
 * the sessions before it. Invariants: the model is plain JSON; rows never come to JavaScript, only bounded results do; a
 * file whose row count is not the sealed one makes no report. How it looks is `text/`, `draw/` and the templates' affair.
 */
import { Fault } from '../core/errors.ts';
import type { Engine } from '../engine/engine.ts';
import type { SealedDrop, ShownDrop } from './drop.ts';
import type { Exposure } from './exposure-model.ts';
import type { FlowReport, WatchedSymbol } from './model.ts';
import { readExpiries, readMoneyness } from './numbers/bucket.ts';
import { queryUnknownCodes } from './numbers/code.ts';
import { buildComparison } from './numbers/comparison.ts';
import { queryExclusions } from './numbers/exclusions.ts';
import { queryExposure } from './numbers/exposure.ts';
import { type PastSession, queryHistory } from './numbers/history.ts';
import { readPremium } from './numbers/premium.ts';
import { buildRebuildQueries } from './numbers/rebuild.ts';
import { queryVolumeAboveOpenInterest } from './numbers/series.ts';
import { readHalfHours } from './numbers/session.ts';
import { querySums, type Sums } from './numbers/sums.ts';
import { readSymbolFlow, readSymbolFlows } from './numbers/symbol.ts';
import { queryBiggestTrades } from './numbers/trade.ts';
import { readAgainstPast, readUnusual } from './numbers/unusual.ts';
import { assertColumns, keepRecords, openDropFile } from './source.ts';

/** More would push the mail over the size at which Gmail clips it; the rest is counted in the mail. */
export const MAX_WATCHLIST = 25;

export interface FlowOptions {
  /** Symbols of the watchlist table, in the order to show; empty for none. The totals are always the whole market's. */
  readonly symbols: readonly string[];
  readonly now: Date;
  /** Name of the job, for the reader. */
  readonly job: string;
  readonly signal?: AbortSignal | undefined;
  /** Local files of the summaries of sealed sessions before this date, newest first; more than five are not looked at. */
  readonly before: readonly PastSession[];
  /** Local file of the market-structure drop of this date; null when none is sealed. */
  readonly marketStructure: string | null;
}

/**
 * Computes the report of one sealed drop.
 * @throws Fault `REPORT_COLUMNS_MISSING`, `REPORT_DROP_DIFFERS` (the file is not the one that was sealed); EngineFault
 */
export async function buildFlowReport(engine: Engine, drop: SealedDrop, options: FlowOptions): Promise<FlowReport> {
  const wanted = [...new Set(options.symbols)];
  const focus = wanted.slice(0, MAX_WATCHLIST);
  const file = openDropFile(engine, drop, options.signal);
  await assertColumns(file, drop);
  const { exclusions: left, condition, hasGaps, hasUnknownCodes } = await queryExclusions(file);
  assertSealedRows(drop, left.recorded.trades);
  const source = keepRecords(file, condition, hasGaps);
  const exclusions = { ...left, unknownCodes: hasUnknownCodes ? await queryUnknownCodes(source) : [] };
  const history = await queryHistory(file, options.before);
  const hasPrevious = history.previous !== null;
  const sums = await querySums(source, focus, history, hasGaps);
  const headline = readPremium(sums.headline);
  const symbols = readSymbolFlows(sums.symbols);
  const volumeAboveOpenInterest = await queryVolumeAboveOpenInterest(source);
  const { date } = drop;
  const exposure = await queryExposure(source, { date, focus, marketStructure: options.marketStructure });
  return {
    kind: 'flow',
    job: options.job,
    createdAt: options.now.toISOString(),
    drop: pickShown(drop),
    headline,
    exclusions,
    volumeAboveOpenInterest,
    comparison: buildComparison(headline, volumeAboveOpenInterest, history),
    expiries: readExpiries(sums.expiries),
    moneyness: readMoneyness(sums.moneyness),
    halfHours: readHalfHours(sums.slots),
    symbolCount: sums.symbolCount,
    topSymbols: symbols.top,
    mostBullish: symbols.mostBullish,
    mostBearish: symbols.mostBearish,
    unusual: readUnusual(sums.symbols, hasPrevious),
    biggestTrades: await queryBiggestTrades(source),
    exposure,
    watchlist: focus.map((symbol) => watch(symbol, sums, exposure, hasPrevious)),
    watchlistLeftOut: wanted.length - focus.length,
    rebuildQueries: buildRebuildQueries(drop.location, exclusions, hasGaps),
  };
}

function watch(symbol: string, sums: Sums, exposure: Exposure, hasPrevious: boolean): WatchedSymbol {
  const row = sums.symbols.find((candidate) => candidate.symbol === symbol);
  return {
    symbol,
    flow: row === undefined ? null : readSymbolFlow(row),
    exposure: exposure.focus.find((candidate) => candidate.symbol === symbol) ?? null,
    unusual: row === undefined ? null : readAgainstPast(row, hasPrevious),
  };
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
  const why = drop.degraded_reason === undefined ? {} : { degraded_reason: drop.degraded_reason };
  return { dataset, date, revision, condition, ...why, rows, min_time, max_time, sealed_at, sha256, location };
}
