/** Starts `pace-worker.ts` as processes of their own and collects what they say. */
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { vi } from 'vitest';
import type { PaceCommand, PaceEvent, PaceWorkerOptions } from './pace-worker.ts';
import { hasEnded, killServer } from './server-process.ts';

const WORKER = fileURLToPath(new URL('pace-worker.ts', import.meta.url));

export interface PaceProcess {
  readonly child: ChildProcessByStdio<Writable, Readable, null>;
  /** Times of the starts from the budget that was opened last. */
  readonly starts: number[];
  readonly events: PaceEvent[];
  isBusy(): boolean;
  /** Resolves when the command is done, or failed. */
  follow(command: PaceCommand): Promise<void>;
  kill(): Promise<void>;
  /** Lets it end by itself. @returns its exit code */
  end(): Promise<number | null>;
}

/** All starts, in their order. */
export const startsOf = (processes: readonly PaceProcess[]) =>
  processes.flatMap(({ starts }) => starts).sort((a, b) => a - b);

/** Processes that the tests of a file use one after the other, because each takes a while to start. */
export interface PaceProcesses {
  open(options: PaceWorkerOptions): Promise<PaceProcess>;
  /** After a test: those that are still at work are killed. */
  release(): Promise<void>;
  stop(): Promise<void>;
}

export function createPaceProcesses(): PaceProcesses {
  const idle: PaceProcess[] = [];
  const used = new Set<PaceProcess>();
  return {
    async open(options) {
      const process = idle.pop() ?? (await startPaceProcess());
      process.starts.length = 0;
      process.events.length = 0;
      await process.follow({ open: options });
      used.add(process);
      return process;
    },
    async release() {
      for (const process of used) {
        if (!process.isBusy() && !hasEnded(process.child)) idle.push(process);
        else await process.kill();
      }
      used.clear();
    },
    async stop() {
      for (const process of [...idle, ...used]) await process.kill();
    },
  };
}

async function startPaceProcess(): Promise<PaceProcess> {
  const child = spawn(process.execPath, ['--import', 'tsx', WORKER], { stdio: ['pipe', 'pipe', 'inherit'] });
  const starts: number[] = [];
  const events: PaceEvent[] = [];
  let isReady = false;
  let told = 0;
  let done = 0;
  createInterface({ input: child.stdout }).on('line', (line) => {
    const event = JSON.parse(line) as PaceEvent;
    events.push(event);
    if (event.event === 'start') starts.push(event.at);
    if (event.event === 'ready') isReady = true;
    if (event.event === 'done' || event.event === 'fault') done += 1;
  });
  // A killed process does not read to the end.
  child.stdin.on('error', () => undefined);
  const until = (isSo: () => boolean) =>
    vi.waitUntil(() => isSo() || hasEnded(child), { timeout: 30_000, interval: 5 });
  await until(() => isReady);
  return {
    child,
    starts,
    events,
    isBusy: () => done < told,
    async follow(command) {
      told += 1;
      const mine = told;
      child.stdin.write(`${JSON.stringify(command)}\n`);
      await until(() => done >= mine);
    },
    kill: () => killServer(child),
    async end() {
      child.stdin.end();
      if (!hasEnded(child)) await once(child, 'exit');
      return child.exitCode;
    },
  };
}
