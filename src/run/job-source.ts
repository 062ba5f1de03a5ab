/** Opens the source of a job, of whatever kind, with the limits that earlier runs met. */
import type { Log } from '../core/log.ts';
import type { OpenedSource } from '../export/job-source.ts';
import type { Job } from '../job/job.ts';
import { type Learnt, loadLearnt } from '../state/limits.ts';
import { learntPath } from '../state/paths.ts';
import type { SourceOpeners } from './openers.ts';

export interface JobSource {
  readonly opened: OpenedSource;
  readonly learnt: Learnt;
  /** Where `learnt` is kept for the next run. */
  readonly learntPath: string;
}

/** Whoever opens it closes it, with `closeSource`. @throws Fault `SETTING_MISSING`, `SETTING_INVALID` */
export async function openJobSource(openers: SourceOpeners, job: Job, log: Log): Promise<JobSource> {
  const { source } = job;
  const load = async (url: string) => {
    const path = learntPath(openers.stateDir, url, openers.readKeyFingerprint(), source);
    return { learnt: await loadLearnt(path, url, openers.clock.now()), learntPath: path };
  };
  switch (source.kind) {
    case 'rows':
    case 'aggregate': {
      const known = await load(openers.sourceUrl(source.api));
      const client = await openers.openSource(source.api, log, known.learnt.clock_offset_ms);
      return { opened: { kind: 'sql', job: { ...job, source }, source: client }, ...known };
    }
    case 'snapshots': {
      const known = await load(openers.sourceUrl(source.api));
      const client = await openers.openSnapshots(source, log, known.learnt.clock_offset_ms);
      return { opened: { kind: 'snapshots', job: { ...job, source }, source: client }, ...known };
    }
    case 'table': {
      const table = await openers.openTable(source, log);
      return { opened: { kind: 'table', job: { ...job, source }, source: table }, ...(await load(table.url)) };
    }
    default:
      return source satisfies never;
  }
}
