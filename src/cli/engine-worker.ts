/** `flowdrop engine-worker`: one engine process of `serve`. Not for people: it speaks over an inherited socket. */
import type { Register } from './command.ts';

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
