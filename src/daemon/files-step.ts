/** Applies the current job files: new, changed, broken, fixed or removed jobs. Pure. */
import { basename } from 'node:path';
import type { JobSchedule } from '../job/job.ts';
import { formatJobReference } from '../job/job-folder.ts';
import { dropAlert } from './alert-step.ts';
import type { DaemonEvent } from './event.ts';
import type { FiledJob } from './job-files.ts';
import type { NextState } from './next-state.ts';
import { createJobState, isBusy, viewUnusable } from './state.ts';
import { refreshStatus } from './status-step.ts';
import { dropRetry, settleTick } from './tick-step.ts';

export function noteFiles(turn: NextState, { reading, lastRuns }: Extract<DaemonEvent, { kind: 'files-read' }>): void {
  const names = new Set(reading.jobs.map(({ job }) => job.name));
  turn.unusable = reading.unusable.map(({ file, fault }) => {
    const known = turn.unusable.find((view) => view.file === file)?.fault;
    if (known?.message !== fault.message) logBroken(turn, file, fault.message, 'left out');
    return viewUnusable(file, nameUnusable(file, names), fault.message, known?.sinceMs ?? turn.nowMs);
  });
  for (const filed of reading.jobs) place(turn, filed, lastRuns.get(filed.job.name));
  for (const [name, { isRemoved }] of turn.jobs) if (!names.has(name) && !isRemoved) remove(turn, name);
}

/** Drops a job whose file is gone, once its last run has ended. */
export function forgetRemoved(turn: NextState, name: string): void {
  const job = turn.job(name);
  if (job?.isRemoved && !isBusy(job)) turn.jobs.delete(name);
}

function place(turn: NextState, filed: FiledJob, lastMs: number | undefined): void {
  const { name, schedule } = filed.job;
  const known = turn.job(name);
  const wasKnown = known !== undefined && !known.isRemoved;
  const before = wasKnown ? known.filed.job.schedule : undefined;
  turn.jobs.set(name, { ...(known ?? createJobState(filed)), filed, isRemoved: false });
  noteFault(turn, name, filed.fault);
  if (!known) refreshStatus(turn, name);
  if (!schedule) {
    if (before) turn.do({ kind: 'unschedule', job: name });
  } else if (!before) {
    // A known job that only now gains a schedule is due from now on.
    turn.do({ kind: 'schedule', job: name, schedule, lastMs: wasKnown ? turn.nowMs : lastMs });
  } else if (!isSame(before, schedule)) turn.do({ kind: 'reschedule', job: name, schedule });
}

function noteFault(turn: NextState, name: string, message: string | undefined): void {
  const job = turn.job(name);
  if (!job) return;
  const { file } = job.filed.job;
  if (message === undefined) {
    if (job.fault) turn.log.info({ event: 'job-mended', job: name }, `${file} is valid again`);
    turn.change(name, { fault: undefined });
    return;
  }
  if (job.fault?.message !== message) logBroken(turn, file, message, 'the last valid version stays in use');
  turn.change(name, { fault: { message, sinceMs: job.fault?.sinceMs ?? turn.nowMs } });
}

function remove(turn: NextState, name: string): void {
  turn.do({ kind: 'unschedule', job: name });
  turn.change(name, { isRemoved: true });
  turn.log.info({ event: 'unscheduled', job: name }, `${name}: its file was removed`);
  const { run } = turn.job(name) ?? {};
  if (run && run.phase !== 'running') {
    turn.change(name, { run: undefined });
    settleTick(turn, run.due);
  }
  dropRetry(turn, name);
  for (const cause of ['died', 'broken'] as const) dropAlert(turn, name, cause);
  if (run?.phase !== 'running') turn.do({ kind: 'forget-unfinished', job: name });
  forgetRemoved(turn, name);
}

/**
 * The name from its file; with the extension if another job has that name, because a job need not be named after its
 * file.
 */
function nameUnusable(file: string, names: ReadonlySet<string>): string {
  const name = formatJobReference(file);
  return names.has(name) ? basename(file) : name;
}

function logBroken(turn: NextState, file: string, reason: string, consequence: string): void {
  turn.log.error({ event: 'job-broken', file, reason }, `${file} is broken, ${consequence}: ${reason}`);
}

function isSame(a: JobSchedule, b: JobSchedule): boolean {
  return a.cron === b.cron && a.timezone === b.timezone && a.distributed === b.distributed;
}
