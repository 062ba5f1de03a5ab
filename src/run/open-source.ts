/** Opens the source of a job, of any kind, with the limits that earlier runs met. */
import type { Log } from '../core/log.ts';
import type { Engine } from '../engine/engine.ts';
import type { OpenedSource } from '../export/job-source.ts';
import type { Job } from '../job/job.ts';
import type { Openers } from '../openers.ts';
import { limitsPath } from '../state/job-state.ts';
import { ApiLimits } from '../state/limits.ts';
import { readSourceSql } from './job-sql.ts';

export interface OpenJobSource {
  readonly opened: OpenedSource;
  /** API limits that earlier runs met; requests add new ones. */
  readonly limits: ApiLimits;
}

/**
 * Opens the source of a job, after checking the job's own SQL if it has any. The caller closes it with `closeSource`.
 * @param engine the one that is open in this process, if any, to check that SQL
 * @throws Fault `JOB_INVALID`, `SETTING_MISSING`, `SETTING_INVALID`
 */
export async function openJobSource(openers: Openers, job: Job, log: Log, engine?: Engine): Promise<OpenJobSource> {
  const source = await readSourceSql(openers, job, engine);
  const load = async (url: string, key: string) => {
    const path = limitsPath(openers.stateDir, url, key, job.source);
    return { limits: await new ApiLimits(path, url, openers.clock.now()).load() };
  };
  switch (source.kind) {
    case 'rows':
    case 'aggregate': {
      const known = await load(openers.sourceUrl(source.api), openers.readKeyFingerprint(source));
      const client = await openers.openSource(source, log, known.limits.clockOffsetMs);
      return { opened: { kind: 'sql', job: { ...job, source }, source: client }, ...known };
    }
    case 'snapshots': {
      const known = await load(openers.sourceUrl(source.api), openers.readKeyFingerprint(source));
      const client = await openers.openSnapshots(source, log, known.limits.clockOffsetMs);
      return { opened: { kind: 'snapshots', job: { ...job, source }, source: client }, ...known };
    }
    case 'table': {
      const table = await openers.openTable(source, log);
      return { opened: { kind: 'table', job: { ...job, source }, source: table }, ...(await load(table.url, '')) };
    }
    default:
      return source satisfies never;
  }
}
