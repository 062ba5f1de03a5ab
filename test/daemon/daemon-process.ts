/** `flowdrop start` as a process of its own, for the tests that look at what reaches the disk and other processes. */
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, expect, vi } from 'vitest';
import type { ActionAnswer } from '../../src/daemon/shapes.ts';
import { useCleanups } from '../support/cleanups.ts';
import { type LogLine, spawnDaemon } from '../support/daemon.ts';
import { type FaultProxy, startFaultProxy } from '../support/fault-proxy.ts';
import { listFiles, startService, type TestService } from '../support/flowdrop.ts';
import { listChildren, readEnvironment } from '../support/processes.ts';

export interface DaemonProcess {
  readonly child: ChildProcess;
  /** Its log so far. */
  readonly lines: readonly LogLine[];
  /** Waits until so many lines of this event with these fields have come, and answers with the last of them. */
  until(event: string, which?: LogLine, count?: number): Promise<LogLine>;
  /** Address of its status page. */
  url(): Promise<string>;
  /** Asks its page for an action. */
  act(fields: object): Promise<ActionAnswer>;
  /** Number of the process that carries out the run of that line. */
  findRun(started: LogLine): Promise<number>;
  /** @returns its exit code and the signal that ended it */
  endBy(signal: NodeJS.Signals): Promise<readonly unknown[]>;
  /** Ends it in order unless it has ended. */
  end(): Promise<void>;
}

/** A busy machine starts a run, and an engine in it, in some seconds; another try comes after a minute. */
const PATIENCE_MS = 90_000;

function startDaemonProcess(cwd: string, env: Readonly<Record<string, string>>): DaemonProcess {
  const { child, lines, stop } = spawnDaemon(cwd, env);
  const until: DaemonProcess['until'] = async (event, which = {}, count = 1) => {
    const matching = () =>
      lines.filter(
        (line) => line['event'] === event && Object.entries(which).every(([key, value]) => line[key] === value),
      );
    await vi.waitFor(() => expect(matching().length, JSON.stringify(lines)).toBeGreaterThanOrEqual(count), {
      timeout: PATIENCE_MS,
      interval: 50,
    });
    return matching().at(-1) as LogLine;
  };
  const url = async () => String((await until('status-page'))['url']);
  return {
    ...{ child, lines, until, url, end: stop },
    async act(fields) {
      const headers = { 'content-type': 'application/json' };
      const body = JSON.stringify(fields);
      const answer = await fetch(`${await url()}/api/actions`, { method: 'POST', headers, body });
      return (await answer.json()) as ActionAnswer;
    },
    async findRun(started) {
      const pids = await listChildren(child.pid ?? 0);
      const environments = await Promise.all(pids.map(async (pid) => ({ pid, env: await readEnvironment(pid) })));
      const found = environments.find(({ env }) => env['FLOWDROP_RUN_ID'] === started['run']);
      expect(found, `a process of ${started['run']}`).toBeDefined();
      return found?.pid ?? 0;
    },
    async endBy(signal) {
      const exit = once(child, 'exit');
      child.kill(signal);
      return await exit;
    },
  };
}

export interface DaemonPlace {
  readonly service: TestService;
  /** In front of the service, for all daemons and their runs; each test finds it open. */
  readonly gate: FaultProxy;
  /** Of this test. */
  readonly cwd: string;
  /** @param settings beside those of the service */
  start(settings?: Readonly<Record<string, string>>): DaemonProcess;
}

/** A service for the file, a folder for each test, and daemons in it that end with it. To be called outside of any test. */
export function useDaemonPlace(): DaemonPlace {
  const lasting = useCleanups();
  const { cleanups, folder } = useCleanups(afterEach);
  let service: TestService;
  let gate: FaultProxy;
  let cwd: string;
  beforeAll(async () => {
    service = await startService(['--generate', '1', '--generate-rows', '300']);
    lasting.cleanups.push(() => service.stop());
    gate = await startFaultProxy(service.url);
    lasting.cleanups.push(() => gate.close());
  });
  beforeEach(async () => {
    cwd = await folder();
  });
  return {
    get service() {
      return service;
    },
    get gate() {
      return gate;
    },
    get cwd() {
      return cwd;
    },
    start(settings = {}) {
      const daemon = startDaemonProcess(cwd, { ...service.env, FLOWDROP_API_URL: gate.url, ...settings });
      cleanups.push(async () => {
        await gate.heal();
        await daemon.end();
      });
      return daemon;
    },
  };
}

/** Mails in the outbox of which the source matches. */
export async function listMails(cwd: string, pattern: RegExp): Promise<readonly string[]> {
  const names = (await listFiles(join(cwd, 'out', 'mail'))).filter((name) => name.endsWith('.eml'));
  const mails = await Promise.all(names.map((name) => readFile(join(cwd, 'out', 'mail', name), 'utf8')));
  return mails.filter((mail) => pattern.test(mail));
}
