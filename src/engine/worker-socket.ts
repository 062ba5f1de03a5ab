/**
 * The protocol between the service and an engine process, over one socket: JSON messages with a length prefix, and raw
 * bytes after a message that announces them. Invariant: only one side sends at a time, so messages need no numbers.
 */
import type { Duplex } from 'node:stream';
import type { FailureKind } from '../core/errors.ts';
import { EngineFault } from './engine-fault.ts';

/** The first message to a new process. */
export interface WorkerOptions {
  /** Folder of the engine's data; only this process uses it. */
  readonly path: string;
  /** Maximum size of a result, bytes; a longer one is refused with the code of TOO_MANY_ROWS_OR_BYTES. */
  readonly maxResultBytes: number;
}

export interface WorkerStatement {
  readonly sql: string;
  readonly format: string;
}

/** `bytes` raw bytes follow. */
export interface WorkerResult {
  readonly bytes: number;
}

export interface WorkerFailure {
  /** ClickHouse's error number. */
  readonly code: number;
  readonly error: string;
  /** Set if the fault is not from a statement: the engine did not open. */
  readonly fault?: { readonly code: string; readonly kind: FailureKind; readonly hint: string | undefined };
}

/** Bytes of the length prefix of a message. */
const PREFIX_BYTES = 4;
/** Maximum bytes to buffer before they are requested. */
const READ_AHEAD_BYTES = 1_048_576;

export class WorkerSocket {
  readonly #socket: Duplex;
  /** Received chunks that were not read yet. */
  readonly #chunks: Buffer[] = [];
  #held = 0;
  #rest: Buffer = Buffer.alloc(0);
  #isEnded = false;
  #wake: () => void = () => {};

  constructor(socket: Duplex) {
    this.#socket = socket;
    // Not the stream's own iterator: its small buffer would pause and resume the socket with every chunk.
    socket.on('data', (chunk: Buffer) => {
      this.#chunks.push(chunk);
      this.#held += chunk.length;
      if (this.#held > READ_AHEAD_BYTES) socket.pause();
      this.#wake();
    });
    const end = () => {
      this.#isEnded = true;
      this.#wake();
    };
    socket.on('end', end).on('close', end);
  }

  /** The next message, or `undefined` if the other side is gone. */
  async readMessage<Message>(): Promise<Message | undefined> {
    if (!(await this.#fill(PREFIX_BYTES))) return undefined;
    const length = this.#take(PREFIX_BYTES).readUInt32LE(0);
    if (!(await this.#fill(length))) return undefined;
    return JSON.parse(this.#take(length).toString('utf8')) as Message;
  }

  /** The `bytes` raw bytes after the last message, as they arrive. @throws EngineFault if the other side is gone */
  async *readBytes(bytes: number): AsyncGenerator<Buffer> {
    for (let left = bytes; left > 0; ) {
      if (this.#rest.length === 0 && !(await this.#fill(1))) throw new EngineFault(0, 'the engine process ended');
      const piece = this.#take(Math.min(left, this.#rest.length));
      left -= piece.length;
      yield piece;
    }
  }

  writeMessage(message: object): void {
    const text = Buffer.from(JSON.stringify(message));
    const prefix = Buffer.alloc(PREFIX_BYTES);
    prefix.writeUInt32LE(text.length);
    this.#socket.write(Buffer.concat([prefix, text]));
  }

  /** Writes raw bytes; resolves when the other side has read all but the pipe's buffer. */
  async writeBytes(bytes: Uint8Array): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#socket.write(bytes, () => resolve());
    });
  }

  end(): void {
    this.#socket.end();
  }

  /** Reads until `bytes` are buffered. @returns whether they are */
  async #fill(bytes: number): Promise<boolean> {
    if (this.#rest.length >= bytes) return true;
    const pieces = [this.#rest];
    for (let held = this.#rest.length; held < bytes; ) {
      const chunk = await this.#next();
      if (!chunk) return false;
      pieces.push(chunk);
      held += chunk.length;
    }
    this.#rest = pieces.length === 2 && pieces[0]?.length === 0 ? (pieces[1] as Buffer) : Buffer.concat(pieces);
    return true;
  }

  async #next(): Promise<Buffer | undefined> {
    while (this.#chunks.length === 0 && !this.#isEnded) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    const chunk = this.#chunks.shift();
    this.#held -= chunk?.length ?? 0;
    if (this.#held <= READ_AHEAD_BYTES && this.#socket.isPaused()) this.#socket.resume();
    return chunk;
  }

  #take(bytes: number): Buffer {
    const taken = this.#rest.subarray(0, bytes);
    this.#rest = this.#rest.subarray(bytes);
    return taken;
  }
}
