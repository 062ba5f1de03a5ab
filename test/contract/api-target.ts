/**
 * Where the contract of the API is tested: on services of this process, or, with `FLOWDROP_CONTRACT_URL`,
 * `FLOWDROP_CONTRACT_PORTAL_URL` and `FLOWDROP_CONTRACT_KEY`, at a real address. There one request a second is sent and a
 * 429 is waited out; here the clock is moved instead.
 */
import type { ChildProcess } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { env } from 'node:process';
import { setTimeout as delay } from 'node:timers/promises';
import { stringify } from 'yaml';
import { buildEntry, describeEntry, hashKey } from '../../src/service/access/key-file.ts';
import { openDirectoryStore } from '../../src/store/directory.ts';
import { startArchiveService } from '../archive/archive-service.ts';
import { KEY, type Reply, startTestService, type TestService } from '../service/running-service.ts';
import { watchEngines } from '../support/engine-workers.ts';
import { flowdrop, workerEnvironment } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';

export interface Target {
  readonly isReal: boolean;
  /** Whether it serves sealed drops. */
  readonly isArchive: boolean;
  /** Entitled to historical SQL, and to the realtime product where `hasRealtime`. */
  readonly key: string;
  send(path: string, init: RequestInit): Promise<Reply>;
  sendPortal(path: string, init: RequestInit): Promise<Reply>;
}

/** Keys of the key file, besides `KEY` of the command line. */
export const KEYS = {
  trial: 'cus_trial_of_historical',
  historicalOnly: 'apikey_historical_only',
  realtimeOnly: 'cus_realtime_only',
} as const;

export const ROW_LIMIT = 50;
export const TRIAL_ROW_LIMIT = 5;
export const SCAN_LIMIT = 50_000;
export const CHAIN_LIMIT = 10;
const ROWS = 20_000;

/** Services of this process. */
export interface Services {
  /** No rate limit on historical SQL, all keys, small row and scan limits. */
  readonly open: TestService;
  /** The specification's rate limit, a small chain limit, and data beyond the lookback; its clock is moved about. */
  readonly strict: TestService;
  /** One engine, which its tests overload and kill, in March 2025. */
  readonly frail: TestService;
  /** The process of the engine that answers the queries of `frail`. */
  findFrailEngine(): ChildProcess;
  stop(): Promise<void>;
}

/** Set by `api-archive.slow.test.ts`: the services have the same trades from sealed drops. */
const isArchive = env['FLOWDROP_CONTRACT_ARCHIVE'] === '1';

const { FLOWDROP_CONTRACT_URL: url, FLOWDROP_CONTRACT_PORTAL_URL: portalUrl, FLOWDROP_CONTRACT_KEY: key } = env;

/** Between two requests to a real address, with a little more than the limit's second. */
const PACE_MS = 1_050;
const MAX_WAITS = 10;

/** The real address, or undefined when none is given. @throws when only a part of it is given */
export function openRealTarget(): Target | undefined {
  if (!url && !portalUrl && !key) return undefined;
  if (!url || !portalUrl || !key) {
    throw new Error('FLOWDROP_CONTRACT_URL, FLOWDROP_CONTRACT_PORTAL_URL and FLOWDROP_CONTRACT_KEY go together');
  }
  let nextMs = 0;
  const ask = async (address: string, init: RequestInit): Promise<Reply> => {
    for (let waits = 0; ; waits += 1) {
      await delay(Math.max(0, nextMs - performance.now()));
      const response = await fetch(address, init);
      const text = await response.text();
      nextMs = performance.now() + PACE_MS;
      const after = Number(response.headers.get('retry-after') ?? 1);
      if (response.status !== 429 || waits >= MAX_WAITS) {
        return { status: response.status, headers: response.headers, text, body: parse(text) };
      }
      nextMs = performance.now() + after * 1_000;
    }
  };
  return {
    isReal: true,
    isArchive: false,
    key,
    send: (path, init) => ask(`${url}${path}`, init),
    sendPortal: (path, init) => ask(`${portalUrl}${path}`, init),
  };
}

/** The service `open` as a target: each request comes a second after the one before. */
export function openLocalTarget(services: () => Services): Target {
  const open = () => {
    services().open.advance(1_000);
    return services().open;
  };
  return {
    isReal: false,
    isArchive,
    key: KEY,
    send: (path, init) => open().send(path, init),
    sendPortal: (path, init) => open().sendPortal(path, init),
  };
}

/** Limits that tests run into, alike over trades and over drops. */
const SMALL = { rowLimit: ROW_LIMIT, trialRowLimit: TRIAL_ROW_LIMIT, scanLimit: SCAN_LIMIT, concurrency: 2 };
const DATA = { generateRows: ROWS, seed: 11 } as const;

async function startOverTrades(_folder: string, keyFile: string) {
  const [open, strict] = await Promise.all([
    startTestService({ ...DATA, ...SMALL, generateSessions: 3, keyFile }),
    startTestService({
      generateSessions: 14,
      generateRows: 2_000,
      requestsPerSecond: 1,
      chainLimit: CHAIN_LIMIT,
      concurrency: 1,
    }),
  ]);
  const frail = await startTestService({
    ...DATA,
    asOf: '2025-03-05T23:15:00Z',
    generateSessions: 5,
    earliest: '2025-02-28',
    concurrency: 1,
  });
  return { open, strict, frail };
}

/** The trades of a service, exported by a worker. */
async function startOverDrops(folder: string, keyFile: string) {
  const path = join(folder, 'drops');
  const source = await startTestService({ ...DATA, generateSessions: 3 });
  const env = { ...workerEnvironment(source.url, source.portalUrl), FLOWDROP_API_KEY: KEY };
  await writeJob(folder, { to: path, reports: '' });
  const run = await flowdrop(['--jobs', folder, 'run', 'nightly'], { cwd: folder, env });
  await source.stop();
  if (run.code !== 0) throw new Error(run.stderr);
  const store = { open: () => openDirectoryStore(path), access: { kind: 'directory', path } } as const;
  const [open, strict] = await Promise.all([
    startArchiveService(store, 'trades', { ...SMALL, keyFile }),
    startArchiveService(store, 'trades', { requestsPerSecond: 1, concurrency: 1 }),
  ]);
  const frail = await startArchiveService(store, 'trades', { concurrency: 1 });
  return { open, strict, frail };
}

export async function startServices(): Promise<Services> {
  const folder = await mkdtemp(join(tmpdir(), 'flowdrop-contract-'));
  const keyFile = join(folder, 'keys.yaml');
  await writeFile(keyFile, writeKeys());
  const engines = watchEngines();
  const { open, strict, frail } = await (isArchive ? startOverDrops : startOverTrades)(folder, keyFile);
  return {
    open,
    strict,
    frail,
    // The first of its engines parses, and one that was killed has a successor.
    findFrailEngine: () => {
      const engine = engines.list().at(-1);
      if (!engine) throw new Error('no engine process was started');
      return engine;
    },
    stop: async () => {
      engines.stop();
      await Promise.all([open.stop(), strict.stop(), frail.stop()]);
      await rm(folder, { recursive: true, force: true });
    },
  };
}

function writeKeys(): string {
  const write = (apiKey: string, name: string, historical: 'active' | 'trialing' | 'none', realtime: boolean) =>
    describeEntry(buildEntry(hashKey(apiKey), { name, historical, realtime }));
  const keys = [
    write(KEYS.trial, 'trial', 'trialing', true),
    write(KEYS.historicalOnly, 'historical only', 'active', false),
    write(KEYS.realtimeOnly, 'realtime only', 'none', true),
  ];
  return stringify({ keys });
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // The body of a gateway, or none.
  }
}
