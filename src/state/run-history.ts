/**
 * The runs of a job that this machine remembers: for each a small document, written when it begins and replaced at its
 * end, a file of its windows, and its log. Only this module names these files. Invariants: a run whose process is gone
 * without an end has died; what is kept is bounded by age and by count, and removed when a run begins. It is for people:
 * a run never fails because its record cannot be written.
 *
 * The newest remembered runs of each job, kept in memory for the page. Invariant: a run is read again only while it can
 * change; a job's folder is listed only when it has changed, or a run goes on.
 */
import { appendFile, readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { pid, ppid } from 'node:process';
import {
  makeFolder,
  readFileIfExists,
  readJsonFile,
  replaceFile,
  tryParseJson,
  writeWholeFile,
} from '../core/atomic-file.ts';
import { isSameProcess, readProcessStart } from '../core/liveness.ts';
import { type JobState, openJobState } from './job-state.ts';
import { isEndedRun, isOwed, type RunRecord, type RunWindow, runRecordSchema, runWindowSchema } from './run-record.ts';

/** Kept runs of a job: three months with ten a day. */
const MAX_RUNS = 1_000;
const MAX_STAGINGS = 100;
/** An earlier backfill is no news. */
const SEARCHED_RUNS = 50;
const DAY_MS = 86_400_000;
/** More windows than a backfill of the whole lookback has; what comes after is not drawn. */
export const MAX_WINDOWS = 20_000;

const ENTRY = '.json';
const WINDOWS = '.windows.jsonl';
const LOG = '.log';
/** Shape of an id: a file name and nothing else. */
const ID = /^\d{8}T\d{6}Z-[A-Za-z0-9._-]{1,64}$/;

type RunBeginning = Pick<RunRecord, 'run_id' | 'job' | 'command' | 'args' | 'reason'>;

const NOTHING_YET = {
  finished_at: null,
  outcome: null,
  error: null,
  progress: null,
  planned_pages: null,
  pages: 0,
  rows: 0,
  requests: 0,
  retries: 0,
  rate_limited: 0,
  splits: 0,
  bytes: 0,
  dates: [],
  has_open: false,
  reports: [],
};

/** Of a run whose process is gone without a word. */
const DEATH = {
  outcome: 'died',
  error: { code: 'RUN_DIED', message: 'its process was killed or crashed; the next run continues what it began' },
} as const;

export class RunHistory {
  readonly #state: JobState;

  constructor(stateDir: string, job: string) {
    this.#state = openJobState(stateDir, job);
  }

  files({ id, command }: Pick<RunRecord, 'id' | 'command'>) {
    const { runs, stagings } = this.#state;
    const { records, logs } = command === 'stage' ? stagings : runs;
    return {
      entry: join(records, `${id}${ENTRY}`),
      windows: join(records, `${id}${WINDOWS}`),
      log: join(logs, `${id}${LOG}`),
    };
  }

  /** Writes the record. @throws the system error when the disk cannot be written */
  async write(entry: RunRecord): Promise<void> {
    await writeWholeFile(this.files(entry).entry, `${JSON.stringify(entry)}\n`);
  }

  /** Writes how far an active run is, without waiting for the disk. @throws the system error */
  async update(entry: RunRecord): Promise<void> {
    await replaceFile(this.files(entry).entry, `${JSON.stringify(entry)}\n`);
  }

  async remove(entry: RunRecord): Promise<void> {
    for (const path of Object.values(this.files(entry))) await rm(path, { force: true });
  }

  /** Adds moments to the run's windows. @throws the system error when the disk cannot be written */
  async appendWindows(entry: RunRecord, windows: readonly RunWindow[]): Promise<void> {
    const text = windows.map((window) => `${JSON.stringify(window)}\n`).join('');
    if (text !== '') await appendFile(this.files(entry).windows, text);
  }

  /** `undefined` for an unknown, damaged or impossible id. */
  async read(id: string): Promise<RunRecord | undefined> {
    const entry = await this.#readWritten(id);
    return entry && (await judgeAlive(entry));
  }

  async #readWritten(id: string): Promise<RunRecord | undefined> {
    if (!ID.test(id)) return undefined;
    for (const command of ['run', 'stage'] as const) {
      const { entry: path } = this.files({ id, command });
      const entry = await readJsonFile(path, runRecordSchema).catch(() => undefined);
      if (entry) return entry;
    }
    return undefined;
  }

  /** Ids of the kept runs, newest first. */
  async listIds(withStages = false): Promise<readonly string[]> {
    const { runs, stagings } = this.#state;
    const names = [await listNames(runs.records), withStages ? await listNames(stagings.records) : []];
    return names
      .flat()
      .filter((name) => name.endsWith(ENTRY))
      .map((name) => name.slice(0, -ENTRY.length))
      .filter((id) => ID.test(id))
      .sort()
      .reverse();
  }

  async list(limit: number, withStages = false): Promise<readonly RunRecord[]> {
    const ids = await this.listIds(withStages);
    const entries = await Promise.all(ids.slice(0, limit).map((id) => this.read(id)));
    return entries.filter((entry) => entry !== undefined);
  }

  async find(isWanted: (run: RunRecord) => boolean, withStages = false): Promise<RunRecord | undefined> {
    for (const id of await this.listIds(withStages)) {
      const run = await this.read(id);
      if (run && isWanted(run)) return run;
    }
    return undefined;
  }

  /**
   * When the job's last run that came to its end began, in milliseconds; `undefined` when there is none. What was cut short
   * is still owed. @param canRetry what a retry may do, too
   */
  async lastRunAt(canRetry: boolean): Promise<number | undefined> {
    const last = await this.find((run) => isEndedRun(run) && run.error === null && !(canRetry && isOwed(run)));
    return last && Date.parse(last.started_at);
  }

  /**
   * The runs of a status, and what the last attempt of each date came to. Newest first, until nothing is left to find: a
   * run that succeeds leaves no failed date; of a job that never does, all its runs are read.
   */
  async recall() {
    const isBackfill = ({ command, outcome }: RunRecord) =>
      command === 'backfill' && outcome !== null && outcome !== 'active';
    const isSuccess = ({ command, outcome }: RunRecord) => command === 'run' && outcome === 'done';
    const runs: RunRecord[] = [];
    await this.find((run) => {
      runs.push(run);
      return runs.some(isSuccess) && (runs.length >= SEARCHED_RUNS || runs.some(isBackfill));
    }, true);
    return {
      running: runs.find(({ outcome, progress }) => outcome === null && progress !== null) ?? null,
      last_run: runs.find(isEndedRun) ?? null,
      last_backfill: runs.find(isBackfill) ?? null,
      last_success: runs.find(isSuccess)?.finished_at ?? null,
      results: new Map(runs.toReversed().flatMap(({ dates }) => dates.map((result) => [result.date, result]))),
    };
  }

  /** Windows of a run, oldest first; empty when it has none. A line that is cut short is left out. */
  async readWindows(entry: RunRecord): Promise<readonly RunWindow[]> {
    // A run that fetched nothing has no such file; one that cannot be read has none for a person either.
    const text = await readFileIfExists(this.files(entry).windows).catch(() => undefined);
    const lines = text?.split('\n', MAX_WINDOWS) ?? [];
    return lines.flatMap((line) => runWindowSchema.safeParse(tryParseJson(line)).data ?? []);
  }

  /**
   * Writes the record of a run that begins now in this process, and removes those that are too old or too many. Never
   * rejects.
   */
  async begin(facts: RunBeginning, nowMs: number, keptDays: number): Promise<RunRecord> {
    const entry: RunRecord = {
      ...facts,
      // It sorts by time and names files: the run's own, if that does.
      id: ID.test(facts.run_id) ? facts.run_id : `${stamp(nowMs)}-${facts.run_id}`,
      process: { pid, started: await readProcessStart(pid) },
      started_at: new Date(nowMs).toISOString(),
      updated_at: new Date(nowMs).toISOString(),
      ...NOTHING_YET,
    };
    await this.#prepare(nowMs, keptDays)
      .then(() => this.write(entry))
      // A full disk costs the record, not the run, which reports the disk itself.
      .catch(() => undefined);
    return entry;
  }

  /**
   * The same run as its parent process has begun it, carried out by this process from now on; `undefined` if the parent
   * did not.
   */
  async adopt(runId: string): Promise<RunRecord | undefined> {
    const begun = await this.read(runId);
    if (begun?.process.pid !== ppid || begun.outcome !== null) return undefined;
    const entry = { ...begun, process: { pid, started: await readProcessStart(pid) } };
    await this.write(entry).catch(() => undefined); // As above.
    return entry;
  }

  /**
   * The end of a run as its parent process saw it: counts if the run recorded none, and for a run that was stopped because
   * it took too long. Never rejects. @returns the record as it is then
   */
  async settle(id: string, end: Pick<RunRecord, 'outcome' | 'error'>, nowMs: number): Promise<RunRecord | undefined> {
    const entry = await this.#readWritten(id);
    if (!entry || (entry.outcome !== null && end.outcome !== 'timed-out')) return entry;
    const ended = { ...entry, ...end, progress: null, finished_at: new Date(nowMs).toISOString() };
    await this.write(ended).catch(() => undefined); // As above.
    return ended;
  }

  async #prepare(nowMs: number, keptDays: number): Promise<void> {
    const { runs, stagings } = this.#state;
    const oldest = stamp(nowMs - keptDays * DAY_MS);
    for (const [{ records, logs }, most] of [[runs, MAX_RUNS] as const, [stagings, MAX_STAGINGS] as const]) {
      for (const folder of [records, logs]) {
        await makeFolder(folder);
        await removeOld(folder, oldest, most - 1);
      }
    }
  }
}

/** `20261123T183000Z`. */
function stamp(ms: number): string {
  return new Date(ms).toISOString().replace(/[-:]|\.\d+/g, '');
}

/** Removes the files of runs before `oldest` and of all but the newest `most`. */
async function removeOld(folder: string, oldest: string, most: number): Promise<void> {
  const names = await listNames(folder);
  const ids = [...new Set(names.map(idOf))].sort().reverse();
  const kept = new Set(ids.slice(0, most).filter((id) => id >= oldest));
  for (const name of names) if (!kept.has(idOf(name))) await rm(join(folder, name), { force: true });
}

function idOf(name: string): string {
  return [WINDOWS, ENTRY, LOG].reduce((id, ending) => (id.endsWith(ending) ? id.slice(0, -ending.length) : id), name);
}

async function listNames(folder: string): Promise<readonly string[]> {
  // Before the first run there is no folder.
  return await readdir(folder).catch(() => []);
}

/** A record without an end, whose process is gone, is that of a killed run: whoever reads it completes it. */
async function judgeAlive(entry: RunRecord): Promise<RunRecord> {
  if (entry.outcome !== null) return entry;
  return (await isSameProcess(entry.process))
    ? entry
    : { ...entry, ...DEATH, progress: null, finished_at: entry.updated_at };
}

/** Of a job: three weeks of nights with a run by hand now and then. Older ones are read when someone asks for them. */
const KEPT_RUNS = 30;

interface Known {
  readonly changedAtMs: number;
  readonly runs: readonly RunRecord[];
}

export type RunIndex = ReturnType<typeof createRunIndex>;

export function createRunIndex(stateDir: string) {
  let kept = new Map<string, Known>();
  return {
    /** Newest first; empty before the first `refresh`. */
    of: (job: string): readonly RunRecord[] => kept.get(job)?.runs ?? [],
    refresh,
  };

  /** Reads what has changed, and forgets other jobs. Never rejects: what cannot be read is as it was. */
  async function refresh(jobs: Iterable<string>): Promise<void> {
    const found = new Map<string, Known>();
    // One after another: at the start of the daemon the runs of all jobs are read.
    for (const job of jobs) {
      const before = kept.get(job);
      const known = await read(job, before).catch(() => before);
      if (known) found.set(job, known);
    }
    kept = found;
  }

  async function read(job: string, known: Known | undefined): Promise<Known | undefined> {
    const folder = await stat(openJobState(stateDir, job).runs.records).catch(() => undefined); // Before its first run.
    if (!folder) return undefined;
    const history = new RunHistory(stateDir, job);
    const ended = new Map(known?.runs.filter(({ outcome }) => outcome !== null).map((run) => [run.id, run]));
    // A killed run leaves its folder as it was.
    if (known?.changedAtMs === folder.mtimeMs && known.runs.length === ended.size) return known;
    const ids = (await history.listIds()).slice(0, KEPT_RUNS);
    const runs = await Promise.all(ids.map(async (id) => ended.get(id) ?? (await history.read(id))));
    return { changedAtMs: folder.mtimeMs, runs: runs.filter((run) => run !== undefined) };
  }
}
