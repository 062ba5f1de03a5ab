/**
 * The structured log. Invariant: logs go to stderr (stdout is for results), one JSON object a line, or pretty for
 * people. Every line of a run has its id as `run`. Secrets are replaced by `[secret]` in every line and every field;
 * fields with a secret's name are masked completely. `docs/log.md` explains the levels.
 */
import { createRequire } from 'node:module';
import { Writable } from 'node:stream';
import { type Logger, pino, stdTimeFunctions } from 'pino';
import type pinoPretty from 'pino-pretty';
import { tryParseJson } from './atomic-file.ts';
import { createRedactor, maskByKey, maskFields } from './redact.ts';

export type Log = Logger;

interface LogOptions {
  readonly level: string;
  /** Human-readable lines instead of JSON. */
  readonly pretty: boolean;
  /** Values that must never be printed; empty strings are ignored. */
  readonly secrets: readonly string[];
  /** Id of the run that the lines belong to; absent: lines have no `run` field. */
  readonly run?: string | undefined;
  readonly write: (line: string) => void;
  /** Gets each line too, always as JSON. */
  readonly keep?: ((line: string) => void) | undefined;
}

export function createLog(options: LogOptions): Log {
  const byValue = createRedactor(options.secrets);
  const redact = (line: string) => maskByKey(byValue(line));
  const sink = { write: (line: string) => options.write(redact(line)) };
  const shown = options.pretty ? prettyStream(sink, redact, options.run) : sink;
  const { keep } = options;
  const stream = keep ? { write: (line: string) => [keep(redact(line)), shown.write(line)] } : shown;
  const base = options.run === undefined ? null : { run: options.run };
  // pino types records and bindings as objects, and `maskFields` copies an object to an object.
  const mask = (fields: object) => maskFields(fields) as Record<string, unknown>;
  const formatters = { log: mask, bindings: mask };
  return pino({ level: options.level, base, timestamp: stdTimeFunctions.isoTime, formatters }, stream);
}

/** Redacts before and after formatting: the pretty form undoes some of JSON's escapes, but not all. */
function prettyStream(sink: { write(line: string): void }, redact: (text: string) => string, run: string | undefined) {
  // Loaded only for people: the runs of a schedule write JSON.
  const pretty = createRequire(import.meta.url)('pino-pretty') as typeof pinoPretty;
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

/** Characters that could move the cursor, colour the rest, or fake the start of another log line. */
const UNSAFE = /[\p{Cc}\p{Bidi_Control}\u2028\u2029]+/gu;

/**
 * For people: omits fields that the message already contains, and the run and job that all lines of the process share.
 * A line without a message shows its event instead.
 */
function condense(line: string, run: string | undefined): string {
  // pino writes one object a line. If masking broke the JSON, pino-pretty shows the line unchanged.
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

/** A process with a run id does one run of one job. */
const OF_EVERY_LINE: readonly string[] = ['run', 'job'];

/** pino-pretty shows these before the message. */
const SHOWN_APART: readonly string[] = ['level', 'time'];

function sinkStream(sink: { write(line: string): void }): NodeJS.WritableStream {
  return new Writable({
    write(chunk, _encoding, done) {
      sink.write(String(chunk));
      done();
    },
  });
}
