# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Functions of run.sh, test.sh and check_torch.sh, which set `root` and `build` before.

# configure_build OPTIONS...: an existing build folder keeps all other settings.
configure_build() {
    cmake -S "$root" -B "$build" -G Ninja "$@" > "$build/configure.log" 2>&1 \
        || { cat "$build/configure.log" >&2; return 1; }
}

# build_targets TITLE TARGETS...: the progress begins with TITLE, as "Building the window".
build_targets() {
    local title=$1
    shift
    NINJA_STATUS='[%f/%t %e] ' cmake --build "$build" ${*:+--target "$@"} 2>&1 \
        | "$root/packaging/show_progress.sh" "$title" >&2
}
