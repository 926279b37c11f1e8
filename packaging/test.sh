#!/bin/bash
# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Builds Headroom with warnings as errors and runs all tests, without a display. Installs what is missing. Arguments go
# to ctest, as `packaging/test.sh -R plan`.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build

"$root/packaging/dependencies/install.sh" --tests
cmake -S "$root" -B "$build" -G Ninja \
    -DHEADROOM_TESTS=ON -DHEADROOM_BENCHMARKS=ON -DHEADROOM_WINDOW=ON -DHEADROOM_RECORDER=ON -DHEADROOM_WERROR=ON
cmake --build "$build"

unset DISPLAY WAYLAND_DISPLAY
exec xvfb-run -a ctest --test-dir "$build" --output-on-failure --no-tests=error -j "$(nproc)" "$@"
