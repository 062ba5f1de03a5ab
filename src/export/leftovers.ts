/**
 * What a run finds in the store before it plans: decisions of workers that died, and sealed dates of which a file is gone.
 * It finishes and mends what can be, and tells of the rest what becomes of it. Nothing here stops a run: the dates that
 * are concerned are exported again where the source still has them whole, and the others go on.
 */
import { readdir, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { removeTemporaries } from '../core/atomic-file.ts';
import { assertNotAborted, describeError, type Fault, isFault } from '../core/errors.ts';
import { makeFolder } from '../core/folder.ts';
import type { Job } from '../job/job.ts';
import type { Damage } from '../ledger/damage.ts';
import { type Finished, finishSealing } from '../ledger/finish.ts';
import { SUMMARY_FILENAME } from '../ledger/layout.ts';
import { mendSummary } from '../seal/mend.ts';
import { clearSpools } from '../stage/engine-stage.ts';
import type { DateResult } from '../state/run-result.ts';
import { isStoreChange } from '../store/identity.ts';
import type { ExportContext } from './export-context.ts';
import type { StoreFacts } from './selection-facts.ts';

/** Each takes as long as its drop takes to be downloaded: what is about to expire must not wait for more. The next runs go on. */
const MAX_MENDED = 30;

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

/**
 * Rebuilds the summaries that are gone, the newest first: reports compare with those.
 * @param setAside dates that are exported again in any case
 * @returns the facts, without damage that is mended
 * @throws StoreFault when it is no longer the store that it was
 */
export async function mendSummaries(
  context: ExportContext,
  { drop }: Job,
  facts: StoreFacts,
  setAside: readonly string[],
): Promise<StoreFacts> {
  const { store, engine, state, clock, log, signal } = context;
  const onlySummary = [...facts.damaged].filter(([, { filenames }]) => filenames.join() === SUMMARY_FILENAME);
  const dates = onlySummary.map(([date]) => date).sort();
  const mended = new Set<string>();
  for (const date of dates.slice(-MAX_MENDED).reverse()) {
    try {
      assertNotAborted(signal);
      const deps = { store, engine, scratch: join(state.drops, 'mend'), nowMs: clock.now(), signal };
      await makeFolder(state.drops);
      const how = await mendSummary(deps, drop.dataset, date);
      if (how === 'not-mended') continue;
      mended.add(date);
      const as = how === 'restored' ? 'as it was' : 'with the next revision, because this version writes another file';
      log.warn(
        { event: 'summary-rebuilt', date, how },
        `${date}: ${SUMMARY_FILENAME} was gone from the store; it was rebuilt from the drop, ${as}`,
      );
    } catch (error) {
      if (!isFault(error) || error.kind === 'interrupted' || isStoreChange(error)) throw error;
      log.warn(
        { event: 'summary-not-rebuilt', date, code: error.code, reason: error.message },
        `${date}: its summary could not be rebuilt: ${error.message}`,
      );
    }
  }
  return {
    ...facts,
    damaged: new Map([...facts.damaged].filter(([date]) => !mended.has(date))),
    again: new Set([...facts.again].filter((date) => !mended.has(date) || setAside.includes(date))),
  };
}

/** Tells of dates that are sealed, but not what they were sealed as. */
export function reportDamage({ log }: Pick<ExportContext, 'log'>, damaged: ReadonlyMap<string, Damage>): void {
  for (const [date, { reason }] of damaged) {
    log.error(
      { event: 'drop-damaged', date, reason },
      `${date} is damaged in the store: ${reason}. If the source still has the whole date, this run exports it again; else restore the file from a backup`,
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
