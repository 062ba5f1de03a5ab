/** Exports one date of a job with SQL: fetch the windows, recount, seal. */

import { LOOKBACK_DAYS } from '../../api-contract/published-limits.ts';
import { OPEN_SECOND } from '../../calendar/session.ts';
import { Fault } from '../../core/errors.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import type { CheckResult, Manifest } from '../../ledger/manifest.ts';
import { sumCounts } from '../../plan/counts.ts';
import { computeLookback, explainClip, firstSecondOf, isAtEdge, leavesAt } from '../../plan/dates.ts';
import type { Lack } from '../../plan/session-habit.ts';
import type { OpenedSql } from '../../run/open-source.ts';
import type { ExportRun } from '../../run/run.ts';
import { secondKey } from '../../stage/count.ts';
import { openStage, type Stage } from '../../stage/stage.ts';
import { forgetWhenBad } from '../bad-rows.ts';
import { DropFile } from '../drop-file.ts';
import { type ExportPlan, MAX_SETTLE_WAIT_MS, type PlannedDate, settlesAt } from '../plan-dates.ts';
import { hurry } from '../priority.ts';
import { beginDate, type ExportOutcome, sealDate } from '../seal-date.ts';
import { type CompletedDate, completeDate } from './complete-date.ts';
import { probeRows } from './probe.ts';
import { describeLack, SESSION_END_CHECK, type SessionEnds } from './session-ends.ts';

/** @throws Fault */
export async function exportTrades(
  run: ExportRun,
  opened: OpenedSql,
  planned: PlannedDate,
  restate: boolean,
  { ends, dates }: Pick<ExportPlan, 'ends' | 'dates'>,
): Promise<ExportOutcome> {
  const { engine, onEvent, state } = run;
  const { date } = planned;
  const source = hurry(opened.source, planned.expiresAtMs);
  const api = { ...opened, source, onEvent };
  const { job, limits, clocks, log, signal } = api;
  const begun = beginDate(api);
  const counts = planned.counts ?? (await probeRows(api, date));
  if (counts.length === 0) return { published: undefined, missing: [] };
  ends?.note(date, counts);
  // A clock may have been set back since the plan was made: the date is still due.
  const contest = clocks.explainHold(date, true);
  if (contest !== undefined) return { held: contest };
  const settlesAtMs = settlesAt(api, date, counts);
  const waitMs = settlesAtMs - clocks.earliest();
  if (waitMs > MAX_SETTLE_WAIT_MS) return { settlesAtMs };
  // The recount finds the rows that come meanwhile.
  if (waitMs > 0) await clocks.sleep(waitMs, signal);
  const unseen = await ends?.explain(api, date, dates.at(-1)?.date ?? date);
  if (unseen !== undefined) return { held: unseen };
  if (limits.dayEdges === 'closed') {
    const reason = 'the API refuses windows without a time bound, so rows whose time has another date are left out';
    log.warn({ event: 'edges-closed', date, reason }, `${date}: ${reason}`);
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
  const file = new DropFile(run, stage);
  try {
    return await completeAndSeal();
  } finally {
    await file.discard();
  }

  async function completeAndSeal(): Promise<ExportOutcome> {
    const counted = await forgetWhenBad(stage, () =>
      completeDate(api, stage, counts, state.counts(date), planned.groups, file),
    );
    // All groups may fail the SQL's own HAVING.
    if (job.source.kind === 'aggregate' && (await stage.totals()).rows === 0 && (await stage.quarantine()).rows === 0) {
      await stage.discard();
      await state.counts(date).remove();
      return { published: undefined, missing: [] };
    }
    ends?.note(date, counted.counts);
    const late = clocks.conflict() === undefined ? undefined : clocks.explainHold(date, true);
    if (late !== undefined) return { held: late };
    const lack = clocks.isChecked ? await findLack(run, api, stage, ends) : undefined;
    if (lack !== undefined && ends?.isOver(date) === false) return { held: describeLack(lack) };
    const clip = await explainClipped(run.ledger, api, date, restate);
    onEvent({ kind: 'phase', date, phase: 'sealing' });
    const published = await sealDate(run, stage, {
      ...{ begun, file, restate, counted, counts: counted.counts, recount: describeRecount(counted) },
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

/** What the date lacks beside like sessions. */
async function findLack({ engine }: ExportRun, { job }: OpenedSql, stage: Stage, ends: SessionEnds | undefined) {
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

/** Dates nearest to another one that tell when its session began. */
const NEIGHBOURS = 5;

/**
 * Why rows from before the opening may have left the lookback, in words. A sealed date knows its own first row; of another
 * one, the complete dates around it tell when sessions begin.
 * @throws Fault `DATE_CLIPPED` when the opening has left too, or when a sealed date would be replaced by a part of it
 */
async function explainClipped(
  ledger: Ledger,
  api: OpenedSql,
  date: string,
  restate: boolean,
): Promise<string | undefined> {
  const nowMs = api.clocks.latest();
  const days = Math.min(api.source.lookbackDays?.() ?? LOOKBACK_DAYS, LOOKBACK_DAYS);
  assertStillWhole(api, date);
  if (!isAtEdge(date, nowMs, days)) return undefined;
  const own = restate ? await ledger.validManifest(date) : undefined;
  const around: Manifest[] = own?.condition === 'available' ? [own, own, own] : [];
  if (around.length === 0) {
    const apart = (other: string) => Math.abs(Date.parse(other) - Date.parse(date));
    const nearest = (await ledger.dates()).filter((other) => other !== date).sort((a, b) => apart(a) - apart(b));
    for (const other of nearest.slice(0, NEIGHBOURS)) {
      const manifest = await ledger.validManifest(other);
      if (manifest?.condition === 'available') around.push(manifest);
    }
  }
  const reason = explainClip(date, nowMs, around.map(firstSecondOf), days);
  if (reason !== undefined && own !== undefined) assertStillWhole(api, date, 0);
  return reason;
}

/**
 * The lookback moves while a date is fetched, and its first rows may have expired. A shorter lookback than the contract's
 * may have cut them from the start.
 * @param firstSecond of its first row, as far as that must be visible
 * @throws Fault `DATE_CLIPPED`
 */
export function assertStillWhole({ clocks, source }: OpenedSql, date: string, firstSecond = OPEN_SECOND): void {
  const nowMs = clocks.latest();
  const days = Math.min(source.lookbackDays?.() ?? LOOKBACK_DAYS, LOOKBACK_DAYS);
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
    { hint: 'Staged pages are kept. Run earlier next time: `flowdrop status` shows when each date expires.' },
  );
}
