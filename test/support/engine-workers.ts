/** How tests start engine processes: as the built program does. */
import { execPath } from 'node:process';
import { ENGINE_WORKER_COMMAND } from '../../src/cli/engine-worker.ts';
import type { WorkerCommand } from '../../src/engine/worker-process.ts';
import { MAIN } from './flowdrop.ts';

/** A secret in the environment of every engine process that tests start: no answer may ever hold it. */
export const ENVIRONMENT_CANARY = 'canary-in-the-environment-83aa';

export const WORKER_COMMAND: WorkerCommand = {
  executable: execPath,
  args: [MAIN, ENGINE_WORKER_COMMAND],
  env: { PATH: '/usr/bin:/bin', FLOWDROP_CANARY: ENVIRONMENT_CANARY },
};
