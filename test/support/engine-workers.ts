/** How tests start engine processes: as the built program does. */
import type { ChildProcess } from 'node:child_process';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { execPath } from 'node:process';
import { ENGINE_WORKER_COMMAND } from '../../src/cli/commands.ts';
import type { WorkerCommand } from '../../src/engine/worker-pool.ts';
import { MAIN } from './flowdrop.ts';

/** A secret in the environment of every engine process that tests start: no answer may ever hold it. */
export const ENVIRONMENT_CANARY = 'canary-in-the-environment-83aa';

export const WORKER_COMMAND: WorkerCommand = {
  executable: execPath,
  args: [MAIN, ENGINE_WORKER_COMMAND],
  env: { PATH: '/usr/bin:/bin', FLOWDROP_CANARY: ENVIRONMENT_CANARY },
};

/** Processes that are started from now on and still live, oldest first. */
export function watchEngines(): { list(): readonly ChildProcess[]; stop(): void } {
  const started: ChildProcess[] = [];
  const add = (message: unknown) => {
    started.push((message as { process: ChildProcess }).process); // What Node says on this channel.
  };
  subscribe('child_process', add);
  return {
    list: () => started.filter(({ exitCode, signalCode }) => exitCode === null && signalCode === null),
    stop: () => unsubscribe('child_process', add),
  };
}
