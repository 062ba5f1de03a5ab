/** Exports one date of a job with SQL: fetch the windows, recount, seal. */

import { LOOKBACK_DAYS } from '../../api-contract/published-limits.ts';
import { OPEN_SECOND } from '../../calendar/session.ts';
import { formatWallClock } from '../../calendar/wall-clock.ts';
import { wholeDay } from '../../calendar/window.ts';
import { Fault } from '../../core/errors.ts';
import type { SqlJob } from '../../job/job.ts';
import type { CheckResult, Manifest } from '../../ledger/manifest.ts';
import { sumCounts } from '../../plan/counts.ts';
import { computeLookback, explainClip, firstSecondOf, isAtEdge, leavesAt } from '../../plan/dates.ts';
import type { Lack } from '../../plan/session-habit.ts';
import { buildPage } from '../../plan/statement.ts';
import type { OpenedSource } from '../../run/open-source.ts';
import type { ExportRun } from '../../run/run.ts';
import { secondKey } from '../../stage/count.ts';
import { openStage, type Stage } from '../../stage/stage.ts';
import { forgetWhenBad } from '../bad-rows.ts';
import { believedNow, doClocksAgree, earliestNow, explainHold, findConflict, latestNow } from '../clocks.ts';
import { draftStaged } from '../draft-file.ts';
import { MAX_SETTLE_WAIT_MS, type PlannedDate, type RunPlan, settlesAt } from '../export-plan.ts';
import type { ExportOutcome } from '../exported.ts';
import { hurry } from '../priority.ts';
import { sealDate } from '../seal-date.ts';
import { type CompletedDate, completeDate } from './complete-date.ts';
import { EarlyFile } from './early-file.ts';
import { readNeighbours, SESSION_END_CHECK } from './like-sessions.ts';
import { probeRows } from './probe.ts';
import { describeLack, type SessionEnds } from './session-ends.ts';

type Opened = Extract<OpenedSource, { kind: 'sql' }>;

/** @throws Fault */
export async function exportTrades(
  run: ExportRun,
  { source: calm, job }: Opened,
  planned: PlannedDate,
  restate: boolean,
  { ends, dates }: Pick<RunPlan, 'ends' | 'dates'>,
): Promise<ExportOutcome> {
  const { engine, onEvent, state, limits } = run;
  const { date } = planned;
  const source = hurry(calm, planned.expiresAtMs);
  const requestsBefore = source.stats.requests;
  const startedAtMs = believedNow(run);
  const deps = { ...run, source };
  const counts = planned.counts ?? (await probeRows(deps, job, date));
  if (counts.length === 0) return { published: undefined, missing: [] };
  ends?.note(date, counts);
  const explain = () => explainHold(run, job, date, { rowMs: ends?.rowMs(), isForgetting: true });
  // A clock may have been set back since the plan was made: the date is still due.
  const contest = explain();
  if (contest !== undefined) return { held: contest };
  const settlesAtMs = settlesAt(date, counts, { settleSeconds: job.settleSeconds, calendar: run.calendar });
  const waitMs = settlesAtMs - earliestNow(run);
  if (waitMs > MAX_SETTLE_WAIT_MS) return { settlesAtMs };
  // The recount finds the rows that come meanwhile.
  if (waitMs > 0) await run.clock.sleep(waitMs, run.signal);
  const unseen = await explainEnd(deps, ends, date, dates.at(-1)?.date ?? date);
  if (unseen !== undefined) return { held: unseen };
  if (limits.dayEdges === 'closed') {
    const reason = 'the API refuses windows without a time bound, so rows whose time has another date are left out';
    run.log.warn({ event: 'edges-closed', date, reason }, `${date}: ${reason}`);
  }
  const { rows } = sumCounts(counts);
  const stage = await openStage(engine, job, date, source.url, { rows });
  const staged = await stage.windows();
  onEvent({
    kind: 'date',
    date,
    rows,
    staged: staged.reduce((sum, window) => sum + window.rows, 0),
    pages: planned.groups === undefined ? Math.ceil(rows / limits.rowLimit) : planned.pages,
  });
  const draft = draftStaged(run.engine, job, stage, state.drop(date));
  const early = new EarlyFile(job, stage, draft);
  try {
    return await completeAndSeal();
  } finally {
    await early.discard();
  }

  async function completeAndSeal(): Promise<ExportOutcome> {
    const counted = await forgetWhenBad(stage, () =>
      completeDate({ ...deps, early }, job, stage, counts, state.counts(date), planned.groups),
    );
    // All groups may fail the SQL's own HAVING.
    if (job.source.kind === 'aggregate' && (await stage.totals()).rows === 0 && (await stage.quarantine()).rows === 0) {
      await stage.discard();
      await state.counts(date).remove();
      return { published: undefined, missing: [] };
    }
    ends?.note(date, counted.counts);
    const late = findConflict(run, ends?.rowMs()) === undefined ? undefined : explain();
    if (late !== undefined) return { held: late };
    const lack = run.clockRule === 'source' ? undefined : await findLack(run, job, stage, ends);
    if (lack !== undefined && ends?.isOver(date) === false) return { held: describeLack(lack) };
    const clip = await explainClipped(run, date, restate, source.lookbackDays?.());
    onEvent({ kind: 'phase', date, phase: 'sealing' });
    const published = await sealDate(run, job, stage, {
      file: { ...draft, write: (columns, duplicates) => early.write(columns, duplicates) },
      query: buildPage(job, wholeDay(date), limits.dayEdges),
      lookbackEdge: formatWallClock(computeLookback(source.serverNow()).edgeMs),
      counted,
      recount: describeRecount(counted),
      counts: counted.counts,
      requests: source.stats.requests - requestsBefore,
      startedAtMs,
      sealedAtMs: believedNow(run),
      restate,
      rowLimit: limits.rowLimit,
      degradedReason: clip,
      doubts: lack && [asCheck(lack)],
    });
    await state.counts(date).remove();
    ends?.noteSealed(date);
    return { published, missing: [] };
  }
}

/** The recount as written in the manifest; later recounts are compared with it. */
export function describeRecount({ proof, idHash, valueHash, columns }: CompletedDate): Manifest['recount'] {
  return { proved: proof, columns: [...columns], id_hash: idHash, value_hash: valueHash };
}

/** Why the source does not show that the date is over; `undefined` when it does, or is not asked. */
async function explainEnd(
  deps: ExportRun & Pick<Opened, 'source'>,
  ends: SessionEnds | undefined,
  date: string,
  latest: string,
): Promise<string | undefined> {
  if (deps.clockRule === 'source') return undefined;
  return await ends?.explain(deps, date, latest, doClocksAgree(deps));
}

/** What the date lacks beside like sessions. */
async function findLack({ engine }: ExportRun, job: SqlJob, stage: Stage, ends: SessionEnds | undefined) {
  const { date, table } = stage;
  return await ends?.findLack(date, async () => {
    const found = await engine.rows<{ readonly symbol: string; readonly n: number; readonly last: number }>(
      `SELECT symbol, toFloat64(count()) AS n, toInt32(max(${secondKey(job, date)})) AS last FROM ${table} GROUP BY symbol`,
    );
    return new Map(found.map(({ symbol, n, last }) => [symbol, { rows: n, last }]));
  });
}

/** What a date lacked whose session is over all the same. */
function asCheck({ sessions, ...finding }: Lack & { readonly sessions: string[] }): CheckResult {
  return {
    ...{ check: SESSION_END_CHECK, on_failure: 'warn', passed: false, found: 1, allowed: 0, sessions },
    findings: [{ about: SESSION_END_CHECK, ...finding }],
  };
}

/**
 * Why rows from before the opening may have left the lookback, in words. A sealed date knows its own first row; of another
 * one, the sealed dates around it tell when sessions begin.
 * @throws Fault `DATE_CLIPPED` when the opening has left too, or when a sealed date would be replaced by a part of it
 */
async function explainClipped(
  run: ExportRun,
  date: string,
  restate: boolean,
  shownDays: number | undefined,
): Promise<string | undefined> {
  const nowMs = latestNow(run);
  const days = Math.min(shownDays ?? LOOKBACK_DAYS, LOOKBACK_DAYS);
  assertStillWhole(date, nowMs, shownDays);
  if (!isAtEdge(date, nowMs, days)) return undefined;
  const own = restate ? await run.ledger.validManifest(date) : undefined;
  const around = own?.condition === 'available' ? [own, own, own] : await readNeighbours(run.ledger, date);
  const reason = explainClip(date, nowMs, around.map(firstSecondOf), days);
  if (reason !== undefined && own !== undefined) assertStillWhole(date, nowMs, shownDays, 0);
  return reason;
}

/**
 * The lookback moves while a date is fetched, and its first rows may have expired. A shorter lookback than the contract's
 * may have cut them from the start.
 * @param firstSecond of its first row, as far as that must be visible
 */
export function assertStillWhole(
  date: string,
  nowMs: number,
  shownDays: number | undefined,
  firstSecond = OPEN_SECOND,
): void {
  const days = Math.min(shownDays ?? LOOKBACK_DAYS, LOOKBACK_DAYS);
  if (leavesAt(date, firstSecond, days) >= nowMs) return;
  if (days < LOOKBACK_DAYS) {
    throw new Fault(
      'DATE_CLIPPED',
      `${date} is not completely inside the lookback: the API shows ${days} days, not ${LOOKBACK_DAYS}`,
      { hint: 'Staged pages are kept. Ask the provider why the lookback is shorter than its contract says.' },
    );
  }
  throw new Fault(
    'DATE_CLIPPED',
    `${date} began to expire while it was fetched (the lookback now begins at ${computeLookback(nowMs).edge}), so it cannot be proved complete`,
    {
      hint: 'Staged pages are kept. Run earlier next time: `flowdrop status` shows when each date expires.',
    },
  );
}
