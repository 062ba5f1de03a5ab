/**
 * Premium: dollars paid for options, by calls and puts and by sentiment. One list of SQL measures serves the whole day,
 * a symbol and a half hour, so that the parts are computed as the total is. The measures are plain SQL that ClickHouse
 * and DuckDB read alike, because the headline query is printed for people to run.
 */

/** The activity type of a cancel message: a print that was taken back later. */
export const CANCEL_TYPE = 'CANC';

/** Sums over a set of trade records. Dollars, unless said otherwise. */
export interface Premium {
  /** Records, cancel messages included. */
  readonly trades: number;
  /** Sum of `size`, contracts. */
  readonly contracts: number;
  readonly callContracts: number;
  readonly putContracts: number;
  /** Sum of `premium` (price x size x 100, as the record carries it). */
  readonly total: number;
  readonly calls: number;
  readonly puts: number;
  /** Sum of `premium` where the record's `sentiment` is BULLISH. */
  readonly bullish: number;
  /** Sum of `premium` where the record's `sentiment` is BEARISH. */
  readonly bearish: number;
  /** The rest: NEUTRAL and anything not known. The three sentiments add up to the total. */
  readonly neutral: number;
  /** Put premium / call premium; null when no call traded. The usual convention (Cboe's ratios are puts over calls). */
  readonly putCallByPremium: number | null;
  /** Put contracts / call contracts; null when no call traded. */
  readonly putCallByVolume: number | null;
  /** Cancel messages among the records. They and the prints they cancel are both in every sum above. */
  readonly cancels: number;
  /** Sum of `premium` of the cancel messages. */
  readonly cancelled: number;
}

/** A row of `PREMIUM_MEASURES`; the sums over no rows may be null. */
export type PremiumRow = Readonly<Record<(typeof MEASURES)[number][0], number | null>>;

const MEASURES = [
  ['trades', 'count(*)'],
  ['contracts', 'sum(size)'],
  ['call_contracts', sumWhere("put_call = 'CALL'", 'size')],
  ['put_contracts', sumWhere("put_call = 'PUT'", 'size')],
  ['total_premium', 'sum(premium)'],
  ['call_premium', sumWhere("put_call = 'CALL'", 'premium')],
  ['put_premium', sumWhere("put_call = 'PUT'", 'premium')],
  ['bullish_premium', sumWhere("sentiment = 'BULLISH'", 'premium')],
  ['bearish_premium', sumWhere("sentiment = 'BEARISH'", 'premium')],
  ['neutral_premium', "sum(CASE WHEN sentiment IN ('BULLISH', 'BEARISH') THEN 0 ELSE premium END)"],
  ['cancel_messages', sumWhere(`option_activity_type = '${CANCEL_TYPE}'`, '1')],
  ['cancelled_premium', sumWhere(`option_activity_type = '${CANCEL_TYPE}'`, 'premium')],
] as const;

/** The measures as a SELECT list. */
export const PREMIUM_MEASURES = MEASURES.map(([name, sql]) => `${sql} AS ${name}`).join(',\n  ');

/**
 * The headline numbers of a day in one query that runs in ClickHouse and in DuckDB.
 * @param table what to read, as the FROM clause takes it, e.g. `"trades.parquet"`
 */
export function buildHeadlineQuery(table: string): string {
  return `SELECT\n  ${PREMIUM_MEASURES}\nFROM ${table}`;
}

/** The engine's row as numbers; a sum over nothing is 0. */
export function readPremium(row: PremiumRow | undefined): Premium {
  const value = (name: keyof PremiumRow): number => Number(row?.[name] ?? 0);
  return {
    trades: value('trades'),
    contracts: value('contracts'),
    callContracts: value('call_contracts'),
    putContracts: value('put_contracts'),
    total: value('total_premium'),
    calls: value('call_premium'),
    puts: value('put_premium'),
    bullish: value('bullish_premium'),
    bearish: value('bearish_premium'),
    neutral: value('neutral_premium'),
    putCallByPremium: divide(value('put_premium'), value('call_premium')),
    putCallByVolume: divide(value('put_contracts'), value('call_contracts')),
    cancels: value('cancel_messages'),
    cancelled: value('cancelled_premium'),
  };
}

function divide(part: number, whole: number): number | null {
  return whole === 0 ? null : part / whole;
}

function sumWhere(condition: string, value: string): string {
  return `sum(CASE WHEN ${condition} THEN ${value} ELSE 0 END)`;
}
