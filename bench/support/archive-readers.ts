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
import type { Store } from '../../src/store/store.ts';
import { WORKER_COMMAND } from '../../test/support/engine-workers.ts';
import { flowdrop } from '../../test/support/flowdrop.ts';
import type { ArchiveQuestion } from './archive-questions.ts';
import { YEAR_DATASET, type Year } from './year.ts';

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

export async function openFlowdropReader(year: Year, store: Store): Promise<ArchiveReader> {
  const folder = await realpath(await mkdtemp(join(tmpdir(), 'flowdrop-bench-archive-')));
  const others = listChildren();
  const pool = await openWorkerPool({ ...describeWorkers(folder), command: WORKER_COMMAND });
  const archive = await openArchive({
    ...{ store, readAccess: async () => ({ kind: 'directory' as const, path: year.folder }) },
    ...{ datasets: [YEAR_DATASET], types: 'typed' as const, folder },
  });
  const lastSession = year.dates.at(-1) ?? '';
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
      const from = ['--from-store', year.folder, '--dataset', YEAR_DATASET];
      const started = performance.now();
      const words = ['query', sql, ...from, '--format', 'json', '--out', path];
      const { code, stderr } = await flowdrop(words, { cwd: folder });
      if (code !== 0) throw new Error(`flowdrop query ended with ${code}: ${stderr}`);
      return await readAnswer(started);
    },
    async close() {
      await pool.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

export interface Peer {
  readonly engine: 'duckdb' | 'polars';
  /** A Python with DuckDB and Polars; absent: DuckDB from npm. */
  readonly python?: string | undefined;
}

/** @param folder root of the store */
export async function openPeer(peer: Peer, folder: string): Promise<ArchiveReader> {
  const files = `${folder}/${YEAR_DATASET}/**/*.parquet`;
  const warm = await PeerProcess.start(peer, files);
  return {
    name: `${peer.engine === 'duckdb' ? 'DuckDB' : 'Polars'} ${warm.version}`,
    pids: warm.pid === undefined ? [] : [warm.pid],
    ask: async (question) => await warm.ask(question),
    async askCold(question) {
      const started = performance.now();
      const cold = await PeerProcess.start(peer, files);
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

  /** @param files a pattern of all */
  static async start({ engine, python }: Peer, files: string): Promise<PeerProcess> {
    const entry = fileURLToPath(new URL(`archive-peer.${python === undefined ? 'mjs' : 'py'}`, import.meta.url));
    const child = spawn(python ?? process.execPath, [entry, engine, files], {
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
