/**
 * The readers that answer a question about an archive: flowdrop through its own path, and its peers over the same files.
 * Warm, a reader stays open and is asked again and again; cold, it is a process that answers one question and ends, as a
 * user who types one sees it. The peers are those of PyPI where Python can be had, else DuckDB from npm.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { mkdtemp, readFile, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { describeWorkers, openArchive } from '../../src/archive/archive.ts';
import { planWorkerMemory, readMemoryBytes } from '../../src/core/machine.ts';
import { openWorkerPool } from '../../src/engine/worker-pool.ts';
import type { Store, StoreAccess } from '../../src/store/store.ts';
import { WORKER_COMMAND } from '../../test/support/engine-workers.ts';
import { flowdrop } from '../../test/support/flowdrop.ts';
import type { S3Server } from '../../test/support/s3-server.ts';
import type { ArchiveQuestion } from './archive-questions.ts';
import { YEAR_DATASET } from './year.ts';

export type AnswerRow = readonly unknown[];

export interface ArchiveAnswer {
  readonly ms: number;
  readonly rows: readonly AnswerRow[];
}

export interface ArchiveReader {
  readonly name: string;
  /** The processes of the open reader. */
  readonly pids: readonly number[];
  /** Asks the open reader. */
  ask(question: ArchiveQuestion): Promise<ArchiveAnswer>;
  /** Starts a new process, asks it, and waits for its end. */
  askCold(question: ArchiveQuestion): Promise<ArchiveAnswer>;
  close(): Promise<void>;
}

/** What processes have used since their start, as the kernel counts it; zeros where it does not (other systems than Linux). */
export interface ProcessUse {
  readonly cpuMs: number;
  /** Read from files, pipes and sockets. */
  readonly bytes: number;
}

/** The kernel's clock ticks a second, in `/proc/PID/stat`. */
const TICKS = 100;

export function readUse(pids: readonly number[]): ProcessUse {
  const uses = pids.map((pid) => {
    const io = readProc(pid, 'io');
    // After the name, which may have spaces: user and system time are the 12th and 13th field.
    const fields = readProc(pid, 'stat')
      .replace(/^.*\) /s, '')
      .split(' ');
    const ticks = Number(fields[11] ?? 0) + Number(fields[12] ?? 0);
    return { cpuMs: (ticks * 1000) / TICKS, bytes: Number(/^rchar: (\d+)/m.exec(io)?.[1] ?? 0) };
  });
  return {
    cpuMs: uses.reduce((sum, use) => sum + use.cpuMs, 0),
    bytes: uses.reduce((sum, use) => sum + use.bytes, 0),
  };
}

function readProc(pid: number, name: string): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'utf8');
  } catch {
    return '';
  }
}

/** Processes that this one has started and that still run. */
function listChildren(): readonly number[] {
  return readProc(process.pid, `task/${process.pid}/children`).split(' ').filter(Boolean).map(Number);
}

/** How the files are reached. */
export interface ArchivePlace {
  readonly store: Store;
  readonly access: StoreAccess;
  /** As `--from-store` takes it. */
  readonly location: string;
  /** Settings of the environment that the location needs. */
  readonly env?: Readonly<Record<string, string>> | undefined;
}

export async function openFlowdropReader(place: ArchivePlace, lastSession: string): Promise<ArchiveReader> {
  const { store, access, location, env } = place;
  const folder = await realpath(await mkdtemp(join(tmpdir(), 'flowdrop-bench-archive-')));
  const others = listChildren();
  const pool = await openWorkerPool({ ...describeWorkers(folder), command: WORKER_COMMAND });
  const archive = await openArchive({
    ...{ store, readAccess: async () => access, datasets: [YEAR_DATASET], types: 'typed' as const, folder },
  });
  const limits = { lastSession, maxMemoryBytes: planWorkerMemory(readMemoryBytes()) };
  const { signal } = new AbortController();
  const pids = [process.pid, ...listChildren().filter((pid) => !others.includes(pid))];
  const path = join(folder, 'answer');
  const readAnswer = async (startedMs: number): Promise<ArchiveAnswer> => {
    const ms = performance.now() - startedMs;
    const rows = JSON.parse(await readFile(path, 'utf8')) as Readonly<Record<string, unknown>>[]; // The shape of the format.
    await rm(path);
    return { ms, rows: rows.map((row) => Object.values(row)) };
  };
  return {
    name: 'flowdrop',
    pids,
    async ask({ flowdrop: sql }) {
      const started = performance.now();
      await archive.query(pool, { sql, format: 'json', path, ...limits, signal });
      return await readAnswer(started);
    },
    async askCold({ flowdrop: sql }) {
      const from = ['--from-store', location, '--dataset', YEAR_DATASET];
      const started = performance.now();
      const { code, stderr } = await flowdrop(['query', sql, ...from, '--format', 'json', '--out', path], {
        cwd: folder,
        ...(env ? { env } : {}),
      });
      if (code !== 0) throw new Error(`flowdrop query ended with ${code}: ${stderr}`);
      return await readAnswer(started);
    },
    async close() {
      await pool.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

export interface PeerSetup {
  /** A pattern of all files. */
  readonly files: string;
  /** Statements that make the table `trades`. */
  readonly duckdb: readonly string[];
  /** Polars' own options of the store. */
  readonly storageOptions?: Readonly<Record<string, string>> | undefined;
}

export interface Peer {
  readonly engine: 'duckdb' | 'polars';
  /** A Python with DuckDB and Polars; absent: DuckDB from npm. */
  readonly python?: string | undefined;
}

export function describeFiles(folder: string): PeerSetup {
  const files = `${folder}/${YEAR_DATASET}/**/*.parquet`;
  return { files, duckdb: [`CREATE VIEW trades AS SELECT * FROM read_parquet('${files}', hive_partitioning = true)`] };
}

/** The same in S3. */
export function describeObjects(server: S3Server): PeerSetup {
  return {
    files: `s3://${server.bucket}/${YEAR_DATASET}/**/*.parquet`,
    duckdb: [],
    storageOptions: {
      aws_endpoint_url: server.endpoint,
      aws_allow_http: 'true',
      aws_access_key_id: server.accessKeyId,
      aws_secret_access_key: server.secretAccessKey,
      aws_region: server.region,
    },
  };
}

export async function openPeer(peer: Peer, setup: PeerSetup): Promise<ArchiveReader> {
  const warm = await PeerProcess.start(peer, setup);
  return {
    name: `${peer.engine === 'duckdb' ? 'DuckDB' : 'Polars'} ${warm.version}`,
    pids: warm.pid === undefined ? [] : [warm.pid],
    ask: async (question) => await warm.ask(question),
    async askCold(question) {
      const started = performance.now();
      const cold = await PeerProcess.start(peer, setup);
      const { rows } = await cold.ask(question);
      await cold.close();
      return { ms: performance.now() - started, rows };
    },
    close: async () => await warm.close(),
  };
}

class PeerProcess {
  readonly version: string;
  readonly #child: ChildProcess;
  readonly #lines: AsyncIterator<string>;

  static async start({ engine, python }: Peer, setup: PeerSetup): Promise<PeerProcess> {
    const entry = fileURLToPath(new URL(`archive-peer.${python === undefined ? 'mjs' : 'py'}`, import.meta.url));
    const child = spawn(python ?? process.execPath, [entry, engine, JSON.stringify(setup)], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    const { version } = await readLine<{ version: string }>(lines, engine);
    return new PeerProcess(child, lines, version);
  }

  private constructor(child: ChildProcess, lines: AsyncIterator<string>, version: string) {
    this.#child = child;
    this.#lines = lines;
    this.version = version;
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  async ask({ name, peers: sql }: ArchiveQuestion): Promise<ArchiveAnswer> {
    this.#child.stdin?.write(`${JSON.stringify({ sql })}\n`);
    return await readLine<ArchiveAnswer>(this.#lines, name);
  }

  async close(): Promise<void> {
    const ended = this.#child.exitCode === null ? once(this.#child, 'exit') : undefined;
    this.#child.stdin?.end();
    await ended;
  }
}

async function readLine<T>(lines: AsyncIterator<string>, what: string): Promise<T> {
  const { value, done } = await lines.next();
  if (done) throw new Error(`the peer ended at "${what}"; its own message is above`);
  return JSON.parse(value) as T; // Printed by archive-peer.
}
