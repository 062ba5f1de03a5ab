/**
 * One call of the program: parses the command line, imports and runs the command, and turns any failure into one block
 * of text or one JSON document, and an exit code. The parser is built from the command table, and loads no command. Its
 * errors are Faults: what happened, what is allowed, what next.
 */
import { Argument, Command, CommanderError, InvalidArgumentError, Option } from 'commander';
import { EXIT_CODES, Fault } from '../core/errors.ts';
import { tellInterruption } from '../core/failure.ts';
import { findNearest } from '../core/nearest.ts';
import { formatJobReference, listJobFiles } from '../job/job-folder.ts';
import {
  COMMAND_GROUPS,
  type CommandCall,
  type CommandSpec,
  EXIT_CODE_MEANINGS,
  formatFlag,
  type OptionSpec,
} from './command.ts';
import {
  COMMANDS,
  type CommandName,
  ENGINE_WORKER_COMMAND,
  GLOBAL_OPTIONS,
  type GlobalOptions,
  JOB,
} from './commands.ts';
import type { ActionResult, Call, Cli, CliContext, Terminal } from './context.ts';
import { describeFailure, hangText } from './terminal/text.ts';

/** Imports a command and its dependencies, when it is called. */
const ACTIONS: {
  readonly [Name in CommandName]: () => Promise<(cli: Cli, call: Call<Name>) => ActionResult>;
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
  const [, words = text, suggested] = /^([\s\S]*?)\n\((Did you mean [\s\S]*?)\)$/.exec(text) ?? [];
  const [message = words] = words.split('\n');
  const near = suggested ?? suggestChoice(message);
  const help = command ? `flowdrop ${command.name} --help` : 'flowdrop --help';
  const next = error.code === 'commander.unknownCommand' ? 'lists the commands' : 'lists its options';
  return mistake(message, `${near ? `${near} ` : ''}\`${help}\` ${next}.`);
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

New here? \`flowdrop demo\` needs no key. \`flowdrop init\` sets up a folder of your own, \`flowdrop doctor\` checks it.
\`flowdrop help COMMAND\` has examples.
`;

type NamedCommand = (typeof COMMANDS)[number];

/** Runs a command. Its argument and options are those of its row. */
type CallCommand = (command: NamedCommand, call: CommandCall<unknown>, globals: GlobalOptions) => Promise<void>;

/** Where the help goes. */
type HelpTerminal = Pick<Terminal, 'out' | 'err' | 'columns'>;

export function buildParser(version: string, terminal: HelpTerminal, call: CallCommand): Command {
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
      getOutHelpWidth: () => widthOf(terminal),
      getErrHelpWidth: () => Math.min(terminal.columns.err ?? HELP_WIDTH, MAX_HELP_WIDTH),
    })
    .configureHelp({ subcommandTerm: formatTerm })
    .exitOverride();
  addOptions(parser, GLOBAL_OPTIONS);
  for (const spec of COMMANDS) addCommand(parser, spec, call, terminal);
  parser.commandsGroup('Help:').helpCommand('help [command]', 'what a command does, with examples');
  return parser.addHelpText('after', () => hangText(HELP_END, widthOf(terminal), 0));
}

/** Cells of a line of the help. */
function widthOf({ columns }: HelpTerminal): number {
  return Math.min(columns.out ?? HELP_WIDTH, MAX_HELP_WIDTH);
}

function addCommand(parser: Command, spec: NamedCommand, call: CallCommand, terminal: HelpTerminal) {
  const { name, group, argument, notes, examples } = spec;
  const command = parser.command(name, { hidden: group === undefined }).description(spec.summary);
  if (group) command.helpGroup(COMMAND_GROUPS[group]);
  if (argument) {
    const added = new Argument(argument.syntax, argument.text);
    command.addArgument(argument.choices ? added.choices(argument.choices) : added);
  }
  addOptions(command, spec.options);
  if (notes) command.addHelpText('after', () => `\n${hangText(notes, widthOf(terminal), 0)}`);
  if (examples) {
    // Each on a line of its own, so that it can be copied.
    const lines = examples.map(([typed, what]) => `  ${typed}\n${what === '' ? '' : `      ${what}\n`}`);
    command.addHelpText('after', `\nExamples:\n${lines.join('')}`);
  }
  command.action(async () => {
    await call(spec, { argument: command.processedArgs[0], options: command.opts() }, parser.opts<GlobalOptions>());
  });
}

function addOptions(command: Command, options: CommandSpec['options']): void {
  for (const [name, spec] of Object.entries(options)) command.addOption(buildOption(name, spec));
}

function buildOption(name: string, spec: OptionSpec): Option {
  const value = spec.value === '' ? '' : ` <${spec.value}${spec.kind === 'list' ? '...' : ''}>`;
  const option = new Option(`${formatFlag(name, spec)}${value}`, spec.text)
    .makeOptionMandatory(spec.isRequired === true)
    .conflicts([...(spec.conflicts ?? [])]);
  if (spec.default !== undefined) option.default(spec.default);
  if (spec.choices) option.choices(spec.choices.map(String));
  if (spec.kind === 'number') option.argParser(parseNumber);
  // No initial list: the help would print it as a default.
  if (spec.kind === 'each') option.argParser((text, before: readonly string[] = []) => [...before, text]);
  return option;
}

function parseNumber(text: string): number {
  const value = Number(text);
  if (text.trim() === '' || !Number.isFinite(value)) throw new InvalidArgumentError('it must be a number');
  return value;
}

/** The command's own help has the flags; here they would only widen the column. */
function formatTerm(command: Command): string {
  const { argument = undefined } = COMMANDS.find(({ name }) => name === command.name()) ?? {};
  return command.name() === 'help' ? 'help [command]' : `${command.name()} ${argument?.syntax ?? ''}`.trimEnd();
}

/** Whether the help was printed instead of an error. */
function isHelp(error: unknown): boolean {
  return error instanceof CommanderError && error.code === 'commander.help';
}

/** `flowdrop help NAME` for an unknown command: the parser would print the whole help, and no error. */
function findUnknownTopic([first, topic]: readonly string[]): Fault | undefined {
  const names: readonly string[] = COMMANDS.map(({ name }) => name);
  if (first !== 'help' || topic === undefined || topic.startsWith('-') || names.includes(topic)) return undefined;
  const near = findNearest(topic, names);
  const hint = `${near ? `Did you mean ${near}? ` : ''}\`flowdrop --help\` lists the commands.`;
  return mistake(`unknown command '${topic}'`, hint);
}

/** The allowed choice closest to an invalid value. */
function suggestChoice(message: string): string | undefined {
  const [, came, allowed] = /'([^']*)' is invalid\. Allowed choices are (.*)\.$/.exec(message) ?? [];
  if (came === undefined || allowed === undefined) return undefined;
  const near = findNearest(came, allowed.split(', '));
  return near && `Did you mean ${near}?`;
}
