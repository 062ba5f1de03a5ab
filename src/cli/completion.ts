/**
 * `flowdrop completion SHELL` prints the script with which a shell completes commands, flags and jobs; the script calls
 * `flowdrop complete` for what may come next, one per line with its description after a tab, and completes file names if
 * there is none. Invariant: `complete` reads only the command table and file names, so that a key press does not wait.
 */
import { parseArgs } from 'node:util';
import { formatJobReference, listJobFiles } from '../job/job-folder.ts';
import { formatFlag, type OptionSpec } from './command.ts';
import { COMMANDS, GLOBAL_OPTIONS, JOBS_FOLDER } from './commands.ts';
import type { Call, Cli } from './context.ts';

/** A word that may come next, and what it means. */
type Candidate = readonly [word: string, description: string];

/** What the parser adds to the table. */
const HELP_FLAG: Candidate = ['--help', 'display help for command'];
const VERSION_FLAG: Candidate = ['--version', 'output the version number'];
const HELP_COMMAND: Candidate = ['help', 'what a command does, with examples'];

export async function complete({ terminal }: Cli, { argument: words }: Call<'complete'>) {
  const current = words.at(-1) ?? '';
  const found = await listNext(words.slice(0, -1), current.startsWith('-'));
  // One line per candidate, even if a description has line breaks.
  for (const [word, description] of found)
    if (word.startsWith(current)) terminal.out(`${word}\t${description.replace(/\s+/g, ' ')}\n`);
  return undefined;
}

/** @param words typed before the incomplete one @param wantsFlag whether that one begins like a flag */
async function listNext(words: readonly string[], wantsFlag: boolean): Promise<readonly Candidate[]> {
  const command = COMMANDS.find(({ name }) => words.includes(name));
  const options = Object.entries({ ...command?.options, ...GLOBAL_OPTIONS });
  const known = new Map<string, OptionSpec>(options.map(([name, spec]) => [formatFlag(name), spec]));
  const { tokens } = parseArgs({
    args: [...words],
    strict: false,
    tokens: true,
    options: Object.fromEntries(
      Array.from(known, ([typed, { kind }]) => [typed.slice(2), { type: kind === 'flag' ? 'boolean' : 'string' }]),
    ),
  });
  const given = tokens.filter((token) => token.kind === 'option');
  const jobs = given.findLast(({ name }) => name === 'jobs')?.value ?? JOBS_FOLDER;
  const last = tokens.at(-1);
  const awaited = last?.kind === 'option' && last.value === undefined ? known.get(last.rawName) : undefined;
  if (awaited && awaited.kind !== 'flag') return await listValues(awaited.value, awaited.choices, jobs);
  if (wantsFlag && !tokens.some(({ kind }) => kind === 'option-terminator')) {
    const used = given.filter(({ rawName }) => known.get(rawName)?.kind !== 'list').map(({ rawName }) => rawName);
    const flags = Array.from(known, ([flag, { text }]): Candidate => [flag, text]);
    const all = [...flags, HELP_FLAG, ...(command ? [] : [VERSION_FLAG])];
    return all.filter(([word]) => !used.includes(word));
  }
  if (command === undefined) {
    const listed = COMMANDS.filter(({ group }) => group !== undefined);
    return [...listed.map(({ name, summary }) => [name, summary] as const), HELP_COMMAND];
  }
  const { syntax = '', choices } = command.argument ?? {};
  const isComplete = tokens.filter(({ kind }) => kind === 'positional').length > 1 && !syntax.endsWith('...]');
  return isComplete ? [] : await listValues(/\w+/.exec(syntax)?.[0], choices, jobs);
}

/** Of values with the name `job` the jobs, else their choices; the shell completes all others, because it knows files. */
async function listValues(value: string | undefined, choices: readonly unknown[] = [], jobs: string) {
  if (value !== 'job') return choices.map((choice): Candidate => [String(choice), '']);
  const files = await listJobFiles(jobs).catch(() => []);
  return files.map((file): Candidate => [formatJobReference(file), 'job']);
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

export async function completion({ terminal }: Cli, { argument: shell }: Call<'completion'>) {
  // The parser allows only these shells.
  terminal.out(SCRIPTS[shell] ?? '');
  return undefined;
}
