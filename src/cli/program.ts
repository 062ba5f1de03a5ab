/**
 * One call of the program: parses the command line, imports and runs the command, and turns any failure into one block
 * of text or one JSON document, and an exit code.
 */
import { CommanderError } from 'commander';
import { EXIT_CODES, Fault } from '../core/errors.ts';
import { tellInterruption } from '../core/failure.ts';
import { formatJobReference, listJobFiles } from '../job/job-folder.ts';
import type { ActionResult, CommandSpec } from './command.ts';
import { buildParser, findUnknownTopic, isHelp, readParserError } from './command-parser.ts';
import { type Call, COMMANDS, type CommandName, ENGINE_WORKER_COMMAND, type GlobalOptions, JOB } from './commands.ts';
import type { Cli, CliContext, Terminal } from './context.ts';
import { describeFailure } from './terminal/failure-text.ts';
import { hangText } from './terminal/text-width.ts';

/** Imports a command and its dependencies, when it is called. */
const ACTIONS: {
  readonly [Name in CommandName]: () => Promise<(cli: Cli, call: Call<Name>) => ActionResult>;
} = {
  demo: async () => (await import('./demo.ts')).demo,
  init: async () => (await import('./init/init.ts')).init,
  doctor: async () => (await import('./doctor/doctor.ts')).doctor,
  check: async () => (await import('./check.ts')).check,
  schema: async () => (await import('./check.ts')).schema,
  completion: async () => (await import('./completion.ts')).completion,
  plan: async () => (await import('./plan.ts')).plan,
  run: async () => (await import('./run.ts')).run,
  backfill: async () => (await import('./backfill.ts')).backfill,
  report: async () => (await import('./report.ts')).report,
  status: async () => (await import('./status/status.ts')).status,
  runs: async () => (await import('./runs.ts')).runs,
  start: async () => (await import('./start.ts')).start,
  verify: async () => (await import('./verify.ts')).verify,
  gap: async () => (await import('./gap.ts')).gap,
  drop: async () => (await import('./drop.ts')).drop,
  iceberg: async () => (await import('./iceberg.ts')).iceberg,
  query: async () => (await import('./query/query.ts')).query,
  serve: async () => (await import('./serve.ts')).serve,
  key: async () => (await import('./key.ts')).key,
  [ENGINE_WORKER_COMMAND]: async () => {
    const { runWorker } = await import('../engine/worker.ts');
    return async () => await runWorker().then(() => undefined);
  },
  complete: async () => (await import('./completion.ts')).complete,
  alert: async () => (await import('./alert.ts')).alert,
};

/** @returns the exit code */
export async function runProgram(argv: readonly string[], given: CliContext): Promise<number> {
  const { openers } = given;
  const terminal = maskTerminal(given.terminal, openers.maskValues);
  let exitCode = 0;
  let command: CommandSpec | undefined;
  const describe = (error: unknown) =>
    describeFailure(error, {
      debug: argv.includes('--debug'),
      width: terminal.columns.err,
      style: terminal.style.err,
      redact: openers.redact,
    });
  const parser = buildParser(openers.version, terminal, async (called, call, globals) => {
    command = called;
    await warnOfUnknown(given, called);
    const act = await ACTIONS[called.name]();
    const print = (document: unknown, text: string) => {
      const json = () => `${JSON.stringify(document, undefined, 2)}\n`;
      terminal.out(globals.json ? json() : hangText(text, terminal.columns.out));
      return undefined;
    };
    // The parser built the call from the row of this name.
    exitCode = (await act({ ...given, terminal, globals, print, describe }, call as never)) ?? 0;
  });
  try {
    const unknown = findUnknownTopic(argv);
    if (unknown) throw unknown;
    await parser.parseAsync(argv, { from: 'user' });
    return exitCode;
  } catch (error) {
    const found = error instanceof CommanderError ? await explain(error, argv, parser.opts<GlobalOptions>()) : error;
    if (found === undefined) return 0;
    const failure = describe(tellInterruption(found, given.signal));
    // A usage error leaves no log lines to look for.
    const runId = command?.hasLog && failure.exitCode !== EXIT_CODES.usage ? openers.runId : undefined;
    if (argv.includes('--json')) terminal.out(`${JSON.stringify({ ...failure.json, run_id: runId })}\n`);
    // The help was printed instead.
    if (!isHelp(error)) terminal.err(`${failure.text}${runId === undefined ? '' : `  run: ${runId}\n`}`);
    return failure.exitCode;
  } finally {
    await openers.close();
  }
}

/** Adds the jobs of the folder where one is missing. */
async function explain(error: CommanderError, argv: readonly string[], { jobs }: GlobalOptions) {
  const fault = readParserError(error, argv);
  const command = COMMANDS.find(({ name }) => argv.includes(name));
  if (fault === undefined || command?.argument !== JOB || error.code !== 'commander.missingArgument') return fault;
  const names = (await listJobFiles(jobs).catch(() => [])).map(formatJobReference);
  const [first] = names;
  return first === undefined
    ? fault
    : new Fault('USAGE', `which job? The folder ${jobs} has ${names.join(', ')}`, {
        kind: 'usage',
        hint: `\`flowdrop ${command.name} ${first}\``,
      });
}

/** A misspelled setting has no effect, which nobody would notice. `doctor` lists all settings itself. */
async function warnOfUnknown({ openers }: CliContext, command: CommandSpec) {
  if (command.group === undefined || command.name === 'doctor') return;
  for (const { name, meant } of openers.reportUnknown()) {
    const text = `${name} is set, but is not a setting${meant === undefined ? '' : `; did you mean ${meant}?`}`;
    (await openers.openLog()).warn({ event: 'setting-unknown', name, meant }, text);
  }
}

/** Output may repeat text from answers, files and libraries, and so a secret. */
function maskTerminal(terminal: Terminal, mask: (text: string) => string): Terminal {
  // Not spread: that would open stdin, which keeps the process alive.
  return Object.create(terminal, {
    out: { value: (text: string) => terminal.out(mask(text)) },
    err: { value: (text: string) => terminal.err(mask(text)) },
  }) as Terminal; // The terminal is its prototype.
}
