/** What a run in one process needs: a real engine that is source and stage, a real store, and nobody to mail to. */

import { join } from 'node:path';
import type { CalendarOverride } from '../../src/calendar/session.ts';
import type { Clock } from '../../src/core/clock.ts';
import type { Log } from '../../src/core/log.ts';
import type { Engine } from '../../src/engine/engine.ts';
import type { Job, SnapshotSource, SqlJob } from '../../src/job/job.ts';
import { Ledger } from '../../src/ledger/ledger.ts';
import { type ClockRule, Clocks } from '../../src/plan/clocks.ts';
import type { OpenedSnapshots, OpenedSource, OpenedSql } from '../../src/run/open-source.ts';
import type { ExportRun, SqlRun } from '../../src/run/run.ts';
import type { SnapshotClient } from '../../src/source/snapshot.ts';
import type { Source } from '../../src/source/source.ts';
import { openJobState } from '../../src/state/job-state.ts';
import { ApiLimits } from '../../src/state/limits.ts';
import { RunHistory } from '../../src/state/run-history.ts';
import type { Store } from '../../src/store/store.ts';
import { createSilentLog } from './log.ts';

interface Surroundings {
  readonly log?: Log;
  /** Default: the source's. */
  readonly clock?: Clock;
  /** Default: the source's clock alone decides, because the rows are of one morning. */
  readonly clockRule?: ClockRule | undefined;
  readonly calendar?: CalendarOverride | undefined;
  readonly signal?: AbortSignal | undefined;
}

interface RunParts extends Omit<Surroundings, 'clock' | 'clockRule'> {
  readonly job: SqlJob;
  readonly engine: Engine;
  readonly store: Store;
  readonly source: Source;
  /** For the state of the run. */
  readonly folder: string;
}

/** That of the source: nobody waits. */
const clockOf = (source: Pick<Source, 'serverNow'>): Clock => ({
  now: () => source.serverNow(),
  sleep: async () => {},
});

/** The source of an SQL job, opened. What checks all clocks is in `test/export/clocks.slow.test.ts`. */
export function openSql(job: SqlJob, source: Source, limits: ApiLimits, around: Surroundings = {}): OpenedSql {
  const { log = createSilentLog(), calendar, signal, clockRule = 'source' } = around;
  const clock = around.clock ?? clockOf(source);
  const clocks = new Clocks(clock, source, { settleSeconds: job.settleSeconds, calendar }, clockRule);
  return { kind: 'sql', job, source, clocks, limits, log, calendar, signal };
}

/** The same of snapshots. */
export function openSnapshots(job: Job, source: SnapshotClient, limits: ApiLimits): OpenedSnapshots {
  const clocks = new Clocks(clockOf(source), source, { settleSeconds: job.settleSeconds });
  return { kind: 'snapshots', job: job as Job<SnapshotSource>, source, clocks, limits, log: createSilentLog() };
}

/** A context whose clock is the source's. */
export async function createRun({ job, engine, store, source, folder, ...around }: RunParts): Promise<SqlRun> {
  const limits = new ApiLimits(join(folder, 'limits.json'), source.serverNow());
  const opened = openSql(job, source, limits, around);
  const parts = { engine, store, folder, clock: clockOf(source) };
  return { ...opened, ...createExportRun(opened, parts), source };
}

/** A run over an opened source. */
export function createExportRun(
  opened: OpenedSource,
  { engine, store, folder, clock }: Pick<RunParts, 'engine' | 'store' | 'folder'> & { readonly clock: Clock },
): ExportRun {
  const refuse = () => Promise.reject(new RangeError('an export mails nothing'));
  const { job, source, clocks, limits, log, calendar, signal } = opened;
  return {
    runId: 'run-1',
    ...{ opened, source, clocks, limits, log, calendar, signal, engine, clock },
    ledger: new Ledger(store, job.drop.dataset),
    mailer: { url: '', delivers: true, send: refuse, verify: refuse, close: async () => {} },
    mailFrom: '',
    redact: (text: string) => text,
    onEvent: () => undefined,
    state: openJobState(folder, job.name),
    history: new RunHistory(folder, job.name),
    templatesDir: '',
    publicUrl: undefined,
    version: '1',
  };
}
