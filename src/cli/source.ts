/** The source of a job with what was learnt of it: for every command that asks the API. */
import type { Log } from '../core/log.ts';
import type { Job } from '../job/job.ts';
import { type Learnt, loadLearnt } from '../run/learnt.ts';
import { stateOf } from '../run/state.ts';
import type { Source } from '../source/source.ts';
import type { CliContext } from './context.ts';

export interface JobSource {
  readonly source: Source;
  readonly learnt: Learnt;
}

/** @throws Fault `SETTING_MISSING`, `SETTING_INVALID` */
export async function openJobSource({ compose }: CliContext, job: Job, log: Log): Promise<JobSource> {
  const url = compose.sourceUrl(job.source.api);
  const learnt = await loadLearnt(stateOf(compose.stateDir, job.name).learnt, url, compose.clock.now());
  return { source: await compose.openSource(job.source.api, log, learnt.clock_offset_ms), learnt };
}
