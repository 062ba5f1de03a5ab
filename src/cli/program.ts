/**
 * One call of the program: parses the command line, imports and runs the command, and turns any failure into one block
 * of text or one JSON document, and an exit code.
 */
import { CommanderError } from 'commander';
import { EXIT_CODES } from '../core/errors.ts';
import { tellInterruption } from '../core/failure.ts';
import type { CommandSpec } from './command.ts';
import { buildParser, findUnknownTopic, isHelp, readParserError } from './command-parser.ts';
import type { CliContext, Terminal } from './context.ts';
import { createStyle } from './terminal/color.ts';
import { describeFailure } from './terminal/failure-text.ts';

/** @returns the exit code */
export async function runProgram(argv: readonly string[], given: CliContext): Promise<number> {
  const { openers } = given;
  const terminal = maskTerminal(given.terminal, given.maskValues);
  const context = { ...given, terminal };
  let exitCode = 0;
  let command: CommandSpec | undefined;
  const parser = buildParser({ version: openers.version, terminal }, async (called, call) => {
    command = called;
    const act = await called.load();
    exitCode = (await act(context, call)) ?? 0;
  });
  try {
    const unknown = findUnknownTopic(argv);
    if (unknown) throw unknown;
    await parser.parseAsync(argv, { from: 'user' });
    return exitCode;
  } catch (error) {
    const found = error instanceof CommanderError ? readParserError(error, argv) : error;
    if (found === undefined) return 0;
    const failure = describeFailure(tellInterruption(found, context.signal), {
      debug: argv.includes('--debug'),
      width: terminal.columns.err,
      style: createStyle(terminal.colors.err),
      redact: openers.redact,
    });
    // A usage error leaves no log lines to look for.
    const runId = command?.hasLog && failure.exitCode !== EXIT_CODES.usage ? openers.runId : undefined;
    if (argv.includes('--json')) terminal.out(`${JSON.stringify({ ...failure.json, run_id: runId })}\n`);
    // The help was printed instead.
    if (!isHelp(error)) terminal.err(`${failure.text}${runId === undefined ? '' : `  run: ${runId}\n`}`);
    return failure.exitCode;
  } finally {
    await given.close();
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
