/** Opens the source of a job, of any kind, with the limits that earlier runs met. */
import type { CalendarOverride } from '../calendar/session.ts';
import type { Log } from '../core/log.ts';
import type { Engine } from '../engine/engine.ts';
import type { Job, ServerSource, SnapshotSource, SqlJob } from '../job/job.ts';
import type { Openers } from '../openers.ts';
import { Clocks } from '../plan/clocks.ts';
import type { ServerTable } from '../source/server-table.ts';
import type { SnapshotClient } from '../source/snapshot.ts';
import type { Source } from '../source/source.ts';
import { limitsPath } from '../state/job-state.ts';
import { ApiLimits } from '../state/limits.ts';
import { readSourceSql } from './job-sql.ts';

interface OpenedAs<Kind, OfJob, Client> {
  /** Decides how dates are planned and exported. */
  readonly kind: Kind;
  /** Its own SQL is checked, and ready for requests. */
  readonly job: OfJob;
  readonly source: Client;
  readonly clocks: Clocks;
  /** API limits that earlier runs met; requests add new ones. */
  readonly limits: ApiLimits;
  readonly log: Log;
  /** Sessions that differ from the exchange's rules; without it the rules alone. */
  readonly calendar?: CalendarOverride | undefined;
  readonly signal?: AbortSignal | undefined;
}

export type OpenedSql = OpenedAs<'sql', SqlJob, Source>;
export type OpenedSnapshots = OpenedAs<'snapshots', Job<SnapshotSource>, SnapshotClient>;
export type OpenedTable = OpenedAs<'table', Job<ServerSource>, ServerTable>;
export type OpenedSource = OpenedSql | OpenedSnapshots | OpenedTable;

/**
 * Opens the source of a job, after checking the job's own SQL if it has any. The caller closes it with `closeSource`.
 * @param engine the one that is open in this process, if any, to check that SQL
 * @throws Fault `JOB_INVALID`, `SETTING_MISSING`, `SETTING_INVALID`
 */
export async function openJobSource(
  openers: Openers,
  job: Job,
  using: Pick<OpenedSource, 'log' | 'signal' | 'calendar'>,
  engine?: Engine,
): Promise<OpenedSource> {
  const { clock, stateDir } = openers;
  const { log, calendar } = using;
  const { source } = await readSourceSql(openers, job, engine);
  const load = async (url: string, key: string) => {
    return await new ApiLimits(limitsPath(stateDir, url, key, job.source), clock.now()).load();
  };
  const { settleSeconds } = job;
  const clockRule = openers.readSetting('FLOWDROP_CLOCK');
  const clocksWith = (client: Source | SnapshotClient | ServerTable) =>
    new Clocks(clock, client, { settleSeconds, calendar }, clockRule);
  if (source.kind === 'table') {
    const table = await openers.openTable(source, log);
    const limits = await load(table.url, '');
    return { ...using, kind: 'table', job: { ...job, source }, source: table, limits, clocks: clocksWith(table) };
  }
  const limits = await load(openers.sourceUrl(source.api), openers.readKeyFingerprint(source));
  if (source.kind === 'snapshots') {
    const client = await openers.openSnapshots(source, log, limits.clockOffsetMs);
    return { ...using, kind: 'snapshots', job: { ...job, source }, source: client, limits, clocks: clocksWith(client) };
  }
  const client = await openers.openSource(source, log, limits.clockOffsetMs);
  return { ...using, kind: 'sql', job: { ...job, source }, source: client, limits, clocks: clocksWith(client) };
}

/** Releases what the source holds. Idempotent. */
export async function closeSource(opened: OpenedSource): Promise<void> {
  if (opened.kind === 'table') await opened.source.close();
}
