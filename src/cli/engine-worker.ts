/** How an engine process of `serve` or `query` is started: this program again, by a command that is not for people. */
import type { WorkerCommand } from '../engine/worker-process.ts';
import type { SelfCommand } from './context.ts';

export const ENGINE_WORKER_COMMAND = 'engine-worker';

/** What an engine process needs of the environment. */
const WORKER_VARIABLES = ['PATH', 'TMPDIR', 'LD_LIBRARY_PATH'] as const;

/** How to start an engine process. Callers' SQL runs there: what is not in its environment cannot be read from it. */
export function workerCommand({ executable, args, env }: SelfCommand): WorkerCommand {
  return {
    executable,
    args: [...args, ENGINE_WORKER_COMMAND],
    env: Object.fromEntries(WORKER_VARIABLES.map((name) => [name, env[name]])),
  };
}
