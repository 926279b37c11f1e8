# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Functions of run.sh, test.sh and check_torch.sh, which set `root` and `build` before.

# configure_build OPTIONS...: an existing build folder keeps all other settings.
configure_build() {
    cmake -S "$root" -B "$build" -G Ninja "$@" > "$build/configure.log" 2>&1 \
        || { cat "$build/configure.log" >&2; return 1; }
}

# start_installing OPTIONS...: installs packages, and then torch in the background: the window is built without it.
# OPTIONS are those of install.sh.
start_installing() {
    "$root/packaging/dependencies/install.sh" --packages "$@"
    set -m # a process group of its own, which ends with this script
    "$root/packaging/dependencies/install.sh" "$@" > "$build/torch.log" 2>&1 &
    set +m
    torch=$!
    trap 'kill -- "-$torch" 2> /dev/null || true' EXIT
}

# Waits for torch. What its installation prints is shown.
finish_installing() {
    tail -n +1 -f --pid="$torch" "$build/torch.log" >&2
    wait "$torch"
    trap - EXIT
}

# build_targets TITLE TARGETS...: the progress begins with TITLE, as "Building the window".
build_targets() {
    local title=$1
    shift
    NINJA_STATUS='[%f/%t %e] ' cmake --build "$build" ${*:+--target "$@"} 2>&1 \
        | "$root/packaging/show_progress.sh" "$title" >&2
}
