#!/bin/bash
# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Shows the progress of a build as one line on a terminal, and as one line every half minute elsewhere: the title, the
# steps done, and the time left. Other output of ninja (warnings, errors) passes.
#   NINJA_STATUS='[%f/%t %e] ' cmake --build build 2>&1 | show_progress.sh "Building the window"
what=$1
said=-30

in_words() {
    if [ "$1" -lt 90 ]; then echo "$(($1 / 10 * 10 + 10)) s"; else echo "$((($1 + 59) / 60)) min"; fi
}

say() {
    local text="$what: $1"
    if [ -t 1 ]; then
        printf '\r\e[K%s' "$text"
    elif [ $((SECONDS - said)) -ge 30 ]; then
        said=$SECONDS
        echo "$text"
    fi
}

on_line=no
while IFS= read -r line; do
    if [[ $line =~ ^\[([0-9]+)/([0-9]+)\ ([0-9]+)[.0-9]*\] ]]; then
        finished=${BASH_REMATCH[1]} total=${BASH_REMATCH[2]} seconds=${BASH_REMATCH[3]}
        left=
        # The first steps say little about the time of the others.
        if [ "$seconds" -ge 10 ] && [ "$finished" -ge 10 ] && [ "$finished" -lt "$total" ]; then
            left=", about $(in_words $((seconds * (total - finished) / finished))) left"
        fi
        say "$finished of $total steps, $((100 * finished / total)) %$left"
        on_line=yes
    else
        [ "$on_line" = yes ] && [ -t 1 ] && echo
        on_line=no
        printf '%s\n' "$line"
    fi
done
[ "$on_line" = yes ] && [ -t 1 ] && echo
true
