export const SHELLS = ["bash", "zsh", "fish"] as const;
export type Shell = (typeof SHELLS)[number];

/** Completion scripts for each shell; each runs `rf __complete SHELL WORDS…` to get the candidates. */
export const COMPLETION_SCRIPTS: Record<Shell, string> = {
  bash: String.raw`# Completion of rf for bash: source <(rf completion bash)
_rf_complete() {
  local current=${"$"}{COMP_WORDS[COMP_CWORD]} value about index
  local -a values=() abouts=()
  COMPREPLY=()
  while IFS=$'\t' read -r value about; do
    values+=("$value")
    abouts+=("$about")
  done < <("${"$"}{COMP_WORDS[0]}" __complete bash "${"$"}{COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  if [[ ${"$"}{values[0]-} == :files ]]; then
    compopt -o filenames
    [[ $current == = ]] && current=
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
    return
  fi
  for index in "${"$"}{!values[@]}"; do
    printf -v value %q "${"$"}{values[index]}"
    # Descriptions are shown in the list only, not inserted.
    if ((${"$"}{#values[@]} > 1 && COMP_TYPE != 37)) && [[ -n ${"$"}{abouts[index]} ]]; then
      value="$value  (${"$"}{abouts[index]})"
    fi
    COMPREPLY+=("$value")
  done
}
complete -F _rf_complete rf
`,
  zsh: String.raw`#compdef rf
# Completion of rf for zsh: source <(rf completion zsh)
_rf() {
  local value about
  local -a values shown
  while IFS=$'\t' read -r value about; do
    if [[ $value == :files ]]; then
      _files
      return
    fi
    values+=("$value")
    shown+=("$value${"$"}{about:+  -- $about}")
  done < <("${"$"}{words[1]}" __complete zsh "${"$"}{(@Q)words[2,CURRENT]}" 2>/dev/null)
  (( ${"$"}{#values} )) && compadd -U -l -d shown -a values
}
if [[ ${"$"}{funcstack[1]} == _rf ]]; then
  _rf "$@"
else
  (( ${"$"}{+functions[compdef]} )) || { autoload -Uz compinit && compinit }
  compdef _rf rf
fi
`,
  fish: String.raw`# Completion of rf for fish: rf completion fish | source
function __rf_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l lines ($words[1] __complete fish $words[2..] "$current" 2>/dev/null)
    if test "$lines[1]" = :files
        __fish_complete_path "$current"
    else
        printf '%s\n' $lines
    end
end
complete -c rf -f -a '(__rf_complete)'
`,
};
