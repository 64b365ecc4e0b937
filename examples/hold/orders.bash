#!/bin/bash
# orders.bash STEPS: work on the orders, step by step, while holding the mutex "orders". A step must be shorter than the grace.
set -eu
coproc HOLD { exec simba hold --grace 1s orders; }
hold=$HOLD_PID keeps=${HOLD[1]}
exec {lines}<&"${HOLD[0]}" # bash forgets HOLD when that process ends

# Anything is a loss: the line that says so, or the end of the lines if simba itself was killed.
is_lost() {
    read -r -t 0 <&"$lines"
}

field() {
    sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p" <<<"$2"
}

read -r line <&"$lines" || exit 75
[ "$(field event "$line")" = acquired ] || exit 75
echo "working under token $(field token "$line")"
for ((step = 0; step < $1; step++)); do
    if is_lost; then
        read -r line <&"$lines" || line='{"reason":"simba has ended"}'
        echo "lost: $(field reason "$line")"
        exit 79
    fi
    sleep 0.1 # the work
done
exec {keeps}>&- # gives the mutex back
wait "$hold"
echo "done"
