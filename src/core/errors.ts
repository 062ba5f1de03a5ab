/**
 * The error base of flowdrop. Invariant: every error that a person may see has a stable `code`, a next step (`hint`),
 * and a `kind`; the `kind` alone decides the exit code. It does not format: `cli/terminal/failure-text.ts` does.
 */
import { Buffer } from 'node:buffer';

/** What a failure means for the process: the exit code, and its meaning. */
const EXITS = {
  failed: [1, 'something outside failed; the same command may succeed later'],
  usage: [2, 'wrong flags, job file, settings or SQL; nothing was started'],
  incomplete: [3, 'finished, but a date is lost, a new gap, held back, or needs you'],
  active: [4, 'another run of the same job, or another daemon, is active'],
  interrupted: [130, 'stopped by a signal; the same command resumes'],
} as const;

export type FailureKind = keyof typeof EXITS;

export const EXIT_CODES = Object.fromEntries(Object.entries(EXITS).map(([kind, [code]]) => [kind, code])) as Readonly<
  Record<FailureKind, number>
>; // Its keys are those kinds.

export const EXIT_CODE_MEANINGS: readonly (readonly [code: number, meaning: string])[] = [
  [0, 'done'],
  ...Object.values(EXITS),
];

/** An error in a text that a person wrote: the line, and the wrong part of it. */
export interface Place {
  /** The file path as the user gave it, or the kind of text, such as `SQL`. */
  readonly file: string;
  /** From 1. */
  readonly line: number;
  /** From 1, in UTF-16 units. */
  readonly column: number;
  /** Length of the wrong part in UTF-16 units: at least 1. */
  readonly length: number;
  /** The full text of the line. */
  readonly text: string;
}

export interface FaultOptions {
  readonly kind?: FailureKind;
  /** Where the error is. If the message has several lines, one place for each line. */
  readonly places?: readonly Place[];
  /** What the operator should do next, in one sentence. */
  readonly hint?: string | undefined;
  readonly cause?: unknown;
}

export class Fault extends Error {
  override readonly name: string = 'Fault';
  readonly code: string;
  readonly kind: FailureKind;
  readonly hint: string | undefined;
  readonly places: readonly Place[];

  /** @param code stable upper-case identifier, e.g. `JOB_INVALID` */
  constructor(code: string, message: string, options: FaultOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.kind = options.kind ?? 'failed';
    this.hint = options.hint;
    this.places = options.places ?? [];
  }
}

export function isFault(value: unknown): value is Fault {
  return value instanceof Fault;
}

/** The message of any thrown value, then the messages of its causes, outermost first. */
export function describeError(value: unknown): string {
  const parts: string[] = [];
  for (let current: unknown = value, depth = 0; current !== undefined && depth < 5; depth += 1) {
    if (!(current instanceof Error)) {
      parts.push(String(current));
      break;
    }
    const text = current.message || current.name;
    if (!parts.some((part) => part.includes(text))) parts.push(text);
    current = current.cause;
  }
  return parts.join(': ');
}

/** The fault that a stopped command ends with. */
export function createInterruption(cause?: unknown): Fault {
  return new Fault('INTERRUPTED', 'stopped before it was finished', {
    kind: 'interrupted',
    cause,
    hint: 'Start the same command again: it continues from what is already staged.',
  });
}

/** Throws the interruption fault if `signal` is aborted. */
export function assertNotAborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw createInterruption();
}

/**
 * The place of an offset in a text.
 * @param file name of the text
 * @param from start of the wrong part, in UTF-16 units from the beginning
 * @param to end of the wrong part; the place ends at the end of its line at the latest
 */
export function findPlace(file: string, text: string, from: number, to = from + 1): Place {
  const before = text.slice(0, from);
  const start = before.lastIndexOf('\n') + 1;
  const line = before.split('\n').length;
  const shown = /^[^\r\n]*/.exec(text.slice(start))?.[0] ?? '';
  const length = Math.max(1, Math.min(to - from, shown.length - (from - start)));
  return { file, line, column: from - start + 1, length, text: shown };
}

/**
 * Where ClickHouse stopped, according to its message. It counts bytes, from 1. Empty if the message gives no position.
 */
export function findSqlPlaces(sql: string, message: string): readonly Place[] {
  const position = Number(/(?:failed at|see) position (\d+)/.exec(message)?.[1] ?? 0);
  const bytes = Buffer.from(sql);
  if (position < 1 || position > bytes.length + 1) return [];
  const from = bytes.subarray(0, position - 1).toString().length;
  const word = /^\w*/.exec(sql.slice(from))?.[0] ?? '';
  return [findPlace('SQL', sql, from, from + word.length)];
}
