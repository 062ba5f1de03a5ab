/**
 * The body of an answer with rows: turns the engine's bytes into JSON. Invariant: rows stay bytes and pass through in
 * pieces; at most `rowLimit` of them are written, and whether there were more is known at the end. The engine writes
 * one object per line (JSONEachRow) and escapes line ends inside it, so each line end becomes the comma between two
 * objects.
 */
import type { Answer } from '../http/route.ts';

const NEWLINE = 0x0a;
const COMMA = 0x2c;

/** Text before and after the rows. */
export interface RowFrame {
  readonly head: string;
  /** Written last, so that it can report whether rows were dropped. */
  tail(truncated: boolean): string;
}

/** A body in pieces, with the rows written so far. */
export type RowBody = Required<Pick<Answer, 'rows'>> & { readonly body: AsyncIterable<Uint8Array> };

/** @param lines JSONEachRow; the pieces are overwritten */
export function writeRows(lines: AsyncIterable<Uint8Array>, rowLimit: number, frame: RowFrame): RowBody {
  let rows = 0;
  return { body: write(), rows: () => rows };

  async function* write(): AsyncGenerator<Uint8Array> {
    yield Buffer.from(frame.head);
    let owesComma = false;
    let isTruncated = false;
    for await (const piece of lines) {
      if (piece.length === 0) continue;
      isTruncated = rows === rowLimit;
      if (isTruncated) break;
      if (owesComma) yield Uint8Array.of(COMMA);
      // Only the next piece shows whether the last row needs a comma.
      owesComma = piece.at(-1) === NEWLINE;
      const end = joinLines(piece);
      isTruncated = end < piece.length;
      yield piece.subarray(0, owesComma && !isTruncated ? -1 : end);
      if (isTruncated) break;
    }
    yield Buffer.from(frame.tail(isTruncated));
  }

  /** Turns line ends into commas. @returns the start of the rows beyond the limit, or the length */
  function joinLines(piece: Uint8Array): number {
    for (let at = piece.indexOf(NEWLINE); at >= 0; at = piece.indexOf(NEWLINE, at + 1)) {
      rows += 1;
      if (rows === rowLimit && at < piece.length - 1) return at;
      piece[at] = COMMA;
    }
    return piece.length;
  }
}
