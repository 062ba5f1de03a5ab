/** `flowdrop start` as a process: its log, its children and its end. */
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { MAIN, parseLine } from './flowdrop.ts';
import { listChildren } from './processes.ts';
import { endProcess, killServer } from './server-process.ts';

export type LogLine = Readonly<Record<string, unknown>>;

export interface DaemonProcess {
  readonly pid: number;
  /** Address of its status page. */
  readonly url: string;
  /** Its log so far. */
  readonly lines: readonly LogLine[];
  /** Lines of these events. */
  of(...events: readonly string[]): readonly LogLine[];
  /** Waits for so many lines of these events in all. */
  until(count: number, ...events: readonly string[]): Promise<void>;
  /** Waits until it has no children: only then may its clock be set without hurting one. */
  untilIdle(): Promise<void>;
  /** Ends it and its children by SIGKILL. */
  kill(): Promise<void>;
  /** Ends it by SIGKILL and leaves its children alone. */
  killAlone(): Promise<void>;
  stop(): Promise<void>;
}

/** The longest run of the tests takes ten seconds; a machine under load needs many times longer. */
const PATIENCE_MS = 180_000;
/** Not in vitest alone, whose own waiting works nowhere else. */
const POLL_MS = 20;
/** Between two children there is a moment without one, which lasts longer on a machine under load. */
const IDLE_LOOKS = 15;

export function spawnDaemon(cwd: string, env: Readonly<Record<string, string>>) {
  const own = { PATH: process.env['PATH'], HOME: cwd, TZ: 'Pacific/Auckland', FLOWDROP_STATUS_ADDRESS: '127.0.0.1:0' };
  const child = spawn(process.execPath, [MAIN, '--jobs', '.', 'start'], { cwd, env: { ...own, ...env } });
  const lines: LogLine[] = [];
  createInterface({ input: child.stderr }).on('line', (line) =>
    lines.push(parseLine(line) ?? { event: 'unreadable', line }),
  );
  return { child, lines, stop: async () => void (await endProcess(child, 'SIGTERM')) };
}

/** Resolves when it has its status page. */
export async function startDaemon(cwd: string, env: Readonly<Record<string, string>>): Promise<DaemonProcess> {
  const { child, lines, stop } = spawnDaemon(cwd, env);
  const pid = child.pid ?? 0; // It has one, for it speaks below.
  const of = (...events: readonly string[]) => lines.filter(({ event }) => events.includes(String(event)));
  const until = async (count: number, ...events: readonly string[]) => {
    const isThere = () => of(...events).length >= count;
    if (await waitFor(isThere)) return;
    const tail = lines.slice(-12).map((line) => JSON.stringify(line));
    throw new Error(`${of(...events).length} of ${count} lines of ${events.join(', ')}:\n${tail.join('\n')}`);
  };
  await until(1, 'status-page');
  return {
    ...{ pid, url: String(of('status-page')[0]?.['url']), lines, of, until },
    async untilIdle() {
      let looks = 0;
      const isIdle = async () => {
        looks = (await listChildren(pid)).length === 0 ? looks + 1 : 0;
        return looks >= IDLE_LOOKS;
      };
      if (!(await waitFor(isIdle))) throw new Error(`the daemon still has children: ${await listChildren(pid)}`);
    },
    async kill() {
      // It first, so that it starts no others.
      child.kill('SIGSTOP');
      for (const run of await listChildren(pid)) process.kill(run, 'SIGKILL');
      await killServer(child);
    },
    killAlone: () => killServer(child),
    stop,
  };
}

/** @returns whether it came to be so in time */
export async function waitFor(
  condition: () => boolean | Promise<boolean>,
  { patienceMs = PATIENCE_MS, pollMs = POLL_MS } = {},
): Promise<boolean> {
  const end = performance.now() + patienceMs;
  while (performance.now() < end) {
    if (await condition()) return true;
    await new Promise((resolve) => setTimeout(resolve, pollMs));
  }
  return false;
}
