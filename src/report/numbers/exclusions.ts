/**
 * What the sums leave out: cancel messages, the prints that they take back, late reports. Each record is in one of them
 * or counts; a late report that was taken back is a cancelled print. The rule is `wire/counted-sql.ts`, its source OPRA's
 * specification (`wire/record-type.ts`).
 */
import { buildCancelledQuery, buildCountedCondition, IS_CANCEL, IS_LATE } from '../../measure/counted.ts';
import { sumWhere } from '../../measure/premium.ts';
import type { Exclusions } from '../model.ts';
import type { DropSource } from '../source.ts';

/** Row numbers that are listed in a query's text; of more the rule itself is asked each time. A session has some hundreds. */
const MAX_LISTED = 20_000;
/** The place of a row in its file: a number that the engine need not read. */
const PLACE = '_row_number';

interface RecordedRow {
  readonly recorded: number;
  readonly recorded_premium: number;
  readonly cancels: number;
  readonly cancel_premium: number;
  readonly late: number;
  readonly late_premium: number;
}

interface CancelledRow {
  readonly prints: number;
  readonly prints_premium: number;
  readonly late: number;
  readonly late_premium: number;
  readonly places: readonly number[];
}

export interface CountedRecords {
  readonly exclusions: Exclusions;
  /** The condition that keeps the counted records of the file; null when all of them count. */
  readonly condition: string | null;
}

/** One pass over two columns; where there are cancel messages, one over those of the contract as well. */
export async function queryExclusions(file: DropSource): Promise<CountedRecords> {
  const [recorded] = await file.rows<RecordedRow>(
    `SELECT count(*) AS recorded, sum(premium) AS recorded_premium,
       ${sumWhere(IS_CANCEL, '1')} AS cancels, ${sumWhere(IS_CANCEL, 'premium')} AS cancel_premium,
       ${sumWhere(IS_LATE, '1')} AS late, ${sumWhere(IS_LATE, 'premium')} AS late_premium
     FROM ${file.table}`,
  );
  const cancels = recorded?.cancels ?? 0;
  const late = recorded?.late ?? 0;
  const cancelled = cancels === 0 ? undefined : await queryCancelled(file);
  const prints = cancelled?.prints ?? 0;
  return {
    exclusions: {
      cancelMessages: { trades: cancels, premium: recorded?.cancel_premium ?? 0 },
      cancelledPrints: { trades: prints, premium: cancelled?.prints_premium ?? 0 },
      unmatchedCancels: cancels - prints,
      lateReports: {
        trades: late - (cancelled?.late ?? 0),
        premium: (recorded?.late_premium ?? 0) - (cancelled?.late_premium ?? 0),
      },
      recorded: { trades: recorded?.recorded ?? 0, premium: recorded?.recorded_premium ?? 0 },
    },
    condition: cancels + late === 0 ? null : buildCondition(file.table, cancelled),
  };
}

async function queryCancelled(file: DropSource): Promise<CancelledRow | undefined> {
  const query = buildCancelledQuery(file.table, [PLACE, 'premium', 'option_activity_type']);
  const [row] = await file.rows<CancelledRow>(
    `SELECT count(*) AS prints, sum(premium) AS prints_premium, ${sumWhere(IS_LATE, '1')} AS late,
       ${sumWhere(IS_LATE, 'premium')} AS late_premium, groupArray(${MAX_LISTED})(${PLACE}) AS places
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
