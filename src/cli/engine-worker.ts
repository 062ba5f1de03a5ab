/** `flowdrop engine-worker`: one engine process of `serve` or `query`. Not for people: it speaks over an inherited socket. */
import type { WorkerCommand } from '../engine/worker-process.ts';
import type { Register } from './command.ts';
import type { SelfCommand } from './context.ts';

export const ENGINE_WORKER_COMMAND = 'engine-worker';

export const registerEngineWorker: Register = (program, _context, act) => {
  program.command(ENGINE_WORKER_COMMAND, { hidden: true }).action(async () => {
    await act(async () => {
      const { runWorker } = await import('../engine/worker.ts');
      await runWorker();
      return undefined;
    });
  });
};

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
