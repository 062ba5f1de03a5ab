/** Texts for gamma exposure: lead symbol, the chart by strike, and why the endpoint's figures differ. Pure. */
import { formatDecimal, formatSignedDollars } from '../../core/units.ts';
import type { Exposure, RankedExposure, SymbolExposure } from '../model.ts';
import { cleanLine, joinWords, NONE, nameBasis, nameSymbol } from './label.ts';
import { describeDistance, describeSpot } from './sentences.ts';

/** The symbol of the first screen. */
export function buildLead({ lead }: Exposure) {
  if (lead === null) return null;
  const { spot, zeroGamma } = lead;
  return {
    symbol: nameSymbol(lead.symbol),
    netGex: spot === null ? NONE : formatSignedDollars(lead.netGex),
    // What the exposure is of.
    basis: nameBasis(lead),
    spot: formatLevel(spot),
    zeroGamma: formatLevel(zeroGamma),
    // `0.9% above`; empty if spot or zero gamma is unknown.
    distance: spot === null || zeroGamma === null ? '' : describeDistance(spot, zeroGamma),
  };
}

/** What the exposure of these symbols is of: a chain has every contract, the records only those that traded. */
export function describeBasis(symbols: readonly RankedExposure[], what = 'GEX'): string {
  const name = (list: readonly RankedExposure[]) => joinWords(list.map(({ symbol }) => nameSymbol(symbol)));
  const degraded = symbols.filter(({ isDegradedChain }) => isDegradedChain);
  const whole = symbols.filter(({ isWholeChain, isDegradedChain }) => isWholeChain && !isDegradedChain);
  const traded = symbols.filter(({ isWholeChain }) => !isWholeChain);
  if (symbols.length === 0) return '';
  if (degraded.length > 0) {
    const groups = [
      ['of a degraded chain, which may lack contracts', degraded],
      ['of the whole chain', whole],
      ['partial (traded contracts only)', traded],
    ] as const;
    const said = groups.flatMap(([basis, list]) => (list.length === 0 ? [] : [`${basis}: ${name(list)}`]));
    return `${what} ${said.join('; ')}.`;
  }
  if (traded.length === 0) return `${what} is of the whole chain.`;
  if (whole.length === 0) return `${what} is partial: traded contracts only.`;
  return `${what} of the whole chain: ${name(whole)}; partial (traded contracts only): ${name(traded)}.`;
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

function capitalize(text: string): string {
  return `${text.slice(0, 1).toUpperCase()}${text.slice(1)}`;
}
