#compdef flowdrop
# zsh completion of flowdrop. In ~/.zshrc, after compinit: source <(flowdrop completion zsh)
_flowdrop() {
  local line
  local -a candidates
  while IFS= read -r line; do
    candidates+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
  done < <("${words[1]}" complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)
  if (( ${#candidates} )); then
    _describe 'flowdrop' candidates
  else
    _files
  fi
}
compdef _flowdrop flowdrop
