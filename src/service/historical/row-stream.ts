/**
 * The rows of an answer, from the engine's bytes to those of a JSON array. Invariant: rows stay bytes and pass through in
 * pieces; at most `rowLimit` of them leave, and whether there were more is known at the end. The engine writes one object
 * a line (JSONEachRow) and escapes line ends inside, so a line end becomes the comma between two objects.
 */

const NEWLINE = 0x0a;
const COMMA = 0x2c;

export class RowStream implements AsyncIterable<Uint8Array> {
  readonly #lines: AsyncIterable<Uint8Array>;
  readonly #rowLimit: number;
  #rows = 0;
  #isTruncated = false;

  /** @param lines JSONEachRow; the pieces are overwritten */
  constructor(lines: AsyncIterable<Uint8Array>, rowLimit: number) {
    this.#lines = lines;
    this.#rowLimit = rowLimit;
  }

  /** Rows given so far; all of them once the iteration has ended. */
  get rows(): number {
    return this.#rows;
  }

  /** Whether rows were dropped; known once the iteration has ended. */
  get truncated(): boolean {
    return this.#isTruncated;
  }

  /** What stands between the brackets of the array. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    let owesComma = false;
    for await (const piece of this.#lines) {
      if (piece.length === 0) continue;
      if (this.#rows === this.#rowLimit) {
        this.#isTruncated = true;
        return;
      }
      if (owesComma) yield Uint8Array.of(COMMA);
      // Whether a comma belongs behind the last row only the next piece tells.
      owesComma = piece.at(-1) === NEWLINE;
      const end = this.#joinLines(piece);
      if (end < piece.length) this.#isTruncated = true;
      yield piece.subarray(0, owesComma && end === piece.length ? -1 : end);
      if (this.#isTruncated) return;
    }
  }

  /** Turns line ends into commas. @returns where the rows beyond the limit begin, or the length */
  #joinLines(piece: Uint8Array): number {
    for (let at = piece.indexOf(NEWLINE); at >= 0; at = piece.indexOf(NEWLINE, at + 1)) {
      this.#rows += 1;
      if (this.#rows === this.#rowLimit && at < piece.length - 1) return at;
      piece[at] = COMMA;
    }
    return piece.length;
  }
}
