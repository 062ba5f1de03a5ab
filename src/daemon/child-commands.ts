/**
 * Small commands that the daemon starts as child processes: status, alerts, an archived report, the check of a job
 * file. Few run at once, each with a time-out, and the queue is bounded. So a hanging store delays only the commands
 * that read it, and a hanging mail server delays only mails.
 */
import type { Readable } from 'node:stream';
import { z } from 'zod';
import type { Clock } from '../core/clock.ts';
import { describeError, Fault } from '../core/errors.ts';
import { tryParseJson } from '../core/json-file.ts';
import { explainAbort } from '../core/process-end.ts';
import { type ChildCommand, type ChildEnd, type ChildProcess, startProcess, streamProcess } from './child-process.ts';
import {
  type DropDocument,
  dropSchema,
  errorSchema,
  type PriceDocument,
  priceSchema,
  type Rows,
  rowsSchema,
  type StatusDocument,
  statusSchema,
} from './documents.ts';

/** Each process takes 100 MB or more. Reading commands do not wait for alerts. */
const MAX_READING = 2;
const MAX_ALERTING = 1;
/** Downloads at the same time. */
const MAX_STREAMING = 2;
/** When this many wait, something hangs, and another command would hang too. */
const MAX_WAITING = 100;
/** Reading a store of some thousand dates takes seconds; a mail server may defer an alert. */
const TIMEOUT_MS = {
  check: 60_000,
  status: 60_000,
  report: 30_000,
  alert: 300_000,
  backfill: 60_000,
  gap: 60_000,
  drop: 60_000,
  query: 60_000,
} as const;

export interface ChildCommands {
  /**
   * Checks what only the engine can check in a job file; this process has no engine. A check that fails to finish
   * rejects nothing: the run checks again. @throws Fault `JOB_INVALID`
   */
  checkJob(file: string): Promise<void>;
  /** @throws Fault */
  readStatus(file: string): Promise<StatusDocument>;
  /** Alerts the operators of a job. @param args arguments after the job file @throws Fault */
  sendAlert(file: string, args: readonly string[]): Promise<void>;
  /** HTML of an archived report; `undefined` when it no longer exists. @throws Fault */
  readReport(file: string, date: string, report: string, revision: number): Promise<string | undefined>;
  /** Manifest, revisions and audit of a date. @throws Fault */
  readDrop(file: string, date: string): Promise<DropDocument>;
  /** Rows of a statement over the job's store. @throws Fault */
  queryRows(file: string, sql: string): Promise<Rows>;
  /** The file of a drop, as it is read; the caller must read it to its end, or destroy it. @throws Fault when too many are read */
  streamDrop(file: string, date: string): Readable;
  /** What a backfill would cost; changes nothing. @param options those of the command @throws Fault */
  priceBackfill(file: string, options: readonly string[]): Promise<PriceDocument>;
  /** Accepts a gap. @param options those of the command @throws Fault */
  acceptGap(file: string, date: string, options: readonly string[]): Promise<void>;
  /** Asks running commands to stop, and starts no new ones. */
  stop(): void;
  kill(): void;
  untilIdle(): Promise<void>;
}

/** What `flowdrop --json check` prints for each file. */
const checkSchema = z.array(z.object({ code: z.string().optional(), message: z.string() }));
/** What `flowdrop --json report --show` prints. */
const reportPageSchema = z.object({ html: z.string() });

type CommandName = keyof typeof TIMEOUT_MS;

/** @param commandOf builds the command that runs this program with the given arguments */
export function createChildCommands(commandOf: (args: readonly string[]) => ChildCommand, clock: Clock): ChildCommands {
  const running = new Set<ChildProcess>();
  const streaming = new Set<Readable>();
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
        // The command ended in time.
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
      for (const stream of streaming) stream.destroy();
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
    async readDrop(file, date) {
      const end = await run('drop', ['--json', 'drop', file, date]);
      if (end.code !== 0) throw failureOf('drop', end);
      const drop = dropSchema.safeParse(tryParseJson(end.stdout));
      if (!drop.success) throw new Fault('CHILD_ANSWER_INVALID', 'flowdrop drop printed no drop');
      return drop.data;
    },
    async queryRows(file, sql) {
      const end = await run('query', ['--json', 'query', sql, '--job', file]);
      if (end.code !== 0) throw failureOf('query', end);
      const rows = rowsSchema.safeParse(tryParseJson(end.stdout));
      if (!rows.success) throw new Fault('CHILD_ANSWER_INVALID', 'flowdrop query printed no rows');
      return rows.data;
    },
    streamDrop(file, date) {
      if (streaming.size >= MAX_STREAMING) throw new Fault('BUSY', 'other drops are being read; try again later');
      if (isStopping) throw new Fault('INTERRUPTED', 'the daemon is stopping', { kind: 'interrupted' });
      const stream = streamProcess(commandOf(['--json', 'drop', file, date, '--file']));
      streaming.add(stream);
      stream.once('close', () => streaming.delete(stream));
      return stream;
    },
    async priceBackfill(file, options) {
      const end = await run('backfill', ['--json', 'backfill', file, ...options, '--dry-run']);
      if (end.code !== 0) throw failureOf('backfill', end);
      const price = priceSchema.safeParse(tryParseJson(end.stdout));
      if (!price.success) throw new Fault('CHILD_ANSWER_INVALID', 'flowdrop backfill printed no plan');
      return price.data;
    },
    async acceptGap(file, date, options) {
      const end = await run('gap', ['--json', 'gap', 'accept', file, date, ...options]);
      if (end.code !== 0) throw failureOf('gap', end);
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
      // Only this code means that the report does not exist. An unreadable store or a broken job file proves nothing.
      if (failure.code === 'REPORT_NOT_ARCHIVED') return undefined;
      throw failure;
    },
  };
}

/** Limits parallel commands to `count`; the others wait for their turn. */
function createPlaces(count: number) {
  const waiting: (() => void)[] = [];
  let free = count;
  return {
    /** @throws Fault when too many are waiting */
    async take(kind: CommandName): Promise<void> {
      if (free > 0) {
        free -= 1;
        return;
      }
      if (waiting.length >= MAX_WAITING)
        throw new Fault('CHILD_FAILED', `flowdrop ${kind} was not started: ${MAX_WAITING} others are already waiting`);
      // `leave` hands its place to the next one.
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
  // In the message, because the daemon's log and page show only that.
  const message = `flowdrop ${kind} ${how}${words === '' ? '' : `: ${words}`}`;
  return new Fault('CHILD_FAILED', hint === '' ? message : `${message}. ${hint}`);
}
