/**
 * The command line: commands registered, arguments parsed, failures turned into text and exit codes. Invariant: nothing
 * heavy is imported here or by a command's registration, so that `--help` is immediate; actions import what they need.
 */
import { Command, CommanderError } from 'commander';
import { EXIT_CODES, Fault } from '../core/errors.ts';
import { registerBackfill } from './backfill.ts';
import { registerCheck } from './check.ts';
import type { Act, Register } from './command.ts';
import { registerCompletion } from './completion.ts';
import type { CliContext, GlobalOptions } from './context.ts';
import { registerDemo } from './demo.ts';
import { registerDoctor } from './doctor.ts';
import { registerEngineWorker } from './engine-worker.ts';
import { describeFailure } from './failure.ts';
import { registerInit } from './init.ts';
import { registerKey } from './key.ts';
import { registerPlan } from './plan.ts';
import { registerQuery } from './query.ts';
import { registerReport } from './report.ts';
import { registerRun } from './run.ts';
import { registerSchema } from './schema.ts';
import { registerServe } from './serve.ts';
import { registerStart } from './start.ts';
import { registerStatus } from './status.ts';
import { registerVerify } from './verify.ts';

const REGISTRATIONS: readonly Register[] = [
  registerDemo,
  registerInit,
  registerDoctor,
  registerCheck,
  registerPlan,
  registerRun,
  registerBackfill,
  registerReport,
  registerStatus,
  registerVerify,
  registerQuery,
  registerStart,
  registerServe,
  registerKey,
  registerEngineWorker,
  registerSchema,
  registerCompletion,
];

/** @returns the exit code */
export async function runProgram(argv: readonly string[], context: CliContext): Promise<number> {
  const { terminal } = context;
  const program = new Command('flowdrop')
    .description(
      'Scheduled exports and reports of U.S. option trades: paged within the limits of the API, sealed per day, mailed.',
    )
    .version(context.compose.version)
    .option('--json', 'print one JSON document on stdout')
    .option('--jobs <dir>', 'folder of the job files', 'jobs')
    .option('--debug', 'more log lines, and stacks of errors')
    .showSuggestionAfterError(true)
    .configureOutput({ writeOut: (text) => terminal.out(text), writeErr: (text) => terminal.err(text) })
    .exitOverride();
  let exitCode = 0;
  const act: Act = async (action) => {
    exitCode = (await action(program.opts<GlobalOptions>())) ?? 0;
  };
  for (const register of REGISTRATIONS) register(program, context, act);
  for (const command of program.commands) command.exitOverride().showSuggestionAfterError(true);
  try {
    await program.parseAsync(argv, { from: 'user' });
    return exitCode;
  } catch (error) {
    if (error instanceof CommanderError) {
      if (error.exitCode === 0) return 0;
      if (argv.includes('--json'))
        terminal.out(`${JSON.stringify({ error: { code: 'USAGE', message: error.message } })}\n`);
      return EXIT_CODES.usage;
    }
    const failure = describeFailure(context.signal.aborted ? interruption(error) : error, argv.includes('--debug'));
    const { redact } = context.compose;
    if (argv.includes('--json')) terminal.out(`${redact(JSON.stringify(failure.json))}\n`);
    terminal.err(redact(failure.text));
    return failure.exitCode;
  } finally {
    await context.compose.close();
  }
}

/** After a signal any failure is the interruption, unless it says more. */
function interruption(error: unknown): Fault {
  if (error instanceof Fault && error.kind !== 'failed') return error;
  return new Fault('INTERRUPTED', 'stopped before it was finished', {
    kind: 'interrupted',
    cause: error,
    hint: 'Start the same command again: it goes on from what is already staged.',
  });
}
