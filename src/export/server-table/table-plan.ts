/**
 * Plans jobs that read a ClickHouse server: the dates in its table. The server has no lookback, so any date can be named;
 * a run without dates exports only the last sessions, so that a new job does not copy years.
 */
import { type CalendarOverride, previousSessions } from '../../calendar/session.ts';
import { addDays, formatSecond, formatWallDate } from '../../calendar/wall-clock.ts';
import { settledAt } from '../../plan/dates.ts';
import { assertNotFuture, lookbackOf } from '../../plan/lookback.ts';
import { showsEnd } from '../../plan/session-end.ts';
import { agreeOnDates } from '../../plan/witness.ts';
import type { TableJob } from '../../run/open-source.ts';
import type { ServerTable } from '../../source/server-table.ts';
import { type ClockDeps, earliestNow, latestNow, readWitnesses } from '../clocks.ts';
import type { DateSelection } from '../date-selection.ts';
import type { RunPlan } from '../export-plan.ts';
import { buildTableDates, buildTableLater, buildTableTail } from './table-statement.ts';

interface TablePlanDeps extends ClockDeps {
  readonly source: ServerTable;
  readonly calendar?: CalendarOverride | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Sessions that a run without dates exports. */
const RUN_SESSIONS = 15;

/** Count before, file, checksum. */
export const STATEMENTS_A_DATE = 3;

/** After so many days a session counts as fully loaded, even if no later row exists. */
const LOADED_DAYS = 7;

/** @throws EngineFault; Fault `SERVER_TOO_OLD`, `TABLE_UNFIT` */
export async function planTable(
  deps: TablePlanDeps,
  job: TableJob,
  { range, isWanted }: DateSelection,
): Promise<RunPlan> {
  const { source, calendar, signal } = deps;
  const rule = { settleSeconds: job.settleSeconds, calendar };
  const { types } = await source.describe(signal);
  const nowMs = earliestNow(deps);
  const lookback = lookbackOf(job, nowMs, calendar);
  const { contested } = agreeOnDates(readWitnesses(deps), rule, false);
  assertNotFuture(range, lookback, latestNow(deps));
  const sessions = previousSessions(lookback.lastSettled ?? formatWallDate(nowMs), RUN_SESSIONS, calendar);
  const { from, to } = range ?? { from: sessions[0] ?? '', to: lookback.lastSettled ?? '' };
  const counting = buildTableDates(job.source, types, from, to);
  const counted = await source.rows<{ d: string; n: number }>(counting, { signal });
  const settled = counted.filter(({ d }) => isWanted(d) && nowMs >= settledAt(d, rule));
  const last = settled.at(-1)?.d;
  const isRecent = last !== undefined && last >= addDays(lookback.lastSettled ?? last, -LOADED_DAYS);
  const unseen = isRecent && deps.clockRule !== 'source' ? await explainEnd(deps, job, last) : undefined;
  const found = settled.filter(({ d }) => unseen === undefined || d !== last);
  const held = contested.filter(({ date }) => isWanted(date));
  return {
    lookback,
    dates: found.map(({ d, n }) => ({
      date: d,
      counts: [],
      rows: Number(n),
      pages: STATEMENTS_A_DATE,
      expiresAtMs: Number.POSITIVE_INFINITY,
    })),
    held: unseen === undefined || last === undefined ? held : [...held, { date: last, reason: unseen }],
    empty: range
      ? new Set()
      : new Set(sessions.filter((date) => !counted.some(({ d }) => d === date) && isWanted(date))),
  };
}

/**
 * Why a date may not be fully loaded, in words; `undefined` when rows of a later date, or of the session's end, show that it
 * is. Rows exported without their time show nothing: then the clocks alone decide.
 */
async function explainEnd(
  { source, calendar, signal }: TablePlanDeps,
  job: TableJob,
  date: string,
): Promise<string | undefined> {
  const { types } = await source.describe(signal);
  if (!job.source.columns.some(({ name }) => name === 'time')) return undefined;
  const ask = signal ? { signal } : {};
  const [later] = await source.rows<{ n: number }>(buildTableLater(job.source, types, date), ask);
  if (Number(later?.n ?? 0) > 0) return undefined;
  const [tail] = await source.rows<{ n: number; late: number; newest: string }>(
    buildTableTail(job.source, types, date, calendar),
    ask,
  );
  const rows = Number(tail?.n ?? 0);
  const [hours = 0, minutes = 0, seconds = 0] = (tail?.newest ?? '').split(':').map(Number);
  const newest = rows === 0 ? undefined : hours * 3600 + minutes * 60 + seconds;
  if (showsEnd(date, { newest, tail: rows, late: Number(tail?.late ?? 0) }, true, calendar)) return undefined;
  const seen =
    newest === undefined ? 'no rows from its last minutes' : `rows until ${formatSecond(newest)} (exchange time)`;
  return `the table has ${seen}, and no rows of a later date: it may not be completely loaded`;
}
