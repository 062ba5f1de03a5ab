/** Opens the source of a job, of whatever kind, with the limits that earlier runs met. */
import type { Log } from '../core/log.ts';
import type { Engine } from '../engine/engine.ts';
import type { OpenedSource } from '../export/job-source.ts';
import type { Job } from '../job/job.ts';
import { type Learnt, loadLearnt } from '../state/limits.ts';
import { learntPath } from '../state/paths.ts';
import { readSourceSql } from './job-sql.ts';
import type { SourceOpeners } from './openers.ts';

export interface JobSource {
  readonly opened: OpenedSource;
  readonly learnt: Learnt;
  /** Where `learnt` is kept for the next run. */
  readonly learntPath: string;
}

/**
 * Opens the source of a job whose own SQL, where it has any, may be asked. Whoever opens it closes it, with `closeSource`.
 * @param engine where one is open in this process, to read that SQL with
 * @throws Fault `JOB_INVALID`, `SETTING_MISSING`, `SETTING_INVALID`
 */
export async function openJobSource(openers: SourceOpeners, job: Job, log: Log, engine?: Engine): Promise<JobSource> {
  const source = await readSourceSql(openers, job, engine);
  const load = async (url: string) => {
    const path = learntPath(openers.stateDir, url, openers.keyFingerprint, job.source);
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
