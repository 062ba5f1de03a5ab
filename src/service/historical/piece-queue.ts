/**
 * Pieces of one result between the engine that gives them and the caller who takes them, each at its own speed. Invariant:
 * order is kept, a failure comes after the pieces before it, and leaving the iteration drops what is left. What all
 * queues hold together is bounded: beyond `HeldBytes`' limit a giver waits for its own caller, and so holds its engine.
 */

/** A caller who reads is never held up by others who do not, bytes. */
const ALWAYS_ALLOWED_BYTES = 4_000_000;

/** Bytes that wait for callers, of all queues together. */
export class HeldBytes {
  readonly #limit: number;
  readonly #waiting = new Set<() => void>();
  #held = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  get isFull(): boolean {
    return this.#held > this.#limit;
  }

  add(bytes: number): void {
    this.#held += bytes;
  }

  remove(bytes: number): void {
    this.#held -= bytes;
    for (const wake of this.#waiting) wake();
  }

  /** Resolves when something was removed, or the signal was aborted. */
  async change(signal: AbortSignal): Promise<void> {
    await new Promise<void>((resolve) => {
      const wake = () => {
        this.#waiting.delete(wake);
        signal.removeEventListener('abort', wake);
        resolve();
      };
      this.#waiting.add(wake);
      if (signal.aborted) wake();
      signal.addEventListener('abort', wake, { once: true });
    });
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

  /** Whether nobody will take any more. */
  get isLeft(): boolean {
    return this.#isLeft;
  }

  /** Adds a piece; resolves when there is room for another one, or the signal was aborted. */
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

  /** Drops what is left: nobody takes it. A reader who does after all is told `reason`. */
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
    if (bytes > 0) this.#total.add(bytes);
    else if (bytes < 0) this.#total.remove(-bytes);
  }
}
