# shellcheck shell=bash
# Completion of the simba command for bash. What there is, commands, options, what each of them takes and what stands behind
# it, is asked of simba itself, so that there is one list.

# The word for what an option takes, as --help has it: URL, FILE, D …; nothing: it is a flag, or there is none.
_simba_takes() {
    sed -nE "s/^ +((-[a-zA-Z], +)?$1|$1, +--[a-z-]+) ([A-Z]+) .*/\3/p" <<<"$2"
}

# The word for the operand of this number: MUTEX, FILE, URL … The last one is the one for all that follow.
_simba_operand() {
    sed -nE '1s/.*\[OPTION\.\.\.\]//p' <<<"$2" | sed 's/ -- .*//' | tr -d '[]' |
        awk -v at="$1" '{ word = at > NF && $NF ~ /\.\.\.$/ ? $NF : $at; sub(/\.\.\.$/, "", word); print word }'
}

# What can stand where the word KIND is; COMMAND has the place.
_simba_offers() {
    case $1 in
    MUTEX | PATTERN)
        if [ "$2" = tck ]; then
            simba tck --list 2>/dev/null
        else
            simba list --json 2>/dev/null | grep -oE '"mutex":"[A-Za-z0-9_.:/-]+"' | cut -d '"' -f 4
        fi
        ;;
    ACTION) echo get set ;;
    FORM) echo text journal json ;;
    HOW) echo once skip all ;;
    WHEN) echo contending leading child ;;
    LIST) echo handover kill pause cut stall deaf mute delay ;;
    URL) simba list --url x:// 2>&1 | grep -oE '[a-z]+://' ;;
    COMMAND) simba --help 2>/dev/null | sed -n 's/^  \([a-z][a-z]*\) .*/\1/p' ;;
    esac
}

_simba() {
    local -a words
    local help command='' kind='' word operands=0 i offered cut
    COMPREPLY=()
    # By blanks only: bash would also divide a URL, and --option=value.
    read -ra words <<<"${COMP_LINE:0:COMP_POINT}"
    case ${COMP_LINE:0:COMP_POINT} in *' ') words+=('') ;; esac
    word=${words[${#words[@]} - 1]}
    help=$(simba --help 2>/dev/null)
    for ((i = 1; i < ${#words[@]} - 1; i++)); do
        kind=''
        case ${words[i]} in
        --) # a command of the user begins here
            compopt -o default
            return
            ;;
        --*=* | -[!-]?*) ;;
        -*) kind=$(_simba_takes "${words[i]}" "$help") && [ -n "$kind" ] && ((i++)) ;;
        *)
            if [ -n "$command" ]; then
                ((operands++))
            else
                command=${words[i]}
                help=$(simba "$command" --help 2>/dev/null)
            fi
            ;;
        esac
    done
    # Past the end: this word is the value of the option before it.
    ((i < ${#words[@]})) && kind=''
    if [ -z "$kind" ] && [[ $word == --*=* ]]; then
        kind=$(_simba_takes "${word%%=*}" "$help")
        word=${word#*=}
    elif [ -z "$kind" ] && [[ $word == -* ]]; then
        offered="$(grep -oE -- '^ +(-[a-zA-Z], +)?--[a-z-]+' <<<"$help" | grep -oE -- '--[a-z-]+') --"
    elif [ -z "$kind" ]; then
        kind=COMMAND
        [ -z "$command" ] || kind=$(_simba_operand $((operands + 1)) "$help")
    fi
    case $kind in
    F | FILE)
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        ;;
    CMD) mapfile -t COMPREPLY < <(compgen -c -- "$word") ;;
    *)
        [ "$kind" != URL ] || compopt -o nospace
        mapfile -t COMPREPLY < <(compgen -W "${offered-$(_simba_offers "$kind" "$command")}" -- "$word")
        ;;
    esac
    # Bash replaces what stands behind the last of these signs, and no more.
    cut=${word%"${word##*[:=]}"}
    [ -z "$cut" ] || COMPREPLY=("${COMPREPLY[@]#"$cut"}")
}

complete -F _simba simba
