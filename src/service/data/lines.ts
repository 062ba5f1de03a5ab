/**
 * Splits a byte stream into batches of whole lines. Invariant: the joined batches equal the stream, plus a final line
 * end if it lacks one. No batch ends inside a line, or inside a quoted CSV value that contains line ends. Memory holds
 * one batch and one piece of the stream.
 */
import { Fault } from '../../core/errors.ts';

interface LineLimits {
  /** A batch is returned once its whole lines reach this size; it ends with its last whole line. */
  readonly batchBytes: number;
  readonly maxLineBytes: number;
  /** Whether line ends between double quotes belong to the value (CSV). */
  readonly hasQuotes: boolean;
}

const NEWLINE = 0x0a;
const QUOTE = 0x22;

/** @throws Fault `DATA_INVALID` when a line is too long */
export async function* splitLines(pieces: AsyncIterable<Uint8Array>, limits: LineLimits): AsyncGenerator<Uint8Array> {
  let held: Uint8Array[] = [];
  let heldBytes = 0;
  /** Bytes of `held` up to the end of the last whole line. */
  let wholeBytes = 0;
  let isQuoted = false;
  for await (const piece of pieces) {
    const end = findLastLineEnd(piece);
    held.push(piece);
    if (end !== undefined) wholeBytes = heldBytes + end;
    heldBytes += piece.length;
    if (heldBytes - wholeBytes > limits.maxLineBytes)
      throw new Fault('DATA_INVALID', `a line is longer than ${limits.maxLineBytes} bytes`, {
        kind: 'usage',
        hint: limits.hasQuotes ? 'Is a double quote not closed?' : 'Rows are one JSON object a line.',
      });
    if (wholeBytes < limits.batchBytes) continue;
    const bytes = Buffer.concat(held);
    yield bytes.subarray(0, wholeBytes);
    held = [bytes.subarray(wholeBytes)];
    heldBytes -= wholeBytes;
    wholeBytes = 0;
  }
  const rest = Buffer.concat(held);
  if (rest.length > 0) yield rest.at(-1) === NEWLINE ? rest : Buffer.concat([rest, Buffer.from('\n')]);

  /** How many bytes of `piece` belong to whole lines; undefined if no line ends in it. */
  function findLastLineEnd(piece: Uint8Array): number | undefined {
    if (!limits.hasQuotes) {
      const at = piece.lastIndexOf(NEWLINE);
      return at === -1 ? undefined : at + 1;
    }
    let end: number | undefined;
    let from = 0;
    // A doubled quote inside a value closes and reopens it, so parity is enough.
    for (let quote = piece.indexOf(QUOTE); ; quote = piece.indexOf(QUOTE, from)) {
      const until = quote === -1 ? piece.length : quote;
      if (!isQuoted) {
        const at = piece.subarray(from, until).lastIndexOf(NEWLINE);
        if (at !== -1) end = from + at + 1;
      }
      if (quote === -1) return end;
      isQuoted = !isQuoted;
      from = quote + 1;
    }
  }
}
