# shellcheck shell=sh
# What ./run and ./test have in common: packages, steps with a log, configuring and building. Sourced by them, with
# $root set to the top of the source tree. Everything said here goes to stderr: stdout belongs to the programs.

: "${root:?}"
logs=$root/build/log
jobs=${SIMBA_JOBS:-$(nproc 2>/dev/null || echo 2)}

say() {
    printf '==> %s\n' "$*" >&2
}

warn() {
    printf '%s\n' "$*" >&2
}

# step NAME TEXT COMMAND…: say TEXT and run the command with its output in the log NAME. If it fails, show the end of
# that log.
step() {
    step_log=$logs/$1.log
    say "$2"
    shift 2
    mkdir -p "$logs"
    "$@" >"$step_log" 2>&1 </dev/null || step_failed "$@"
}

# step_failed COMMAND…: show the end of $step_log.
step_failed() {
    if [ "$1" = locked ]; then shift 2; fi
    warn "failed: $*"
    tail -n "${SIMBA_LOG_TAIL:-30}" "$step_log" | sed 's/^/    /' >&2
    warn "the whole log: $step_log"
    return 1
}

# --- beside the rest --------------------------------------------------------------------------------

# start_beside COMMAND…: begin to run the command, a function of ours, beside what follows. $scratch is a folder of the caller's.
# Programs that the command runs by `aside` have the lowest priority, so that they take no time from tests of real-time promises.
start_beside() {
    "$@" &
    beside=$!
}

# aside COMMAND…: run it at the lowest priority, in a session of its own, so that end_beside can end all of it. Linux first shares the
# processors among sessions (sched_autogroup), so `nice` alone would only choose among the processes of this session.
aside() {
    # shellcheck disable=SC2016 # the inner shell expands it
    setsid sh -c '{ echo 19 >/proc/self/autogroup; } 2>/dev/null; exec nice -n 19 "$@"' aside "$@" </dev/null &
    echo $! >"${scratch:?}/aside"
    wait $!
}

# Wait until the command of start_beside is done.
finish_beside() {
    [ -z "${beside-}" ] || wait "$beside"
    beside=
}

# End that command if it is not done.
end_beside() {
    if [ -z "${beside-}" ]; then return; fi
    kill "$beside" 2>/dev/null
    kill -s TERM -- "-$(cat "${scratch:?}/aside")" 2>/dev/null
    finish_beside
}

# Print the version, from include/simba.h.
version_of_header() {
    sed -n 's/^#define SIMBA_VERSION_[A-Z]* \([0-9]*\)$/\1/p' "$root/include/simba.h" | paste -sd .
}

# Print git's id of the tree; nothing if there are changes that are not committed, or no git.
clean_tree() {
    changes=$(git -C "$root" status --porcelain 2>/dev/null) && [ -z "$changes" ] && git -C "$root" rev-parse 'HEAD^{tree}'
}

# --- packages ---------------------------------------------------------------------------------------

packages_of() {
    for section in "$@"; do
        sed -n "s/^${section}[[:space:]][[:space:]]*//p" "$root/scripts/packages"
    done
}

# Print those of the given packages that are not installed, in one line.
packages_missing() {
    for package in "$@"; do
        # shellcheck disable=SC2016 # the format is dpkg-query's
        case $(dpkg-query -W -f '${db:Status-Status} ' "$package" 2>/dev/null) in
        installed\ *) ;;
        *) printf '%s ' "$package" ;;
        esac
    done
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    else
        sudo "$@"
    fi
}

# Run a command while no package can start a service on this machine: the tests start the servers that they need. It is a
# subshell, so that its traps do not replace the caller's.
without_services() (
    policy=/usr/sbin/policy-rc.d
    if [ ! -e $policy ]; then
        trap 'as_root rm -f $policy' EXIT
        trap 'exit 130' INT
        trap 'exit 143' HUP TERM
        as_root sh -c "printf '#!/bin/sh\nexit 101\n' >$policy && chmod 755 $policy"
    fi
    "$@"
)

apt_get() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 "$@"
}

apt_install() {
    without_services apt_get install --no-install-recommends "$@"
}

# install_packages SECTION…: install the packages of these sections that are missing.
install_packages() {
    # shellcheck disable=SC2046 # package names are words
    set -- $(packages_of "$@")
    if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
        warn "This is not Debian or one of its kin: nothing is installed. Needed, in Debian's names: $*"
        return 0
    fi
    # shellcheck disable=SC2046
    set -- $(packages_missing "$@")
    [ $# -gt 0 ] || return 0
    if [ "$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null; then
        warn "Some packages are missing, and there is neither root nor sudo to install them. As root, please run:"
        warn ""
        warn "    apt-get install --no-install-recommends $*"
        warn ""
        return 1
    fi
    if [ "$(id -u)" -ne 0 ]; then
        # Ask for the password here and now, not in the middle of a step whose output goes to a log.
        if ! sudo -v >&2; then
            warn "sudo refused. As root, please run: apt-get install --no-install-recommends $*"
            return 1
        fi
    fi
    text="installing $*"
    if ls /var/lib/apt/lists/*_Packages* >/dev/null 2>&1; then
        # Old package lists name files that are gone: fetch the lists and try again.
        say "$text"
        mkdir -p "$logs"
        apt_install "$@" >"$logs/apt-install.log" 2>&1 </dev/null && return 0
    fi
    step apt-update "fetching the package lists" apt_get update &&
        step apt-install "$text" apt_install "$@"
}

# --- building ---------------------------------------------------------------------------------------

# locked PRESET COMMAND…: one process at a time per build directory. `flock` is in every Debian.
locked() {
    lock=$root/build/.lock-$1
    shift
    if command -v flock >/dev/null; then
        mkdir -p "$root/build"
        flock "$lock" "$@"
    else
        "$@"
    fi
}

# configure PRESET [-D…]: (re)configure build/PRESET.
configure() {
    preset=$1
    shift
    cache=$root/build/$preset/CMakeCache.txt
    # If the tree was moved or copied with its build directory, that directory belongs to another place.
    if [ -f "$cache" ] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$cache"; then
        rm -rf "${root:?}/build/$preset"
    fi
    step "configure-$preset" "configuring ($preset)" locked "$preset" cmake -S "$root" --preset "$preset" "$@"
}

is_configured() {
    [ -f "$root/build/$1/build.ninja" ] &&
        grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$root/build/$1/CMakeCache.txt"
}

# build PRESET [TARGET…]: build it; says so only if there is something to build.
build() {
    preset=$1
    shift
    set -- locked "$preset" ninja -C "$root/build/$preset" -j "$jobs" "$@"
    step_log=$logs/build-$preset.log
    mkdir -p "$logs"
    {
        "$@" 2>&1 </dev/null
        echo $? >"$step_log.status"
    } | {
        said=
        while IFS= read -r line; do
            case $said$line in
            '['*'] Building'* | '['*'] Linking'* | '['*'] Re-running'*)
                said=yes
                say "building ($preset)"
                ;;
            esac
            printf '%s\n' "$line"
        done
    } >"$step_log"
    read -r status <"$step_log.status"
    rm -f "$step_log.status"
    [ "$status" -eq 0 ] || step_failed "$@"
}
