# Completions of cinnabar-cli, cinnabar-benchmark and cinnabar-server for bash. The words are those of the entries.

_cinnabar_words=/usr/share/cinnabar/completions

# The options that a program's help names.
_cinnabar_options() {
    "$1" --help 2>&1 | grep -oE '^ +--?[A-Za-z0-9-]+' | tr -d ' '
}

_cinnabar_cli() {
    local word=$2 at before first=
    for ((at = 1; at < COMP_CWORD; at++)); do
        before=${COMP_WORDS[at - 1]}
        if [[ ${COMP_WORDS[at]} != -* && ($before != -* || $before == -[23cxXe] || $before == --*) ]]; then
            first=${COMP_WORDS[at],,}
            break
        fi
    done
    if [[ $word == -* ]]; then
        COMPREPLY=($(compgen -W "$(_cinnabar_options cinnabar-cli)" -- "$word"))
    elif [[ -z $first ]]; then
        COMPREPLY=($(compgen -W "$(cut -d ' ' -f 1 "$_cinnabar_words/commands")" -- "${word,,}"))
    elif ((at == COMP_CWORD - 1)); then
        COMPREPLY=($(compgen -W "$(grep "^$first " "$_cinnabar_words/commands" | cut -d ' ' -f 2-)" -- "${word,,}"))
    fi
}

_cinnabar_benchmark() {
    if [[ $2 == -* ]]; then
        COMPREPLY=($(compgen -W "$(_cinnabar_options cinnabar-benchmark)" -- "$2"))
    fi
}

_cinnabar_server() {
    if [[ $2 == -* ]]; then
        COMPREPLY=($(compgen -P -- -W "$(cat "$_cinnabar_words/directives")" -- "${2##-*-}"))
        COMPREPLY+=($(compgen -W "--help --version --sentinel --check-system --test-memory" -- "$2"))
    fi
}

complete -o default -F _cinnabar_cli cinnabar-cli
complete -o default -F _cinnabar_benchmark cinnabar-benchmark
complete -o default -F _cinnabar_server cinnabar-server
