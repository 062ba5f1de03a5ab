/**
 * `flowdrop completion SHELL`: the script with which a shell completes commands, flags and jobs. Each script calls
 * `flowdrop complete` for the candidates, one per line with its description after a tab, and completes file names if
 * there is none.
 */
import type { ActionResult } from '../command.ts';
import type { Call } from '../commands.ts';
import type { CliContext } from '../context.ts';

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
