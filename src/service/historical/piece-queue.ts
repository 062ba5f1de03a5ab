/**
 * Pieces of one result, queued between the engine that produces them and the caller that reads them, each at its own
 * speed. Invariant: order is kept, a failure comes after the pieces before it, and leaving the iteration drops the
 * rest. The total size of all queues is bounded: above the limit of `HeldBytes` a producer waits for its own caller,
 * and so keeps its engine busy.
 */
import { EventEmitter, once } from 'node:events';

/** Bytes that each queue may always hold, so that callers who do not read never slow down one who does. */
const ALWAYS_ALLOWED_BYTES = 4_000_000;

/** Bytes waiting for callers, summed over all queues. */
export class HeldBytes {
  readonly #limit: number;
  readonly #events = new EventEmitter().setMaxListeners(0);
  #held = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  get isFull(): boolean {
    return this.#held > this.#limit;
  }

  /** @param bytes negative: they were taken */
  add(bytes: number): void {
    this.#held += bytes;
    if (bytes < 0) this.#events.emit('taken');
  }

  /** Resolves when bytes were taken or the signal was aborted. */
  async change(signal: AbortSignal): Promise<void> {
    await once(this.#events, 'taken', { signal }).catch(() => {}); // Only the signal rejects.
  }
}

export class PieceQueue implements AsyncIterable<Uint8Array> {
  readonly #total: HeldBytes;
  #pieces: Uint8Array[] = [];
  #held = 0;
  #wake: () => void = () => {};
  #isEnded = false;
  #isLeft = false;
  #failure: { readonly reason: unknown } | undefined;

  constructor(total: HeldBytes) {
    this.#total = total;
  }

  /** Whether the reader has left. */
  get isLeft(): boolean {
    return this.#isLeft;
  }

  /** Adds a piece; resolves when there is room for the next one, or when the signal is aborted. */
  async push(piece: Uint8Array, signal: AbortSignal): Promise<void> {
    if (this.#isLeft) return;
    this.#pieces.push(piece);
    this.#hold(piece.length);
    this.#wake();
    while (this.#total.isFull && this.#held > ALWAYS_ALLOWED_BYTES && !signal.aborted) await this.#total.change(signal);
  }

  end(): void {
    this.#isEnded = true;
    this.#wake();
  }

  fail(reason: unknown): void {
    this.#failure ??= { reason };
    this.end();
  }

  /** Drops the remaining pieces for a reader that is gone. If it reads after all, it gets `reason`. */
  leave(reason: unknown): void {
    this.#drop();
    this.fail(reason);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    try {
      while (true) {
        for (let piece = this.#pieces.shift(); piece; piece = this.#pieces.shift()) {
          this.#hold(-piece.length);
          yield piece;
        }
        if (this.#failure) throw this.#failure.reason;
        if (this.#isEnded) return;
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
    } finally {
      this.#drop();
    }
  }

  #drop(): void {
    this.#isLeft = true;
    this.#pieces = [];
    this.#hold(-this.#held);
  }

  #hold(bytes: number): void {
    this.#held += bytes;
    this.#total.add(bytes);
  }
}
