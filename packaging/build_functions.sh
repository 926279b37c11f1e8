# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# What run.sh and test.sh share. They set `root` and `build` before.

# configure_build OPTIONS...: a build folder that is there keeps its settings but for these.
configure_build() {
    cmake -S "$root" -B "$build" -G Ninja "$@" > "$build/configure.log" 2>&1 || { cat "$build/configure.log" >&2; return 1; }
}

# build_targets WHAT TARGETS...: WHAT stands before the progress, as "Building the window".
build_targets() {
    local what=$1
    shift
    NINJA_STATUS='[%f/%t %e] ' cmake --build "$build" ${*:+--target "$@"} 2>&1 \
        | "$root/packaging/show_progress.sh" "$what" >&2
}
