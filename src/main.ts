#!/usr/bin/env node
/**
 * Entry point: argv, environment, signals, exit code. The only reader of `process`. It knows no command:
 * `cli/program.ts` does. Invariant: every failure, wherever it happens, ends in one readable block and an exit code.
 */
import { setMaxListeners } from 'node:events';
import { statSync, writeSync } from 'node:fs';
import { resolve } from 'node:path';
import { loadEnvFile } from 'node:process';
import { isatty } from 'node:tty';
import { fileURLToPath } from 'node:url';
import { styleText } from 'node:util';
import { createStyle, describeFailure } from './cli/terminal/text.ts';
import { describeError, EXIT_CODES, Fault } from './core/errors.ts';

const ENV_FILE = '.env';

/** A terminal and a supervisor may both forward one stop: only a signal after this long is a second request. */
const SAME_STOP_MS = 2_000;

/** How long the last output of a stopped command may take to be read: the person who stopped it is waiting. */
const LAST_WORDS_MS = 500;

/**
 * Above this Node warns of a leak: requests in flight and waiting (16 at most), retries, and listeners of the command.
 */
const MAX_ABORT_LISTENERS = 100;

// A second signal ends the process at once: after the first one, a run may still be waiting for an answer.
const controller = new AbortController();
// Each request that waits or is in flight adds a listener: more than the ten at which Node warns, but bounded.
setMaxListeners(MAX_ABORT_LISTENERS, controller.signal);
let stoppedAtMs: number | undefined;
let isFinished = false;
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    // A finished command has only unread output left, which would keep the process alive forever.
    if (isFinished && stoppedAtMs === undefined) process.exit(EXIT_CODES.interrupted);
    stoppedAtMs ??= performance.now();
    if (performance.now() - stoppedAtMs > SAME_STOP_MS) process.exit(EXIT_CODES.interrupted);
    controller.abort(new Error(signal));
  });
}
// A reader that closes the pipe (`flowdrop status | head`), or a daemon that is gone, is not a failure.
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
  });
}

// Errors thrown outside a command, in a callback or a stream, end the process: durable data is complete at every
// moment.
let redact = (text: string) => text;
const debug = process.argv.includes('--debug');
// Node knows whether a stream has colors: NO_COLOR, FORCE_COLOR and TERM count.
const styleFor = (stream: NodeJS.WriteStream) => createStyle(styleText('red', 'x', { stream }) !== 'x');
const style = { out: styleFor(process.stdout), err: styleFor(process.stderr) };
const endWith = (error: unknown): never => {
  const layout = { debug, width: process.stderr.columns, style: style.err, redact };
  const { exitCode, text, json } = describeFailure(error, layout);
  // Synchronous: a stream would not be written to its end.
  if (process.argv.includes('--json')) writeNow(1, `${JSON.stringify(json)}\n`);
  writeNow(2, text);
  process.exit(exitCode);
};
process.on('uncaughtException', endWith);
// Code of others that runs inside, such as a template, may end the process: a command that was not done has failed.
process.on('exit', (code) => {
  if (code !== 0 || isFinished) return;
  const hint = 'A template of a report, or a module loaded by NODE_OPTIONS, called process.exit: remove the call.';
  endWith(new Fault('ENDED_EARLY', 'the process was ended before the command was done', { hint }));
});

try {
  await main();
} catch (error) {
  endWith(error);
}
// A write into a full pipe never ends while nothing reads it, and Node waits for it. The timer itself does not keep the
// process alive.
if (controller.signal.aborted) setTimeout(() => process.exit(EXIT_CODES.interrupted), LAST_WORDS_MS).unref();

async function main(): Promise<void> {
  // The AWS SDK would print a paragraph about Node versions into the log of every run.
  process.env['AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED'] ??= 'true';
  readEnvFile();
  // Imported here, so that a missing package is reported like every other failure.
  const { runProgram } = await import('./cli/program.ts');
  const { createOpeners } = await import('./openers.ts');
  const { createLineKeeper } = await import('./cli/terminal/progress.ts');
  const cwd = process.cwd();
  const entry = fileURLToPath(import.meta.url);
  const interactive = process.stderr.isTTY === true;
  // Commands and the log write to one screen: neither may write into a line that the other draws.
  const keeper = createLineKeeper((output) => process.stderr.write(output));
  const writeOut = (output: string) => void process.stdout.write(output);
  const writeErr = keeper.above((output) => process.stderr.write(output));
  const openers = createOpeners({
    env: process.env,
    cwd,
    packageDir: resolve(fileURLToPath(new URL('..', import.meta.url))),
    writeErr,
    interactive,
    debug,
  });
  redact = openers.redact;
  process.exitCode = await runProgram(process.argv.slice(2), {
    terminal: {
      out: process.stdout.isTTY ? keeper.above(writeOut) : writeOut,
      err: writeErr,
      keepLine: keeper.keepLine,
      stdout: process.stdout,
      style,
      // Read at each draw: the terminal may be resized in between. Undefined if there is no terminal.
      columns: {
        get out() {
          return process.stdout.columns;
        },
        get err() {
          return process.stderr.columns;
        },
      },
      // Opened on first use: an open stdin would keep the process alive.
      get stdin() {
        return process.stdin;
      },
      inIsTerminal: isatty(0),
    },
    openers,
    self: { executable: process.execPath, args: [...process.execArgv, entry], env: process.env },
    signal: controller.signal,
    onHangup: (listener) => void process.on('SIGHUP', listener),
    cwd,
  });
  isFinished = true;
}

function readEnvFile(): void {
  try {
    if (statSync(ENV_FILE, { throwIfNoEntry: false })?.isFile()) loadEnvFile(ENV_FILE);
  } catch (cause) {
    throw new Fault('SETTING_INVALID', `${ENV_FILE} in this folder cannot be read: ${describeError(cause)}`, {
      kind: 'usage',
      cause,
      hint: `Correct it or its permissions. Without a file ${ENV_FILE}, settings come from the environment only.`,
    });
  }
}

function writeNow(stream: 1 | 2, output: string): void {
  try {
    writeSync(stream, output);
  } catch {
    // Nothing reads the stream, or not now: the exit code still reports the failure.
  }
}
