/**
 * The structured log. Invariant: logs go to stderr (stdout is for results), one JSON object a line, or pretty for people;
 * every line of a run carries its id as `run`; secrets are replaced by `[secret]` in every line, whatever field they
 * travel in, and fields whose name says secret are masked whole. What each level means is in docs/operations.md.
 */
import { Writable } from 'node:stream';
import { type Logger, pino, stdTimeFunctions } from 'pino';
import pretty from 'pino-pretty';
import { tryParseJson } from './json-file.ts';
import { createRedactor, maskByKey, maskFields } from './redact.ts';

export type Log = Logger;

interface LogOptions {
  readonly level: string;
  /** Human-readable lines instead of JSON. */
  readonly pretty: boolean;
  /** Values that must never be printed; empty strings are ignored. */
  readonly secrets: readonly string[];
  /** Id of the run that the lines belong to; without it they have none. */
  readonly run?: string | undefined;
  readonly write: (line: string) => void;
}

export function createLog(options: LogOptions): Log {
  const byValue = createRedactor(options.secrets);
  const redact = (line: string) => maskByKey(byValue(line));
  const sink = { write: (line: string) => options.write(redact(line)) };
  const stream = options.pretty ? prettyStream(sink, redact, options.run) : sink;
  const base = options.run === undefined ? null : { run: options.run };
  // What a record and its bindings are is known to pino as an object; copies of objects are objects.
  const mask = (fields: object) => maskFields(fields) as Record<string, unknown>;
  const formatters = { log: mask, bindings: mask };
  return pino({ level: options.level, base, timestamp: stdTimeFunctions.isoTime, formatters }, stream);
}

/** Masked before and after: the pretty form undoes JSON's escapes, and not all of them. */
function prettyStream(sink: { write(line: string): void }, redact: (text: string) => string, run: string | undefined) {
  const stream = pretty({
    colorize: false,
    ignore: 'pid,hostname',
    singleLine: true,
    translateTime: 'SYS:HH:MM:ss',
    destination: sinkStream(sink),
    sync: true,
  });
  return { write: (line: string) => void stream.write(condense(redact(line), run)) };
}

/** What would move the cursor, colour the rest, or begin a line that looks like another's. */
const UNSAFE = /[\p{Cc}\p{Bidi_Control}\u2028\u2029]+/gu;

/**
 * For people: what the message says is not said again behind it, nor the run and job that every line of the process is of.
 * A line without a message has its event for one.
 */
function condense(line: string, run: string | undefined): string {
  // pino writes one object a line; where masking has left no JSON, pino-pretty shows the line as it is.
  const fields = tryParseJson(line) as Readonly<Record<string, unknown>> | undefined;
  if (fields === undefined) return line;
  const { event, msg, ...rest } = fields;
  const said = String(msg ?? event ?? '')
    .trim()
    .replace(UNSAFE, ' ');
  const isSaid = (name: string, value: unknown) =>
    !SHOWN_APART.includes(name) && typeof value === 'string' && said.includes(value.trim().replace(UNSAFE, ' '));
  const isOfRun = run !== undefined && rest['run'] === run;
  const left = Object.entries(rest).filter(
    ([name, value]) => !isSaid(name, value) && !(isOfRun && OF_EVERY_LINE.includes(name)),
  );
  return `${JSON.stringify({ ...Object.fromEntries(left), msg: said })}\n`;
}

/** A process with a run id does one run, of one job. */
const OF_EVERY_LINE: readonly string[] = ['run', 'job'];

/** pino-pretty puts them before the message. */
const SHOWN_APART: readonly string[] = ['level', 'time'];

function sinkStream(sink: { write(line: string): void }): NodeJS.WritableStream {
  return new Writable({
    write(chunk, _encoding, done) {
      sink.write(String(chunk));
      done();
    },
  });
}
