/**
 * What a status has of a job, with few reads of the store: a listing shows which dates are sealed, `condition.json` has
 * the rest; a manifest is read only where the two disagree. A store that cannot be read is reported in it, not thrown.
 */
import { readOwedEvents } from '../../alert/outbox.ts';
import { addDays, formatSecond } from '../../calendar/wall-clock.ts';
import { describeError, isFault } from '../../core/errors.ts';
import { toInstantOrNull } from '../../daemon/shapes.ts';
import { describeLate, findLate } from '../../deliver/late.ts';
import { listArchive } from '../../deliver/report-copies.ts';
import type { Job } from '../../job/job.ts';
import type { ConditionEntry } from '../../ledger/condition-file.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import { readSealed } from '../../ledger/update-conditions.ts';
import type { Openers } from '../../openers.ts';
import { type Condition, deriveConditions, isOpen, isSealed } from '../../plan/conditions.ts';
import { expires, expiresAt, lookbackOf } from '../../plan/dates.ts';
import { createDeadlines } from '../../plan/deadline.ts';
import { createTicks } from '../../plan/ticks.ts';
import type { AcceptedGap, DateStatus, JobStatus } from '../../state/documents.ts';
import { readHeartbeat } from '../../state/heartbeat.ts';
import { limitsPath, openJobState, type Staging } from '../../state/job-state.ts';
import { ApiLimits } from '../../state/limits.ts';
import { RunHistory } from '../../state/run-history.ts';
import { withLedger } from '../context.ts';
import { type DueFacts, findLastDue, findRunner, listAttention } from './due.ts';

/** About a quarter's sessions; older copies are in the store under their dates. */
const MAX_REPORTS = 60;
/** Those since the last two due times, and some by hand. */
const RECENT_RUNS = 20;

type StatusOpeners = Pick<
  Openers,
  'clock' | 'openStore' | 'readCalendar' | 'readKeyFingerprint' | 'sourceUrl' | 'stateDir'
>;

/**
 * Everything that is shown about a job; the caller only formats it.
 * @param recentWeeks look only at the objects of so many weeks up to the newest date: earlier dates are as
 *   `condition.json` has them
 */
export async function readStatus(openers: StatusOpeners, job: Job, recentWeeks?: number) {
  const state = openJobState(openers.stateDir, job.name);
  const calendar = await openers.readCalendar();
  const nowMs = openers.clock.now();
  const lookback = lookbackOf(job, nowMs + (await readClockOffset(openers, job, nowMs)), calendar);
  const known = await state.known.read();
  const history = new RunHistory(openers.stateDir, job.name);
  const { results, ...runs } = await history.recall();
  const { schedule } = job;
  const ticks = schedule && createTicks(schedule);
  const heartbeat = await readHeartbeat(openers.stateDir, nowMs);
  const due: DueFacts = { job, ticks, heartbeat, runs: await history.list(RECENT_RUNS), calendar, nowMs };
  const lateFacts = { history, nowMs, calendar };
  const readStore = async (ledger: Ledger) => {
    const { store } = ledger;
    const [{ entries, fault: conditionFault }, reports, owed_events] = await Promise.all([
      ledger.conditions(),
      listArchive(store, job.name, MAX_REPORTS),
      readOwedEvents(store, job),
    ]);
    const newest = [...entries.keys()].sort().at(-1);
    const since = recentWeeks === undefined || newest === undefined ? undefined : addDays(newest, -7 * recentWeeks);
    const sealed = await readSealed(ledger, entries, { since });
    const conditions = deriveConditions({
      sealed: new Map([...sealed].map(([date, { condition }]) => [date, condition])),
      // Every run writes the document, even for a date selection, so it is the newer of the two.
      recorded: new Map<string, Condition>([
        ...Object.entries(known?.conditions ?? {}),
        ...[...entries.values()].map(({ date, condition }) => [date, condition] as const),
      ]),
      lookback,
      since,
    });
    const dates = [...conditions].map(([date, condition]) =>
      describeDate(job, date, condition, sealed.get(date), entries.get(date)?.accepted),
    );
    const late = await findLate(job, { ...lateFacts, store, dates });
    return { store: store.url, dates, reports, owed_events, late, fault: null, conditionFault };
  };
  const reading = await withLedger(openers, job, readStore).catch(async (error: unknown) => {
    if (!isFault(error)) throw error;
    // Without the store: what the last run knew at its end.
    const recalled = Object.entries(known?.conditions ?? {}).sort(([a], [b]) => (a < b ? -1 : 1));
    const dates = recalled.map(([date, condition]) => {
      const { rows = null, revision = null } = results.get(date) ?? {};
      return describeDate(job, date, condition, isSealed(condition) ? { rows, revision } : undefined);
    });
    const store = known?.store ?? job.drop.to;
    const late = await findLate(job, { ...lateFacts, store: undefined, dates });
    const fault = describeError(error);
    return { store, dates, reports: [], owed_events: null, late, fault, conditionFault: undefined };
  });
  const { conditionFault, dates, late, ...found } = reading;
  const runner = findRunner(due);
  const document: JobStatus = {
    job: job.name,
    dataset: job.drop.dataset,
    ...found,
    dates: dates.map((date) => {
      return { ...date, failed: date.condition === 'available' ? undefined : results.get(date.date)?.error };
    }),
    ...runs,
    next_run: toInstantOrNull(ticks?.next(nowMs)),
    last_due: toInstantOrNull(findLastDue(due, nowMs)),
    runner,
    late,
    next_deadline: toInstantOrNull(createDeadlines(job, calendar)?.next(nowMs)),
    attention: [
      ...(late ? [`${describeLate(late, job, nowMs)}: \`flowdrop runs ${job.name} last\` says why`] : []),
      ...listAttention(due, { ...runs, dates, runner }),
    ],
    staged: describeStaging(await state.staging.read(), dates),
  };
  /** `conditionFault`: what is wrong with `condition.json`; it is ignored then. */
  return { document, timezone: schedule?.timezone, heartbeat, calendar, nowMs, conditionFault };
}

/**
 * The API's clock minus this machine's, as the last run measured it; 0 if unknown. Status works without the API's
 * settings, and every run asks a server for its time.
 */
async function readClockOffset(openers: StatusOpeners, { source }: Job, nowMs: number): Promise<number> {
  if (source.kind === 'table') return 0;
  try {
    const url = openers.sourceUrl(source.api);
    const path = limitsPath(openers.stateDir, url, openers.readKeyFingerprint(source), source);
    return (await new ApiLimits(path, nowMs).load()).clockOffsetMs;
  } catch (error) {
    if (!isFault(error)) throw error;
    return 0;
  }
}

/** Until its date is sealed. */
function describeStaging(staging: Staging | undefined, dates: readonly DateStatus[]): JobStatus['staged'] {
  if (staging === undefined || staging.rows === 0) return null;
  const { date, second, rows } = staging;
  const isOver = dates.some((one) => one.date > date || (one.date === date && one.condition !== 'pending'));
  return isOver ? null : { date, through: formatSecond(second), rows };
}

function describeDate(
  job: Job,
  date: string,
  condition: Condition,
  sealed: Partial<ConditionEntry> | undefined,
  accepted?: AcceptedGap,
): DateStatus {
  return {
    date,
    condition,
    rows: sealed?.rows ?? null,
    revision: sealed?.revision ?? null,
    begins_to_expire: expires(job.source) && isOpen(condition) ? new Date(expiresAt(date)).toISOString() : null,
    damage: sealed?.damage ?? null,
    through: sealed?.through,
    degraded_reason: sealed?.degraded_reason,
    doubts: sealed?.doubts?.length ? sealed.doubts : undefined,
    nulls: sealed?.nulls,
    audit: sealed?.audit,
    accepted: accepted?.condition === condition ? accepted : null,
  };
}
