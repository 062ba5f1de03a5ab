/** The opened source of a job. Its kind decides how dates are planned and exported. */
import type { Job, ServerSource, SnapshotSource, SqlJob } from '../job/job.ts';
import type { ServerTable } from '../source/server-table.ts';
import type { SnapshotClient } from '../source/snapshot.ts';
import type { Source } from '../source/source.ts';

export type SnapshotJob = Job<SnapshotSource>;
export type TableJob = Job<ServerSource>;

export type OpenedSource =
  | { readonly kind: 'sql'; readonly job: SqlJob; readonly source: Source }
  | { readonly kind: 'snapshots'; readonly job: SnapshotJob; readonly source: SnapshotClient }
  | { readonly kind: 'table'; readonly job: TableJob; readonly source: ServerTable };

/** What every source reports about itself. */
export type SourceFacts = Pick<Source, 'url' | 'stats' | 'serverNow' | 'tellsTime' | 'intervalMs'>;

/** Releases what the source holds. Idempotent. */
export async function closeSource(opened: OpenedSource): Promise<void> {
  if (opened.kind === 'table') await opened.source.close();
}
