# Completion of the simba command for fish. What there is, commands, options, what each of them takes and what stands behind
# it, is asked of simba itself, so that there is one list.

# The word for what the option takes, as the help has it: URL, FILE, D …; nothing: it is a flag, or there is none.
function __simba_takes --argument-names option
    string match -rg -- "^ +(?:(?:-[a-zA-Z], +)?$option|$option, +--[a-z-]+) ([A-Z]+) .*" $argv[2..]
end

# The word for the operand of this number: MUTEX, FILE, URL … The last one is the one for all that follow.
function __simba_operand --argument-names number usage
    set -l operands (string replace -r '.*\[OPTION\.\.\.\]' '' -- $usage | string replace -r ' -- .*' '' | string replace -ra '[][]' '' |
        string split -n ' ')
    if test (count $operands) -ge $number
        string replace '...' '' -- $operands[$number]
    else if string match -qr '\.\.\.$' -- $operands[-1]
        string replace '...' '' -- $operands[-1]
    end
end

# What can stand where the word KIND is; COMMAND has the place.
function __simba_offers --argument-names kind command
    switch $kind
        case MUTEX PATTERN
            if test "$command" = tck
                simba tck --list 2>/dev/null
            else
                simba list --json 2>/dev/null | string match -rg '"mutex":"([A-Za-z0-9_.:/-]+)"'
            end
        case ACTION
            printf '%s\n' get set
        case FORM
            printf '%s\n' text journal json
        case HOW
            printf '%s\n' once skip all
        case WHEN
            printf '%s\n' contending leading child
        case LIST
            printf '%s\n' handover kill pause cut stall deaf mute delay
        case URL
            simba list --url x:// 2>&1 | string match -ra '[a-z]+://'
        case COMMAND
            simba --help 2>/dev/null | string match -rg '^  ([a-z]+) +(.*)' | while read -l name; read -l text
                printf '%s\t%s\n' $name $text
            end
        case F FILE
            __fish_complete_path (commandline -ct)
        case CMD
            __fish_complete_command
    end
end

function __simba_complete
    set -l words (commandline -opc)[2..]
    set -l word (commandline -ct)
    set -l help (simba --help 2>/dev/null)
    set -l command ''
    set -l operands 0
    set -l kind ''
    for given in $words
        if test -n "$kind" # this is the value of the option before it
            set kind ''
            continue
        end
        switch $given
            case -- # a command of the user begins here
                __fish_complete_path $word
                return
            case '--*=*'
            case '--*'
                set kind (__simba_takes $given $help)
            case '-*'
                if test (string length -- $given) -eq 2 # not "-vv" or "-E5"
                    set kind (__simba_takes $given $help)
                end
            case '*'
                if test -n "$command"
                    set operands (math $operands + 1)
                else
                    set command $given
                    set help (simba $command --help 2>/dev/null)
                end
        end
    end
    if test -n "$kind"
        __simba_offers $kind $command
    else if string match -q -- '-*' $word
        string match -rg -- '^ +(?:-[a-zA-Z], +)?(--[a-z-]+)' $help
    else if test -z "$command"
        __simba_offers COMMAND
    else
        __simba_offers (__simba_operand (math $operands + 1) $help[1]) $command
    end
end

complete -c simba -f -a '(__simba_complete)'
