#!/bin/bash
# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Builds the recorder on a machine with a GPU, compares what Headroom says of the card with what it does, and writes
# tests/reference/gpu/CARD.json:
#   gpu-check.sh [--prepare | --only-build] [--build FOLDER] [options of packaging/gpu_check/check.py]
# It needs a Python with torch 2.11 (a CUDA build), CMake, Ninja, a C++ compiler and the headers of nlohmann/json; no Qt
# and no GLPK. HEADROOM_PYTHON names the Python, else it is python3. Nothing is downloaded.
#
# All of it takes less than ten minutes on 16 cores: what the build leaves of them is for the checks (--seconds).
# --prepare, on another machine, copies those headers to build/gpu-check-headers, for a GPU machine that has neither
# them nor a network. --only-build ends after the build. --build uses a build folder that is there already.
#
# Exit codes: 0 all checks passed, 1 some failed (the document says which), 2 something is missing for the build,
# 4 no GPU can be used: then nothing is written.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
headers=$root/build/gpu-check-headers
build=
python=${HEADROOM_PYTHON:-python3}

fail() { echo "gpu-check: $2" >&2; exit "$1"; }

# The folder that holds nlohmann/json.hpp.
find_headers() {
    local folder
    for folder in "$headers" /usr/include /usr/local/include; do
        [ -e "$folder/nlohmann/json.hpp" ] && echo "$folder" && return
    done
    return 1
}

prepare() {
    local from
    from=$(find_headers) || fail 2 "nlohmann/json.hpp is not there to be copied: install nlohmann-json3-dev"
    mkdir -p "$headers"
    [ "$from" = "$headers" ] || cp -r "$from/nlohmann" "$headers/"
    echo "$headers holds what a machine without nlohmann/json needs for gpu-check.sh"
}

build_recorder() {
    local folder given
    command -v cmake > /dev/null || fail 2 "cmake is missing"
    command -v ninja > /dev/null || fail 2 "ninja is missing"
    folder=$("$python" - 2> /dev/null <<'PYTHON'
import importlib.util, pathlib, re, sys
spec = importlib.util.find_spec("torch")
folder = pathlib.Path(spec.submodule_search_locations[0]) if spec else None
if not folder or not re.search(r"__version__ = '2\.11\.", (folder / "version.py").read_text()):
    sys.exit(1)
print(folder)
PYTHON
    ) || fail 2 "$python has no torch 2.11: set HEADROOM_PYTHON to one that has"
    given=$(find_headers) || fail 2 "nlohmann/json.hpp is missing: install nlohmann-json3-dev, or run gpu-check.sh --prepare where it is and bring $headers"
    build=$root/build/gpu-check
    # Little optimization: the build is most of the time that this takes, and times are the GPU's.
    cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE="-O1" \
        -DHEADROOM_TORCH_DIR="$folder" -DHEADROOM_JSON_INCLUDE_DIR="$given" -DHEADROOM_WINDOW=OFF \
        -DHEADROOM_PLANNER=OFF -DHEADROOM_TESTS=OFF -DHEADROOM_BENCHMARKS=OFF > "$root/build/gpu-check.log" 2>&1 \
        || { tail -n 20 "$root/build/gpu-check.log" >&2; fail 2 "the build could not be configured"; }
    cmake --build "$build" --target headroom_python -j "$(nproc)" >> "$root/build/gpu-check.log" 2>&1 \
        || { grep -m 20 -E 'error|FAILED' "$root/build/gpu-check.log" >&2; fail 2 "the build failed; see build/gpu-check.log"; }
    cmake --build "$build" --target headroom_cuda -j "$(nproc)" >> "$root/build/gpu-check.log" 2>&1 \
        || { grep -m 20 -E 'error|FAILED|unknown target' "$root/build/gpu-check.log" >&2; fail 2 "the part for CUDA was not built: are CUDA 13's and CUPTI's headers beside torch or in /usr/local/cuda? See build/gpu-check.log"; }
}

passed_on=()
only_build=no
while [ $# -gt 0 ]; do
    case $1 in
        --prepare) prepare; exit ;;
        --only-build) only_build=yes ;;
        --build) build=${2:?"--build needs a folder"}; shift ;;
        *) passed_on+=("$1") ;;
    esac
    shift
done

mkdir -p "$root/build"
began=$SECONDS
[ -n "$build" ] || build_recorder
[ -e "$build/lib/libheadroom_python.so" ] || fail 2 "$build/lib/libheadroom_python.so is not there: name the build folder of a built recorder"
took=$((SECONDS - began))
echo "built in $took s: $build" >&2
[ "$only_build" = no ] || exit 0

export HEADROOM_LIBRARY=$build/lib/libheadroom_python.so
export PYTHONPATH=$root/packaging/python${PYTHONPATH:+:$PYTHONPATH}
export PYTHONDONTWRITEBYTECODE=1
exec "$python" "$root/packaging/gpu_check/check.py" --seconds $((took < 400 ? 560 - took : 160)) "${passed_on[@]}"
