/** Runs that a machine remembers. */
import { RunHistory } from '../../src/state/run-history.ts';
import type { RunRecord } from '../../src/state/run-record.ts';

/** Done, unless the changes say otherwise. */
export function createRunRecord(changes: Partial<RunRecord> = {}): RunRecord {
  const at = { started_at: '2026-11-20T22:30:00.000Z', updated_at: '2026-11-20T22:59:00.000Z' };
  return {
    ...{
      id: '20261120T223000Z-run',
      run_id: '20261120T223000Z-run',
      job: 'nightly',
      command: 'run',
      args: ['run', 'nightly'],
    },
    ...{ reason: 'scheduled', process: { pid: 1, started: '1' }, ...at, finished_at: at.updated_at, outcome: 'done' },
    ...{
      error: null,
      progress: null,
      planned_pages: null,
      pages: 0,
      rows: 0,
      requests: 10,
      retries: 0,
      rate_limited: 0,
    },
    ...{ splits: 0, bytes: 0, dates: [], has_open: false, reports: [] },
    ...changes,
  };
}

/** The newest run of a job that a worker remembers. */
export async function readNewestRun(stateDir: string, job: string): Promise<RunRecord | undefined> {
  return (await new RunHistory(stateDir, job).list(1))[0];
}
