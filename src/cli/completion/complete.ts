/**
 * What may come next on a command line: commands, flags, and the names of jobs. Invariant: it reads only the commands as
 * registered and the names of files, so that a key press waits for nothing. Pure but for the list of jobs it is given.
 */
import type { Command, Option } from 'commander';

export interface Candidate {
  readonly word: string;
  readonly description: string;
}

export interface CompletionDeps {
  /** Names of the jobs in a folder, by its path; none when there is no such folder. */
  listJobs(folder: string): Promise<readonly string[]>;
}

/** Arguments and values of this name are names of jobs; any other is left to the shell, which knows files. */
const JOB_ARGUMENT = 'job';

/** @param words what is typed after `flowdrop`; the last one is incomplete, or empty */
export async function listCandidates(
  program: Command,
  words: readonly string[],
  deps: CompletionDeps,
): Promise<readonly Candidate[]> {
  const current = words.at(-1) ?? '';
  const state = readWords(program, words.slice(0, -1));
  const starts = (candidates: readonly Candidate[]) => candidates.filter(({ word }) => word.startsWith(current));
  const listJobs = async () => {
    const jobs = await deps.listJobs(state.jobs ?? String(program.getOptionValue('jobs') ?? ''));
    return starts(jobs.map((word) => ({ word, description: 'job' })));
  };
  if (state.awaited) {
    if (state.awaited.flags.endsWith(`<${JOB_ARGUMENT}>`)) return await listJobs();
    return starts((state.awaited.argChoices ?? []).map((word) => ({ word, description: '' })));
  }
  if (current.startsWith('-') && !state.isLiteral) return starts(listFlags(program, state));
  const { command } = state;
  if (command === program) return starts(listCommands(program));
  const { registeredArguments: declared } = command;
  const argument = declared[Math.min(state.positionals, declared.length - 1)];
  if (argument === undefined || (state.positionals >= declared.length && !argument.variadic)) return [];
  if (argument.argChoices) return starts(argument.argChoices.map((word) => ({ word, description: '' })));
  return argument.name() === JOB_ARGUMENT ? await listJobs() : [];
}

interface Words {
  readonly command: Command;
  /** Words of the command that are no flags. */
  readonly positionals: number;
  /** The option whose value comes next. */
  readonly awaited: Option | undefined;
  readonly used: ReadonlySet<string>;
  /** Folder given by `--jobs`. */
  readonly jobs: string | undefined;
  /** After `--` nothing is a flag. */
  readonly isLiteral: boolean;
}

function readWords(program: Command, words: readonly string[]): Words {
  let command = program;
  let positionals = 0;
  let awaited: Option | undefined;
  let jobs: string | undefined;
  let isLiteral = false;
  const used = new Set<string>();
  for (const word of words) {
    if (awaited) {
      if (awaited.long === '--jobs') jobs = word;
      awaited = undefined;
    } else if (word === '--') isLiteral = true;
    else if (word.startsWith('-') && !isLiteral) {
      const [flag = '', value] = word.split('=', 2);
      const option = [...command.options, ...program.options].find(
        ({ short, long }) => flag === short || flag === long,
      );
      if (option?.long) used.add(option.long);
      if (option?.long === '--jobs' && value !== undefined) jobs = value;
      if (option && (option.required || option.optional) && value === undefined) awaited = option;
    } else if (command === program) {
      command = program.commands.find((known) => known.name() === word || known.aliases().includes(word)) ?? program;
    } else positionals += 1;
  }
  return { command, positionals, awaited, used, jobs, isLiteral };
}

function listCommands(program: Command): readonly Candidate[] {
  return program
    .createHelp()
    .visibleCommands(program)
    .map((command) => ({ word: command.name(), description: command.summary() || command.description() }));
}

function listFlags(program: Command, { command, used }: Words): readonly Candidate[] {
  const own = command.createHelp().visibleOptions(command);
  const all = command === program ? own : [...own, ...program.options.filter(({ long }) => long !== '--version')];
  return all.flatMap(({ long, variadic, description }) =>
    long && (variadic || !used.has(long)) ? [{ word: long, description }] : [],
  );
}
