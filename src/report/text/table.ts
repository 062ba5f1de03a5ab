/** The rows of the tables of premium as texts. Pure; one function per table, the columns' meaning is the model's. */

import { formatCount, formatDecimal, formatDollars, formatPercent, formatSignedDollars } from '../../core/units.ts';
import { type Amount, leanOf, shareOf } from '../amount.ts';
import type { BigTrade, Exclusions, SymbolFlow, Tally, UnusualSymbol, WatchedSymbol } from '../model.ts';
import type { Premium, PremiumPart } from '../numbers.ts';
import { type BarSegment, buildBar, type Tone } from './bar.ts';
import { NONE } from './change.ts';
import { cleanCode, cleanLabel, countOf, formatPart, formatShortCount, isSameDollars, nameSymbol } from './label.ts';

export interface SymbolRow {
  readonly symbol: string;
  readonly premium: string;
  readonly calls: string;
  readonly puts: string;
  readonly bullish: string;
  readonly bearish: string;
  readonly neutral: string;
  /** Short: `61.2K`. */
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
  readonly zeroGamma: string;
  /** `4.3 x` its mean when it stands out, else empty. */
  readonly unusual: string;
}

export interface UnusualRow {
  readonly symbol: string;
  readonly premium: string;
  readonly previous: string;
  readonly mean: string;
  /** `4.3 x`. */
  readonly ratio: string;
  readonly sessions: string;
  readonly netCalls: string;
  readonly netPuts: string;
  readonly lean: string;
  readonly tone: Tone;
}

export interface PartRow {
  readonly name: string;
  readonly premium: string;
  readonly share: string;
  /** Of a bar: whole per cent, 0 for none. */
  readonly width: number;
  readonly calls: string;
  readonly puts: string;
  readonly trades: string;
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
  /** `0DTE`, `1 day`, `57 days`. */
  readonly days: string;
  readonly activityType: string;
  /** `multi-leg`, `sweep`, both, or empty. */
  readonly flags: string;
}

export interface ExclusionRow {
  readonly name: string;
  readonly trades: string;
  readonly premium: string;
}

export function buildSymbolRow(flow: SymbolFlow): SymbolRow {
  return { symbol: nameSymbol(flow.symbol), ...buildPremiumCells(flow) };
}

export function buildWatchRow(watched: WatchedSymbol): WatchRow {
  const { flow, exposure, unusual } = watched;
  const priced = exposure !== null && exposure.spot !== null;
  return {
    symbol: nameSymbol(watched.symbol),
    ...(flow === null ? EMPTY_CELLS : buildPremiumCells(flow)),
    traded: flow !== null,
    place: flow === null ? NONE : `#${formatCount(flow.place)}`,
    gex: priced ? formatSignedDollars(exposure.netGex) : NONE,
    zeroGamma: priced && exposure.zeroGamma !== null ? formatDecimal(exposure.zeroGamma) : NONE,
    unusual: unusual === null ? '' : formatTimes(unusual.ratio),
  };
}

/** @param meanSessions sessions in the mean, those without the symbol included */
export function buildUnusualRow(unusual: UnusualSymbol, meanSessions: number): UnusualRow {
  const lean = leanOf(unusual);
  return {
    symbol: nameSymbol(unusual.symbol),
    premium: formatDollars(unusual.premium),
    previous: unusual.previous === null ? NONE : formatDollars(unusual.previous),
    mean: formatDollars(unusual.mean),
    ratio: formatTimes(unusual.ratio),
    sessions: `${formatCount(unusual.sessions)} of ${formatCount(meanSessions)}`,
    netCalls: formatSignedDollars(unusual.netCalls),
    netPuts: formatSignedDollars(unusual.netPuts),
    lean: formatSignedDollars(lean),
    tone: toneOf(lean),
  };
}

export function buildPartRow(name: string, part: PremiumPart, total: Amount): PartRow {
  const share = total !== null && total <= 0 ? 0 : shareOf(part.total, total);
  return {
    name,
    premium: formatDollars(part.total),
    share: formatPart(share),
    width: Math.min(100, Math.max(0, Math.round((share ?? 0) * 100))),
    calls: formatDollars(part.calls),
    puts: formatDollars(part.puts),
    trades: formatShortCount(part.trades),
  };
}

export function buildTradeRow(trade: BigTrade): TradeRow {
  const flags = [...(trade.multiLeg ? ['multi-leg'] : []), ...(trade.sweep ? ['sweep'] : [])];
  return {
    time: cleanLabel(trade.time),
    contract: cleanLabel(trade.contract),
    size: formatCount(trade.size),
    price: formatDecimal(trade.price),
    premium: formatDollars(trade.premium),
    side: cleanCode(trade.side) || NONE,
    sentiment: nameSentiment(trade.sentiment),
    tone: trade.sentiment === 'BULLISH' ? 'bullish' : trade.sentiment === 'BEARISH' ? 'bearish' : 'neutral',
    spot: trade.spot === null ? NONE : formatDecimal(trade.spot),
    openInterest: formatCount(trade.openInterest),
    impliedVolatility: trade.impliedVolatility === null ? NONE : formatPercent(trade.impliedVolatility, 0),
    days: trade.days === null ? NONE : trade.days === 0 ? '0DTE' : countOf(trade.days, 'day'),
    activityType: cleanCode(trade.activityType) || NONE,
    flags: flags.join(', '),
  };
}

/** What the sums leave out, line by line, between what they count and what the file holds. */
export function buildExclusionRows(counted: Premium, left: Exclusions): readonly ExclusionRow[] {
  const row = (name: string, { trades, premium }: Tally) => ({
    name,
    trades: formatCount(trades),
    premium: formatDollars(premium),
  });
  return [
    row('Counted above', { trades: counted.trades, premium: counted.total }),
    row('Cancel messages', left.cancelMessages),
    row('Prints they cancel', left.cancelledPrints),
    row('Late reports', left.lateReports),
    row('Recorded in the file', left.recorded),
  ];
}

/** Of bullish less bearish premium. Not for GEX: its sign is no direction. */
export function toneOf(value: Amount): Tone {
  if (value === null || isSameDollars(value, 0)) return 'neutral';
  return value > 0 ? 'bullish' : 'bearish';
}

/** A ratio as printed: `0.70`, or the dash. */
export function formatRatio(ratio: number | null): string {
  return ratio === null ? NONE : formatDecimal(ratio);
}

function formatTimes(ratio: number): string {
  return `${formatDecimal(ratio, 1)} ×`;
}

function buildPremiumCells(flow: Premium) {
  const lean = leanOf(flow);
  return {
    premium: formatDollars(flow.total),
    calls: formatDollars(flow.calls),
    puts: formatDollars(flow.puts),
    bullish: formatDollars(flow.bullish),
    bearish: formatDollars(flow.bearish),
    neutral: formatDollars(flow.neutral),
    trades: formatShortCount(flow.trades),
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
  const text = cleanCode(sentiment);
  return text === '' ? NONE : `${text[0]?.toUpperCase()}${text.slice(1).toLowerCase()}`;
}
