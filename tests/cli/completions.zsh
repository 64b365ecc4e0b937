# completions.zsh DIRECTORY: an interactive zsh with the completion in DIRECTORY, somebody who types and presses the tab
# key, and what must then be seen.
zmodload zsh/zpty
zpty -b shell zsh -f -i

seen=
typed() { zpty -w -n shell $1 }

# Read until it is seen.
expect() {
    local chunk
    integer tries=0
    until [[ $seen == *$1* ]]; do
        if zpty -r -t shell chunk; then
            seen+=$chunk
        elif ((tries++ > 400)); then
            print -r -- "# waited in vain for \"$1\" in: ${(V)seen}"
            exit 1
        else
            sleep 0.05
        fi
    done
    before=${seen%%$1*}
    seen=${seen#*$1}
}

typed $'PS1="> "; fpath=('${(q)1}$' $fpath); autoload -Uz compinit; compinit -u -D; print re"ad"y\n'
expect ready
typed $'simba sch\t'
expect schedule
typed $'--ever\t'
expect --every
typed $'1s nigh\t'
expect nightly-backup
typed $'-- ech\t'
expect echo

# What goes elsewhere: a file, a URL, and nothing at all where a duration goes.
typed $'\C-usimba --config ni\t'
expect night-plan
typed $'\C-usimba timeline ni\t'
expect night-plan
typed $'\C-usimba tck redi\t'
expect redis://
typed $'\C-usimba list --url=redi\t'
expect redis://
typed $'\C-usimba run --log-format jour\t'
expect journal
typed $'\C-usimba run --ttl ni\t\C-uprint no"thi"ng\n'
expect nothing
[[ $before != *nightly* ]] || { print -r -- "# a mutex where a duration goes: ${(V)before}"; exit 1 }
