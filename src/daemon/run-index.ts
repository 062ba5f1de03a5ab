/**
 * The newest remembered runs of each job, kept in memory for the page. Invariant: a run is read again only while it can
 * change; a job's folder is listed only when it has changed.
 */
import { stat } from 'node:fs/promises';
import { openJobState } from '../state/job-state.ts';
import { RunHistory } from '../state/run-history.ts';
import type { RunRecord } from '../state/run-record.ts';

/** Of a job: three weeks of nights with a run by hand now and then. Older ones are read when someone asks for them. */
const KEPT_RUNS = 30;

interface Known {
  readonly changedAtMs: number;
  readonly runs: readonly RunRecord[];
}

export class RunIndex {
  readonly #stateDir: string;
  #jobs = new Map<string, Known>();

  constructor(stateDir: string) {
    this.#stateDir = stateDir;
  }

  /** Newest first; empty before the first `refresh`. */
  of(job: string): readonly RunRecord[] {
    return this.#jobs.get(job)?.runs ?? [];
  }

  /** Reads what has changed, and forgets other jobs. Never rejects: what cannot be read is as it was. */
  async refresh(jobs: Iterable<string>): Promise<void> {
    const found = new Map<string, Known>();
    // One after another: at the start of the daemon the runs of all jobs are read.
    for (const job of jobs) {
      const before = this.#jobs.get(job);
      const known = await this.#read(job, before).catch(() => before);
      if (known) found.set(job, known);
    }
    this.#jobs = found;
  }

  async #read(job: string, known: Known | undefined): Promise<Known | undefined> {
    const folder = await stat(openJobState(this.#stateDir, job).runs).catch(() => undefined); // Before its first run.
    if (!folder) return undefined;
    const history = new RunHistory(this.#stateDir, job);
    const isSame = known?.changedAtMs === folder.mtimeMs;
    const ended = new Map(known?.runs.flatMap((run) => (run.outcome === null ? [] : [[run.id, run] as const])));
    // A killed run leaves its folder as it was.
    if (isSame && known.runs.every(({ id }) => ended.has(id))) return known;
    const ids = isSame ? known.runs.map(({ id }) => id) : (await history.listIds()).slice(0, KEPT_RUNS);
    const runs = await Promise.all(ids.map(async (id) => ended.get(id) ?? (await history.read(id))));
    return { changedAtMs: folder.mtimeMs, runs: runs.filter((run) => run !== undefined) };
  }
}
