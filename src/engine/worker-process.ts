/**
 * The service's side of one engine process. Invariant: a statement ends with its result, its error, or the process;
 * there is no fourth state, and a process that was killed never answers again.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { rm } from 'node:fs/promises';
import type { Duplex } from 'node:stream';
import { EngineFault } from './fault.ts';
import type { PooledEngine } from './pool.ts';
import {
  type WorkerFailure,
  type WorkerOptions,
  type WorkerResult,
  WorkerSocket,
  type WorkerStatement,
} from './worker-socket.ts';

/** How to start an engine process. */
export interface WorkerCommand {
  readonly executable: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** The end of what the process printed, for the message when it dies. */
const LAST_WORDS_BYTES = 2_048;

export class WorkerProcess implements PooledEngine {
  /** Resolves when the process is gone. */
  readonly ended: Promise<void>;
  readonly #child: ChildProcess;
  readonly #socket: WorkerSocket;
  #lastWords = '';
  #hasEnded = false;

  /** @throws EngineFault when the engine does not open */
  static async start(command: WorkerCommand, options: WorkerOptions): Promise<WorkerProcess> {
    const child = spawn(command.executable, command.args, {
      env: { ...command.env },
      stdio: ['ignore', 'ignore', 'pipe', 'pipe'],
    });
    const worker = new WorkerProcess(child);
    worker.#socket.writeMessage(options);
    await worker.#readHead();
    return worker;
  }

  private constructor(child: ChildProcess) {
    this.#child = child;
    const socket = child.stdio[3] as Duplex; // A pipe both ways, as `stdio` asks for.
    socket.on('error', () => {}); // The end of the process; `ended` and the next statement tell it.
    this.#socket = new WorkerSocket(socket);
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#lastWords = (this.#lastWords + text).slice(-LAST_WORDS_BYTES);
    });
    this.ended = new Promise((resolve) => {
      const end = () => {
        this.#hasEnded = true;
        resolve();
      };
      child.once('exit', end);
      child.once('error', (error) => {
        this.#lastWords = error.message;
        end();
      });
    });
  }

  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  async rows<Row extends object>(sql: string): Promise<readonly Row[]> {
    const pieces: Uint8Array[] = [];
    for await (const piece of await this.stream(sql, 'JSON')) pieces.push(piece);
    return (JSON.parse(Buffer.concat(pieces).toString('utf8')) as { data: Row[] }).data;
  }

  async command(sql: string): Promise<void> {
    for await (const _piece of await this.stream(sql, 'Null'));
  }

  async stream(sql: string, format: string): Promise<AsyncIterable<Uint8Array>> {
    this.#socket.writeMessage({ sql, format } satisfies WorkerStatement);
    const { bytes } = await this.#readHead();
    const pieces = this.#socket.readBytes(bytes);
    return { [Symbol.asyncIterator]: () => drainOnReturn(pieces) };
  }

  /** Lets the process close its engine and end. */
  async close(): Promise<void> {
    this.#socket.end();
    await this.ended;
  }

  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.ended;
  }

  async #readHead(): Promise<WorkerResult> {
    const head = await this.#socket.readMessage<WorkerResult | WorkerFailure>();
    if (!head) {
      await this.ended;
      throw new EngineFault(0, `the engine process ended: ${this.#lastWords.trim() || 'without a word'}`);
    }
    if ('error' in head) throw new EngineFault(head.code, head.error);
    return head;
  }
}

/** A reader who leaves early must not leave bytes for the next statement. */
async function* drainOnReturn(pieces: AsyncGenerator<Uint8Array>): AsyncGenerator<Uint8Array> {
  let isDone = false;
  try {
    while (!isDone) {
      const next = await pieces.next();
      isDone = next.done === true;
      if (!next.done) yield next.value;
    }
  } finally {
    while (!isDone) isDone = (await pieces.next()).done === true;
  }
}

/** Removes what an ended process left on disk. */
export async function removeWorkerFolder(path: string): Promise<void> {
  await rm(path, { recursive: true, force: true, maxRetries: 3 });
}
