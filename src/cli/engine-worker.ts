/** How to start an engine process of `serve` or `query`: this program again, with a command that is not for people. */
import type { WorkerCommand } from '../engine/worker-process.ts';
import type { SelfCommand } from './context.ts';

export const ENGINE_WORKER_COMMAND = 'engine-worker';

/** Environment variables that an engine process needs. */
const WORKER_VARIABLES = ['PATH', 'TMPDIR', 'LD_LIBRARY_PATH'] as const;

/** How to start an engine process. Callers' SQL runs there, and it cannot read variables that are not passed on. */
export function workerCommand({ executable, args, env }: SelfCommand): WorkerCommand {
  return {
    executable,
    args: [...args, ENGINE_WORKER_COMMAND],
    env: Object.fromEntries(WORKER_VARIABLES.map((name) => [name, env[name]])),
  };
}
