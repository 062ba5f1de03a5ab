/**
 * Generated trading sessions: option trades that resemble one night of the real feed, for users without data.
 * Invariant: the same seed, date and number of rows give the same trades, regardless of other generated dates; the
 * engine's SQL makes all rows. The data is for tests and demonstrations, not a market model.
 */
import { createHash } from 'node:crypto';
import { MINIMUM_DATA_DELAY_MINUTES } from '../../api-contract/published-limits.ts';
import { CLOSE_SECONDS } from '../../calendar/segments.ts';
import { isSession, OPEN_SECOND, previousSessions, sessionCloseSecond } from '../../calendar/session.ts';
import { addDays, formatWallDate, parseWallClock, weekday } from '../../calendar/wall-clock.ts';
import type { LoadTarget } from '../backend.ts';
import { listMarket } from './market.ts';
import type { SessionPlan } from './spot-sql.ts';
import { tradeSql } from './trade-sql.ts';

/** Trades of a whole session if nobody asked for a number, give or take. */
export const USUAL_ROWS = 100_000;
/** A session has up to this share more or fewer: equal counts look as if they were cut off at a limit. */
const ROWS_SPREAD = 0.15;

const OTHERS_SHARE = 0.05;

/**
 * How many trades a session has from its opening to its close, and how many records beside them: of its other segments,
 * cancels, late reports, and trades of an adjusted series. If nobody asked for a number, a half day has its share of a
 * session's hours, and the same seed and date give the same.
 */
export function planRows(date: string, seed: number, asked: number | undefined) {
  if (asked !== undefined) return { rows: asked, others: 0 };
  const draw = createHash('sha256').update(`${date}:${seed}`).digest().readUInt32LE() / 2 ** 32;
  const hours = (sessionCloseSecond(date) - OPEN_SECOND) / (CLOSE_SECONDS.whole.index - OPEN_SECOND);
  const rows = Math.round(USUAL_ROWS * hours * (1 + ROWS_SPREAD * (2 * draw - 1)));
  return { rows, others: Math.round(rows * OTHERS_SHARE) };
}

/** Rows per statement: its window function sorts them in memory, about 1 kB each. */
const ROWS_PER_STATEMENT = 500_000;

const FRIDAY = 5;
const DAILY_EXPIRATIONS = 10;
const WEEKLY_EXPIRATIONS = 8;
const MONTHLY_EXPIRATIONS = 12;

/** From then on the rows up to the close are visible, and workers expect the session a minute later (`settle`). */
const OVER_AFTER_MS = MINIMUM_DATA_DELAY_MINUTES * 60_000;

/** The last `count` sessions that had closed at `nowMs` and whose last rows before the curb are visible, ascending. */
export function listClosedSessions(nowMs: number, count: number): readonly string[] {
  const today = formatWallDate(nowMs);
  const closed = isSession(today) && parseWallClock(today, sessionCloseSecond(today)) + OVER_AFTER_MS <= nowMs;
  return previousSessions(closed ? today : addDays(today, -1), count);
}

/**
 * Generates the trades of one session and inserts them.
 * @param others further records: see `planRows` @throws EngineFault
 */
export async function generateSession(
  { date, rows, seed, others = 0 }: Pick<SessionPlan, 'date' | 'rows' | 'seed'> & { readonly others?: number },
  { engine, insertSql }: LoadTarget,
): Promise<void> {
  const plan: SessionPlan = {
    date,
    rows,
    others,
    seed,
    market: listMarket(rows),
    openMs: parseWallClock(date, OPEN_SECOND),
    closeSecond: sessionCloseSecond(date),
    dailies: listDailies(date),
    weeklies: listFridays(date).slice(0, WEEKLY_EXPIRATIONS),
    monthlies: listFridays(date).filter(isThirdWeek).slice(0, MONTHLY_EXPIRATIONS),
  };
  const parts = Math.max(1, Math.ceil(rows / ROWS_PER_STATEMENT));
  for (let part = 0; part < parts; part += 1) {
    await engine.command(insertSql(tradeSql(plan, `underlying % ${parts} = ${part}`)));
  }
}

function listDailies(date: string): readonly string[] {
  const dates: string[] = [];
  for (let day = date; dates.length < DAILY_EXPIRATIONS; day = addDays(day, 1)) if (isSession(day)) dates.push(day);
  return dates;
}

/** Weekly expirations for more than a year: Fridays, or the Thursday before if Friday has no session. */
function listFridays(date: string): readonly string[] {
  const first = addDays(date, (FRIDAY - weekday(date) + 7) % 7);
  return Array.from({ length: 56 }, (_, week) => addDays(first, week * 7))
    .map((friday) => (isSession(friday) ? friday : addDays(friday, -1)))
    .filter((expiration) => expiration >= date);
}

/** Whether a Friday (or the Thursday that replaces it) is in the week of the month's third Friday. */
function isThirdWeek(date: string): boolean {
  const friday = addDays(date, FRIDAY - weekday(date));
  const day = Number(friday.slice(8));
  return day >= 15 && day <= 21;
}
