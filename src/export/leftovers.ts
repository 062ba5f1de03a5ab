/**
 * What a run finds in the store before it plans: decisions of workers that died, and sealed dates whose object is gone.
 * It finishes what can be finished, and tells of the rest what becomes of it. Nothing here stops a run: the dates that
 * are concerned are exported again where the source still has them whole, and the others go on.
 */
import { readdir, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { removeTemporaries } from '../core/atomic-file.ts';
import { describeError, type Fault } from '../core/errors.ts';
import type { Job } from '../job/job.ts';
import { type Finished, finishSealing } from '../ledger/finish.ts';
import { clearSpools } from '../stage/engine-stage.ts';
import type { DateResult } from '../state/run-result.ts';
import type { ExportContext } from './export-context.ts';

/** @throws StoreFault when the store cannot even be listed */
export async function finishLeftovers(context: ExportContext, { drop }: Job): Promise<Finished> {
  const { store, state, clock, log } = context;
  const options = { scratch: join(state.drops, 'finish'), nowMs: clock.now() };
  const finished = await finishSealing(store, drop.dataset, options);
  for (const { date, revision, reason, prefix } of finished.setAside) {
    log.warn(
      { event: 'decision-set-aside', date, revision, reason, prefix },
      `${date}: revision ${revision} cannot be finished: ${reason}. What there is of it was moved to ${prefix}. If the source still has the whole date, a run exports it again; else \`flowdrop status\` shows it as expired`,
    );
  }
  for (const { date, revision, error } of finished.failed) {
    log.error(
      { event: 'decision-unfinished', date, revision, code: error.code, reason: error.message },
      `${date}: revision ${revision} could not be finished, the next run tries again: ${error.message}`,
    );
  }
  if (finished.removed.length > 0) {
    log.info(
      { event: 'leftovers-removed', keys: finished.removed },
      `removed ${finished.removed.length} file(s) that killed workers left under _sealing/`,
    );
  }
  return finished;
}

/**
 * Removes local files of workers that were killed, and drops of earlier runs. The caller holds the engine of the job, so
 * nobody else is writing here. @param newest sealed date: its drop stays, for the report
 */
export async function removeLocalLeftovers(
  { state, engine, clock }: Pick<ExportContext, 'state' | 'engine' | 'clock'>,
  newest: string | undefined,
): Promise<void> {
  await clearSpools(engine);
  const kept = newest === undefined ? undefined : basename(state.drop(newest));
  for (const name of await readdir(state.drops).catch(() => [])) {
    if (name !== kept) await rm(join(state.drops, name), { recursive: true, force: true });
  }
  for (const folder of [dirname(state.lastRun.path), dirname(state.counts('').path)])
    await removeTemporaries(folder, clock.now());
}

/** Tells of dates that are sealed, but not what they were sealed as. */
export function reportDamage({ log }: Pick<ExportContext, 'log'>, damaged: ReadonlyMap<string, string>): void {
  for (const [date, reason] of damaged) {
    log.error(
      { event: 'drop-damaged', date, reason },
      `${date} is damaged in the store: ${reason}. If the source still has the whole date, this run exports it again; else restore the object from a backup`,
    );
  }
}

/** Dates that could not be finished and that this run does not export: they must not pass for done. */
export function listUnfinished(
  { failed }: Finished,
  planned: ReadonlySet<string>,
  describe: (error: Fault) => NonNullable<DateResult['error']>,
): readonly DateResult[] {
  return failed
    .filter(({ date }) => !planned.has(date))
    .map(({ date, error }) => ({ date, status: 'failed', rows: 0, requests: 0, error: describe(error) }));
}

/** @param redact masks secrets: an answer may repeat what it was sent */
export function describeFault(error: Fault, redact: ExportContext['redact']): NonNullable<DateResult['error']> {
  return {
    code: error.code,
    message: redact(describeError(error)),
    ...(error.hint ? { hint: redact(error.hint) } : {}),
  };
}
