/** Opens the source of a job, of any kind, with the limits that earlier runs met. */
import type { Log } from '../core/log.ts';
import type { Engine } from '../engine/engine.ts';
import type { Job, ServerSource, SnapshotSource, SqlJob } from '../job/job.ts';
import type { Openers } from '../openers.ts';
import type { ServerTable } from '../source/server-table.ts';
import type { SnapshotClient } from '../source/snapshot.ts';
import type { Source } from '../source/source.ts';
import { limitsPath } from '../state/job-state.ts';
import { ApiLimits } from '../state/limits.ts';
import { readSourceSql } from './job-sql.ts';

export type SnapshotJob = Job<SnapshotSource>;
export type TableJob = Job<ServerSource>;

/** Its kind decides how dates are planned and exported. */
export type OpenedSource =
  | { readonly kind: 'sql'; readonly job: SqlJob; readonly source: Source }
  | { readonly kind: 'snapshots'; readonly job: SnapshotJob; readonly source: SnapshotClient }
  | { readonly kind: 'table'; readonly job: TableJob; readonly source: ServerTable };

/** What every source reports about itself. */
export type SourceFacts = Pick<Source, 'url' | 'stats' | 'serverNow' | 'tellsTime' | 'intervalMs'>;

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

/** Releases what the source holds. Idempotent. */
export async function closeSource(opened: OpenedSource): Promise<void> {
  if (opened.kind === 'table') await opened.source.close();
}
