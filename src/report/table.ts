/** The rows of the report's tables as texts. Pure; one function per table, the columns' meaning is the model's. */
import { formatCount, formatDecimal, formatDollars, formatPercent, formatSignedDollars } from '../core/units.ts';
import { type BarSegment, buildBar, type Tone } from './bar.ts';
import type { WatchedSymbol } from './flow.ts';
import type { SymbolGex } from './gex.ts';
import { cleanLabel } from './label.ts';
import type { Premium } from './premium.ts';
import type { SymbolFlow } from './symbol.ts';
import type { BigTrade } from './trade.ts';

/** Shown where there is no number. */
const NONE = '–';

export interface SymbolRow {
  readonly symbol: string;
  readonly premium: string;
  readonly calls: string;
  readonly puts: string;
  readonly bullish: string;
  readonly bearish: string;
  readonly neutral: string;
  readonly trades: string;
  readonly putCall: string;
  /** Bullish less bearish, with its sign, and which of the two it is. */
  readonly lean: string;
  readonly tone: Tone;
  readonly bar: readonly BarSegment[];
}

export interface WatchRow extends SymbolRow {
  readonly traded: boolean;
  readonly place: string;
  readonly gex: string;
}

export interface TradeRow {
  readonly time: string;
  readonly contract: string;
  readonly size: string;
  readonly price: string;
  readonly premium: string;
  readonly side: string;
  readonly sentiment: string;
  readonly tone: Tone;
  readonly spot: string;
  readonly openInterest: string;
  readonly impliedVolatility: string;
  readonly activityType: string;
}

export interface GexRow {
  readonly symbol: string;
  readonly spot: string;
  readonly call: string;
  readonly put: string;
  readonly net: string;
  readonly contracts: string;
}

export function buildSymbolRow(flow: SymbolFlow): SymbolRow {
  return { symbol: cleanLabel(flow.symbol), ...buildPremiumCells(flow) };
}

export function buildWatchRow(watched: WatchedSymbol): WatchRow {
  const { flow, gex } = watched;
  const priced = gex !== null && gex.spot !== null;
  return {
    symbol: cleanLabel(watched.symbol),
    ...(flow === null ? EMPTY_CELLS : buildPremiumCells(flow)),
    traded: flow !== null,
    place: flow === null ? NONE : `#${formatCount(flow.place)}`,
    gex: priced ? formatSignedDollars(gex.net) : NONE,
  };
}

export function buildTradeRow(trade: BigTrade): TradeRow {
  return {
    time: trade.time,
    contract: cleanLabel(trade.contract),
    size: formatCount(trade.size),
    price: formatDecimal(trade.price),
    premium: formatDollars(trade.premium),
    side: cleanLabel(trade.side) || NONE,
    sentiment: nameSentiment(trade.sentiment),
    tone: trade.sentiment === 'BULLISH' ? 'bullish' : trade.sentiment === 'BEARISH' ? 'bearish' : 'neutral',
    spot: trade.spot === null ? NONE : formatDecimal(trade.spot),
    openInterest: formatCount(trade.openInterest),
    impliedVolatility: trade.impliedVolatility === null ? NONE : formatPercent(trade.impliedVolatility, 0),
    activityType: cleanLabel(trade.activityType) || NONE,
  };
}

export function buildGexRow(gex: SymbolGex): GexRow {
  return {
    symbol: cleanLabel(gex.symbol),
    spot: gex.spot === null ? NONE : formatDecimal(gex.spot),
    call: formatSignedDollars(gex.call),
    put: formatSignedDollars(gex.put),
    net: formatSignedDollars(gex.net),
    contracts: formatCount(gex.contracts),
  };
}

/** Of bullish less bearish premium. Not for GEX: its sign is no direction. */
export function toneOf(value: number): Tone {
  if (value === 0) return 'neutral';
  return value > 0 ? 'bullish' : 'bearish';
}

/** A ratio as printed: `0.70`, or the dash. */
export function formatRatio(ratio: number | null): string {
  return ratio === null ? NONE : formatDecimal(ratio);
}

function buildPremiumCells(flow: Premium) {
  const lean = flow.bullish - flow.bearish;
  return {
    premium: formatDollars(flow.total),
    calls: formatDollars(flow.calls),
    puts: formatDollars(flow.puts),
    bullish: formatDollars(flow.bullish),
    bearish: formatDollars(flow.bearish),
    neutral: formatDollars(flow.neutral),
    trades: formatCount(flow.trades),
    putCall: formatRatio(flow.putCallByPremium),
    lean: formatSignedDollars(lean),
    tone: toneOf(lean),
    bar: buildBar(flow),
  };
}

const EMPTY_CELLS = {
  premium: NONE,
  calls: NONE,
  puts: NONE,
  bullish: NONE,
  bearish: NONE,
  neutral: NONE,
  trades: NONE,
  putCall: NONE,
  lean: NONE,
  tone: 'neutral',
  bar: [],
} as const;

function nameSentiment(sentiment: string): string {
  const text = cleanLabel(sentiment);
  return text === '' ? NONE : `${text[0]?.toUpperCase()}${text.slice(1).toLowerCase()}`;
}
