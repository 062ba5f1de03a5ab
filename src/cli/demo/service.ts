/** The options data service as a child process of the demo. */

import { Fault } from '../../core/errors.ts';
import { explainAbort } from '../../core/process-end.ts';
import { startChild } from '../child.ts';
import type { SelfCommand } from '../context.ts';

export interface DemoService {
  readonly url: string;
  stop(): Promise<void>;
}

/** Starts `serve` on free ports and waits for its line. @throws Fault `DEMO_FAILED` when it ends before that */
export async function startService(
  self: SelfCommand,
  cwd: string,
  options: readonly string[],
  signal: AbortSignal,
): Promise<DemoService> {
  const args = [...self.args, 'serve', '--port', '0', '--portal-port', '0', ...options];
  const said: string[] = [];
  return await new Promise<DemoService>((resolve, reject) => {
    const child = startChild(
      { executable: self.executable, args, cwd, env: { ...self.env, FLOWDROP_LOG_LEVEL: 'warn' } },
      {
        onOut: (line) => resolve({ url: (JSON.parse(line) as { url: string }).url, stop: () => stop(child) }),
        onErr: (line) => said.push(line),
      },
    );
    signal.addEventListener('abort', () => child.stop(), { once: true });
    child.done.then((code) => {
      const hint = explainAbort({ code, signal: undefined });
      const message = `the service ended with exit code ${code}: ${said.join('\n')}`;
      reject(new Fault('DEMO_FAILED', message, hint === '' ? {} : { hint }));
    }, reject);
  });
}

async function stop(child: ReturnType<typeof startChild>): Promise<void> {
  child.stop();
  await child.done;
}
