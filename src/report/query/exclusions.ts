/**
 * The records that the sums leave out: cancel messages, the prints that they cancel, and late reports. Each record is
 * in one of these or counts; a cancelled late report is a cancelled print. Also checks whether records lack numbers
 * that the sums need, or have codes that the API's contract lacks. The rule is in `records.ts`; its source is OPRA's
 * specification (`api-contract/record-type.ts`).
 */
import { type CalendarOverride, previousSessions } from '../../calendar/session.ts';
import { addDays } from '../../calendar/wall-clock.ts';
import { parquetFile } from '../../engine/literal.ts';
import { listPasses } from '../../engine/passes.ts';
import type { DropSource } from '../drop-source.ts';
import type { Exclusions, FlowReport, LeftOut, Tally, UnknownCodes } from '../model.ts';
import {
  buildCancelledQuery,
  buildCountedCondition,
  CODES,
  IS_CANCEL,
  IS_LATE,
  KNOWN_PREMIUM,
  writePlace,
} from '../records.ts';
import type { PastSession } from './past-sessions.ts';
import { fillSql } from './sql.ts';

/** Limit of row numbers listed in a query's text; above it, queries contain the rule. A session has some hundreds. */
const MAX_LISTED = 20_000;
/** The row's number in its file, which the engine need not read from the file. */
const PLACE = '_row_number';

type RecordedRow = Readonly<Record<'recorded' | 'cancels', Tally>> & { readonly late: LeftOut } & Readonly<
    Record<'unpriced' | 'unsized' | 'uncoded', number>
  >;

const NOTHING: Tally = { trades: 0, premium: 0 };
const NO_PRINTS: LeftOut = { ...NOTHING, bullish: 0, bearish: 0 };

type CancelledRow = Readonly<Record<'prints' | 'late', LeftOut>> & { readonly places: readonly number[] };

/**
 * One pass over a few columns; if there are cancel messages, another one over the key's columns.
 * @returns `condition`: for the file's counted records, null if all records count; `hasGaps`: whether records lack a premium
 * or a size, or have a premium that is not finite; `hasUnknownCodes`: whether they have codes that the API's contract lacks
 */
export async function queryExclusions(file: DropSource) {
  const isCoded = CODES.map(([, condition]) => condition).join(' AND ');
  const [row] = await file.known<RecordedRow>(
    `SELECT ${tally('true', 'recorded')}, ${tally(IS_CANCEL, 'cancels')}, ${tally(IS_LATE, 'late', { sides: true })},
       count(*) - count(${KNOWN_PREMIUM}) AS unpriced, count(*) - count(size) AS unsized,
       sum(CASE WHEN ${isCoded} THEN 0 ELSE 1 END) AS uncoded
     FROM ${file.table}`,
  );
  const { cancels, late, recorded } = row ?? { cancels: NOTHING, late: NO_PRINTS, recorded: NOTHING };
  const cancelled = cancels.trades === 0 ? undefined : await queryCancelled(file);
  const { prints } = cancelled ?? { prints: NO_PRINTS };
  const isCancelled = cancelled && prints.trades > 0 ? `${PLACE} IN (${listPlaces(file.table, cancelled)})` : 'false';
  return {
    exclusions: {
      cancelMessages: cancels,
      cancelledPrints: prints,
      unmatchedCancels: cancels.trades - prints.trades,
      lateReports: subtract(late, cancelled?.late ?? NO_PRINTS),
      recorded,
    },
    condition: cancels.trades + late.trades === 0 ? null : buildCondition(file.table, cancelled),
    /** The prints that were cancelled and the late reports; null without any. `record` says which. */
    leftOut:
      prints.trades + late.trades === 0
        ? null
        : `(SELECT *, if(${isCancelled}, 'cancelled print', 'late report') AS record FROM ${file.table} WHERE ${IS_LATE} OR ${isCancelled})`,
    hasGaps: (row?.unpriced ?? 0) + (row?.unsized ?? 0) > 0,
    hasUnknownCodes: (row?.uncoded ?? 0) > 0,
  };
}

/**
 * The records that satisfy a condition, and their premium: 0 without any, unknown if none of them has one.
 * @param sides whether with its sentiment, to which a record without a premium adds nothing
 */
function tally(condition: string, name: string, { sides = false } = {}): string {
  const side = (sentiment: string) => `sumIf(ifNull(${KNOWN_PREMIUM}, 0), ${condition} AND sentiment = '${sentiment}')`;
  const columns = [
    ['trades UInt64', `countIf(${condition})`],
    ['premium Nullable(Float64)', `if(countIf(${condition}) = 0, 0, sumOrNullIf(${KNOWN_PREMIUM}, ${condition}))`],
    ...(sides
      ? [
          ['bullish Float64', side('BULLISH')],
          ['bearish Float64', side('BEARISH')],
        ]
      : []),
  ];
  const [types, values] = [0, 1].map((at) => columns.map((column) => column[at]).join(', '));
  return `CAST((${values}), 'Tuple(${types})') AS ${name}`;
}

function subtract(whole: LeftOut, part: LeftOut): LeftOut {
  const trades = whole.trades - part.trades;
  if (trades === 0) return NO_PRINTS;
  const isKnown = whole.premium !== null && (part.premium !== null || part.trades === 0);
  const less = (side: 'bullish' | 'bearish') => (whole[side] ?? 0) - (part[side] ?? 0);
  const premium = isKnown ? (whole.premium ?? 0) - (part.premium ?? 0) : null;
  return { trades, premium, bullish: less('bullish'), bearish: less('bearish') };
}

async function queryCancelled(file: DropSource): Promise<CancelledRow | undefined> {
  const query = buildCancelledQuery(file.table, [PLACE, 'premium', 'option_activity_type', 'sentiment']);
  const [row] = await file.known<CancelledRow>(
    `SELECT ${tally('true', 'prints', { sides: true })}, ${tally(IS_LATE, 'late', { sides: true })}, groupArray(${MAX_LISTED})(${PLACE}) AS places
     FROM (${query})`,
  );
  return row;
}

function buildCondition(table: string, cancelled: CancelledRow | undefined): string {
  if (cancelled === undefined || cancelled.prints.trades === 0) return buildCountedCondition(null);
  return buildCountedCondition({ name: PLACE, list: listPlaces(table, cancelled) });
}

/** The cancelled prints by their places, or as the rule. */
function listPlaces(table: string, { prints, places }: CancelledRow): string {
  return prints.trades <= MAX_LISTED ? places.join(', ') : buildCancelledQuery(table, [PLACE]);
}

/** Limit of listed values per column: readable, and a bound for a column with any number of values. */
const MAX_VALUES = 5;

type CodeRow = UnknownCodes['values'][number] & { readonly allTrades: number };

/**
 * Finds records with a code that the contract lacks: an unknown right (neither call nor put), sentiment, side or trade
 * type. Such a record is in the total, but in no part that the code decides. One pass for each of the four columns;
 * called only if the file has such records.
 * @param source the counted records
 */
export async function queryUnknownCodes(source: DropSource): Promise<readonly UnknownCodes[]> {
  const found: UnknownCodes[] = [];
  for (const [column] of CODES) {
    const rows = await source.known<CodeRow>(
      `SELECT ${column} AS value, trades, sum(trades) OVER () AS all_trades FROM (${selectUnknown(source.table, column)}) ORDER BY trades DESC, value LIMIT ${MAX_VALUES}`,
    );
    const [first] = rows;
    if (first === undefined) continue;
    const values = rows.map(({ value, trades }) => ({ value, trades }));
    found.push({ column, trades: first.allTrades, values });
  }
  return found;
}

/**
 * Finds the records that have the id of another record, or none. Reads all ids, so it is called only for a drop of which
 * the seal says so.
 * @param file all records @param source the counted records
 */
export async function querySharedIds(file: DropSource, source: DropSource): Promise<Tally> {
  let shared = NOTHING;
  for (const pass of await listPasses(file, file.table, 'id')) {
    const repeated = `SELECT id FROM ${file.table} WHERE ${pass} GROUP BY id HAVING count() > 1`;
    const [found] = await source.known<{ readonly shared: Tally }>(
      `SELECT ${tally('true', 'shared')} FROM ${source.table} WHERE ${pass} AND (id = '' OR id IN (${repeated}))`,
    );
    const { trades, premium } = found?.shared ?? NOTHING;
    const isKnown = shared.premium !== null && premium !== null;
    shared = { trades: shared.trades + trades, premium: isKnown ? (shared.premium ?? 0) + premium : null };
  }
  return shared;
}

/** The values of a column that the contract lacks, and none. @param counted the counted records, for the FROM clause */
export function selectUnknown(counted: string, column: UnknownCodes['column']): string {
  const isKnown = CODES.find(([name]) => name === column)?.[1] ?? 'true';
  return fillSql('unknown-code', { counted, column, isKnown });
}

type PlaceRow = Tally & { readonly session: string; readonly segment: string };

const SEGMENT_SUMMARY =
  'symbol String, session_date String, segment String, trades Float64, total_premium Nullable(Float64)';

/**
 * What a session has beside the hours of its report: the night before it, which starts when the session before has ended, and
 * the curb. A source may date the evening by its own day: then it is in the drops since the session before, whose summaries
 * have it. No other number of the report contains these records.
 * @param others the counted records of the drop in other hours
 * @param of `isWhole`: there are no such records
 */
export async function queryBesides(
  others: DropSource,
  of: { readonly date: string; readonly calendar: CalendarOverride | undefined; readonly isWhole: boolean },
  before: readonly PastSession[],
): Promise<Pick<Exclusions, 'otherHours'> & Pick<FlowReport, 'besides'>> {
  const { date, calendar, isWhole } = of;
  const [previous = date] = previousSessions(addDays(date, -1), 1, calendar);
  const own = isWhole
    ? []
    : await others.known<PlaceRow>(
        `SELECT place.1 AS session, place.2 AS segment, count() AS trades, sum(premium) AS premium FROM (SELECT ${writePlace(date, calendar, (session, segment) => `('${session}', '${segment}')`)} AS place, premium FROM ${others.table}) GROUP BY place`,
      );
  const evening = before
    .filter((past) => past.date >= previous)
    .map(
      ({ path }) =>
        `SELECT * FROM ${parquetFile(path, SEGMENT_SUMMARY)} WHERE symbol = '' AND segment = 'overnight' AND session_date = '${date}'`,
    );
  const earlier =
    evening.length === 0
      ? []
      : await others.known<PlaceRow>(
          `SELECT session_date AS session, segment, trades, total_premium AS premium FROM (${evening.join(' UNION ALL ')})`,
        );
  const rows = [...own, ...earlier];
  const ofSession = (name: string) =>
    rows.filter((row) => row.segment === name && row.session === date).reduce<Tally>(add, NOTHING);
  return {
    otherHours: own.reduce<Tally>(add, NOTHING),
    besides: { overnight: ofSession('overnight'), curb: ofSession('curb') },
  };
}

/** A premium that is not known adds nothing. */
function add(sum: Tally, { trades, premium }: Tally): Tally {
  return { trades: sum.trades + trades, premium: (sum.premium ?? 0) + (premium ?? 0) };
}
