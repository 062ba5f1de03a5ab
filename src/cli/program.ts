/**
 * The command line: commands registered, arguments parsed, failures turned into text and exit codes. Invariant: nothing
 * heavy is imported here or by a command's registration, so that `--help` is immediate; actions import what they need.
 */
import { Command, CommanderError } from 'commander';
import { EXIT_CODES, Fault } from '../core/errors.ts';
import { tellInterruption } from '../core/failure.ts';
import { registerAlert } from './alert.ts';
import { registerBackfill } from './backfill.ts';
import { registerCheck } from './check.ts';
import type { Act, Register } from './command.ts';
import { registerCompletion } from './completion/completion.ts';
import type { CliContext, GlobalOptions, Terminal } from './context.ts';
import { registerDemo } from './demo/demo.ts';
import { registerDoctor } from './doctor.ts';
import { registerEngineWorker } from './engine-worker.ts';
import { registerInit } from './init/init.ts';
import { registerKey } from './key.ts';
import { registerPlan } from './plan.ts';
import { registerQuery } from './query/query.ts';
import { registerReport } from './report.ts';
import { registerRun } from './run.ts';
import { registerSchema } from './schema.ts';
import { registerServe } from './serve.ts';
import { registerStart } from './start.ts';
import { registerStatus } from './status/status.ts';
import { createStyle } from './terminal/color.ts';
import { describeFailure } from './terminal/failure.ts';
import { addHelp } from './terminal/help.ts';
import { describeUsage, findUnknownTopic } from './terminal/usage.ts';
import { registerVerify } from './verify.ts';

/** In the order of the help. */
const REGISTRATIONS: readonly Register[] = [
  registerDemo,
  registerInit,
  registerDoctor,
  registerCheck,
  registerSchema,
  registerCompletion,
  registerPlan,
  registerRun,
  registerBackfill,
  registerReport,
  registerStatus,
  registerStart,
  registerVerify,
  registerQuery,
  registerServe,
  registerKey,
  registerEngineWorker,
  registerAlert,
];

/** Commands with a log of their own in which the run id finds the lines of a failure. */
const LOGGED_COMMANDS: readonly string[] = ['run', 'backfill', 'report', 'alert', 'verify'];

/** The commands as they are typed. @param act what becomes of a command's action */
export function buildProgram(context: CliContext, act: (program: Command) => Act): Command {
  const { terminal } = context;
  const program = new Command('flowdrop')
    .description(
      'Scheduled exports and reports of U.S. option trades: paged within the limits of the API, sealed per day, mailed.',
    )
    .usage('[options] <command>')
    .version(context.compose.version)
    .option('--json', 'print one JSON document on stdout')
    .option('--jobs <dir>', 'folder of the job files', 'jobs')
    .option('--debug', 'more log lines, and stacks of errors')
    .showSuggestionAfterError(true)
    .configureOutput({
      writeOut: (text) => terminal.out(text),
      writeErr: (text) => terminal.err(text),
      // Told as every other failure is.
      outputError: () => {},
      getOutHelpWidth: () => Math.min(terminal.columns.out ?? HELP_WIDTH, MAX_HELP_WIDTH),
      getErrHelpWidth: () => Math.min(terminal.columns.err ?? HELP_WIDTH, MAX_HELP_WIDTH),
    })
    .exitOverride();
  for (const register of REGISTRATIONS) register(program, context, act(program));
  for (const command of program.commands) command.exitOverride().showSuggestionAfterError(true);
  addHelp(program);
  return program;
}

/** Where nobody knows how wide the terminal is; on a wide one a line that is too long is not read either. */
const HELP_WIDTH = 80;
const MAX_HELP_WIDTH = 100;

/** @returns the exit code */
export async function runProgram(argv: readonly string[], given: CliContext): Promise<number> {
  const { compose } = given;
  const terminal = maskTerminal(given.terminal, (text) => compose.maskValues(text));
  const context = { ...given, terminal };
  let exitCode = 0;
  let command = '';
  const program = buildProgram(context, (built) => async (action) => {
    exitCode = (await action(built.opts<GlobalOptions>())) ?? 0;
  });
  program.hook('preAction', (_program, action) => {
    command = action.name();
  });
  try {
    const unknown = findUnknownTopic(program, argv);
    if (unknown) throw unknown;
    await program.parseAsync(argv, { from: 'user' });
    return exitCode;
  } catch (error) {
    const found = error instanceof CommanderError ? readRefusal(error, program, argv) : error;
    if (found === undefined) return 0;
    const failure = describeFailure(tellInterruption(found, context.signal), {
      debug: argv.includes('--debug'),
      width: terminal.columns.err,
      style: createStyle(terminal.colors.err),
      redact: compose.redact,
    });
    // What was wrong from the start has left no lines to look for.
    const hasLog = LOGGED_COMMANDS.includes(command) && failure.exitCode !== EXIT_CODES.usage;
    const run = hasLog ? { run_id: compose.runId } : {};
    if (argv.includes('--json')) terminal.out(`${JSON.stringify({ ...failure.json, ...run })}\n`);
    // The help was printed in its place.
    if (!isHelp(error)) terminal.err(`${failure.text}${hasLog ? `  run: ${compose.runId}\n` : ''}`);
    return failure.exitCode;
  } finally {
    await compose.close();
  }
}

/** Nothing when the parser ended because it had told what it was asked for. */
function readRefusal(error: CommanderError, program: Command, argv: readonly string[]): Fault | undefined {
  if (error.exitCode === 0) return undefined;
  if (!isHelp(error)) return describeUsage(error, program, argv);
  return new Fault('USAGE', 'no command was given', { kind: 'usage', hint: '`flowdrop --help` lists the commands.' });
}

function isHelp(error: unknown): boolean {
  return error instanceof CommanderError && error.code === 'commander.help';
}

/** What people and programs read may repeat what an answer, a file or a library has said. */
function maskTerminal(terminal: Terminal, mask: (text: string) => string): Terminal {
  // Not spread: stdin would be opened, which keeps the process.
  return Object.create(terminal, {
    out: { value: (text: string) => terminal.out(mask(text)) },
    err: { value: (text: string) => terminal.err(mask(text)) },
  }) as Terminal; // It has the terminal for its prototype.
}
