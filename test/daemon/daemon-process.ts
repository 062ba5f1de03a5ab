/** `flowdrop start` as a process of its own, for the tests that look at what reaches the disk and other processes. */
import type { ChildProcess } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, vi } from 'vitest';
import { type LogLine, spawnDaemon } from '../support/daemon.ts';
import { type FaultProxy, startFaultProxy } from '../support/fault-proxy.ts';
import { listFiles, makeFolder, startService, type TestService } from '../support/flowdrop.ts';
import { listChildren, readEnvironment } from '../support/processes.ts';

export interface DaemonProcess {
  readonly child: ChildProcess;
  /** Its log so far. */
  readonly lines: readonly LogLine[];
  /** Waits until so many lines of this event with these fields have come, and answers with the last of them. */
  until(event: string, which?: LogLine, count?: number): Promise<LogLine>;
  /** Ends it in order unless it has ended. */
  end(): Promise<void>;
}

/** A busy machine starts a run, and an engine in it, in some seconds; another try comes after a minute. */
const PATIENCE_MS = 90_000;

export function startDaemonProcess(cwd: string, env: Readonly<Record<string, string>>): DaemonProcess {
  const { child, lines, stop } = spawnDaemon(cwd, env);
  return {
    child,
    lines,
    async until(event, which = {}, count = 1) {
      const matching = () =>
        lines.filter(
          (line) => line['event'] === event && Object.entries(which).every(([key, value]) => line[key] === value),
        );
      await vi.waitFor(() => expect(matching().length, JSON.stringify(lines)).toBeGreaterThanOrEqual(count), {
        timeout: PATIENCE_MS,
        interval: 50,
      });
      return matching().at(-1) as LogLine;
    },
    end: stop,
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
  let service: TestService;
  let gate: FaultProxy;
  let folder: Awaited<ReturnType<typeof makeFolder>>;
  const daemons: DaemonProcess[] = [];
  beforeAll(async () => {
    service = await startService(['--generate', '1', '--generate-rows', '300']);
    gate = await startFaultProxy(service.url);
  });
  afterAll(async () => {
    await gate.close();
    await service.stop();
  });
  beforeEach(async () => {
    folder = await makeFolder();
  });
  afterEach(async () => {
    await gate.heal();
    for (const daemon of daemons.splice(0)) await daemon.end();
    await folder.remove();
  });
  return {
    get service() {
      return service;
    },
    get gate() {
      return gate;
    },
    get cwd() {
      return folder.path;
    },
    start(settings = {}) {
      const daemon = startDaemonProcess(folder.path, { ...service.env, FLOWDROP_API_URL: gate.url, ...settings });
      daemons.push(daemon);
      return daemon;
    },
  };
}

/** Number of the process that carries out that run. */
export async function findRun(daemonPid: number, runId: string): Promise<number> {
  const pids = await listChildren(daemonPid);
  const environments = await Promise.all(pids.map(async (pid) => ({ pid, env: await readEnvironment(pid) })));
  const [found] = environments.filter(({ env }) => env['FLOWDROP_RUN_ID'] === runId);
  expect(found, `a process of ${runId}`).toBeDefined();
  return found?.pid ?? 0;
}

/** Waits until the outbox holds so many mails of which the source matches. */
export async function untilMails(cwd: string, pattern: RegExp, count: number): Promise<readonly string[]> {
  return await vi.waitFor(
    async () => {
      const mails = await listMails(cwd, pattern);
      expect(mails.length).toBeGreaterThanOrEqual(count);
      return mails;
    },
    { timeout: PATIENCE_MS, interval: 100 },
  );
}

export async function listMails(cwd: string, pattern: RegExp): Promise<readonly string[]> {
  const names = (await listFiles(join(cwd, 'out', 'mail'))).filter((name) => name.endsWith('.eml'));
  const mails = await Promise.all(names.map((name) => readFile(join(cwd, 'out', 'mail', name), 'utf8')));
  return mails.filter((mail) => pattern.test(mail));
}
