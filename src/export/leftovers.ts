/**
 * Cleans up before a run plans: unfinished publishing of killed workers, and sealed dates with a missing file. It finishes
 * or repairs what it can and reports the rest. Nothing here stops a run: the dates concerned are exported again while the
 * source still has them, and the others go on.
 */
import { readdir, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { makeFolder, removeStaleTemporaries } from '../core/atomic-file.ts';
import { assertNotAborted } from '../core/errors.ts';
import { countOf } from '../core/units.ts';
import { type Finished, finishSealing } from '../ledger/finish.ts';
import type { ExportRun } from '../run/run.ts';
import { mendFiles } from '../seal/mend.ts';
import { clearSpool } from '../stage/intake.ts';
import { attempt } from '../store/identity.ts';

/** Each takes a download of its drop, and expiring dates must not wait longer. The next runs do the rest. */
const MAX_MENDED = 30;

/** @throws StoreFault when the store cannot even be listed */
export async function finishLeftovers(run: ExportRun): Promise<Finished> {
  const { ledger, state, clock, log } = run;
  const finished = await finishSealing(ledger, join(state.drops, 'finish'), clock.now());
  for (const { date, revision, reason, prefix } of finished.setAside) {
    log.warn(
      { event: 'decision-set-aside', date, revision, reason, prefix },
      `${date}: revision ${revision} cannot be finished: ${reason}. Its files were moved to ${prefix}. If the source still has the whole date, a run exports it again; otherwise \`flowdrop status\` shows it as expired`,
    );
  }
  for (const { date, revision, error } of finished.failed) {
    log.error(
      { event: 'decision-unfinished', date, revision, code: error.code, reason: error.message },
      `${date}: revision ${revision} could not be finished, the next run retries: ${error.message}`,
    );
  }
  if (finished.removed.length > 0) {
    log.info(
      { event: 'leftovers-removed', keys: finished.removed },
      `removed ${countOf(finished.removed.length, 'file')} that killed workers left under _flowdrop/sealing/`,
    );
  }
  return finished;
}

/**
 * Removes local files of killed workers and drops of earlier runs. The caller holds the job's engine, so nobody else
 * writes here. @param newest sealed date: its drop is kept for the report
 */
export async function removeLocalLeftovers(
  { state, engine, clock }: Pick<ExportRun, 'state' | 'engine' | 'clock'>,
  newest: string | undefined,
): Promise<void> {
  await clearSpool(engine);
  const kept = newest === undefined ? undefined : basename(state.drop(newest));
  for (const name of await readdir(state.drops).catch(() => [])) {
    if (name !== kept) await rm(join(state.drops, name), { recursive: true, force: true });
  }
  for (const folder of [dirname(state.known.path), dirname(state.counts('').path)])
    await removeStaleTemporaries(folder, clock.now(), false);
}

/**
 * Rebuilds missing summaries and counts, newest first, because reports compare with recent dates, and reports the sealed
 * dates whose files still differ from their manifest.
 * @param damaged what is wrong with them, in words @returns the same of those that are left
 * @throws StoreFault when the store's identity has changed
 */
export async function mendDerived(
  run: ExportRun,
  damaged: ReadonlyMap<string, string>,
): Promise<ReadonlyMap<string, string>> {
  const { state, clock, log, signal } = run;
  const mended = new Set<string>();
  for (const date of [...damaged.keys()].sort().reverse().slice(0, MAX_MENDED)) {
    const mend = async () => {
      assertNotAborted(signal);
      await makeFolder(state.drops);
      const done = await mendFiles({ ...run, folder: state.drops }, run.opened.job, date, clock.now());
      if (done === undefined) return;
      mended.add(date);
      const { how, files } = done;
      if (files.length === 0) return;
      const as =
        how === 'restored' ? 'as it was' : 'as the next revision, because this version writes a different file';
      log.warn(
        { event: 'summary-rebuilt', date, how, files },
        `${date}: ${files.join(', ')} was missing in the store; it was rebuilt from the drop, ${as}`,
      );
    };
    await attempt(mend, (error) =>
      log.warn(
        { event: 'summary-not-rebuilt', date, code: error.code, reason: error.message },
        `${date}: its files beside the drop could not be rebuilt: ${error.message}`,
      ),
    );
  }
  const left = new Map([...damaged].filter(([date]) => !mended.has(date)));
  for (const [date, reason] of left) {
    log.error(
      { event: 'drop-damaged', date, reason },
      `${date} is damaged in the store: ${reason}. If the source still has the whole date, this run exports it again; otherwise restore the file from a backup`,
    );
  }
  return left;
}
