/**
 * Runs one command after another in one process, through the entry file that a user runs: environment, working directory,
 * output and exit code are those of a process of its own, but Node starts once. A command that ends the process ends this
 * one, with its exit code. Not the test's own process: many tests hold an embedded engine there, which a process has once.
 */
import { pathToFileURL } from 'node:url';

const [main, end] = process.argv.slice(2);
const entry = pathToFileURL(main).href;
/** What the entry file listens to; the listeners of a command go with it. */
const EVENTS = ['SIGINT', 'SIGTERM', 'SIGHUP', 'uncaughtException', 'exit'];
let calls = 0;

process.once('disconnect', () => process.exit());
process.on('message', async ({ args, cwd, env }) => {
  for (const name of Object.keys(process.env)) delete process.env[name];
  Object.assign(process.env, env);
  process.chdir(cwd);
  process.argv = [process.execPath, main, ...args];
  process.exitCode = undefined;
  calls += 1;
  await import(`${entry}?call=${calls}`);
  const code = process.exitCode ?? 0;
  process.exitCode = undefined;
  for (const event of EVENTS) process.removeAllListeners(event);
  for (const stream of [process.stdout, process.stderr]) stream.removeAllListeners('error');
  process.stderr.write(end);
  process.stdout.write(`\n${code}${end}`);
});
