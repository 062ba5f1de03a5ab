#!/usr/bin/env node
/**
 * Entry: argv, environment, signals, exit code. The only reader of `process`. It knows no command: `cli/program.ts` does.
 */
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { loadEnvFile } from 'node:process';
import { fileURLToPath } from 'node:url';
import { runProgram } from './cli/program.ts';
import { createComposition } from './compose.ts';

const ENV_FILE = '.env';

// A second signal ends the process at once: the first one may have to wait for an answer.
const controller = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    if (controller.signal.aborted) process.exit(130);
    controller.abort(new Error(signal));
  });
}
// A reader that closes the pipe (`flowdrop status | head`) is no failure.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
});

// The SDK would print a paragraph about Node versions into the log of every run.
process.env['AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED'] ??= 'true';
if (existsSync(ENV_FILE)) loadEnvFile(ENV_FILE);

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
