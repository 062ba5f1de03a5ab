/** One date of a job that is asked for with SQL: fetched in windows, recounted, sealed. */
import { rm } from 'node:fs/promises';
import { formatWallClock } from '../../calendar/wall-clock.ts';
import { wholeDay } from '../../calendar/window.ts';
import { Fault } from '../../core/errors.ts';
import { sumCounts } from '../../plan/counts.ts';
import { computeLookback } from '../../plan/dates.ts';
import { buildPage } from '../../plan/statement.ts';
import { openStage } from '../../stage/stage.ts';
import type { RunContext } from '../context.ts';
import type { ExportOutcome } from '../exported.ts';
import type { OpenedSource } from '../opened.ts';
import { isOver, type PlannedDate } from '../plan.ts';
import { sealDate, stageWriter } from '../seal.ts';
import { hurry } from '../urgency.ts';
import { completeDate } from './complete.ts';
import { probeRows } from './probe.ts';

type Opened = Extract<OpenedSource, { kind: 'sql' }>;

/** @throws Fault */
export async function exportTrades(
  context: RunContext,
  { source: calm, job }: Opened,
  planned: PlannedDate,
  restate: boolean,
): Promise<ExportOutcome> {
  const { clock, engine, onEvent, state, learnt } = context;
  const { date } = planned;
  const source = hurry(calm, planned.expiresAtMs);
  const requestsBefore = source.stats.requests;
  const startedAtMs = clock.now();
  const deps = { ...context, source };
  const counts = planned.counts ?? (await probeRows(deps, job, date));
  if (counts.length === 0) return { published: undefined, missing: [] };
  if (!isOver(date, counts, source.serverNow(), context.calendar)) return 'open';
  if (learnt.day_edges === 'closed') {
    const reason =
      'the API refuses windows that are not bounded by time, so rows whose time is of another date are left out';
    context.log.warn({ event: 'edges-closed', date, reason }, `${date}: ${reason}`);
  }
  const stage = await openStage(engine, job, date, source.url);
  const totals = await stage.totals();
  const { rows } = sumCounts(counts);
  onEvent({ kind: 'date', date, rows, staged: totals.rows, pages: Math.ceil(rows / learnt.row_limit) });
  const counted = await completeDate(deps, job, stage, counts, state.counts(date));
  assertStillWhole(date, source.serverNow());
  onEvent({ kind: 'phase', date, phase: 'sealing' });
  const published = await sealDate(context, job, stage, {
    path: state.drop(date),
    write: stageWriter(engine, job, stage),
    query: buildPage(job, wholeDay(date), learnt.day_edges),
    lookbackEdge: formatWallClock(computeLookback(source.serverNow()).edgeMs),
    counted,
    requests: source.stats.requests - requestsBefore,
    startedAtMs,
    sealedAtMs: clock.now(),
    restate,
    rowLimit: learnt.row_limit,
  });
  await rm(state.counts(date), { force: true });
  return { published, missing: [] };
}

/** The lookback rolls on while a date is fetched: its first rows may have gone in between. */
function assertStillWhole(date: string, serverNowMs: number): void {
  const { firstWhole, edge } = computeLookback(serverNowMs);
  if (date >= firstWhole) return;
  throw new Fault(
    'DATE_CLIPPED',
    `${date} began to leave the lookback (now from ${edge}) while it was fetched, so it cannot be proved complete`,
    {
      hint: 'What was staged is kept. Run earlier next time: `flowdrop status` shows what expires when.',
    },
  );
}
