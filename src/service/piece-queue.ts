/**
 * Pieces of one result between the engine that gives them and the caller who takes them, each at its own speed. Invariant:
 * order is kept, a failure comes after the pieces before it, and leaving the iteration drops what is left. It holds at
 * most one result, whose size the engine bounds.
 */
export class PieceQueue implements AsyncIterable<Uint8Array> {
  #pieces: Uint8Array[] = [];
  #wake: () => void = () => {};
  #isEnded = false;
  #isLeft = false;
  #failure: { readonly reason: unknown } | undefined;

  /** Whether nobody will take any more. */
  get isLeft(): boolean {
    return this.#isLeft;
  }

  push(piece: Uint8Array): void {
    if (this.#isLeft) return;
    this.#pieces.push(piece);
    this.#wake();
  }

  end(): void {
    this.#isEnded = true;
    this.#wake();
  }

  fail(reason: unknown): void {
    this.#failure ??= { reason };
    this.end();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    try {
      while (true) {
        const pieces = this.#pieces;
        this.#pieces = [];
        yield* pieces;
        if (this.#pieces.length > 0) continue;
        if (this.#failure) throw this.#failure.reason;
        if (this.#isEnded) return;
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
    } finally {
      this.#isLeft = true;
      this.#pieces = [];
    }
  }
}
