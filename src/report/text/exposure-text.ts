/** Texts for gamma and delta exposure: lead symbol, table of symbols, expirations, and the endpoint's figures. Pure. */
import { formatDecimal, formatSignedDollars } from '../../core/units.ts';
import type { Exposure, ExposureSums, RankedExposure, SymbolExposure } from '../model.ts';
import { type MailRow, printRows } from '../report-table.ts';
import { EXPIRATIONS } from '../report-tables.ts';
import {
  cleanLine,
  countOf,
  formatShortCount,
  formatShortDay,
  formatSignedPercent,
  joinWords,
  NONE,
  nameSymbol,
} from './label.ts';
import { describeDistance, describeSpot } from './sentences.ts';

/** More rows would push the mail over the size at which Gmail clips it; watchlist symbols are always shown. */
const MAX_ROWS = 30;

/** The symbol of the first screen. */
export function buildLead({ lead }: Exposure) {
  if (lead === null) return null;
  const { spot, zeroGamma } = lead;
  return {
    symbol: nameSymbol(lead.symbol),
    netGex: spot === null ? NONE : formatSignedDollars(lead.netGex),
    spot: formatLevel(spot),
    zeroGamma: formatLevel(zeroGamma),
    // `0.9% above`; empty if spot or zero gamma is unknown.
    distance: spot === null || zeroGamma === null ? '' : describeDistance(spot, zeroGamma),
  };
}

export function buildExposureView(exposure: Exposure) {
  const { focus, top, lead, total } = exposure;
  const full = new Map([...focus, ...(lead === null ? [] : [lead])].map((row) => [row.symbol, row]));
  // The watchlist's symbols first, then other large ones.
  const others = top.filter((row) => !full.has(row.symbol)).slice(0, Math.max(0, MAX_ROWS - full.size));
  return {
    rows: [...full.values()].map(buildFullRow).concat(others.map((row) => ({ ...NO_LEVELS, ...buildRanked(row) }))),
    total: { ...NO_LEVELS, symbol: 'All symbols', spot: '', ...buildSums(total) },
    expirations: lead === null ? [] : buildExpirationRows(lead),
    structure: [...full.values()].flatMap(buildStructureRow),
    structureNotes: buildStructureNotes([...full.values()]),
  };
}

/** Describes the chart by strike. */
export function describeStrikes(lead: SymbolExposure): string {
  const { callWall, putWall } = lead;
  const walls = [
    ...(callWall === null ? [] : [`call wall at ${formatStrike(callWall)}`]),
    ...(putWall === null ? [] : [`put wall at ${formatStrike(putWall)}`]),
  ];
  const spot = describeSpot(lead);
  return `${walls.length === 0 ? 'No wall' : capitalize(walls.join(', '))}; ${spot}.`;
}

/** A strike as it is quoted: `600`, `182.5`. */
export function formatStrike(strike: number): string {
  return formatDecimal(strike, 2).replace(/\.?0+$/, '');
}

function buildRanked(row: RankedExposure) {
  const priced = row.spot !== null;
  return { symbol: nameSymbol(row.symbol), spot: formatLevel(row.spot), ...(priced ? buildSums(row) : UNPRICED) };
}

function buildFullRow(row: SymbolExposure) {
  return {
    ...buildRanked(row),
    zeroGamma: formatLevel(row.zeroGamma),
    callWall: row.callWall === null ? NONE : formatStrike(row.callWall),
    putWall: row.putWall === null ? NONE : formatStrike(row.putWall),
    walls: listWalls(row),
    absoluteGamma: row.absoluteGammaStrike === null ? NONE : formatStrike(row.absoluteGammaStrike),
  };
}

/** Marks put and call as on a contract, because the put wall can be above the call wall. */
function listWalls({ putWall, callWall }: SymbolExposure): string {
  const put = putWall === null ? [] : [`${formatStrike(putWall)} P`];
  const call = callWall === null ? [] : [`${formatStrike(callWall)} C`];
  return [...put, ...call].join(', ');
}

function buildSums(sums: ExposureSums) {
  return {
    call: formatSignedDollars(sums.callGex),
    put: formatSignedDollars(sums.putGex),
    net: formatSignedDollars(sums.netGex),
    netDex: formatSignedDollars(sums.netDex),
    contracts: formatShortCount(sums.contracts),
  };
}

const UNPRICED = { call: NONE, put: NONE, net: NONE, netDex: NONE, contracts: NONE } as const;
const NO_LEVELS = { zeroGamma: NONE, callWall: NONE, putWall: NONE, walls: '', absoluteGamma: NONE } as const;

function buildExpirationRows({ expirations, laterExpirations }: SymbolExposure): readonly MailRow[] {
  const titled = expirations.map((row) => ({
    ...row,
    title: `${formatShortDay(row.expirationDate)} ${row.expirationDate.slice(0, 4)}`,
  }));
  const rows = printRows(EXPIRATIONS, titled);
  const { count, netGex } = laterExpirations;
  if (count === 0) return rows;
  const parts = { call_gex: NONE, put_gex: NONE, net_gex: formatSignedDollars(netGex) };
  return [...rows, { title: countOf(count, 'later expiration'), ...parts }];
}

function buildStructureRow({ symbol, netGex, marketStructure }: SymbolExposure) {
  if (marketStructure === null) return [];
  return [
    {
      symbol: nameSymbol(symbol),
      ours: formatSignedDollars(netGex),
      theirs: formatSignedDollars(marketStructure.intradayGex),
      difference: formatSignedPercent(marketStructure.difference),
    },
  ];
}

/** Explains why ours and the endpoint's figures differ; symbols with the same explanation share a note. */
function buildStructureNotes(rows: readonly SymbolExposure[]) {
  const symbols = new Map<string, string[]>();
  for (const { symbol, marketStructure } of rows) {
    const text = cleanLine(marketStructure?.explanation ?? '');
    if (text !== '') symbols.set(text, [...(symbols.get(text) ?? []), nameSymbol(symbol)]);
  }
  return [...symbols].map(([text, names]) => ({ symbols: joinWords(names), text }));
}

function formatLevel(level: number | null): string {
  return level === null ? NONE : formatDecimal(level);
}

function capitalize(text: string): string {
  return `${text.slice(0, 1).toUpperCase()}${text.slice(1)}`;
}
