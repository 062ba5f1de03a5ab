/**
 * Schedule of a session's snapshots: every 90 seconds after the open, and a last one at the close, or at the session's
 * last trade if that printed later. Pure. Invariant: a snapshot's instant is never in the future, and the last snapshot
 * of a session never changes.
 */

import { SNAPSHOT_REFRESH_SECONDS } from '../../api-contract/snapshot.ts';
import { OPEN_SECOND, sessionCloseSecond } from '../../calendar/session.ts';
import { formatWallClock, parseWallClock } from '../../calendar/wall-clock.ts';

const REFRESH_MS = SNAPSHOT_REFRESH_SECONDS * 1000;

/** The instant of a session that a snapshot shows. */
export interface Moment {
  /** Session date, YYYY-MM-DD. */
  readonly date: string;
  readonly asOfMs: number;
  /** The same instant on the exchange's wall clock, `YYYY-MM-DD HH:MM:SS`; it includes trades up to that time. */
  readonly wallTime: string;
  /** Instant of the next snapshot; undefined for the session's last. */
  readonly nextMs: number | undefined;
}

/** Whether regular trading has ended; from then on the session's end depends on its last trade. */
export function isClosed(date: string, nowMs: number): boolean {
  return nowMs >= parseWallClock(date, sessionCloseSecond(date));
}

/** Number of the refresh interval that an instant falls in, across all snapshots. */
export function countRefreshes(nowMs: number): number {
  return Math.floor(nowMs / REFRESH_MS);
}

/**
 * The latest snapshot of a session at `nowMs`; undefined before the first one, or while it would contain no trade.
 * @param first time of the session's first trade, `YYYY-MM-DD HH:MM:SS`
 * @param last time of its last trade, needed only after the close
 */
export function findMoment(date: string, nowMs: number, first: string, last = ''): Moment | undefined {
  const openMs = parseWallClock(date, OPEN_SECOND);
  const endMs = Math.max(parseWallClock(date, sessionCloseSecond(date)), parseTime(last, date));
  const taken = Math.floor((nowMs - openMs) / REFRESH_MS);
  // At the open nothing has traded: the first snapshot is 90 seconds later.
  if (taken < 1) return undefined;
  const dueMs = openMs + taken * REFRESH_MS;
  const asOfMs = nowMs >= endMs ? endMs : dueMs;
  const wallTime = formatWallClock(asOfMs);
  if (first > wallTime) return undefined;
  return { date, asOfMs, wallTime, nextMs: nowMs >= endMs ? undefined : Math.min(dueMs + REFRESH_MS, endMs) };
}

/** The instant of a trade's time; 0 for a time on another date, which does not extend the session. */
function parseTime(time: string, date: string): number {
  const match = /^(\d{4}-\d{2}-\d{2}) (\d{2}):(\d{2}):(\d{2})/.exec(time);
  if (match?.[1] !== date) return 0;
  return parseWallClock(date, Number(match[2]) * 3600 + Number(match[3]) * 60 + Number(match[4]));
}
