#!/usr/bin/env node
/**
 * Entry: argv, environment, signals, exit code. The only reader of `process`. It knows no command: `cli/program.ts` does.
 */
import { statSync } from 'node:fs';
import { resolve } from 'node:path';
import { loadEnvFile } from 'node:process';
import { fileURLToPath } from 'node:url';
import { runProgram } from './cli/program.ts';
import { createComposition } from './compose.ts';
import { EXIT_CODES } from './core/errors.ts';

const ENV_FILE = '.env';

/** A terminal and a supervisor may both pass one stop on: only a signal after this long is a second wish. */
const SAME_STOP_MS = 2_000;

// A second signal ends the process at once: the first one may have to wait for an answer.
const controller = new AbortController();
let stoppedAtMs: number | undefined;
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
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

// The SDK would print a paragraph about Node versions into the log of every run.
process.env['AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED'] ??= 'true';
if (statSync(ENV_FILE, { throwIfNoEntry: false })?.isFile()) loadEnvFile(ENV_FILE);

const cwd = process.cwd();
const entry = fileURLToPath(import.meta.url);
const interactive = process.stderr.isTTY === true;
process.exitCode = await runProgram(process.argv.slice(2), {
  terminal: {
    out: (text) => process.stdout.write(text),
    err: (text) => process.stderr.write(text),
    interactive,
    stderr: process.stderr,
  },
  compose: createComposition({
    env: process.env,
    cwd,
    packageDir: resolve(fileURLToPath(new URL('..', import.meta.url))),
    writeErr: (text) => process.stderr.write(text),
    interactive,
    debug: process.argv.includes('--debug'),
  }),
  self: { executable: process.execPath, args: [...process.execArgv, entry], env: process.env },
  signal: controller.signal,
  cwd,
});
