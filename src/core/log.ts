/**
 * The structured log. Invariant: logs go to stderr (stdout is for results), one JSON object a line, or pretty for people;
 * every line of a run carries its id as `run`; secrets are replaced by `[secret]` in every line, whatever field they
 * travel in, and fields whose name says secret are masked whole. What each level means is in docs/operations.md.
 */
import { Writable } from 'node:stream';
import { type Logger, pino, stdTimeFunctions } from 'pino';
import pretty from 'pino-pretty';
import { createRedactor, maskByKey, maskFields } from './redact.ts';

export type Log = Logger;

export interface LogOptions {
  readonly level: string;
  /** Human-readable lines instead of JSON. */
  readonly pretty: boolean;
  /** Values that must never be printed; empty strings are ignored. */
  readonly secrets: readonly string[];
  /** Id of the run that the lines belong to; without it they have none. */
  readonly run?: string;
  readonly write: (line: string) => void;
}

export function createLog(options: LogOptions): Log {
  const byValue = createRedactor(options.secrets);
  const redact = (line: string) => maskByKey(byValue(line));
  const sink = { write: (line: string) => options.write(redact(line)) };
  const stream = options.pretty ? prettyStream(sink, redact) : sink;
  const base = options.run === undefined ? null : { run: options.run };
  // What a record and its bindings are is known to pino as an object; copies of objects are objects.
  const mask = (fields: object) => maskFields(fields) as Record<string, unknown>;
  const formatters = { log: mask, bindings: mask };
  return pino({ level: options.level, base, timestamp: stdTimeFunctions.isoTime, formatters }, stream);
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
