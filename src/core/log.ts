/**
 * The structured log. Invariant: logs go to stderr (stdout is for results), one JSON object a line, or pretty on a
 * terminal, and known secrets are replaced by `[secret]` in every line, whatever field they travel in.
 */
import { Writable } from 'node:stream';
import { type Logger, pino, stdTimeFunctions } from 'pino';
import pretty from 'pino-pretty';
import { createRedactor } from './redact.ts';

export type Log = Logger;

export interface LogOptions {
  readonly level: string;
  /** Human-readable lines instead of JSON. */
  readonly pretty: boolean;
  /** Values that must never be printed; empty strings are ignored. */
  readonly secrets: readonly string[];
  readonly write: (line: string) => void;
}

export function createLog(options: LogOptions): Log {
  const redact = createRedactor(options.secrets);
  const sink = { write: (line: string) => options.write(redact(line)) };
  const stream = options.pretty ? prettyStream(sink, redact) : sink;
  return pino({ level: options.level, base: null, timestamp: stdTimeFunctions.isoTime }, stream);
}

/** Masked before and after: the pretty form undoes JSON's escapes, and not all of them. */
function prettyStream(sink: { write(line: string): void }, redact: (text: string) => string) {
  const stream = pretty({
    colorize: false,
    ignore: 'pid,hostname',
    translateTime: 'SYS:HH:MM:ss',
    destination: sinkStream(sink),
    sync: true,
  });
  return { write: (line: string) => void stream.write(redact(line)) };
}

function sinkStream(sink: { write(line: string): void }): NodeJS.WritableStream {
  return new Writable({
    write(chunk, _encoding, done) {
      sink.write(String(chunk));
      done();
    },
  });
}
