/**
 * The report as the templates print it: every number already a text, every text of the data already clean. Pure. A
 * designer changes the templates; a change of what is printed at all begins here. Escaping is the template engine's.
 */
import { formatCount, formatDollars, formatPercent, formatSignedDollars } from '../core/units.ts';
import { type BarSegment, buildBar, type Tone } from './bar.ts';
import { type Convention, listConventions } from './convention.ts';
import { describeSession, describeSymbols } from './finding.ts';
import type { FlowReport } from './flow.ts';
import { cleanLabel, cleanLine, countOf, formatDay, formatInstant, formatWallClock } from './label.ts';
import { buildPreview, buildSubject, describeLean } from './subject.ts';
import {
  buildGexRow,
  buildSymbolRow,
  buildTradeRow,
  buildWatchRow,
  formatRatio,
  type GexRow,
  type SymbolRow,
  type TradeRow,
  toneOf,
  type WatchRow,
} from './table.ts';

/** A number of the first screen: name, value, and what puts it into proportion. */
export interface KeyNumber {
  readonly name: string;
  readonly value: string;
  readonly note: string;
}

/** What is known of the data, in short: the completeness stamp. */
export interface Stamp {
  readonly label: string;
  readonly complete: boolean;
  readonly condition: string;
  readonly revision: string;
  readonly rows: string;
  /** First and last trade, wall clock of the exchange; empty on an empty day. */
  readonly from: string;
  readonly until: string;
  readonly sealedAt: string;
}

export interface FlowView {
  readonly subject: string;
  readonly preview: string;
  readonly job: string;
  readonly dataset: string;
  readonly date: string;
  readonly day: string;
  readonly stamp: Stamp;
  readonly empty: boolean;
  readonly premium: string;
  readonly trades: string;
  readonly contracts: string;
  readonly lean: string;
  readonly leanTone: Tone;
  readonly bar: readonly BarSegment[];
  readonly keyNumbers: readonly KeyNumber[];
  /** Empty when there are none. */
  readonly cancels: string;
  /** One sentence each on the two charts. */
  readonly sessionFinding: string;
  readonly symbolsFinding: string;
  readonly symbolCount: string;
  readonly symbols: readonly SymbolRow[];
  readonly biggest: readonly TradeRow[];
  readonly gex: readonly GexRow[];
  readonly gexTotal: GexRow;
  readonly watchlist: readonly WatchRow[];
  readonly watchlistLeftOut: string;
  readonly conventions: readonly Convention[];
  readonly location: string;
  readonly sha256: string;
  readonly rebuildQuery: string;
  readonly createdAt: string;
}

/** @param report the model; it is not changed */
export function buildFlowView(report: FlowReport): FlowView {
  const { headline, drop, gex } = report;
  return {
    subject: buildSubject(report),
    preview: buildPreview(report),
    job: cleanLabel(report.job),
    dataset: cleanLabel(drop.dataset),
    date: cleanLabel(drop.date),
    day: formatDay(drop.date),
    stamp: buildStamp(report),
    empty: headline.trades === 0,
    premium: formatDollars(headline.total),
    trades: countOf(headline.trades, 'trade'),
    contracts: countOf(headline.contracts, 'contract'),
    lean: describeLean(headline),
    leanTone: toneOf(headline.bullish - headline.bearish),
    bar: buildBar(headline),
    keyNumbers: buildKeyNumbers(report),
    cancels: headline.cancels === 0 ? '' : countOf(headline.cancels, 'cancel message'),
    sessionFinding: describeSession(report.halfHours, headline.total),
    symbolsFinding: describeSymbols(report.topSymbols, report.symbolCount, headline.total),
    symbolCount: countOf(report.symbolCount, 'symbol'),
    symbols: report.topSymbols.map(buildSymbolRow),
    biggest: report.biggestTrades.map(buildTradeRow),
    gex: gex.top.map(buildGexRow),
    gexTotal: buildGexRow({ symbol: 'All symbols', spot: null, ...gex.total }),
    watchlist: report.watchlist.map(buildWatchRow),
    watchlistLeftOut: report.watchlistLeftOut === 0 ? '' : formatCount(report.watchlistLeftOut),
    conventions: listConventions(report),
    location: cleanLine(drop.location),
    sha256: cleanLine(drop.sha256),
    rebuildQuery: report.rebuildQuery,
    createdAt: formatInstant(report.createdAt),
  };
}

function buildStamp(report: FlowReport): Stamp {
  const { drop } = report;
  const complete = drop.condition === 'available';
  return {
    label: complete ? 'Complete' : 'Degraded',
    complete,
    condition: drop.condition,
    revision: String(drop.revision),
    rows: countOf(drop.rows, 'row'),
    from: formatWallClock(drop.min_time ?? ''),
    until: formatWallClock(drop.max_time ?? ''),
    sealedAt: formatInstant(drop.sealed_at),
  };
}

function buildKeyNumbers(report: FlowReport): readonly KeyNumber[] {
  const { headline, gex } = report;
  return [
    premiumOf('Calls', headline.calls, headline.total),
    premiumOf('Puts', headline.puts, headline.total),
    {
      name: 'Put/call',
      value: formatRatio(headline.putCallByPremium),
      note: `by volume ${formatRatio(headline.putCallByVolume)}`,
    },
    {
      name: 'Net GEX',
      value: formatSignedDollars(gex.total.net),
      note: 'per 1 % move',
    },
  ];
}

function premiumOf(name: string, part: number, whole: number): KeyNumber {
  const note = whole > 0 ? `${formatPercent(part / whole, 0)} of premium` : 'no premium';
  return { name, value: formatDollars(part), note };
}
