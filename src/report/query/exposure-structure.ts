/**
 * Compares the market-structure endpoint's gamma exposure with ours. Theirs covers the full chain and is intraday; ours
 * covers the series that traded, or the chain of the drop, at the end of the session. So the two differ. If they differ by much, an explanation
 * names possible reasons. It does not guess: it uses only numbers of the two drops.
 */

import { formatCount, formatDecimal } from '../../core/units.ts';
import { parquetFile } from '../../engine/literal.ts';
import { MOVE } from '../../exposure/gamma-exposure.ts';
import type { Amount } from '../amount.ts';
import { assertPresent, type DropSource } from '../drop-source.ts';
import type { MarketStructureGex, RankedExposure } from '../model.ts';
import { type ExposureScope, IS_SHOWN, selectDetails } from './exposure-sql.ts';

/** A difference above this, as a fraction of the larger absolute value, is explained. */
const LARGE_DIFFERENCE = 0.25;
/** Prices of the underlying that differ by more than this are mentioned: exposure grows with the price squared. */
const OTHER_SPOT = 0.01;
/** If the ratios of calls and puts are both within this of a unit's factor, theirs may be in that unit. */
const UNIT_TOLERANCE = 0.25;

/** Ours and theirs, of a symbol with a price of the underlying. */
interface StructureRow {
  readonly symbol: string;
  /** Null if ours cannot be computed. */
  readonly difference: Amount;
  readonly intradayGex: number;
  /** Price of the underlying for their exposure; null if missing. */
  readonly theirSpot: Amount;
  readonly theirCallGex: number;
  readonly theirPutGex: number;
  /** UTC, `HH:MM`; null if missing. */
  readonly clock: string | null;
}

const NEEDED = ['symbol', 'spot', 'call_gex', 'put_gex', 'intraday_gex_as_of'];

/**
 * The newest intraday summary of each symbol of `shown`; a symbol without one is left out.
 * @throws Fault `REPORT_COLUMNS_MISSING` (kind `usage`): the file is not a market-structure drop; EngineFault
 */
export async function queryStructures(
  source: DropSource,
  path: string,
  scope: ExposureScope,
  shown: readonly string[],
): Promise<readonly StructureRow[]> {
  const table = parquetFile(path);
  await assertPresent(source, table, NEEDED, {
    what: 'the drop that the report takes market structure from',
    hint: 'Name the dataset of a job whose source is `api: market-structure` in `market_structure`.',
  });
  return await source.known<StructureRow>(
    `SELECT *, formatDateTime(as_of, '%H:%i', 'UTC') AS clock FROM (WITH ${selectDetails('market-structure', IS_SHOWN, scope, table)})`,
    { shown },
  );
}

/** @param ours with a price of the underlying */
export function compareStructure(ours: RankedExposure, theirs: StructureRow): MarketStructureGex {
  const { intradayGex, difference } = theirs;
  if (difference === null) return { intradayGex, difference, explanation: 'Ours cannot be computed.' };
  const explanation = Math.abs(difference) > LARGE_DIFFERENCE ? explainDifference(ours, theirs) : '';
  return { intradayGex, difference, explanation };
}

/** Reasons from specific ones (sign, unit, price) to those that always apply (series, time). */
function explainDifference(ours: RankedExposure, theirs: StructureRow): string {
  const spot = ours.spot ?? 0;
  const reasons = [
    describeSign(ours, theirs),
    describeUnit(ours, theirs, spot),
    theirs.theirSpot !== null && Math.abs(theirs.theirSpot / spot - 1) > OTHER_SPOT
      ? `theirs is at a price of ${formatDecimal(theirs.theirSpot)}, ours at ${formatDecimal(spot)}`
      : '',
    `${describeScope(ours)}${theirs.clock === null ? '' : ` as of ${theirs.clock} UTC`}`,
  ];
  const text = reasons.filter((reason) => reason !== '').join('; ');
  return `${text[0]?.toUpperCase()}${text.slice(1)}.`;
}

function describeScope({ contracts, isWholeChain, isDegradedChain }: RankedExposure): string {
  return isWholeChain
    ? `ours is of the ${isDegradedChain ? 'degraded ' : ''}chain at the session's last price, theirs of the full chain`
    : `ours has only the ${formatCount(contracts)} series that traded and the session's last values, theirs the full chain`;
}

function describeSign({ netGex }: RankedExposure, theirs: StructureRow): string {
  if (theirs.theirCallGex < 0 || theirs.theirPutGex > 0)
    return 'their calls are not positive and puts negative, as ours are';
  if ((netGex ?? 0) * (theirs.theirCallGex + theirs.theirPutGex) < 0)
    return 'the signs are opposite, in the same convention';
  return '';
}

/** Describes a unit if calls and puts both differ by its factor; one of them alone could have any reason. */
function describeUnit(ours: RankedExposure, theirs: StructureRow, spot: number): string {
  const units = [
    ['100%', 1 / MOVE],
    ['one dollar', 1 / (MOVE * spot)],
  ] as const;
  const looksLike = (factor: number, our: Amount, their: number) =>
    our !== null && Math.abs(their / our / factor - 1) < UNIT_TOLERANCE;
  for (const [unit, factor] of units) {
    // If one dollar is near 1% of the price, the two units cannot be distinguished.
    if (Math.abs(factor - 1) < 2 * UNIT_TOLERANCE) continue;
    if (looksLike(factor, ours.callGex, theirs.theirCallGex) && looksLike(factor, ours.putGex, theirs.theirPutGex)) {
      return `their calls and puts are both about ${formatFactor(factor)} ours, as if per move of ${unit} rather than 1%`;
    }
  }
  return '';
}

function formatFactor(factor: number): string {
  return factor >= 1 ? `${formatDecimal(factor, factor < 10 ? 1 : 0)} times` : `1/${formatDecimal(1 / factor, 1)} of`;
}
