/**
 * The segments of a trading session, on the exchange's clock: until when each lasts, who trades in it, and since which
 * session. Data; what a source has wins over it. A session starts when the one before has ended: what trades in the
 * evening, on a Sunday or on a holiday belongs to the next session, whichever date the source gives it. Which record is of
 * which segment is SQL (`report/records.ts`), what the mail says of those outside its hours `report/query/exclusions.ts`.
 */

export type Segment = 'overnight' | 'early' | 'regular' | 'late' | 'curb';

/** The hours of a report: without them a print of the night would move a day's numbers, and equal days would differ. */
export const REPORT_SEGMENTS: readonly Segment[] = ['early', 'regular', 'late'];

const at = (hour: number, minute = 0) => (hour * 60 + minute) * 60;

/**
 * When regular trading of stock options ends, and that of index options and some ETFs. Source: NYSE rule 7.2 ("1:00 p.m.,
 * 1:15 p.m. for eligible options").
 */
export const CLOSE_SECONDS = {
  whole: { equity: at(16), index: at(16, 15) },
  early: { equity: at(13), index: at(13, 15) },
} as const;

/** The end of a session and of its curb. Source: Cboe rule 5.1. No rule says whether a curb follows the close of a half day. */
export const SESSION_END_SECOND = at(17);

/** A source reports the last trades of a segment some seconds late. */
export const GRACE_SECONDS = 60;

/**
 * Options of some stocks trade before the opening, and from the close to that of index options. Source: Cboe, SR-CBOE-2025-079,
 * approved on 2026-05-28, and "Equity Options Extended Trading Hours" (planned for this date).
 */
export const EARLY = { since: '2026-07-13', second: at(7, 30) } as const;

/** When the night of a session begins, on the evening before. Source: Cboe rule 5.1. */
export const NIGHT_SECOND = at(20, 15) - at(24);

/** First session with a curb. Source: Cboe, "Global Trading Hours and Curb". */
export const CURB_SINCE = '2022-04-25';

/**
 * Symbols that trade overnight (from 20:15, until 09:25) and in the curb, with the first session of which. Sources: Cboe, SEC
 * releases 34-73017 (SPX, VIX) and 34-75914 (XSP, whose month this is); SR-CBOE-2025-070 and the notice of its start (RUT).
 */
const GLOBAL: readonly (readonly [since: string, symbols: string])[] = [
  ['2015-03-02', 'SPX SPXW VIX VIXW'],
  ['2015-09-01', 'XSP'],
  ['2026-02-09', 'RUT RUTW MRUT'],
];

/** Symbols that trade overnight and in the curb of a session. */
export function listGlobal(session: string): readonly string[] {
  return GLOBAL.flatMap(([since, symbols]) => (since <= session ? symbols.split(' ') : []));
}

/** Symbols whose regular trading ends with that of index options. Source: OCC, list of options that close at 16:15. */
export const LATE_CLOSING: readonly string[] = (
  'SPX SPXW VIX VIXW XSP RUT RUTW MRUT DJX MNX NDX NDXP NQX OEX XEO XND DBA DBB DBC DBO DIA EEM EFA FXI IWM IWN IWO IWV ' +
  'IYR KBE KRE LQD MDY MOO OEF QQQ SLX SPY SVXY TLT UNG UUP UVIX UVXY VIXM VIXY VXX VXZ XHB XLB XLE XLF XLI XLK XLP XLU ' +
  'XLV XLY XME XRT'
).split(' ');
