/**
 * `flowdrop completion SHELL` prints the script with which a shell completes commands, flags and jobs; the script calls
 * `flowdrop complete` for what may come next, one per line with its description after a tab, and completes file names if
 * there is none. Invariant: `complete` reads only the command table and file names, so that a key press does not wait.
 */
import { formatJobReference, listJobFiles } from '../job/job-folder.ts';
import { type ActionResult, type CommandCall, type CommandSpec, formatFlag, type OptionSpec } from './command.ts';
import type { Call } from './commands.ts';
import type { CliContext } from './context.ts';

interface Candidate {
  readonly word: string;
  readonly description: string;
}

/** The table of commands, and the options of every command. */
interface CompletionTable {
  readonly commands: readonly CommandSpec[];
  readonly options: CommandSpec['options'];
}

/** What the parser adds to the table. */
const HELP_FLAG = { word: '--help', description: 'display help for command' } as const;
const VERSION_FLAG = { word: '--version', description: 'output the version number' } as const;
const HELP_COMMAND = { word: 'help', description: 'what a command does, with examples' } as const;

/** Arguments and values with this name are job names; the shell completes all others, because it knows files. */
const JOB_VALUE = 'job';

export async function complete(
  { terminal }: Pick<CliContext, 'terminal'>,
  { argument }: CommandCall<readonly string[]>,
  table: CompletionTable,
): ActionResult {
  const found = await listCandidates(table, argument, async (folder) => {
    const files = await listJobFiles(folder).catch(() => []);
    return files.map(formatJobReference);
  });
  // One line per candidate, even if a description has line breaks.
  for (const { word, description } of found) terminal.out(`${word}\t${description.replace(/\s+/g, ' ')}\n`);
  return undefined;
}

/**
 * @param words the words after `flowdrop`; the last one is incomplete, or empty
 * @param listJobs returns the job names in a folder, by its path; none if the folder does not exist
 */
async function listCandidates(
  table: CompletionTable,
  words: readonly string[],
  listJobs: (folder: string) => Promise<readonly string[]>,
): Promise<readonly Candidate[]> {
  const current = words.at(-1) ?? '';
  const state = readWords(table, words.slice(0, -1));
  const starts = (candidates: readonly Candidate[]) => candidates.filter(({ word }) => word.startsWith(current));
  const { command, awaited, positionals } = state;
  const choose = async (value: string | undefined, choices: readonly unknown[] = []) => {
    const names = value === JOB_VALUE ? await listJobs(state.jobs) : choices.map(String);
    return starts(names.map((word) => ({ word, description: value === JOB_VALUE ? 'job' : '' })));
  };
  if (awaited) return await choose(awaited.value, awaited.choices);
  if (current.startsWith('-') && !state.isLiteral) return starts(listFlags(table, state));
  if (command === undefined) {
    const listed = table.commands.filter(({ group }) => group !== undefined);
    return starts([...listed.map(({ name, summary }) => ({ word: name, description: summary })), HELP_COMMAND]);
  }
  const { syntax = '', choices } = command.argument ?? {};
  const isVariadic = syntax.endsWith('...]');
  if (positionals > 0 && !isVariadic) return [];
  return await choose(/\w+/.exec(syntax)?.[0], choices);
}

interface TypedWords {
  readonly command: CommandSpec | undefined;
  /** Number of the command's words that are not flags. */
  readonly positionals: number;
  /** The option whose value comes next. */
  readonly awaited: OptionSpec | undefined;
  /** Flags that are not offered again. */
  readonly used: ReadonlySet<string>;
  /** Folder of the job files. */
  readonly jobs: string;
  /** After `--` nothing is a flag. */
  readonly isLiteral: boolean;
}

function readWords(table: CompletionTable, words: readonly string[]): TypedWords {
  let command: CommandSpec | undefined;
  let positionals = 0;
  let awaited: OptionSpec | undefined;
  let jobs = table.options['jobs']?.default ?? '';
  let isLiteral = false;
  const used = new Set<string>();
  for (const word of words) {
    if (awaited) {
      if (awaited === table.options['jobs']) jobs = word;
      awaited = undefined;
    } else if (word === '--') isLiteral = true;
    else if (word.startsWith('-') && !isLiteral) {
      const [flag = '', value] = word.split('=', 2);
      const options = { ...table.options, ...command?.options };
      const [, option] = Object.entries(options).find(([name, spec]) => formatFlag(name, spec) === flag) ?? [];
      if (option?.kind !== 'list' && option?.kind !== 'each') used.add(flag);
      if (option === undefined || option.kind === 'flag') continue;
      if (value === undefined) awaited = option;
      else if (option === table.options['jobs']) jobs = value;
    } else if (command === undefined) command = table.commands.find(({ name }) => name === word);
    else positionals += 1;
  }
  return { command, positionals, awaited, used, jobs, isLiteral };
}

function listFlags(table: CompletionTable, { command, used }: TypedWords): readonly Candidate[] {
  const describe = (options: CommandSpec['options']) =>
    Object.entries(options).map(([name, spec]) => ({ word: formatFlag(name, spec), description: spec.text }));
  const globals = describe(table.options);
  const flags = command ? [...describe(command.options), HELP_FLAG, ...globals] : [VERSION_FLAG, ...globals, HELP_FLAG];
  return flags.filter(({ word }) => !used.has(word));
}

/** Also works in bash 3.2, the version on macOS: no `mapfile`, no `compopt`. */
const BASH = `# bash completion of flowdrop. In ~/.bashrc: source <(flowdrop completion bash)
_flowdrop() {
  local word
  COMPREPLY=()
  while IFS=$'\\t' read -r word _; do
    [ -n "$word" ] && COMPREPLY+=("$(printf '%q' "$word")")
  done < <("\${COMP_WORDS[0]}" complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _flowdrop flowdrop
`;

const ZSH = `#compdef flowdrop
# zsh completion of flowdrop. In ~/.zshrc, after compinit: source <(flowdrop completion zsh)
_flowdrop() {
  local line
  local -a candidates
  while IFS= read -r line; do
    candidates+=("\${\${line%%$'\\t'*}//:/\\\\:}:\${line#*$'\\t'}")
  done < <("\${words[1]}" complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)
  if (( \${#candidates} )); then
    _describe 'flowdrop' candidates
  else
    _files
  fi
}
compdef _flowdrop flowdrop
`;

const FISH = `# fish completion of flowdrop. In ~/.config/fish/config.fish: flowdrop completion fish | source
function __flowdrop_complete
  set -l words (commandline -opc)
  set -l found ($words[1] complete -- $words[2..-1] (commandline -ct) 2>/dev/null)
  if test (count $found) -gt 0
    printf '%s\\n' $found
  else
    __fish_complete_path (commandline -ct)
  end
end
complete -c flowdrop -f -a '(__flowdrop_complete)'
`;

const SCRIPTS: Readonly<Record<string, string>> = { bash: BASH, zsh: ZSH, fish: FISH };

export async function completion(
  { terminal }: Pick<CliContext, 'terminal'>,
  { argument: shell }: Call<'completion'>,
): ActionResult {
  // The parser allows only these shells.
  terminal.out(SCRIPTS[shell] ?? '');
  return undefined;
}
