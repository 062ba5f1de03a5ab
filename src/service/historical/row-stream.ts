/**
 * The body of an answer with rows: turns the engine's bytes into JSON. Invariant: rows stay bytes and pass through in
 * pieces; at most `rowLimit` of them are written, and whether there were more is known at the end. The engine writes
 * one object per line (JSONEachRow) and escapes line ends inside it, so each line end becomes the comma between two
 * objects.
 */
const NEWLINE = 0x0a;
const COMMA = 0x2c;

/** Text before and after the rows. */
export interface RowFrame {
  readonly head: string;
  /** Written last, so that it can report whether rows were dropped. */
  tail(truncated: boolean): string;
}

export class RowStream implements AsyncIterable<Uint8Array> {
  readonly #lines: AsyncIterable<Uint8Array>;
  readonly #rowLimit: number;
  readonly #frame: RowFrame;
  #rows = 0;
  #isTruncated = false;

  /** @param lines JSONEachRow; the pieces are overwritten */
  constructor(lines: AsyncIterable<Uint8Array>, rowLimit: number, frame: RowFrame) {
    this.#lines = lines;
    this.#rowLimit = rowLimit;
    this.#frame = frame;
  }

  /** Rows written so far; final when the iteration has ended. */
  get rows(): number {
    return this.#rows;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    yield Buffer.from(this.#frame.head);
    let owesComma = false;
    for await (const piece of this.#lines) {
      if (piece.length === 0) continue;
      if (this.#rows === this.#rowLimit) {
        this.#isTruncated = true;
        break;
      }
      if (owesComma) yield Uint8Array.of(COMMA);
      // Only the next piece shows whether the last row needs a comma.
      owesComma = piece.at(-1) === NEWLINE;
      const end = this.#joinLines(piece);
      if (end < piece.length) this.#isTruncated = true;
      yield piece.subarray(0, owesComma && end === piece.length ? -1 : end);
      if (this.#isTruncated) break;
    }
    yield Buffer.from(this.#frame.tail(this.#isTruncated));
  }

  /** Turns line ends into commas. @returns the start of the rows beyond the limit, or the length */
  #joinLines(piece: Uint8Array): number {
    for (let at = piece.indexOf(NEWLINE); at >= 0; at = piece.indexOf(NEWLINE, at + 1)) {
      this.#rows += 1;
      if (this.#rows === this.#rowLimit && at < piece.length - 1) return at;
      piece[at] = COMMA;
    }
    return piece.length;
  }
}
