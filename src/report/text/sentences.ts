/**
 * The three sentences of the first screen. Pure. Invariant: a sentence is printed only if the numbers support it. A
 * rule returns null if it does not apply, and the first three sentences are printed. A record ("the most since") refers
 * only to the sealed sessions that were read and are not degraded.
 */

import { formatCount, formatDecimal, formatDollars, formatSignedDollars } from '../../core/units.ts';
import { clearLeanOf, shareOf } from '../amount.ts';
import { listPastGaps, nameSessions } from '../key-numbers.ts';
import type { FlowReport, SymbolExposure } from '../model.ts';
import { hasWholeSymbols } from '../records.ts';
import {
  cleanLine,
  countOf,
  formatPart,
  formatPastDay,
  formatSignedPercent,
  isSameDollars,
  nameSymbol,
} from './label.ts';
import { describeGap } from './lacking.ts';

const SENTENCES = 3;

/** A symbol that traded this many times its mean deserves a sentence. */
const UNUSUAL_RATIO = 2;
/** A record beats at least two sessions; with one, the sentence compares with that session. */
const FEWEST_BEATEN = 2;
/** A reader must know first if half of everything is in one place. */
const MAJORITY = 0.5;

type Rule = (report: FlowReport) => string | null;

/** Up to three sentences, preceded by those about gaps of the date and of the sessions before, if there are any; a single one on a day without trades. */
export function buildSentences(report: FlowReport): readonly string[] {
  if (report.headline.trades === 0) return [sayNothingCounts(report)];
  const said = RULES.map((rule) => rule(report)).filter((sentence) => sentence !== null);
  // The sentences about gaps do not replace one of the three.
  return [
    ...sayFilter(report),
    ...sayDoubts(report),
    ...sayGap(report),
    ...listPastGaps(report.comparison, report.drop.date),
    ...said.slice(0, SENTENCES),
  ];
}

/** Which part of the market the report is of. */
function sayFilter({ drop: { filter } }: FlowReport): readonly string[] {
  if (filter === undefined) return [];
  const gex = hasWholeSymbols(filter) ? '' : ' GEX needs every trade, so there is none.';
  return [`Only trades with ${cleanLine(filter)}: every sum is of these alone.${gex}`];
}

/** What is unlike other days. The texts come from a file, so they are one line each. */
function sayDoubts({ drop: { doubts = [] } }: FlowReport): readonly string[] {
  return doubts.length === 0 ? [] : [`Unlike other days: ${doubts.map(cleanLine).join('; ')}.`];
}

/** Why the headline premium does not cover all trades. */
function sayGap({ headline }: FlowReport): readonly string[] {
  const gap = describeGap(headline);
  if (headline.total === null) return [`The premium of this date cannot be computed: ${gap}.`];
  return gap === '' ? [] : [`All sums of premium are without some trades: ${gap}.`];
}

/** Says whether nothing traded, or no record of the file counts. */
function sayNothingCounts({ exclusions }: FlowReport): string {
  const { trades, premium } = exclusions.recorded;
  if (trades === 0) return 'No option traded in the sealed drop of this date.';
  const none =
    trades === 1
      ? 'The only record of this date does not count'
      : `None of the ${formatCount(trades)} records of this date counts`;
  return `${none} (${formatDollars(premium)}): ${trades === 1 ? 'it' : 'each'} is a late report, a cancelled print or a cancel message.`;
}

/**
 * Calls' or puts' share, compared with the session before and the mean if these are known. The session before is named
 * by its date, because it is the newest one in the store, which need not be the one before on the calendar.
 */
export function sayCallShare(report: FlowReport): string | null {
  const { headline, comparison, drop } = report;
  const { calls, puts, total } = headline;
  if (calls === null || puts === null || total === null || total <= 0) return null;
  const name = calls >= puts ? 'calls' : 'puts';
  const share = { calls, puts }[name] / total;
  const lead = `${name === 'calls' ? 'Calls' : 'Puts'} took ${formatPart(share)} of premium`;
  const { changes } = comparison;
  const { previous: before, mean } = changes[name === 'calls' ? 'callShare' : 'putShare'];
  const record = sayRecord(report, name, share);
  if (record !== null) return `${lead}, ${record}.`;
  const names = nameSessions(comparison, drop.date);
  if (before === null) return `${lead}.`;
  const onBefore = compareShares(share, before);
  const first = `${onBefore} on ${names.previous} (${formatPart(before)})`;
  if (mean === null) return `${lead}, ${first}.`;
  const onMean = compareShares(share, mean);
  const second = `in the ${names.mean} (${formatPart(mean)})`;
  return onBefore === onMean ? `${lead}, ${first} and ${second}.` : `${lead}, ${first} and ${onMean} ${second}.`;
}

/**
 * `the most since 12 Nov (64%)` or `the most of the last 6 sealed sessions`, with the mean. Null if it beats fewer
 * than two sessions, or one of the sessions needed has no share or is degraded: an unknown share proves no record.
 */
function sayRecord({ comparison, drop }: FlowReport, name: 'calls' | 'puts', share: number): string | null {
  const { pastShares, meanDates, degradedDates, changes } = comparison;
  const { mean } = changes[name === 'calls' ? 'callShare' : 'putShare'];
  for (const [most, beats] of [
    ['the most', 'more than'],
    ['the least', 'less than'],
  ] as const) {
    const isBeaten = (at: number) => {
      const past = pastShares[at]?.[name] ?? null;
      return past !== null && compareShares(share, past) === beats && !degradedDates.includes(meanDates[at] ?? '');
    };
    const first = pastShares.findIndex((_, at) => !isBeaten(at));
    const usual = mean === null ? '' : `; the ${nameSessions(comparison, drop.date).mean} is ${formatPart(mean)}`;
    if (first === -1 && pastShares.length >= FEWEST_BEATEN + 1)
      return `${most} of the last ${pastShares.length + 1} sealed sessions${usual}`;
    const since = pastShares[first]?.[name] ?? null;
    if (first >= FEWEST_BEATEN && since !== null && !degradedDates.includes(meanDates[first] ?? ''))
      return `${most} since ${formatPastDay(meanDates[first] ?? '', drop.date)} (${formatPart(since)})${usual}`;
  }
  return null;
}

/** One symbol with at least half of all premium. */
export function sayConcentration({ headline, topSymbols, symbolCount }: FlowReport): string | null {
  const [first] = topSymbols;
  const share = shareOf(first?.total ?? null, headline.total);
  if (first === undefined || share === null) return null;
  if (symbolCount === 1) return `${nameSymbol(first.symbol)} is the only symbol that traded.`;
  if (share < MAJORITY) return null;
  return `${nameSymbol(first.symbol)} alone carried ${formatPart(share)} of premium, of ${countOf(symbolCount, 'symbol')} that traded.`;
}

/** The lead symbol's net exposure, and its spot relative to zero gamma. */
export function sayGamma({ exposure }: FlowReport): string | null {
  const { lead, top } = exposure;
  if (lead === null || lead.spot === null || lead.netGex === null) return null;
  const name = nameSymbol(lead.symbol);
  const net = `Net GEX of ${name} is ${formatSignedDollars(lead.netGex)} per 1% move`;
  const everywhere =
    top.length > 1 && top.every((row) => row.netGex !== null && row.netGex < 0)
      ? `; it is negative in all ${top.length} symbols with the largest exposure`
      : '';
  if (lead.zeroGamma === null) return `${net}${everywhere || ', with no zero gamma found'}.`;
  return `${net}${everywhere}; ${describeSpot(lead)}.`;
}

/** The symbol with the most unusual premium compared with its own last sessions. */
export function sayUnusual({ unusual, comparison }: FlowReport): string | null {
  const [first] = unusual;
  if (first === undefined || first.ratio < UNUSUAL_RATIO) return null;
  return `${nameSymbol(first.symbol)} traded ${formatDollars(first.premium)}, ${formatDecimal(first.ratio, 1)} times its mean of ${countOf(comparison.meanDates.length, 'session')}.`;
}

/** Bullish compared with bearish premium, with the neutral share: a small lean of a small part says little. */
export function sayLean({ headline }: FlowReport): string | null {
  const { bullish, bearish, neutral, total } = headline;
  if (bullish === null || bearish === null || total === null || total <= 0) return null;
  const rest = `${formatPart(shareOf(neutral, total))} was neutral`;
  if (isSameDollars(bullish, bearish)) return `Bullish and bearish premium were equal; ${rest}.`;
  // The tile says "balanced": a difference that is noise is no sentence either.
  if (clearLeanOf(headline) === 0) return `Bullish and bearish premium were nearly equal; ${rest}.`;
  const [more, less] = bullish > bearish ? ['Bullish', 'bearish'] : ['Bearish', 'bullish'];
  return `${more} premium was ${formatDollars(Math.abs(bullish - bearish))} above ${less}; ${rest}.`;
}

/** Contracts that expire the same day, if they are half of premium or more. */
export function sayZeroDte({ headline }: FlowReport): string | null {
  const share = shareOf(headline.zeroDte, headline.total);
  if (share === null || share < MAJORITY) return null;
  return `Contracts that expired this day took ${formatPart(share)} of premium.`;
}

/** Says that there are no earlier sessions; for a day with little else to say. */
export function sayNoHistory({ comparison }: FlowReport): string | null {
  return comparison.previousDate === null && comparison.meanDates.length === 0
    ? 'No sealed session lies before this one to compare with.'
    : null;
}

/** `spot 601.50 is 0.9% above zero gamma 596.09`. */
export function describeSpot({ spot, zeroGamma }: SymbolExposure): string {
  if (spot === null) return 'no record had a price of the underlying';
  if (zeroGamma === null) return `spot ${formatDecimal(spot)}, no zero gamma`;
  return `spot ${formatDecimal(spot)} is ${describeDistance(spot, zeroGamma)} zero gamma ${formatDecimal(zeroGamma)}`;
}

/** `0.9% above`, `1.2% below`, `at`. */
export function describeDistance(spot: number, level: number): string {
  const distance = spot / level - 1;
  const text = formatSignedPercent(Math.abs(distance)).replace('+', '');
  if (text === '0%') return 'at';
  return `${text} ${distance > 0 ? 'above' : 'below'}`;
}

/** Rules for unusual facts come first; those that always apply come last. */
const RULES: readonly Rule[] = [
  sayCallShare,
  sayConcentration,
  sayGamma,
  sayUnusual,
  sayZeroDte,
  sayLean,
  sayNoHistory,
];

/** Shares are printed in whole percent: those that print the same are "as much". */
function compareShares(share: number, before: number): string {
  if (formatPart(share) === formatPart(before)) return 'as much as';
  return share > before ? 'more than' : 'less than';
}
