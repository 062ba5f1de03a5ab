#!/usr/bin/env node
/**
 * Entry: argv, environment, signals, exit code. The only reader of `process`. It knows no command: `cli/program.ts` does.
 * Invariant: whatever fails, wherever, ends in one readable block and an exit code.
 */
import { setMaxListeners } from 'node:events';
import { statSync, writeSync } from 'node:fs';
import { resolve } from 'node:path';
import { loadEnvFile } from 'node:process';
import { text } from 'node:stream/consumers';
import { isatty } from 'node:tty';
import { fileURLToPath } from 'node:url';
import { createStyle, hasColors } from './cli/terminal/color.ts';
import { describeFailure } from './cli/terminal/failure-text.ts';
import { describeError, EXIT_CODES, Fault } from './core/errors.ts';

const ENV_FILE = '.env';

/** A terminal and a supervisor may both pass one stop on: only a signal after this long is a second wish. */
const SAME_STOP_MS = 2_000;

/** How long the last words of a command that was stopped may take to be read: whoever stopped it is waiting. */
const LAST_WORDS_MS = 500;

/** Beyond this Node warns of a leak: requests in flight and waiting (16 at most), retries, and what a command adds. */
const MAX_ABORT_LISTENERS = 100;

// A second signal ends the process at once: the first one may have to wait for an answer.
const controller = new AbortController();
// Each request that waits or is in flight listens: more than the ten at which Node suspects a leak, and bounded.
setMaxListeners(MAX_ABORT_LISTENERS, controller.signal);
let stoppedAtMs: number | undefined;
let isFinished = false;
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    // All that is left of a finished command is output that nobody reads, and it would keep the process for ever.
    if (isFinished && stoppedAtMs === undefined) process.exit(EXIT_CODES.interrupted);
    stoppedAtMs ??= performance.now();
    if (performance.now() - stoppedAtMs > SAME_STOP_MS) process.exit(EXIT_CODES.interrupted);
    controller.abort(new Error(signal));
  });
}
// A reader that closes the pipe (`flowdrop status | head`), or a daemon that is gone, is no failure.
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
  });
}

// Whatever is thrown outside a command, in a callback or a stream: what is durable is whole at every moment, so it ends here.
let redact = (text: string) => text;
const debug = process.argv.includes('--debug');
const colors = {
  out: hasColors(process.stdout.isTTY === true, process.env),
  err: hasColors(process.stderr.isTTY === true, process.env),
};
const endWith = (error: unknown): never => {
  const layout = { debug, width: process.stderr.columns, style: createStyle(colors.err), redact };
  const { exitCode, text, json } = describeFailure(error, layout);
  // At once: a stream would not be written to its end.
  if (process.argv.includes('--json')) writeNow(1, `${JSON.stringify(json)}\n`);
  writeNow(2, text);
  process.exit(exitCode);
};
process.on('uncaughtException', endWith);

try {
  await main();
} catch (error) {
  endWith(error);
}
// A write into a pipe that is full never ends while nobody reads, and Node waits for it. The timer itself keeps nothing.
if (controller.signal.aborted) setTimeout(() => process.exit(EXIT_CODES.interrupted), LAST_WORDS_MS).unref();

async function main(): Promise<void> {
  // The SDK would print a paragraph about Node versions into the log of every run.
  process.env['AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED'] ??= 'true';
  readEnvFile();
  // Not before: a package that is missing is told as every other failure is.
  const { runProgram } = await import('./cli/program.ts');
  const { createComposition } = await import('./compose.ts');
  const { createLineKeeper } = await import('./cli/terminal/drawn-line.ts');
  const cwd = process.cwd();
  const entry = fileURLToPath(import.meta.url);
  const interactive = process.stderr.isTTY === true;
  // Commands and the log write to one screen: neither may write into a line that the other draws.
  const keeper = createLineKeeper();
  const writeOut = (output: string) => void process.stdout.write(output);
  const writeErr = keeper.above((output) => process.stderr.write(output));
  const composition = createComposition({
    env: process.env,
    cwd,
    packageDir: resolve(fileURLToPath(new URL('..', import.meta.url))),
    writeErr,
    interactive,
    debug,
  });
  redact = composition.openers.redact;
  process.exitCode = await runProgram(process.argv.slice(2), {
    terminal: {
      out: process.stdout.isTTY ? keeper.above(writeOut) : writeOut,
      err: writeErr,
      keepLine: keeper.keepLine,
      interactive,
      stderr: process.stderr,
      stdout: process.stdout,
      outIsTerminal: process.stdout.isTTY === true,
      colors,
      // Asked for when something is drawn: a window may be made smaller in between. Undefined where there is no terminal.
      columns: {
        get out() {
          return process.stdout.columns;
        },
        get err() {
          return process.stderr.columns;
        },
      },
      readIn: () => text(process.stdin),
      // Opened when it is asked for: an open stdin would keep the process.
      get stdin() {
        return process.stdin;
      },
      inIsTerminal: isatty(0),
    },
    ...composition,
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
      hint: `Mend it or its rights; without a file ${ENV_FILE} the settings are those of the environment.`,
    });
  }
}

function writeNow(stream: 1 | 2, output: string): void {
  try {
    writeSync(stream, output);
  } catch {
    // Nobody reads it any more, or not now: the exit code tells all the same.
  }
}
