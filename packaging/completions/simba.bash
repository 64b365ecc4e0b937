# shellcheck shell=bash
# Completion of the simba command for bash. Commands and options are asked of simba itself, so that there is one list.

_simba_words() {
    # The commands of `simba --help`, or the options of `simba COMMAND --help`.
    if [ -n "${1-}" ]; then
        simba "$1" --help 2>/dev/null | grep -oE -- '^ +(-[a-zA-Z], +)?--[a-z-]+' | grep -oE -- '--[a-z-]+'
    else
        simba --help 2>/dev/null | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'
    fi
}

_simba() {
    local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command='' i mutexes
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        --) # a command of the user begins here
            compopt -o default
            return
            ;;
        --url | --config | --ttl | --transition | --id | --event-log) ((i++)) ;;
        -*) ;;
        *)
            [ -n "$command" ] || command=${COMP_WORDS[i]}
            ;;
        esac
    done
    case $previous in
    --config | --status-file | --event-log | --svg)
        compopt -o default
        return
        ;;
    esac
    if [ -z "$command" ] || [ "$command" = help ]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_simba_words) --url --config --ttl --transition --id --event-log --help" -- "$word")
    elif [[ $word == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_simba_words "$command") --" -- "$word")
    else
        mutexes=$(simba list --json 2>/dev/null | grep -oE '"mutex":"[A-Za-z0-9_.:/-]+"' | cut -d '"' -f 4)
        mapfile -t COMPREPLY < <(compgen -W "$mutexes" -- "$word")
    fi
}

complete -F _simba simba
