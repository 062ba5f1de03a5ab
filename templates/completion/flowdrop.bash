# bash completion of flowdrop. In ~/.bashrc: source <(flowdrop completion bash)
# Also works in bash 3.2, the version on macOS: no `mapfile`, no `compopt`.
_flowdrop() {
  local word
  COMPREPLY=()
  while IFS=$'\t' read -r word _; do
    [ -n "$word" ] && COMPREPLY+=("$(printf '%q' "$word")")
  done < <("${COMP_WORDS[0]}" complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _flowdrop flowdrop
