/**
 * The service's side of one engine process. Invariant: a statement ends with its result, its error, or the process;
 * there is no fourth outcome, and a killed process never answers again.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { rm } from 'node:fs/promises';
import type { Duplex } from 'node:stream';
import { systemClock } from '../core/clock.ts';
import { Fault } from '../core/errors.ts';
import { makeFolder } from '../core/folder.ts';
import { EngineFault } from './engine-fault.ts';
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

/** Size of the end of the process's stderr that is kept for the message when it dies. */
const LAST_WORDS_BYTES = 2_048;
/** Opening takes a fraction of a second, on a busy machine a few seconds. */
const START_TIMEOUT_MS = 60_000;

export class WorkerProcess {
  /** Resolves when the process is gone. */
  readonly ended: Promise<void>;
  readonly #child: ChildProcess;
  readonly #socket: WorkerSocket;
  #lastWords = '';
  #hasEnded = false;

  /** @throws the engine's Fault if it does not open, such as `ENGINE_BUSY` */
  static async start(command: WorkerCommand, options: WorkerOptions): Promise<WorkerProcess> {
    await makeFolder(options.path);
    const child = spawn(command.executable, command.args, {
      // A separate folder: the program reads a settings file from its working directory.
      cwd: options.path,
      env: { ...command.env },
      stdio: ['ignore', 'ignore', 'pipe', 'pipe'],
    });
    const worker = new WorkerProcess(child);
    worker.#socket.writeMessage(options);
    const over = new AbortController();
    // A process that hangs while it opens would block its slot forever.
    systemClock.sleep(START_TIMEOUT_MS, over.signal).then(
      () => child.kill('SIGKILL'),
      () => {}, // It has opened, or failed to.
    );
    try {
      await worker.#readHead();
    } finally {
      over.abort();
    }
    return worker;
  }

  private constructor(child: ChildProcess) {
    this.#child = child;
    const socket = child.stdio[3] as Duplex; // A pipe in both directions, as configured in `stdio`.
    socket.on('error', () => {}); // The process has ended; `ended` and the next statement report it.
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

  /**
   * Runs one statement to its end. @returns its result, which must be read to the end before the next statement
   * @throws EngineFault
   */
  async run(statement: WorkerStatement): Promise<AsyncGenerator<Uint8Array>> {
    this.#socket.writeMessage(statement);
    const { bytes } = await this.#readHead();
    return this.#socket.readBytes(bytes);
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
      throw new EngineFault(0, `the engine process ended: ${this.#lastWords.trim() || 'without output'}`);
    }
    if ('error' in head) throw toFault(head);
    return head;
  }
}

function toFault({ code, error, fault }: WorkerFailure): Fault {
  if (!fault) return new EngineFault(code, error);
  return new Fault(fault.code, error, { kind: fault.kind, hint: fault.hint });
}

/** Removes the files of an ended process. */
export async function removeWorkerFolder(path: string): Promise<void> {
  await rm(path, { recursive: true, force: true, maxRetries: 3 });
}
