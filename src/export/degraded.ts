/**
 * Seals an incomplete date. A date that expired before it was complete can no longer be proved complete, but the operator
 * may keep what was staged as a `degraded` drop. A later complete export restates it.
 */
import { formatWallClock } from '../calendar/wall-clock.ts';
import { formatWindow, wholeDay } from '../calendar/window.ts';
import { Fault } from '../core/errors.ts';
import { quoteString } from '../engine/literal.ts';
import type { SqlJob } from '../job/job.ts';
import { type DayCounts, sumCounts } from '../plan/counts.ts';
import { computeLookback } from '../plan/dates.ts';
import { buildPage } from '../plan/statement.ts';
import type { ExportRun } from '../run/run.ts';
import { openStage } from '../stage/stage.ts';
import { stageTableName } from '../stage/stage-table.ts';
import type { StateFile } from '../state/state-file.ts';
import { believedNow, earliestNow } from './clocks.ts';
import { draftStaged } from './draft-file.ts';
import { type SealResult, sealDate } from './seal-date.ts';

type StagedRun = Pick<
  ExportRun,
  'engine' | 'ledger' | 'source' | 'log' | 'clock' | 'clockRule' | 'state' | 'limits' | 'version' | 'signal'
>;

/**
 * Seals what is staged of an expired or clipped date as `degraded`.
 * @throws Fault (usage) `DATE_WHOLE` for a date that can still be exported, `DATE_SEALED`, `NOTHING_STAGED`; and those of `sealDate`
 */
export async function sealDegraded(context: StagedRun, job: SqlJob, date: string): Promise<SealResult> {
  const { engine, source, state } = context;
  const { firstWhole, edge } = computeLookback(earliestNow(context));
  if (date >= firstWhole) {
    throw refusal(
      'DATE_WHOLE',
      `${date} can still be exported completely: the lookback begins at ${edge} (exchange time)`,
      {
        hint: `Run \`flowdrop run ${job.name}\`: it continues from what is staged.`,
      },
    );
  }
  const sealed = await context.ledger.manifest(date);
  if (sealed) {
    throw refusal('DATE_SEALED', `${date} is sealed already, revision ${sealed.revision}, ${sealed.condition}`, {
      hint: 'Only a complete export replaces a sealed date.',
    });
  }
  await assertStaged(context, job, date);
  const stage = await openStage(engine, job, date, source.url);
  const [{ rows }, { rows: bad }] = [await stage.totals(), await stage.quarantine()];
  if (rows + bad === 0) throw nothingStaged(job, date);
  const windows = await stage.windows();
  const startedAtMs = believedNow(context);
  return await sealDate(context, job, stage, {
    file: draftStaged(context.engine, job, stage, state.drop(date)),
    query: buildPage(job, wholeDay(date), context.limits.dayEdges),
    lookbackEdge: formatWallClock(computeLookback(source.serverNow()).edgeMs),
    counted: await readLastCount(state.counts(date)),
    requests: 0,
    startedAtMs,
    sealedAtMs: startedAtMs,
    rowLimit: context.limits.rowLimit,
    degradedReason: `left the lookback before it was complete; sealed on request from ${windows.length} staged window(s), ${describeSpan(windows)}`,
  });
}

/** Checked before the stage is opened: opening drops rows staged by another query, and here they may be all there is. */
async function assertStaged({ engine, source }: StagedRun, job: SqlJob, date: string): Promise<void> {
  const name = stageTableName(job, date, source.url);
  const found = await engine.rows(
    `SELECT 1 FROM system.tables WHERE database = currentDatabase() AND name = ${quoteString(name)}`,
  );
  if (found.length === 0) throw nothingStaged(job, date);
}

function nothingStaged(job: SqlJob, date: string): Fault {
  return refusal('NOTHING_STAGED', `this query of the job "${job.name}" has staged nothing of ${date}`, {
    hint: 'Pages that another query, other columns or another source staged are kept; restore the old job file to seal them.',
  });
}

/** The source's last counts, if a run kept them. */
async function readLastCount(file: StateFile<DayCounts>) {
  const counts = await file.read();
  return counts && sumCounts(counts);
}

function describeSpan(windows: readonly { readonly window: Parameters<typeof formatWindow>[0] }[]): string {
  const texts = windows.map(({ window }) => formatWindow(window)).sort();
  return `the first ${texts[0] ?? ''}, the last ${texts.at(-1) ?? ''}`;
}

function refusal(code: string, message: string, options: { readonly hint: string }): Fault {
  return new Fault(code, message, { kind: 'usage', ...options });
}
