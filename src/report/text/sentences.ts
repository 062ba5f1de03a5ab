/**
 * The three sentences of the first screen: what caused the day, by how much of it each explains. Pure. Invariant: a
 * sentence is printed only if the numbers support it, and none repeats a tile of the first screen. A rule returns null if
 * it does not apply.
 */

import { formatNearDay } from '../../core/date-text.ts';
import {
  capitalize,
  countOf,
  formatCount,
  formatDecimal,
  formatDollars,
  formatPercent,
  formatSignedDollars,
} from '../../core/units.ts';
import { type Amount, clearLeanOf, shareOf } from '../amount.ts';
import { findLevel, listPastGaps, nameSessions } from '../key-numbers.ts';
import type { BigTrade, Driver, FlowReport } from '../model.ts';
import { hasWholeSymbols } from '../records.ts';
import { cleanLine, formatPart, nameContract, nameSymbol } from './label.ts';
import { describeGap, describeLean } from './subject.ts';

const SENTENCES = 3;

/** A symbol that traded this many times its median deserves a sentence. */
const UNUSUAL_RATIO = 2;
/** A reader must know first if half of everything is in one place. */
const MAJORITY = 0.5;

/** A smaller part of one side's premium names no cause. */
const LEAST_PART = 0.1;
/** A change of the day that is smaller than this part of its premium needs no cause. */
const LEAST_CHANGE = 0.05;
/** A single trade of this part of the day's premium deserves a sentence. */
const LARGE_TRADE = 0.02;

/** Records that are left out deserve a sentence from this part of the premium on. */
const LEAST_LEFT_OUT = 0.01;

interface Sentence {
  readonly text: string;
  /** The part of the day's premium that the sentence explains: the largest are printed. */
  readonly weight: number;
}

type Rule = (report: FlowReport) => Sentence | null;

/** Up to three sentences, preceded by those about gaps of the date and of the sessions before, if there are any; a single one on a day without trades. */
export function buildSentences(report: FlowReport): readonly string[] {
  if (report.headline.trades === 0) return [sayNothingCounts(report)];
  const said = RULES.map((rule) => rule(report))
    .filter((sentence) => sentence !== null)
    .toSorted((a, b) => b.weight - a.weight)
    .map(({ text }) => text);
  // The sentences about gaps do not replace one of the three.
  return [
    ...sayFilter(report),
    ...sayHalfDay(report),
    ...sayGap(report),
    ...saySharedIds(report),
    ...sayLeftOut(report),
    ...listPastGaps(report.comparison, report.drop.date),
    ...said.slice(0, SENTENCES),
    ...sayBesides(report),
  ];
}

/** `Half day, closes 13:00: compared with 56% of whole days, the part of their hours that it has.` */
function sayHalfDay({ halfDay, comparison: { share } }: FlowReport): readonly string[] {
  if (halfDay === undefined) return [];
  const how =
    share === undefined
      ? 'only with other half days'
      : `with ${formatPart(share)} of whole days, the part of their hours that it has`;
  return [`Half day, closes ${halfDay}: compared ${how}.`];
}

/** `Overnight $12.4M, curb $3.1M, in no other number.` */
function sayBesides({ besides: { overnight, curb } }: FlowReport): readonly string[] {
  const parts = [
    ...(overnight.trades === 0 ? [] : [`overnight ${formatDollars(overnight.premium)}`]),
    ...(curb.trades === 0 ? [] : [`curb ${formatDollars(curb.premium)}`]),
  ];
  const text = parts.join(', ');
  return text === '' ? [] : [`${capitalize(text)}, in no other number.`];
}

/** Which part of the market the report is of. */
function sayFilter({ drop: { filter } }: FlowReport): readonly string[] {
  if (filter === undefined) return [];
  const gex = hasWholeSymbols(filter) ? '' : ' GEX needs every trade, so there is none.';
  return [`Only trades with ${cleanLine(filter)}: every sum covers only these.${gex}`];
}

/** Why the headline premium does not cover all trades. */
function sayGap({ headline }: FlowReport): readonly string[] {
  const gap = describeGap(headline);
  if (headline.total === null) return [`The premium of this date cannot be computed: ${gap}.`];
  return gap === '' ? [] : [`All premium sums leave out some trades: ${gap}.`];
}

/** Records that may be one trade: they count, and the reader knows how much they are. */
function saySharedIds({ exclusions: { sharedIds } }: FlowReport): readonly string[] {
  if (sharedIds === undefined || sharedIds.trades === 0) return [];
  const { trades, premium } = sharedIds;
  const which = `${countOf(trades, 'trade')} ${trades === 1 ? 'has' : 'have'} the id of another trade, or none`;
  return [`${which}: ${formatDollars(premium)} of premium, all of it counted.`];
}

/**
 * `24 late reports are in no other number: $1.40M (6.6% of premium), bullish by $1.31M; with them the day would be bullish by
 * $832K.` Said of late reports and of prints that were cancelled, if they are a part of the premium that matters, or would turn
 * the day.
 */
function sayLeftOut({ headline, exclusions: { lateReports, cancelledPrints } }: FlowReport): readonly string[] {
  const kinds = [
    ['late report', lateReports],
    ['cancelled print', cancelledPrints],
  ] as const;
  return kinds.flatMap(([name, { trades, premium, ...sides }]) => {
    const share = shareOf(premium, headline.total);
    if (trades === 0 || share === null) return [];
    const both = { ...headline, ...add(headline, sides) };
    const turns = Math.sign(clearLeanOf(both) ?? 0) !== Math.sign(clearLeanOf(headline) ?? 0);
    if (share < LEAST_LEFT_OUT && !turns) return [];
    const lean = describeLean({ ...headline, ...sides });
    const turned = turns ? `; with ${trades === 1 ? 'it' : 'them'} the day would be ${describeLean(both)}` : '';
    return `${countOf(trades, name)} ${trades === 1 ? 'is' : 'are'} in no other number: ${formatDollars(premium)} (${formatPercent(share, 1)} of premium), ${lean}${turned}.`;
  });
}

type Sides = Readonly<Record<'bullish' | 'bearish', Amount>>;

function add(a: Sides, b: Sides): Sides {
  const sum = (side: keyof Sides) => (a[side] === null || b[side] === null ? null : a[side] + b[side]);
  return { bullish: sum('bullish'), bearish: sum('bearish') };
}

/** Says whether nothing traded, or no record of the file counts. */
function sayNothingCounts({ exclusions }: FlowReport): string {
  const { trades, premium } = exclusions.recorded;
  if (trades === 0) return 'No option traded in the sealed drop of this date.';
  const none =
    trades === 1
      ? 'The only record of this date does not count'
      : `None of the ${formatCount(trades)} records of this date counts`;
  const other = exclusions.otherHours.trades === 0 ? '' : ', or of the night or the curb';
  return `${none} (${formatDollars(premium)}): ${trades === 1 ? 'it' : 'each'} is a late report, a cancelled print or a cancel message${other}.`;
}

/** Whose calls or puts the bearish and the bullish premium was. */
export function sayDrivers({ headline, drivers, biggestTrades, symbolCount, drop }: FlowReport): Sentence | null {
  const { total } = headline;
  if (symbolCount < 2 || total === null || total <= 0) return null;
  const sides = (['bearish', 'bullish'] as const)
    .flatMap((side) => {
      const driver = drivers[side];
      const share = driver === null ? null : shareOf(driver[side], headline[side]);
      return driver === null || share === null || share < LEAST_PART
        ? []
        : [{ side, driver, share, dollars: driver[side] }];
    })
    .toSorted((a, b) => b.dollars - a.dollars);
  const [first, second] = sides;
  if (first === undefined) return null;
  const whole = ({ side, driver }: (typeof sides)[number]) => sayOneTrade(driver, side, biggestTrades);
  const lead = `${nameDriver(first.driver, drop.date)} were ${formatPart(first.share)} of ${first.side} premium${whole(first)}`;
  const name = second && nameDriver(second.driver, drop.date);
  const again = name === nameDriver(first.driver, drop.date) ? ' and' : `; ${name} were`;
  const rest = second && `${again} ${formatPart(second.share)} of ${second.side}${whole(second)}`;
  return { text: `${lead}${rest ?? ''}.`, weight: sides.reduce((sum, { dollars }) => sum + dollars, 0) / total };
}

/** Whether most of a driver is a single record, which readers would take for many. */
function sayOneTrade(driver: Driver, side: 'bullish' | 'bearish', trades: readonly BigTrade[]): string {
  const right = driver.right === 'calls' ? 'C' : 'P';
  const one = trades.find(
    ({ symbol, contract, sentiment, premium }) =>
      symbol === driver.symbol &&
      contract.endsWith(` ${right}`) &&
      contract.includes(` ${driver.expirationDate ?? ''}`) &&
      sentiment === side.toUpperCase() &&
      premium > driver[side] / 2,
  );
  if (one === undefined) return '';
  return `, most of it one ${one.multiLeg ? 'leg of a complex order' : 'trade'}`;
}

/** `SPX puts`, `SPX puts expiring Jan 15`. */
export function nameDriver({ symbol, right, expirationDate }: Driver, date: string): string {
  const expiring =
    expirationDate === null
      ? ''
      : expirationDate <= date
        ? ' expiring this day'
        : ` expiring ${formatNearDay(expirationDate, date)}`;
  return `${nameSymbol(symbol)} ${right}${expiring}`;
}

/** The symbol with most of the change of premium since the session before. */
export function sayMover({ headline, comparison, movers, drop }: FlowReport): Sentence | null {
  const { total } = headline;
  const { previous } = comparison.changes.total;
  const [first] = movers;
  if (total === null || previous === null || total <= 0 || first === undefined) return null;
  const change = total - previous;
  const part = first.premium - first.previous;
  // The largest change of a symbol may go the other way: then it is no cause.
  if (Math.abs(change) < LEAST_CHANGE * total || change * part <= 0) return null;
  const more = change > 0 ? 'more' : 'less';
  const day = nameSessions(comparison, drop.date).previous;
  const rest = change - part;
  // More than the whole change: then the others went the other way.
  const others =
    change * rest < 0 ? `, all others together ${formatDollars(Math.abs(rest))} ${change > 0 ? 'less' : 'more'}` : '';
  const text = `${formatDollars(Math.abs(change))} ${more} premium than on ${day}; ${nameSymbol(first.symbol)} traded ${formatDollars(Math.abs(part))} ${more}${others}.`;
  return { text, weight: Math.abs(part) / Math.max(total, previous) };
}

/** The net sentiment is the first thing a reader sees: whether most of it, or its balance, is due to a single record. */
export function sayOneSided({ headline, biggestTrades }: FlowReport): Sentence | null {
  const lean = clearLeanOf(headline);
  if (lean === null || headline.trades === 1) return null;
  const found = (['bullish', 'bearish'] as const).flatMap((side) => {
    const one = biggestTrades.find(({ sentiment }) => sentiment === side.toUpperCase());
    if (one === undefined) return [];
    const rest = { ...headline, [side]: (headline[side] ?? 0) - one.premium };
    const decides = lean === 0 ? clearLeanOf(rest) !== 0 : one.premium >= MAJORITY * Math.abs(lean);
    return decides && (lean === 0 || side === (lean > 0 ? 'bullish' : 'bearish')) ? [{ one, side, rest }] : [];
  });
  const [largest] = found.toSorted((a, b) => b.one.premium - a.one.premium);
  if (largest === undefined) return null;
  const { one, side, rest } = largest;
  const what = one.multiLeg ? 'leg of a complex order' : 'trade';
  const lead = lean === 0 ? `Balanced only because one ${what}` : `One ${what}`;
  return {
    text: `${lead} is ${formatDollars(one.premium)} ${side} (${nameContract(one.contract)}): without it the day is ${describeLean(rest)}.`,
    weight: 1,
  };
}

/** The largest trade, if it is large beside the day. */
export function sayTrade(report: FlowReport): Sentence | null {
  const { headline, biggestTrades, symbolCount } = report;
  if (sayOneSided(report) !== null) return null;
  const [first] = biggestTrades;
  const share = shareOf(first?.premium ?? null, headline.total);
  if (first === undefined || share === null || share < LARGE_TRADE || symbolCount < 2) return null;
  const lean = { BULLISH: ', bullish', BEARISH: ', bearish' }[first.sentiment] ?? '';
  return {
    text: `One trade was ${formatPart(share)} of premium: ${nameContract(first.contract)} for ${formatDollars(first.premium)}${lean}${first.multiLeg ? ', a leg of a complex order' : ''}.`,
    weight: share,
  };
}

/**
 * Calls' or puts' share, compared with the session before and the median if these are known. The session before is named
 * by its date, because it is the newest one in the store, which need not be the one before on the calendar.
 */
export function sayCallShare(report: FlowReport): Sentence | null {
  const { headline, comparison, drop } = report;
  const { calls, puts, total } = headline;
  if (calls === null || puts === null || total === null || total <= 0) return null;
  const name = calls >= puts ? 'calls' : 'puts';
  const share = { calls, puts }[name] / total;
  const lead = `${name === 'calls' ? 'Calls' : 'Puts'} took ${formatPart(share)} of premium`;
  const { changes } = comparison;
  const { previous: before, median } = changes[name === 'calls' ? 'callShare' : 'putShare'];
  const moved = (text: string) => ({ text, weight: Math.abs(share - (median ?? before ?? share)) });
  const names = nameSessions(comparison, drop.date);
  if (before === null) return moved(`${lead}.`);
  const onBefore = compareShares(share, before);
  const first = `${onBefore} on ${names.previous} (${formatPart(before)})`;
  if (median === null) return moved(`${lead}, ${first}.`);
  const onMedian = compareShares(share, median);
  const second = `the ${names.median} (${formatPart(median)})`;
  const link = onBefore === onMedian ? onMedian.split(' ').at(-1) : onMedian;
  return moved(`${lead}, ${first} and ${link} ${second}.`);
}

/** One symbol with at least half of all premium. */
export function sayConcentration({ headline, topSymbols, symbolCount }: FlowReport): Sentence | null {
  const [first] = topSymbols;
  const share = shareOf(first?.total ?? null, headline.total);
  if (first === undefined || share === null) return null;
  if (symbolCount === 1) return { text: `${nameSymbol(first.symbol)} is the only symbol in this report.`, weight: 1 };
  if (share < MAJORITY) return null;
  const text = `${nameSymbol(first.symbol)} alone carried ${formatPart(share)} of premium, of ${countOf(symbolCount, 'symbol')}.`;
  return { text, weight: share };
}

/** Whether all of the largest exposures are negative; the tile has the lead symbol's. */
export function sayGamma({ exposure }: FlowReport): Sentence | null {
  const { top } = exposure;
  if (top.length < 2 || top.some(({ netGex }) => netGex === null || netGex >= 0)) return null;
  const whole = top.filter(({ isWholeChain }) => isWholeChain).length;
  const basis =
    whole === 0 ? ' (partial: traded contracts only)' : whole < top.length ? ' (whole chains if known)' : '';
  const text = `Net GEX is negative in all ${top.length} symbols with the largest exposure${basis}.`;
  return { text, weight: MAJORITY };
}

/** Whether the net GEX of the first screen's symbol has another sign than the session before, or its price crossed zero gamma. */
export function sayTurn({ exposure: { lead }, comparison, drop }: FlowReport): Sentence | null {
  if (lead === null) return null;
  const [gex, spot, zero] = (['net_gex', 'spot', 'zero_gamma'] as const).map((name) =>
    findLevel(comparison, lead.symbol, name),
  );
  const day = nameSessions(comparison, drop.date).previous;
  const name = nameSymbol(lead.symbol);
  if (gex !== undefined && (gex.latest ?? 0) * (gex.previous ?? 0) < 0) {
    const text = `Net GEX of ${name} turned ${(gex.latest ?? 0) < 0 ? 'negative' : 'positive'}: ${formatSignedDollars(gex.previous)} on ${day}.`;
    return { text, weight: MAJORITY };
  }
  const side = (which: 'latest' | 'previous') =>
    Math.sign((spot?.[which] ?? Number.NaN) - (zero?.[which] ?? Number.NaN));
  if (side('latest') * side('previous') !== -1) return null;
  const [now, then] = side('latest') < 0 ? ['below', 'above'] : ['above', 'below'];
  return { text: `${name} is ${now} its zero gamma now, ${then} it on ${day}.`, weight: MAJORITY };
}

/** What the largest contracts of the session before left open. */
export function sayOpened({ opened, comparison, headline, drop }: FlowReport): Sentence | null {
  const moved = opened.filter(({ before, after }) => before !== after).slice(0, SENTENCES);
  const [first] = moved;
  if (first === undefined) return null;
  const said = moved.map(({ contract, volume, before, after }) => {
    const change = `${after > before ? 'opened' : 'closed'} ${formatCount(Math.abs(after - before))}`;
    return `${nameContract(contract)} ${change} (${formatCount(volume)} traded)`;
  });
  const day = nameSessions(comparison, drop.date).previous;
  return { text: `Largest of ${day}: ${said.join('; ')}.`, weight: shareOf(first.premium, headline.total) ?? 0 };
}

/** The symbol with the most unusual premium compared with its own last sessions. */
export function sayUnusual({ unusual, comparison, headline }: FlowReport): Sentence | null {
  const [first] = unusual;
  if (first === undefined || first.ratio < UNUSUAL_RATIO) return null;
  const text = `${nameSymbol(first.symbol)} traded ${formatDollars(first.premium)}, ${formatDecimal(first.ratio, 1)} times its median of ${countOf(comparison.dates.length, 'session')}.`;
  return { text, weight: shareOf(first.premium, headline.total) ?? 0 };
}

/** Contracts that expire the same day, if they are half of premium or more. */
export function sayZeroDte({ headline }: FlowReport): Sentence | null {
  const share = shareOf(headline.zeroDte, headline.total);
  if (share === null || share < MAJORITY) return null;
  return { text: `Contracts that expired this day took ${formatPart(share)} of premium.`, weight: share };
}

/** Says that there are no earlier sessions; for a day with little else to say. */
export function sayNoHistory({ comparison, halfDay }: FlowReport): Sentence | null {
  return comparison.previousDate === null && halfDay === undefined
    ? { text: 'There is no earlier sealed session to compare with.', weight: 0 }
    : null;
}

/** At equal weight, the earlier one is said first. */
const RULES: readonly Rule[] = [
  sayOneSided,
  sayConcentration,
  sayDrivers,
  sayMover,
  sayUnusual,
  sayZeroDte,
  sayTrade,
  sayTurn,
  sayOpened,
  sayGamma,
  sayCallShare,
  sayNoHistory,
];

/** Shares are printed in whole percent: those that print the same are "as much". */
function compareShares(share: number, before: number): string {
  if (formatPart(share) === formatPart(before)) return 'as much as';
  return share > before ? 'more than' : 'less than';
}
