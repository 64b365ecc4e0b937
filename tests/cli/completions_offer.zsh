# completions_offer.zsh FILE WORD…: what the completion in FILE offers for the last word of the line, a name per line. The widgets of
# zsh that show something are replaced by ones that print it.
_describe() { print -rl -- ${${(P)2}%%:*} }
compadd() { # compadd [-S SUFFIX] -a ARRAY, or compadd WORD…
    [[ $1 != -S ]] || shift 2
    if [[ $1 == -a ]]; then print -rl -- ${(P)2}; else print -rl -- "$@"; fi
}
compset() { : }
_files() { : }
_command_names() { : }
_normal() { : }
words=("${(@)argv[2,-1]}")
CURRENT=$#words
source $1
