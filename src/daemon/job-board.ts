/**
 * The jobs as their files have them now: read at start, on a signal, when the folder changes and every minute. Invariant: a
 * reading that fails changes nothing.
 */
import { basename } from 'node:path';
import type { Clock } from '../core/clock.ts';
import { describeError, Fault } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import { formatJobReference } from '../job/files.ts';
import type { Job, JobSchedule } from '../job/job.ts';
import type { FiledJob, JobFiles } from './job-files.ts';
import { createRecord, type JobRecord, viewUnusable } from './job-record.ts';
import type { Timetable } from './timetable.ts';
import type { JobView } from './view.ts';

export interface JobBoardDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly files: JobFiles;
  readonly timetable: Timetable;
  /** When the job ran last, as far as is known. */
  readonly lastRunAt: (job: Job) => Promise<number | undefined>;
  readonly onRemoved: (record: JobRecord) => void;
}

export interface MissedTick {
  readonly job: string;
  readonly tickMs: number;
}

export interface JobBoard {
  readonly records: ReadonlyMap<string, JobRecord>;
  /** @returns what new jobs have missed @throws Fault when the folder cannot be read, or at start no job is usable */
  load(): Promise<readonly MissedTick[]>;
  /** The same without failures: they are logged. */
  reload(): Promise<readonly MissedTick[]>;
  forget(job: string): void;
  unusable(): readonly JobView[];
}

export function createJobBoard(deps: JobBoardDeps): JobBoard {
  const { clock, log, timetable } = deps;
  const records = new Map<string, JobRecord>();
  let unusable: readonly JobView[] = [];
  let last: Promise<unknown> = Promise.resolve();

  const load = async (): Promise<readonly MissedTick[]> => {
    const reading = await deps.files.read();
    const isFirst = records.size === 0 && unusable.length === 0;
    if (isFirst) assertSome(reading);
    const names = new Set(reading.jobs.map(({ job }) => job.name));
    // Asked before anything changes, because it may fail, and of all at once, because Redis may be slow to say no.
    const lastRuns = await Promise.all(reading.jobs.map(({ job }) => (isNew(job) ? deps.lastRunAt(job) : undefined)));
    unusable = reading.unusable.map(({ file, fault }) => {
      const known = unusable.find((view) => view.file === file)?.fault;
      if (known?.message !== fault.message) logBroken(log, file, fault.message, 'left out');
      return viewUnusable(file, nameUnusable(file, names), fault.message, known?.sinceMs ?? clock.now());
    });
    const missed: MissedTick[] = [];
    for (const [index, filed] of reading.jobs.entries()) {
      const tickMs = place(filed, lastRuns[index]);
      if (tickMs !== undefined) missed.push({ job: filed.job.name, tickMs });
    }
    for (const [name, record] of records) {
      if (names.has(name) || record.isRemoved) continue;
      timetable.remove(name);
      record.isRemoved = true;
      log.info({ event: 'unscheduled', job: name }, `${name}: its file is gone`);
      deps.onRemoved(record);
    }
    return missed;
  };
  /** One that had no schedule is due from then on, and is not new. */
  const isNew = ({ name, schedule }: Job) => schedule !== undefined && (records.get(name)?.isRemoved ?? true);
  /** @returns the tick that a new job has missed */
  const place = (filed: FiledJob, lastMs: number | undefined): number | undefined => {
    const { job, fault } = filed;
    const known = records.get(job.name);
    const record = known ?? createRecord(filed);
    const before = known && !known.isRemoved ? known.filed.job.schedule : undefined;
    const wasKnown = known !== undefined && !known.isRemoved;
    record.filed = filed;
    record.isRemoved = false;
    noteFault(record, fault);
    records.set(job.name, record);
    const { schedule } = job;
    if (!schedule) {
      if (before) timetable.remove(job.name);
      return undefined;
    }
    if (before && isSame(before, schedule)) return undefined;
    let missed: number | undefined;
    if (before) timetable.change(job.name, schedule);
    // A job that only now gets a schedule is due from now on.
    else missed = timetable.add(job.name, schedule, wasKnown ? clock.now() : lastMs);
    logScheduled(job.name, missed);
    return missed;
  };
  const logScheduled = (job: string, missedMs: number | undefined) => {
    const [next, missed] = [timetable.next(job), missedMs].map((ms) => ms && new Date(ms).toISOString());
    log.info({ event: 'scheduled', job, next, missed }, `${job}: next run ${next}`);
  };
  const noteFault = (record: JobRecord, message: string | undefined) => {
    const { job } = record.filed;
    if (message === undefined) {
      if (record.fault) log.info({ event: 'job-mended', job: job.name }, `${job.file} is good again`);
      record.fault = undefined;
      return;
    }
    if (record.fault?.message !== message) logBroken(log, job.file, message, 'the job goes on as it was');
    record.fault = { message, sinceMs: record.fault?.sinceMs ?? clock.now() };
  };
  /** One after another: a later reading must not be overtaken by an earlier one. */
  const inTurn = <T>(action: () => Promise<T>): Promise<T> => {
    const turn = last.then(action);
    last = turn.catch(() => undefined); // Whoever asked for it is told.
    return turn;
  };
  return {
    records,
    load: () => inTurn(load),
    async reload() {
      try {
        return await inTurn(load);
      } catch (error) {
        log.error({ event: 'reload-failed', reason: describeError(error) }, `the job files stay as they were`);
        return [];
      }
    },
    forget: (job) => void records.delete(job),
    unusable: () => unusable,
  };
}

/** @throws Fault (kind `usage`) where there is nothing to do, or a setting is missing without which a job cannot be run */
function assertSome({ jobs, unusable }: Awaited<ReturnType<JobFiles['read']>>): void {
  const unset = unusable.find(({ fault }) => fault.code === 'SETTING_MISSING')?.fault;
  if (unset) throw unset;
  if (jobs.some(({ job }) => job.schedule)) return;
  const [first] = unusable;
  if (first) throw first.fault;
  throw new Fault('JOBS_MISSING', 'no job file in the folder of the jobs has a schedule', {
    kind: 'usage',
    hint: 'Add `schedule:` to a job file, or give another folder with --jobs DIR.',
  });
}

/** Its file's name; with the ending where another job has that name, which its file does not have to be named after. */
function nameUnusable(file: string, names: ReadonlySet<string>): string {
  const name = formatJobReference(file);
  return names.has(name) ? basename(file) : name;
}

function logBroken(log: Log, file: string, reason: string, consequence: string): void {
  log.error({ event: 'job-broken', file, reason }, `${file} is broken, ${consequence}: ${reason}`);
}

function isSame(a: JobSchedule, b: JobSchedule): boolean {
  return a.cron === b.cron && a.timezone === b.timezone && a.distributed === b.distributed;
}
