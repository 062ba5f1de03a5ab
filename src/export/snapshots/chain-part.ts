/**
 * Parts of an option chain that is too large for one answer: ranges of strikes as they fitted on the last date, or halves.
 * Pure. Invariant: each contract lies in exactly one of the parts that a part is cut into,
 * because strikes are whole thousandths of a dollar (as the option symbol writes them). Whatever the parts were, what is
 * left of a chain follows from the texts of those that are staged.
 */
import { balance } from '../../plan/pack.ts';
import type { ChainFilter } from '../../source/snapshot.ts';

export interface ChainPart {
  readonly symbol: string;
  readonly filter: ChainFilter;
}

/** Largest strike that an option symbol can write, thousandths. */
const MAX_STRIKE = 99_999_999;
/** Above any strike: the outermost parts are open. */
const OPEN_STRIKE = Number.MAX_SAFE_INTEGER - 1;

/** The two halves, or `undefined` when the part is one side of a single strike: the endpoint has no narrower filter. */
export function splitPart(part: ChainPart): readonly ChainPart[] | undefined {
  const { symbol, filter } = part;
  const { strikeMin: low = 0, strikeMax: high = MAX_STRIKE } = filter;
  if (low >= high) return splitSides(part);
  // Strikes are spread by ratio rather than by difference; the lowest are worth cents.
  const middle = Math.min(high - 1, Math.max(low, Math.floor(Math.sqrt(Math.max(1, low) * high))));
  return [
    { symbol, filter: { ...filter, strikeMax: middle } },
    { symbol, filter: { ...filter, strikeMin: middle + 1 } },
  ];
}

/** Calls and puts; `undefined` where a part has one of them. */
export function splitSides({ symbol, filter }: ChainPart): readonly ChainPart[] | undefined {
  if (filter.putCall !== undefined) return undefined;
  return (['CALL', 'PUT'] as const).map((putCall) => ({ symbol, filter: { ...filter, putCall } }));
}

/** The parts between the strikes at which those of the last date began. @param cuts ascending, thousandths */
export function cutPart(part: ChainPart, cuts: readonly number[]): readonly ChainPart[] {
  const { symbol, filter } = part;
  const { strikeMin: low = 0, strikeMax: high = OPEN_STRIKE } = filter;
  const inside = cuts.filter((strike) => strike > low && strike <= high);
  return [undefined, ...inside].map((from, index) => {
    const above = inside[index];
    return {
      symbol,
      filter: {
        ...filter,
        ...(from === undefined ? {} : { strikeMin: from }),
        ...(above === undefined ? {} : { strikeMax: above - 1 }),
      },
    };
  });
}

/** The strikes at which the parts of a chain begin, all but the first. @param counts ascending @param limit contracts of an answer */
export function planCuts(counts: readonly StrikeCount[], limit: number): readonly number[] {
  let before = 0;
  const places = counts.map(([strike, contracts]) => {
    const place = { at: strike, before };
    before += contracts;
    return place;
  });
  const ends = balance([...places, { at: OPEN_STRIKE, before }], 0, limit);
  return ends.slice(0, -1).map(({ at }) => at);
}

/** Stable text of a part: `SPX`, `SPX CALL`, `SPX CALL ..4500`, `SPX CALL 4500.001..5000`. It begins with the symbol. */
export function formatPart({ symbol, filter }: ChainPart): string {
  const { putCall, strikeMin, strikeMax } = filter;
  const dollars = (strike: number | undefined) => (strike === undefined ? '' : String(strike / 1000));
  const range =
    strikeMin === undefined && strikeMax === undefined ? '' : `${dollars(strikeMin)}..${dollars(strikeMax)}`;
  return [symbol, putCall, range].filter(Boolean).join(' ');
}

/** The reverse of `formatPart`; `undefined` for a text that is none. */
export function parsePart(name: string): ChainPart | undefined {
  const match = /^(\S+)(?: (CALL|PUT))?(?: ([\d.]*?)\.\.([\d.]*))?$/.exec(name);
  if (!match) return undefined;
  const [, symbol = '', side, low = '', high = ''] = match;
  const thousandths = (dollars: string) => Math.round(Number(dollars) * 1000);
  return {
    symbol,
    filter: {
      ...(side === 'CALL' || side === 'PUT' ? { putCall: side } : {}),
      ...(low === '' ? {} : { strikeMin: thousandths(low) }),
      ...(high === '' ? {} : { strikeMax: thousandths(high) }),
    },
  };
}

/**
 * What is left of a chain, ascending by strike: contracts that lie in none of its parts.
 * @param names texts of parts, of any chain
 */
export function listMissing(symbol: string, names: Iterable<string>): readonly ChainPart[] {
  const parts = [...names].flatMap((name) => parsePart(name) ?? []).filter((part) => part.symbol === symbol);
  const ends = ({ filter }: ChainPart) => ({ low: filter.strikeMin ?? 0, high: filter.strikeMax ?? OPEN_STRIKE });
  const bounds = new Set([0, ...parts.flatMap((part) => [ends(part).low, ends(part).high + 1])]);
  const left: { sides: string; low: number; high: number }[] = [];
  const starts = [...bounds].filter((low) => low <= OPEN_STRIKE).sort((a, b) => a - b);
  for (const [index, low] of starts.entries()) {
    const high = (starts[index + 1] ?? OPEN_STRIKE + 1) - 1;
    const over = parts.filter((part) => ends(part).low <= low && high <= ends(part).high);
    const isIn = (side: string) => over.some(({ filter }) => filter.putCall === undefined || filter.putCall === side);
    const sides = ['CALL', 'PUT'].filter((side) => !isIn(side)).join();
    const last = left.at(-1);
    if (last !== undefined && last.sides === sides) last.high = high;
    else left.push({ sides, low, high });
  }
  return left.flatMap(({ sides, low, high }): readonly ChainPart[] => {
    if (sides === '') return [];
    const side = sides === 'CALL' || sides === 'PUT' ? ({ putCall: sides } as const) : {};
    const filter = {
      ...side,
      ...(low === 0 ? {} : { strikeMin: low }),
      ...(high === OPEN_STRIKE ? {} : { strikeMax: high }),
    };
    return [{ symbol, filter }];
  });
}

/** A strike, thousandths, and the number of its contracts. */
export type StrikeCount = readonly [strike: number, contracts: number];
