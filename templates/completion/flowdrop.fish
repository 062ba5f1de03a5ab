# fish completion of flowdrop. In ~/.config/fish/config.fish: flowdrop completion fish | source
function __flowdrop_complete
  set -l words (commandline -opc)
  set -l found ($words[1] complete -- $words[2..-1] (commandline -ct) 2>/dev/null)
  if test (count $found) -gt 0
    printf '%s\n' $found
  else
    __fish_complete_path (commandline -ct)
  end
end
complete -c flowdrop -f -a '(__flowdrop_complete)'
