/**
 * The segments of a trading session, on the exchange's clock. Pure. A session starts when the one before has ended: what
 * trades in the evening, on a Sunday or on a holiday belongs to the next session, whichever date the source gives it.
 *
 * Sources: Cboe Rule 5.1 (global trading hours 20:15 to 09:25; curb 16:15 to 17:00, of the trade date before it, since
 * 2022-04-25; RUT and MRUT by SR-CBOE-2025-070); the OCC's list of options that close at 16:15; the early (07:30 to 09:25)
 * and late (16:00 to 16:15) segments of equity options were approved on 2026-05-28. Half days: NYSE Rule 7.2 (13:00, 13:15).
 */
import { type CalendarOverride, closeSecond, listSessions, OPEN_SECOND, previousSessions } from './session.ts';
import { addDays } from './wall-clock.ts';

export type Segment = 'overnight' | 'early' | 'regular' | 'late' | 'curb';

/** The hours of a report: without them a print of the night would move a day's numbers, and equal days would differ. */
export const REPORT_SEGMENTS: readonly Segment[] = ['early', 'regular', 'late'];

/** Symbols that trade overnight and in the curb. */
export const GLOBAL_SYMBOLS: readonly string[] = 'SPX SPXW VIX VIXW XSP RUT RUTW MRUT'.split(' ');

/** Other symbols whose regular trading ends with that of index options. */
export const LATE_CLOSING: readonly string[] = (
  'DBA DBB DBC DBO DIA EEM EFA FXI IWM IWN IWO IWV IYR KBE KRE LQD MDY MOO OEF QQQ SLX SPY SVXY TLT UNG UUP UVIX UVXY ' +
  'VIXM VIXY VXX VXZ XHB XLB XLE XLF XLI XLK XLP XLU XLV XLY XME XRT DJX MNX NDX NDXP NQX OEX XEO XND'
).split(' ');

/** A source reports the last trades of a segment some seconds late. */
const GRACE_MINUTES = 1;

/** Ends of the segments of a session, minutes since midnight. Before the first, all is overnight. */
export interface SegmentEnds {
  readonly session: string;
  readonly overnight: number;
  /** Of the symbols of the night, which open with regular trading. */
  readonly globalOvernight: number;
  readonly regular: number;
  readonly late: number;
  /** Of symbols without a curb. */
  readonly lateWithoutCurb: number;
  readonly curb: number;
}

export function listSegmentEnds(session: string, override?: CalendarOverride): SegmentEnds {
  const late = closeSecond(session, 'index', override) / 60;
  return {
    session,
    overnight: 7.5 * 60,
    globalOvernight: OPEN_SECOND / 60,
    regular: closeSecond(session, 'equity', override) / 60,
    late,
    lateWithoutCurb: late + GRACE_MINUTES,
    curb: 17 * 60,
  };
}

/** More days without a session have never followed each other. */
const FURTHEST = 14;

/** The session before a date, that of the date or else the next one, and the one after it. */
export function listSessionsAround(date: string, override?: CalendarOverride): readonly [string, string, string] {
  const [before = date] = previousSessions(addDays(date, -1), 1, override);
  const [on = date, after = addDays(on, 1)] = listSessions(date, addDays(date, FURTHEST), override);
  return [before, on, after];
}
