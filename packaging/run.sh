#!/bin/bash
# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Builds Headroom and shows it: installs missing packages, builds, and opens the window on a recorded step of the demo
# model; the recorder is built meanwhile. Without a display it records a step of the demo model, prints a plan for it,
# and writes its pictures. With arguments it runs `torch-headroom` with them instead, as in
# `packaging/run.sh plan step.hrs --budget 2GiB`.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build
headroom=$build/bin/torch-headroom
mkdir -p "$build"
# shellcheck source=build_functions.sh
. "$root/packaging/build_functions.sh"

# A new build folder leaves the tests out, which need more packages.
options=()
[ -e "$build/CMakeCache.txt" ] || options=(-DHEADROOM_TESTS=OFF -DHEADROOM_BENCHMARKS=OFF)

build_window() {
    start_installing
    # The window needs no torch: where there is none yet, the recorder is configured later.
    [ -e "$build/CMakeCache.txt" ] || configure_build "${options[@]}" -DHEADROOM_RECORDER=OFF
    build_targets "Building the window" torch-headroom
}

build_recorder() {
    finish_installing
    configure_build -DHEADROOM_RECORDER=ON
    build_targets "Building the recorder" torch-headroom torch-headroom-record
}

build_window >&2
if [ $# -eq 0 ] && [ -n "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ]; then
    "$headroom" "$root/resources/samples/transformer.hrs" &
    window=$!
    build_recorder >&2
    echo "The recorder is built: models and scripts can be recorded." >&2
    wait "$window"
    exit
fi
build_recorder >&2
if [ $# -gt 0 ]; then
    exec "$headroom" "$@"
fi

demo=$build/demo
mkdir -p "$demo"
"$headroom" record demo:transformer --gpu h100-80gb -o "$demo/transformer.hrs" >&2
echo "No display: the answer for the demo model in text, and as pictures." >&2
"$headroom" info "$demo/transformer.hrs"
echo
# Three quarters of the step's peak, so that the plan has to checkpoint something.
peak=$("$headroom" info "$demo/transformer.hrs" --json | sed -n 's/^  "peak_bytes": \([0-9]*\),$/\1/p')
budget=$((peak * 3 / 4))
"$headroom" plan "$demo/transformer.hrs" --budget "$budget" -o "$demo/policy.json"
"$headroom" export "$demo/transformer.hrs" --timeline "$demo/timeline.svg" --policy "$demo/policy.json" 2> /dev/null
"$headroom" export "$demo/transformer.hrs" --tradeoff "$demo/tradeoff.svg" 2> /dev/null
"$headroom" export "$demo/transformer.hrs" --frontier "$demo/frontier.svg" 2> /dev/null
"$headroom" screenshot "$demo/transformer.hrs" "$demo/window.png" --budget "$budget" 2> /dev/null
echo
echo "The step, the policy and the pictures are in $demo:"
ls "$demo"
