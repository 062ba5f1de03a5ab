/**
 * Small commands that the daemon starts as child processes: status, alerts, an archived report, the check of a job file. Few at once, each with a
 * time-out, and a bounded number waiting, so that a store that hangs delays only what asks it, and a mail server that hangs
 * delays only mails.
 */
import { z } from 'zod';
import type { Clock } from '../core/clock.ts';
import { describeError, Fault } from '../core/errors.ts';
import { tryParseJson } from '../core/json-file.ts';
import { explainAbort } from '../core/process-end.ts';
import { type ChildCommand, type ChildEnd, type ChildProcess, startProcess } from './child-process.ts';
import { errorSchema, type StatusDocument, statusSchema } from './documents.ts';

/** Each is a process of 100 MB or more. Readers do not wait for alerts. */
const MAX_READING = 2;
const MAX_ALERTING = 1;
/** Beyond it something hangs, and one more would only hang behind it. */
const MAX_WAITING = 100;
/** A store of some thousand dates is read in seconds; an alert may be put off by its mail server. */
const TIMEOUT_MS = { check: 60_000, status: 60_000, report: 30_000, alert: 300_000 } as const;

export interface ChildCommands {
  /**
   * What only the engine can say of a job file, and this process has none. A check that does not come to its end refuses
   * nothing: the run checks again. @throws Fault `JOB_INVALID`
   */
  checkJob(file: string): Promise<void>;
  /** @throws Fault */
  readStatus(file: string): Promise<StatusDocument>;
  /** Alerts the operators of a job. @param args what, beside the job file @throws Fault */
  sendAlert(file: string, args: readonly string[]): Promise<void>;
  /** Page of an archived report; `undefined` when it is not there any more. @throws Fault */
  readReport(file: string, date: string, report: string, revision: number): Promise<string | undefined>;
  /** Asks those that go on to stop; none is started from now on. */
  stop(): void;
  kill(): void;
  untilIdle(): Promise<void>;
}

/** What `flowdrop --json check` prints of each file. */
const checkSchema = z.array(z.object({ code: z.string().optional(), message: z.string() }));
/** What `flowdrop --json report --show` prints. */
const reportPageSchema = z.object({ html: z.string() });

type CommandName = keyof typeof TIMEOUT_MS;

/** @param commandOf this program with arguments */
export function createChildCommands(commandOf: (args: readonly string[]) => ChildCommand, clock: Clock): ChildCommands {
  const running = new Set<ChildProcess>();
  const reading = createPlaces(MAX_READING);
  const alerting = createPlaces(MAX_ALERTING);
  let isStopping = false;

  const run = async (kind: CommandName, args: readonly string[]): Promise<ChildEnd> => {
    const places = kind === 'alert' ? alerting : reading;
    await places.take(kind);
    const timer = new AbortController();
    try {
      if (isStopping) throw new Fault('INTERRUPTED', 'the daemon is stopping', { kind: 'interrupted' });
      const child = startProcess(commandOf(args));
      running.add(child);
      const late = clock.sleep(TIMEOUT_MS[kind], timer.signal).then(
        () => child.kill(),
        // It ended in time.
        () => undefined,
      );
      try {
        return await child.done;
      } finally {
        running.delete(child);
        timer.abort();
        await late;
      }
    } catch (cause) {
      throw new Fault('CHILD_FAILED', `flowdrop ${kind} could not be started: ${describeError(cause)}`, { cause });
    } finally {
      places.leave();
    }
  };
  return {
    stop() {
      isStopping = true;
      for (const child of running) child.stop();
    },
    kill() {
      for (const child of running) child.kill();
    },
    async untilIdle() {
      await Promise.all([...running].map(({ done }) => done.catch(() => undefined))); // The caller gets this error.
    },
    async checkJob(file) {
      const end = await run('check', ['--json', 'check', file]).catch(() => undefined);
      const checked = checkSchema.safeParse(tryParseJson(end?.stdout ?? ''));
      const refused = checked.data?.find(({ code }) => code === 'JOB_INVALID');
      if (refused) throw new Fault('JOB_INVALID', refused.message, { kind: 'usage' });
    },
    async readStatus(file) {
      const end = await run('status', ['--json', 'status', file]);
      if (end.code !== 0) throw failureOf('status', end);
      const parsed = z.array(statusSchema).safeParse(tryParseJson(end.stdout));
      const [status] = parsed.success ? parsed.data : [];
      if (!status) throw new Fault('CHILD_ANSWER_INVALID', 'flowdrop status printed no status document');
      return status;
    },
    async sendAlert(file, args) {
      const end = await run('alert', ['--json', 'alert', file, ...args]);
      if (end.code !== 0) throw failureOf('alert', end);
    },
    async readReport(file, date, report, revision) {
      const which = ['--date', date, '--report', report, '--revision', String(revision)];
      const end = await run('report', ['--json', 'report', file, ...which, '--show']);
      if (end.code === 0) {
        const page = reportPageSchema.safeParse(tryParseJson(end.stdout));
        if (page.success) return page.data.html;
        throw new Fault('CHILD_ANSWER_INVALID', 'flowdrop report printed no report');
      }
      const failure = failureOf('report', end);
      // Only that says that it is not there: a store that cannot be read, or a broken job file, says nothing of it.
      if (failure.code === 'REPORT_NOT_ARCHIVED') return undefined;
      throw failure;
    },
  };
}

/** So many at once; the others wait for their turn. */
function createPlaces(count: number) {
  const waiting: (() => void)[] = [];
  let free = count;
  return {
    /** @throws Fault when too many wait */
    async take(kind: CommandName): Promise<void> {
      if (free > 0) {
        free -= 1;
        return;
      }
      if (waiting.length >= MAX_WAITING)
        throw new Fault('CHILD_FAILED', `flowdrop ${kind} was not started: ${MAX_WAITING} others wait already`);
      // Whoever ends hands its place on.
      await new Promise<void>((resolve) => void waiting.push(resolve));
    },
    leave(): void {
      const next = waiting.shift();
      if (next) next();
      else free += 1;
    },
  };
}

function failureOf(kind: CommandName, { code, signal, stdout, stderr }: ChildEnd): Fault {
  const said = errorSchema.safeParse(tryParseJson(stdout));
  if (said.success) return new Fault(said.data.error.code, said.data.error.message);
  const how = code === undefined ? `was ended by ${signal}` : `ended with exit code ${code}`;
  const words = stderr.trim();
  const hint = explainAbort({ code, signal });
  // In the message, because the log and the page of the daemon show no more.
  const message = `flowdrop ${kind} ${how}${words === '' ? '' : `: ${words}`}`;
  return new Fault('CHILD_FAILED', hint === '' ? message : `${message}. ${hint}`);
}
