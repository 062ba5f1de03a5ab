/**
 * The product as a user runs it: `dist/main.js` in processes of its own. Everything a test starts is ended by `stop` or
 * with the test's folder.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { manifestKey } from '../../src/ledger/layout.ts';
import type { Manifest } from '../../src/ledger/manifest.ts';
import { runInHost } from './command-host.ts';
import { takeGeneratedData } from './generated-data.ts';
import { endProcess } from './server-process.ts';

export const REPO = fileURLToPath(new URL('../..', import.meta.url));
export const MAIN = join(REPO, 'dist', 'main.js');
export const KEY = 'cus_test_key_4711';

/** One whole session of real trades; not part of the repository. */
export const REAL_DAY_FILE = join(REPO, '..', 'shared', 'data', 'vix-trades-2016-06-01.ndjson.gz');
export const REAL_DAY = '2016-06-01';
export const hasRealDay = existsSync(REAL_DAY_FILE);
if (!hasRealDay) console.warn(`SKIPPED: no ${REAL_DAY_FILE}, so the tests on the real day cannot run`);

export interface Finished {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunOptions {
  readonly cwd: string;
  readonly env?: Readonly<Record<string, string>>;
  /** The exit code that it must have; another one is an error with what it said. */
  readonly code?: number | undefined;
  /** In a process of its own, because the test is about what a process is, or leaves behind. */
  readonly process?: true;
  /** Called with its own process, e.g. to kill it. */
  readonly onStart?: ((child: ChildProcess) => void) | undefined;
}

/**
 * Runs `flowdrop` to its end, in a process that has run other commands if the test needs none of its own. The environment
 * is bare but for what the test gives.
 */
export async function flowdrop(args: readonly string[], options: RunOptions): Promise<Finished> {
  const finished = await finish(args, options);
  const { code, stdout, stderr } = finished;
  if (code === (options.code ?? code)) return finished;
  throw new Error(`flowdrop ${args.join(' ')} ended with ${code}, not ${options.code}: ${stdout}${stderr}`);
}

async function finish(args: readonly string[], options: RunOptions): Promise<Finished> {
  const { cwd } = options;
  const env = bareEnvironment(options.env);
  // Node reads its own variables when it starts.
  const isNodes = Object.keys(env).some((name) => name.startsWith('NODE_'));
  const isOwn = options.process || options.onStart || isNodes;
  if (!isOwn) return await runInHost(MAIN, { args, cwd, env });
  const child = spawn(process.execPath, [MAIN, ...args], { cwd, env });
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (chunk) => {
    stdout += chunk;
  });
  child.stderr.setEncoding('utf8').on('data', (chunk) => {
    stderr += chunk;
  });
  options.onStart?.(child);
  return await new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => resolve({ code, stdout, stderr }));
  });
}

export interface RequestLine {
  readonly endpoint: string;
  readonly status: number;
  readonly rows: number;
  readonly sql?: string;
}

export interface TestService {
  readonly pid: number;
  readonly url: string;
  readonly portalUrl: string;
  /** Trades that it said to hold when it was ready. */
  readonly rows: number | null;
  /** Its log so far. */
  readonly lines: Record<string, unknown>[];
  /** Every request that it has answered so far, from its log. */
  readonly requests: RequestLine[];
  /** Environment for a worker that uses it as fast as it can. */
  readonly env: Readonly<Record<string, string>>;
  stop(): Promise<void>;
  /** Ends it by SIGKILL: it can put nothing in order. */
  kill(): Promise<void>;
}

/** Fast enough for tests; the service's limit is far above it, so that nothing is ever asked twice for a 429. */
const WORKER_RATE = '200';

/** Starts `flowdrop serve` on free ports and waits for its line. @param env beside the bare environment */
export async function startService(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<TestService> {
  const data = await takeGeneratedData(args);
  const limits = ['--requests-per-second', '1000000', '--concurrency', '1'];
  const own = ['--portal-port', '0', '--key', KEY, ...limits, ...args, ...data.args];
  const lines: Record<string, unknown>[] = [];
  const requests: RequestLine[] = [];
  const { child, ready } = await spawnService(own, { FLOWDROP_LOG_LEVEL: 'debug', ...env }, (line) => {
    const entry = parseLine(line);
    if (entry) lines.push(entry);
    if (entry?.['event'] === 'request') requests.push(entry as unknown as RequestLine);
  });
  const { url, portal_url: portalUrl, rows } = ready as unknown as ReadyLine; // What `serve` prints.
  const end = async (signal: NodeJS.Signals) => {
    if (await endProcess(child, signal)) await data.release(child.exitCode === 0);
  };
  return {
    pid: child.pid ?? 0, // It has a number, for it has answered.
    ...{ url, portalUrl, rows, lines, requests },
    env: workerEnvironment(url, portalUrl),
    stop: () => end('SIGTERM'),
    kill: () => end('SIGKILL'),
  };
}

/** `flowdrop serve` on a free port, when it is ready. @param onLine takes the lines of its log */
export async function spawnService(
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  onLine: (line: string) => void,
) {
  const options = { cwd: tmpdir(), env: bareEnvironment(env) };
  const child = spawn(process.execPath, [MAIN, 'serve', '--port', '0', ...args], options);
  const log: string[] = [];
  createInterface({ input: child.stderr }).on('line', (line) => {
    log.push(line);
    onLine(line);
  });
  const ready = await new Promise<Readonly<Record<string, unknown>>>((resolve, reject) => {
    createInterface({ input: child.stdout }).once('line', (line) => resolve(JSON.parse(line)));
    child.once('exit', (code) => reject(new Error(`the service ended with ${code}: ${log.join('\n')}`)));
  });
  return { child, ready, log };
}

interface ReadyLine {
  readonly url: string;
  readonly portal_url: string;
  readonly rows: number | null;
}

export function workerEnvironment(url: string, portalUrl: string): Readonly<Record<string, string>> {
  return {
    FLOWDROP_API_URL: url,
    FLOWDROP_PORTAL_URL: portalUrl,
    FLOWDROP_API_KEY: KEY,
    FLOWDROP_REQUESTS_PER_SECOND: WORKER_RATE,
    FLOWDROP_SNAPSHOTS_PER_SECOND: WORKER_RATE,
    // Most services of the tests have a clock of their own. What checks all clocks is in `test/flow/clocks.slow.test.ts`.
    FLOWDROP_CLOCK: 'source',
  };
}

/** A folder of its own for a test; `remove` takes it away. */
export async function makeFolder(): Promise<{ readonly path: string; remove(): Promise<void> }> {
  const path = await mkdtemp(join(tmpdir(), 'flowdrop-test-'));
  return { path, remove: () => rm(path, { recursive: true, force: true }) };
}

/** Names of all files below a folder, relative, sorted. */
export async function listFiles(folder: string): Promise<readonly string[]> {
  if (!existsSync(folder)) return [];
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .sort();
}

export async function readJson<T>(...path: readonly string[]): Promise<T> {
  return JSON.parse(await readFile(join(...path), 'utf8')) as T;
}

/** What a date is sealed as. @param store folder of a directory store */
export async function readManifest(store: string, date: string, dataset = 'trades'): Promise<Manifest> {
  return await readJson<Manifest>(store, manifestKey(dataset, date));
}

function bareEnvironment(extra: Readonly<Record<string, string>> = {}): Record<string, string> {
  return { PATH: process.env['PATH'] ?? '', HOME: process.env['HOME'] ?? '', TZ: 'Pacific/Auckland', ...extra };
}

/** `undefined` for what is no JSON. */
export function parseLine(line: string): Record<string, unknown> | undefined {
  try {
    return JSON.parse(line) as Record<string, unknown>;
  } catch {
    return undefined;
  }
}
