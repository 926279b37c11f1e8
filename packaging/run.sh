#!/bin/bash
# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Builds Headroom and shows it: installs what is missing, builds, records one step of the demo model and opens the
# window on it. Without a display it prints a plan for the demo and writes its pictures. With arguments it runs
# `torch-headroom` with them instead, as `packaging/run.sh plan step.hrs --budget 2GiB`.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build

{
    "$root/packaging/dependencies/install.sh"
    # A build folder that is there keeps its settings; a new one leaves the tests out, which need more packages.
    options=()
    [ -e "$build/CMakeCache.txt" ] || options=(-DHEADROOM_TESTS=OFF -DHEADROOM_BENCHMARKS=OFF)
    cmake -S "$root" -B "$build" -G Ninja "${options[@]}"
    cmake --build "$build" --target torch-headroom torch-headroom-record
} >&2

headroom=$build/bin/torch-headroom
if [ $# -gt 0 ]; then
    exec "$headroom" "$@"
fi

demo=$build/demo
mkdir -p "$demo"
"$headroom" record demo:transformer --gpu h100-80gb -o "$demo/transformer.hrs" >&2
if [ -n "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ]; then
    exec "$headroom" "$demo/transformer.hrs"
fi

echo "No display: the answer for the demo model in text, and as pictures." >&2
"$headroom" info "$demo/transformer.hrs"
echo
# Three quarters of what the step takes: enough to have to choose.
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
