#!/bin/bash
# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Builds Headroom and runs all tests, without a display. Installs what is missing. In a new build folder warnings are
# errors; one that packaging/run.sh has made is used as it is, with its objects. Arguments go to ctest, as
# `packaging/test.sh -R plan`.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build
mkdir -p "$build"
# shellcheck source=build_functions.sh
. "$root/packaging/build_functions.sh"

start_installing --tests
if [ ! -e "$build/CMakeCache.txt" ]; then
    configure_build -DHEADROOM_WERROR=ON -DHEADROOM_TESTS=OFF -DHEADROOM_BENCHMARKS=OFF -DHEADROOM_RECORDER=OFF
    build_targets "Building the window" torch-headroom
fi
finish_installing
configure_build -DHEADROOM_TESTS=ON -DHEADROOM_WINDOW=ON -DHEADROOM_RECORDER=ON
build_targets "Building Headroom and its tests"

unset DISPLAY WAYLAND_DISPLAY
# A test that hangs fails by its name after 25 minutes. The slowest takes three on two cores.
exec xvfb-run -a ctest --test-dir "$build" --output-on-failure --no-tests=error --timeout 1500 -j "$(nproc)" "$@"
