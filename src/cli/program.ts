/**
 * One call of the program: parses the command line, imports and runs the command, and turns any failure into one block
 * of text or one JSON document, and an exit code. The parser is built from the command table, and loads no command. Its
 * errors are Faults: what happened, what is allowed, what next.
 */
import { Argument, Command, CommanderError, Help, InvalidArgumentError, Option } from 'commander';
import { EXIT_CODE_MEANINGS, EXIT_CODES, Fault } from '../core/errors.ts';
import { tellInterruption } from '../core/failure.ts';
import { formatJobReference, listJobFiles } from '../job/job-folder.ts';
import type { RunEnv } from '../run/run.ts';
import { type CallOf, COMMAND_GROUPS, type CommandRow, type CommandSpec, formatFlag } from './command.ts';
import {
  COMMANDS,
  type CommandName,
  ENGINE_WORKER_COMMAND,
  GLOBAL_OPTIONS,
  type GlobalOptions,
  JOB,
  JOBS_FOLDER,
} from './commands.ts';
import type { Call, Cli, CliContext, Terminal, Text } from './context.ts';
import { createProgress } from './terminal/progress.ts';
import { describeFailure, hangText } from './terminal/text.ts';

/** Imports a command and its dependencies, when it is called. It returns the exit code; `undefined` means 0. */
const ACTIONS: {
  readonly [Name in CommandName]: () => Promise<(cli: Cli, call: Call<Name>) => Promise<number | undefined>>;
} = {
  demo: async () => (await import('./demo.ts')).demo,
  init: async () => (await import('./init.ts')).init,
  doctor: async () => (await import('./doctor/doctor.ts')).doctor,
  check: async () => (await import('./check.ts')).check,
  schema: async () => (await import('./check.ts')).schema,
  completion: async () => (await import('./completion.ts')).completion,
  plan: async () => (await import('./plan.ts')).plan,
  run: async () => (await import('./run.ts')).run,
  backfill: async () => (await import('./run.ts')).backfill,
  report: async () => (await import('./report.ts')).report,
  status: async () => (await import('./status/status.ts')).status,
  runs: async () => (await import('./runs.ts')).runs,
  alerts: async () => (await import('./alerts.ts')).alerts,
  start: async () => (await import('./start.ts')).start,
  verify: async () => (await import('./verify.ts')).verify,
  gap: async () => (await import('./gap.ts')).gap,
  drop: async () => (await import('./drop.ts')).drop,
  iceberg: async () => (await import('./iceberg.ts')).iceberg,
  query: async () => (await import('./query/query.ts')).query,
  mcp: async () => (await import('./mcp/mcp.ts')).mcp,
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
  const parser = buildParser(openers.version, terminal, async (row, call, globals) => {
    command = row;
    await warnOfUnknown(given, row);
    const act = await ACTIONS[row.name]();
    const print: Cli['print'] = (document, text, beside = []) => {
      if (globals.json) {
        terminal.out(`${JSON.stringify(document, undefined, 2)}\n`);
        return;
      }
      terminal.out(hangText(joinLines(text), terminal.columns.out));
      terminal.err(joinLines(beside));
    };
    const flags = Object.entries(call.options).flatMap(([name, value]) => {
      return [formatFlag(name), ...(value === true ? [] : [value].flat().map(String))];
    });
    const { signal } = given;
    const env: RunEnv = { ...openers, signal, flags, showProgress: (input) => createProgress(input, terminal) };
    // The parser built the call from the row of this name.
    exitCode = (await act({ ...given, terminal, globals, env, print, describe }, call as never)) ?? 0;
  });
  try {
    // Of `help` and an unknown command the parser would print the whole help; of the command alone it says what is wrong.
    const [first, topic = '-'] = argv;
    const isKnown = first !== 'help' || topic.startsWith('-') || COMMANDS.some(({ name }) => name === topic);
    await parser.parseAsync(isKnown ? argv : argv.slice(1), { from: 'user' });
    return exitCode;
  } catch (error) {
    const found = error instanceof CommanderError ? await explain(error, argv, readGlobals(parser)) : error;
    if (found === undefined) return 0;
    const failure = describe(tellInterruption(found, given.signal));
    // Commands of one job write a log. A usage error leaves no lines to look for.
    const runId = command?.argument === JOB && failure.exitCode !== EXIT_CODES.usage ? openers.runId : undefined;
    if (argv.includes('--json')) terminal.out(`${JSON.stringify({ ...failure.json, run_id: runId })}\n`);
    // The help was printed instead.
    if (!isHelp(error)) terminal.err(`${failure.text}${runId === undefined ? '' : `  run: ${runId}\n`}`);
    return failure.exitCode;
  } finally {
    await openers.close();
  }
}

function joinLines(text: Text): string {
  if (typeof text === 'string') return text;
  return text.map((line) => (typeof line === 'string' ? `${line}\n` : '')).join('');
}

/** @returns what is wrong with the command line; `undefined` if the parser ended after printing what was requested */
async function explain(error: CommanderError, argv: readonly string[], { jobs }: GlobalOptions) {
  if (error.exitCode === 0) return undefined;
  if (isHelp(error)) return mistake('no command was given', '`flowdrop --help` lists the commands.');
  const command = COMMANDS.find(({ name }) => argv.includes(name));
  if (command?.argument === JOB && error.code === 'commander.missingArgument') {
    const names = (await listJobFiles(jobs).catch(() => [])).map(formatJobReference);
    const example = `\`flowdrop ${command.name} ${names[0]}\``;
    if (names.length > 0) return mistake(`which job? The folder ${jobs} has ${names.join(', ')}`, example);
  }
  const text = error.message.replace(/^error: /, '');
  // `unknown command 'rum'`, and in brackets on a line of its own which was meant.
  const [message = text, suggested = ''] = text.split('\n');
  const help = command ? `flowdrop ${command.name} --help` : 'flowdrop --help';
  const next = error.code === 'commander.unknownCommand' ? 'lists the commands' : 'lists its options';
  return mistake(message, `${suggested.slice(1, -1)} \`${help}\` ${next}.`.trimStart());
}

function mistake(message: string, hint: string): Fault {
  return new Fault('USAGE', message, { kind: 'usage', hint });
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

/** Width of the help if the terminal's is unknown, and at most: very long lines are hard to read. */
const HELP_WIDTH = 80;
const MAX_HELP_WIDTH = 100;

const HELP_END = `
Exit codes:
${EXIT_CODE_MEANINGS.map(([code, meaning]) => `    ${String(code).padEnd(3)}  ${meaning}`).join('\n')}

New here? \`flowdrop demo\` needs no key. \`flowdrop init\` sets up a folder of your
own, \`flowdrop doctor\` checks it. \`flowdrop help COMMAND\` has examples.
`;

/** @param call runs a command; its argument and options are those of its row */
export function buildParser(
  version: string,
  terminal: Pick<Terminal, 'out' | 'err' | 'columns'>,
  call: (row: (typeof COMMANDS)[number], call: CallOf<CommandRow>, globals: GlobalOptions) => Promise<void>,
): Command {
  const widthOf = (columns: number | undefined) => Math.min(columns ?? HELP_WIDTH, MAX_HELP_WIDTH);
  const parser = new Command('flowdrop')
    .description(
      'Saves every U.S. option trade before the 15-day window of your API closes: one verified Parquet file a day, and a flow report by mail.',
    )
    .usage('[options] <command>')
    .version(version)
    .configureOutput({
      writeOut: (text) => terminal.out(text),
      writeErr: (text) => terminal.err(text),
      // Reported like every other failure.
      outputError: () => {},
      getOutHelpWidth: () => widthOf(terminal.columns.out),
      getErrHelpWidth: () => widthOf(terminal.columns.err),
    })
    // The command's own help has the flags; here they would only widen the column.
    .configureHelp({ subcommandTerm: (command) => new Help().subcommandTerm(command).replace(' [options]', '') })
    .exitOverride();
  addOptions(parser, GLOBAL_OPTIONS);
  for (const row of COMMANDS) {
    const { name, group, argument, notes, examples = [] } = row;
    const command = parser.command(name, { hidden: group === undefined }).description(row.summary);
    if (group) command.helpGroup(COMMAND_GROUPS[group]);
    if (argument) {
      const added = new Argument(argument.syntax, argument.text);
      command.addArgument(argument.choices ? added.choices(argument.choices) : added);
    }
    addOptions(command, row.options);
    if (notes) command.addHelpText('after', `\n${notes}`);
    // Each on a line of its own, so that it can be copied.
    const lines = examples.map(([typed, what]) => `  ${typed}\n${what === '' ? '' : `      ${what}\n`}`);
    if (lines.length > 0) command.addHelpText('after', `\nExamples:\n${lines.join('')}`);
    command.action(async () => {
      await call(row, { argument: command.processedArgs[0], options: command.opts() }, readGlobals(parser));
    });
  }
  parser.commandsGroup('Help:').helpCommand('help [command]', 'what a command does, with examples');
  return parser.addHelpText('after', HELP_END);
}

function readGlobals(parser: Command): GlobalOptions {
  return { jobs: JOBS_FOLDER, ...parser.opts<Partial<GlobalOptions>>() };
}

function addOptions(command: Command, options: CommandSpec['options']): void {
  for (const [name, { kind, value, text, choices, conflicts = [] }] of Object.entries(options)) {
    const shown = kind === 'flag' ? '' : ` <${value}${kind === 'list' ? '...' : ''}>`;
    const option = new Option(`${formatFlag(name)}${shown}`, text).conflicts([...conflicts]);
    // What is typed is what the command reads: `--no-report` is `noReport`.
    option.negate = false;
    if (choices) option.choices(choices.map(String));
    if (kind === 'number') option.argParser(parseNumber);
    command.addOption(option);
  }
}

function parseNumber(text: string): number {
  const value = Number(text);
  if (text.trim() === '' || !Number.isFinite(value)) throw new InvalidArgumentError('it must be a number');
  return value;
}

/** Whether the help was printed instead of an error. */
function isHelp(error: unknown): boolean {
  return error instanceof CommanderError && error.code === 'commander.help';
}
