/** `flowdrop serve --catalog` as a user starts it, on a free port. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { MAIN } from './flowdrop.ts';

export interface CatalogProcess {
  readonly url: string;
  /** Its first line on stdout. */
  readonly ready: Readonly<Record<string, unknown>>;
  /** Its log so far, as text. */
  readonly log: readonly string[];
  stop(): Promise<void>;
}

export async function startCatalogProcess(
  store: string,
  args: readonly string[] = [],
  env: Readonly<Record<string, string>> = {},
): Promise<CatalogProcess> {
  const child: ChildProcess = spawn(process.execPath, [MAIN, 'serve', '--catalog', store, '--port', '0', ...args], {
    env: { PATH: process.env['PATH'], HOME: process.env['HOME'], ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const { stdout, stderr } = child;
  if (stdout === null || stderr === null) throw new Error('no pipes');
  const log: string[] = [];
  createInterface({ input: stderr }).on('line', (line) => log.push(line));
  const ready = await new Promise<Readonly<Record<string, unknown>>>((resolve, reject) => {
    createInterface({ input: stdout }).once('line', (line) => resolve(JSON.parse(line)));
    child.once('close', (code) => reject(new Error(`the catalog ended with ${code}: ${log.join('\n')}`)));
  });
  return {
    url: String(ready['url']),
    ready,
    log,
    stop: async () => {
      if (child.exitCode !== null) return;
      const ended = once(child, 'exit');
      child.kill('SIGTERM');
      await ended;
    },
  };
}
