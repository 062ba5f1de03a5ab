/**
 * Stages the running session of a job. No run: it seals and mails nothing, `status` does not count it, and it alerts nobody,
 * because the next run fetches whatever it left.
 */

import { tellInterruption } from '../core/failure.ts';
import type { Job } from '../job/job.ts';
import { type RunEnv, withExportRun } from '../run/run.ts';
import { recordRun } from '../run/run-recorder.ts';
import { assertStageable, type StagedAhead, stageAhead } from './trades/ahead.ts';

/** @throws Fault `STAGE_UNFIT` (usage); `RUN_ACTIVE` (kind `active`) if a run of the job is active */
export async function stageJob(env: RunEnv, job: Job): Promise<StagedAhead> {
  assertStageable(job);
  const stage = async (watched: RunEnv) => {
    try {
      return await withExportRun(watched, job, async (context) => {
        // Limits found meanwhile are kept even when a window fails.
        return await stageAhead(context).finally(() => context.limits.save());
      });
    } catch (error) {
      throw tellInterruption(error, env.signal);
    }
  };
  const recorded = { command: 'stage', args: ['run', job.name, '--stage'] } as const;
  return await recordRun(env, job, recorded, stage, () => ({ outcome: 'done' }));
}
