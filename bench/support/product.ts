/** The product under measurement as a user runs it: compiled, in processes of its own, with a bare environment. */
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startServeProcess } from '../../src/cli/demo.ts';
import { startProcess } from '../../src/daemon/run-process.ts';
import { MAIN, REPO } from '../../test/support/flowdrop.ts';
import { say } from './bench.ts';

export const KEY = 'cus_bench';
/** Requests a second of the worker and the service: the bench measures work, not waiting. */
export const REQUESTS_PER_SECOND = 1000;
export const JOB_FILE = join(REPO, 'jobs', 'nightly-trades.yaml');

type ServeProcess = Awaited<ReturnType<typeof startServeProcess>>;

/** Runs the action with a temporary folder, which is removed afterwards. */
export async function withFolder<T>(action: (folder: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'flowdrop-bench-'));
  try {
    return await action(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Runs the action against `flowdrop serve` with one generated session. */
export async function withService<T>(
  rows: number,
  action: (service: ServeProcess) => Promise<T>,
  options: readonly string[] = ['--generate', '1'],
): Promise<T> {
  const data = ['--generate-rows', String(rows), ...options];
  return await withFolder((cwd) => withProcess(cwd, data, REQUESTS_PER_SECOND, action));
}

/**
 * Runs the action against `flowdrop serve` over a folder, which holds one generated session afterwards.
 * @param asOf the folder has its session: show it as it was at this instant @param port default: any free one
 */
export async function withServiceOn<T>(
  dataDir: string,
  rows: number,
  action: (service: ServeProcess) => Promise<T>,
  { asOf, port = 0 }: { readonly asOf?: string; readonly port?: number } = {},
): Promise<T> {
  const made = ['--generate', '1', '--generate-rows', String(rows)];
  const data = [...(asOf === undefined ? made : ['--as-of', asOf]), '--data-dir', dataDir, '--port', String(port)];
  return await withProcess(REPO, data, 1_000_000, action);
}

async function withProcess<T>(
  cwd: string,
  data: readonly string[],
  requestsPerSecond: number,
  action: (service: ServeProcess) => Promise<T>,
): Promise<T> {
  const args = [...data, '--requests-per-second', String(requestsPerSecond), '--key', KEY];
  const service = await startServeProcess(self(), cwd, args, new AbortController().signal);
  try {
    return await action(service);
  } finally {
    await service.stop();
  }
}

/** Environment of a worker that is as fast as it can be. */
export function workerEnv(url: string): Readonly<Record<string, string>> {
  const pace = String(REQUESTS_PER_SECOND);
  return {
    ...{ FLOWDROP_API_URL: url, FLOWDROP_API_KEY: KEY },
    ...{ FLOWDROP_REQUESTS_PER_SECOND: pace, FLOWDROP_LOG_LEVEL: 'warn' },
  };
}

/**
 * Runs a command of flowdrop with `--json` to its end and returns its document.
 * @param onLine takes the lines of its log; by default they are shown
 */
export async function runJson(
  cwd: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  onLine?: (line: string) => void,
) {
  const out: string[] = [];
  const err: string[] = [];
  const { executable, args: base, env: bare } = self();
  const child = startProcess(
    { executable, args: [...base, '--json', ...args], cwd, env: { ...bare, ...env } },
    {
      onOut: (line) => out.push(line),
      // Warnings explain a number that looks wrong, a retry for instance.
      onErr: (line) => {
        err.push(line);
        if (onLine) onLine(line);
        else say(`  ${line}`);
      },
    },
  );
  const { code } = await child.done;
  if (code !== 0) throw new Error(`flowdrop ${args.join(' ')} ended with ${code}: ${err.join('\n')}`);
  return JSON.parse(out.join('\n')) as unknown;
}

export function self() {
  if (!existsSync(MAIN)) throw new Error('dist/ is missing: run `npm run build` first');
  const env = { PATH: process.env['PATH'], HOME: process.env['HOME'] };
  return { executable: process.execPath, args: [MAIN], env };
}
