/**
 * The finding of a chart or table in a sentence: its caption, and the text for readers who cannot see it. Also what every
 * report prints of formulas and conventions, so that readers can recompute and dispute each number. Pure.
 */
import { formatNearDay } from '../../core/date-text.ts';
import {
  capitalize,
  countOf,
  formatCount,
  formatDecimal,
  formatDollars,
  formatSignedDollars,
} from '../../core/units.ts';
import { type Amount, clearLeanOf, leanOf, shareOf } from '../amount.ts';
import type { LevelName } from '../changes.ts';
import type { Exposure, RankedExposure, SymbolExposure } from '../exposure-model.ts';
import { findLevel, formatLevelChange, nameSessions } from '../key-numbers.ts';
import type {
  Comparison,
  Earnings,
  FlowReport,
  HalfHour,
  SymbolFlow,
  VolumeAboveOpenInterest,
  WatchedSymbol,
} from '../model.ts';
import {
  cleanLabel,
  cleanLine,
  formatPart,
  formatSignedPercent,
  joinWords,
  NONE,
  nameBasis,
  nameSymbol,
} from './label.ts';
import { describeLean } from './subject.ts';

const UNKNOWN = 'The premium cannot be computed.';

/** Describes the busiest half hour, and how often bullish premium outweighed bearish. */
export function describeSession(halfHours: readonly HalfHour[], total: Amount): string {
  const busiest = pickLargest(halfHours);
  if (busiest === undefined) return halfHours.length === 0 ? 'No trades.' : UNKNOWN;
  const bullish = halfHours.filter((slot) => (leanOf(slot) ?? 0) > 0).length;
  const share = total !== null && total > 0 ? `, ${formatPart(shareOf(busiest.total, total))} of the day` : '';
  const lead = `Busiest half hour: ${cleanLabel(busiest.start)} with ${formatDollars(busiest.total)}${share}.`;
  if (halfHours.length === 1) return lead;
  // Without any direction it would be 0 of all.
  const isKnown = halfHours.some(({ bullish: up, bearish: down }) => up !== 0 || down !== 0);
  const balance = `Bullish premium outweighed bearish in ${bullish} of ${halfHours.length} half hours.`;
  return [lead, ...sayMostOneSided(halfHours, busiest), ...(isKnown ? [balance] : [])].join(' ');
}

/** The half hour with at least half of the day's difference between bullish and bearish, unless it is the busiest. */
function sayMostOneSided(halfHours: readonly HalfHour[], busiest: HalfHour): readonly string[] {
  const leans = halfHours.map((slot) => ({ slot, lean: leanOf(slot) ?? 0 }));
  const [most] = leans.toSorted((a, b) => Math.abs(b.lean) - Math.abs(a.lean));
  const day = leans.reduce((sum, { lean }) => sum + lean, 0);
  if (most === undefined || most.slot === busiest || Math.abs(most.lean) < Math.abs(day) / 2) return [];
  if (clearLeanOf(most.slot) === 0) return [];
  return [`Most one-sided: ${cleanLabel(most.slot.start)}, ${describeLean(most.slot)}.`];
}

/** Describes the leading symbol and the share of the shown symbols in total premium. */
export function describeSymbols(top: readonly SymbolFlow[], symbolCount: number, total: Amount): string {
  const [first] = top;
  if (first === undefined) return 'No trades.';
  const name = nameSymbol(first.symbol);
  if (symbolCount === 1) return `${name} is the only symbol in this report: ${formatDollars(first.total)}.`;
  if (total === null || first.total === null) return UNKNOWN;
  if (total <= 0) return `${formatCount(symbolCount)} symbols traded, without premium.`;
  const shown = top.reduce((sum, flow) => sum + (flow.total ?? 0), 0);
  const rest = symbolCount > top.length ? ` The ${top.length} largest carry ${formatPart(shown / total)}.` : '';
  return `${name} leads with ${formatDollars(first.total)}, ${formatPart(first.total / total)} of all premium.${rest}`;
}

/** `Earnings within ten days: TSLA Nov 25, NVDA Dec 1.`; empty without any. */
export function describeEarnings(earnings: readonly Earnings[], date: string): string {
  if (earnings.length === 0) return '';
  const named = earnings.map(({ symbol, day }) => `${nameSymbol(symbol)} ${formatNearDay(day, date)}`);
  return `Earnings within ten days: ${named.join(', ')}.`;
}

/** Describes the largest part of a day: `0DTE: 38% of premium, the largest part.` */
export function describeParts(
  parts: readonly { readonly title: string; readonly total: Amount }[],
  total: Amount,
): string {
  const largest = pickLargest(parts);
  if (total === null) return UNKNOWN;
  if (largest === undefined || total <= 0) return 'No premium.';
  return `${largest.title}: ${formatPart(shareOf(largest.total, total))} of premium, the largest part.`;
}

/** Describes the series that traded more than their open interest. */
export function describeVolumeAboveOpenInterest(above: VolumeAboveOpenInterest, total: Amount): string {
  const { series, ofSeries, unknownSeries, premium } = above;
  const unknown =
    unknownSeries === 0 ? '' : ` For ${formatCount(unknownSeries)} series, volume or open interest is unknown.`;
  if (series === 0) return `No series traded more than its open interest.${unknown}`;
  const share = total !== null && total > 0 ? `, ${formatPart(shareOf(premium, total))} of premium` : '';
  return `${formatCount(series)} of ${formatCount(ofSeries)} series traded more than their open interest: ${formatDollars(premium)}${share}.${unknown}`;
}

/** `undefined` if no part is known. */
function pickLargest<Part extends { readonly total: Amount }>(parts: readonly Part[]): Part | undefined {
  return parts.reduce<Part | undefined>(
    (best, part) => (part.total !== null && (best === undefined || part.total > (best.total ?? 0)) ? part : best),
    undefined,
  );
}

/** The symbol of the first screen. */
/** @param comparison with the sessions before */
export function buildLead({ lead }: Exposure, comparison: Comparison, date: string) {
  if (lead === null) return null;
  const { spot, zeroGamma, zeroGammaAfter, endedContracts } = lead;
  const ends = spot !== null && endedContracts > 0;
  const before = nameSessions(comparison, date).previous;
  const sayChange = (name: LevelName) => {
    const level = findLevel(comparison, lead.symbol, name);
    const change = level === undefined ? '' : formatLevelChange(level);
    return change === '' ? '' : `${change} vs ${before}`;
  };
  return {
    symbol: nameSymbol(lead.symbol),
    netGex: spot === null ? NONE : formatSignedDollars(lead.netGex),
    // Since the session before, `−$2.95B vs Nov 18` and `−1.2% vs Nov 18`; empty if no report was mailed of it.
    netGexChange: sayChange('net_gex'),
    spotChange: sayChange('spot'),
    // What the exposure is of.
    basis: nameBasis(lead),
    spot: formatLevel(spot),
    zeroGamma: formatLevel(zeroGamma),
    // What is left of both when the contracts have ended that expire this day; empty without any.
    netGexAfter: ends ? formatSignedDollars(lead.netGexAfter) : '',
    zeroGammaAfter: ends ? formatLevel(zeroGammaAfter) : '',
    // `0.9% above`; empty if spot or zero gamma is unknown.
    distance: spot === null || zeroGamma === null ? '' : describeDistance(spot, zeroGamma),
  };
}

/** What the exposure of these symbols is of: a chain has every contract, the records only those that traded. */
export function describeBasis(symbols: readonly RankedExposure[], what = 'GEX'): string {
  const groups = [
    ['of a degraded chain, which may lack contracts', symbols.filter(({ isDegradedChain }) => isDegradedChain)],
    ['of the whole chain', symbols.filter((one) => one.isWholeChain && !one.isDegradedChain)],
    ['partial (traded contracts only)', symbols.filter(({ isWholeChain }) => !isWholeChain)],
  ] as const;
  const [, isWhole, isTraded] = groups.map(([, list]) => list.length === symbols.length);
  if (symbols.length === 0) return '';
  if (isWhole) return `${what} is of the whole chain.`;
  if (isTraded) return `${what} is partial: traded contracts only.`;
  const said = groups.flatMap(([basis, list]) =>
    list.length === 0 ? [] : [`${basis}: ${joinWords(list.map(({ symbol }) => nameSymbol(symbol)))}`],
  );
  return `${what} ${said.join('; ')}.`;
}

/** `SPX includes SPXW.`, for each symbol of the watchlist that includes others. */
export function describeMembers(watchlist: readonly WatchedSymbol[]): readonly string[] {
  return watchlist.flatMap(({ symbol, members }) =>
    members === undefined ? [] : [`${nameSymbol(symbol)} includes ${joinWords(members.map(nameSymbol))}.`],
  );
}

/** What `after` means beside an exposure; empty where no contract of these symbols expires this day. */
export function describeAfter(symbols: readonly RankedExposure[]): readonly string[] {
  const ends = symbols.some(({ spot, endedContracts }) => spot !== null && endedContracts > 0);
  return ends ? ['After: without what expired this day.'] : [];
}

/** Describes the chart by strike. */
export function describeStrikes(lead: SymbolExposure): string {
  const { callWall, putWall } = lead;
  const walls = [
    ...(callWall === null ? [] : [`call wall at ${formatStrike(callWall)}`]),
    ...(putWall === null ? [] : [`put wall at ${formatStrike(putWall)}`]),
  ];
  const spot = describeSpot(lead);
  return `${walls.length === 0 ? 'No wall' : capitalize(walls.join(', '))} (${nameBasis(lead)}); ${spot}.`;
}

/** A strike as it is quoted: `600`, `182.5`. */
export function formatStrike(strike: number): string {
  return formatDecimal(strike, 2).replace(/\.?0+$/, '');
}

/** Explains why ours and the endpoint's figures differ; symbols with the same explanation share a note. */
export function listStructureNotes({ focus }: Exposure): readonly string[] {
  const symbols = new Map<string, string[]>();
  for (const { symbol, marketStructure } of focus) {
    const text = cleanLine(marketStructure?.explanation ?? '');
    if (text !== '') symbols.set(text, [...(symbols.get(text) ?? []), nameSymbol(symbol)]);
  }
  return [...symbols].map(([text, names]) => `${joinWords(names)}: ${text}`);
}

function formatLevel(level: number | null): string {
  return level === null ? NONE : formatDecimal(level);
}

/** Short forms: `docs/formulas.md` has each in full, with its source. */
export function listConventions(report: FlowReport) {
  return [
    {
      term: 'Premium',
      text: 'price x size x 100 dollars, as each trade record carries it; the sum over the counted records.',
    },
    {
      term: 'Sentiment',
      text: 'the record’s own field, an estimate from whether the trade executed at the bid or the ask; neutral is between the two, or without quotes. A trade without a known sentiment is in none of the three. Legs of spreads count by their own side.',
    },
    {
      term: 'Net call, net put premium',
      text: 'premium at or above the ask less premium at or below the bid, of calls and of puts.',
    },
    { term: 'Put/call', text: 'put premium over call premium, and put contracts over call contracts.' },
    {
      term: 'Volume above OI',
      text: 'premium of the series whose volume of the day is above their open interest: positions that must be new, at least in part.',
    },
    {
      term: 'GEX',
      text: 'gamma x open interest x 100 x spot² x 0.01: dollars per 1% move; calls +, puts −, which assumes that dealers are long calls and short puts. Gamma and open interest are those of every contract of the symbol’s option chain if the store has the chain of that date, else the last known ones of each traded contract; spot is the median price of the symbol’s last records.',
    },
    {
      term: 'DEX',
      text: 'delta x open interest x 100 x spot: dollars of the underlying, a put’s delta being negative.',
    },
    {
      term: 'After expiration',
      text: 'GEX, DEX, zero gamma and walls are at the close, with the contracts that expire this day; “after” is without these: what is left for the next session.',
    },
    {
      term: 'Zero gamma, walls',
      text: 'zero gamma is the spot at which net GEX would be 0, of several the nearest; the call wall is the strike with the largest call GEX, the put wall the one with the most negative put GEX. Both are computed for the symbol with most premium and the watchlist.',
    },
    { term: 'Left out of GEX and DEX', text: describeGexGaps(report) },
    { term: 'Trade times', text: 'the exchange’s wall clock (New York).' },
  ];
}

function describeGexGaps({ exposure }: FlowReport): string {
  const { total, unpricedSymbols, oddPrices } = exposure;
  if (total.contracts === 0) return 'everything: no contract traded this day.';
  const unpriced =
    unpricedSymbols === 0 ? '' : `; ${countOf(unpricedSymbols, 'symbol')} without a price of the underlying`;
  const odd =
    oddPrices === undefined
      ? ''
      : `; the prices of the underlying of ${countOf(oddPrices.records, 'record')}, which are odd beside those before and after (${oddPrices.symbols.map(nameSymbol).join(', ')})`;
  const unknown =
    total.unknownContracts === 0
      ? ''
      : `; ${countOf(total.unknownContracts, 'contract')} without a gamma or an open interest`;
  const adjusted =
    total.adjustedContracts === 0
      ? ''
      : `; ${countOf(total.adjustedContracts, 'adjusted or mini contract')}, which ${total.adjustedContracts === 1 ? 'is' : 'are'} not 100 shares`;
  return `every contract that did not trade this day, of symbols without a chain drop (counted: ${countOf(total.contracts, 'contract')})${unpriced}${adjusted}${unknown}${odd}.`;
}

/** `spot 601.50 is 0.9% above zero gamma 596.09`. */
function describeSpot({ spot, zeroGamma }: SymbolExposure): string {
  if (spot === null) return 'no record had a price of the underlying';
  if (zeroGamma === null) return `spot ${formatDecimal(spot)}, no zero gamma`;
  return `spot ${formatDecimal(spot)} is ${describeDistance(spot, zeroGamma)} zero gamma ${formatDecimal(zeroGamma)}`;
}

/** `0.9% above`, `1.2% below`, `at`. */
function describeDistance(spot: number, level: number): string {
  const distance = spot / level - 1;
  const text = formatSignedPercent(Math.abs(distance)).replace('+', '');
  if (text === '0%') return 'at';
  return `${text} ${distance > 0 ? 'above' : 'below'}`;
}
