/**
 * What the sums leave out: cancel messages, the prints that they take back, late reports. Each record is in one of them
 * or counts; a late report that was taken back is a cancelled print. Also whether records lack numbers, or have codes, that the
 * sums are made of. The rule is `report/sums/record-counts.ts`, its source OPRA's
 * specification (`api-contract/record-type.ts`).
 */

import type { Exclusions, Tally } from '../model.ts';
import type { DropSource } from '../source.ts';
import { CODES, KNOWN_PREMIUM } from '../sums/premium-sums.ts';
import { buildCancelledQuery, buildCountedCondition, IS_CANCEL, IS_LATE } from '../sums/record-counts.ts';
import { type EngineNumber, readAmount } from './premium.ts';

/** Row numbers that are listed in a query's text; of more the rule itself is asked each time. A session has some hundreds. */
const MAX_LISTED = 20_000;
/** The place of a row in its file: a number that the engine need not read. */
const PLACE = '_row_number';

interface RecordedRow {
  readonly recorded: number;
  readonly recorded_premium: EngineNumber;
  readonly unpriced: number;
  readonly unsized: number;
  readonly uncoded: number;
  readonly cancels: number;
  readonly cancel_premium: EngineNumber;
  readonly late: number;
  readonly late_premium: EngineNumber;
}

interface CancelledRow {
  readonly prints: number;
  readonly prints_premium: EngineNumber;
  readonly late: number;
  readonly late_premium: EngineNumber;
  readonly places: readonly number[];
}

export interface CountedRecords {
  readonly exclusions: Omit<Exclusions, 'unknownCodes'>;
  /** The condition that keeps the counted records of the file; null when all of them count. */
  readonly condition: string | null;
  /** Whether records lack a premium or a size, or have a premium that is no number. */
  readonly hasGaps: boolean;
  /** Whether records have codes that the API's contract does not know. */
  readonly hasUnknownCodes: boolean;
}

/** One pass over a few columns; where there are cancel messages, one over those of the contract as well. */
export async function queryExclusions(file: DropSource): Promise<CountedRecords> {
  const isCoded = CODES.map(([, condition]) => condition).join(' AND ');
  const [recorded] = await file.rows<RecordedRow>(
    `SELECT count(*) AS recorded, sum(${KNOWN_PREMIUM}) AS recorded_premium,
       count(*) - count(${KNOWN_PREMIUM}) AS unpriced, count(*) - count(size) AS unsized,
       sum(CASE WHEN ${isCoded} THEN 0 ELSE 1 END) AS uncoded,
       ${tally(IS_CANCEL, 'cancels', 'cancel_premium')}, ${tally(IS_LATE, 'late', 'late_premium')}
     FROM ${file.table}`,
  );
  const cancels = recorded?.cancels ?? 0;
  const late = recorded?.late ?? 0;
  const cancelled = cancels === 0 ? undefined : await queryCancelled(file);
  const prints = cancelled?.prints ?? 0;
  const lateReports = readTally(late, recorded?.late_premium);
  const lateCancelled = readTally(cancelled?.late ?? 0, cancelled?.late_premium);
  return {
    exclusions: {
      cancelMessages: readTally(cancels, recorded?.cancel_premium),
      cancelledPrints: readTally(prints, cancelled?.prints_premium),
      unmatchedCancels: cancels - prints,
      lateReports: subtract(lateReports, lateCancelled),
      recorded: readTally(recorded?.recorded ?? 0, recorded?.recorded_premium),
    },
    condition: cancels + late === 0 ? null : buildCondition(file.table, cancelled),
    hasGaps: (recorded?.unpriced ?? 0) + (recorded?.unsized ?? 0) > 0,
    hasUnknownCodes: (recorded?.uncoded ?? 0) > 0,
  };
}

/** Records of a condition and the sum of the premiums that they have: null where none has one. */
function tally(condition: string, trades: string, premium: string): string {
  return `countIf(${condition}) AS ${trades}, sumOrNullIf(${KNOWN_PREMIUM}, ${condition}) AS ${premium}`;
}

function readTally(trades: number, premium: EngineNumber | undefined): Tally {
  return { trades, premium: readAmount(premium, trades === 0) };
}

function subtract(whole: Tally, part: Tally): Tally {
  const trades = whole.trades - part.trades;
  if (trades === 0) return { trades, premium: 0 };
  const isKnown = whole.premium !== null && (part.premium !== null || part.trades === 0);
  return { trades, premium: isKnown ? (whole.premium ?? 0) - (part.premium ?? 0) : null };
}

async function queryCancelled(file: DropSource): Promise<CancelledRow | undefined> {
  const query = buildCancelledQuery(file.table, [PLACE, 'premium', 'option_activity_type']);
  const [row] = await file.rows<CancelledRow>(
    `SELECT count(*) AS prints, sumOrNull(${KNOWN_PREMIUM}) AS prints_premium, ${tally(IS_LATE, 'late', 'late_premium')},
       groupArray(${MAX_LISTED})(${PLACE}) AS places
     FROM (${query})`,
  );
  return row;
}

function buildCondition(table: string, cancelled: CancelledRow | undefined): string {
  if (cancelled === undefined || cancelled.prints === 0) return buildCountedCondition(null);
  const isListed = cancelled.prints <= MAX_LISTED;
  const list = isListed ? cancelled.places.join(', ') : buildCancelledQuery(table, [PLACE]);
  return buildCountedCondition({ name: PLACE, list });
}
