#!/bin/bash
# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Builds the recorder on a machine with a GPU, compares Headroom's predictions with the card, and writes
# tests/reference/gpu/CARD.json:
#   gpu-check.sh [--prepare | --only-build] [--build FOLDER] [options of packaging/gpu_check/check.py]
# It needs a Python with torch (a CUDA build), CMake, Ninja, a C++ compiler and the headers of nlohmann/json; no Qt.
# With GLPK, Boost's headers and CLI11, torch-headroom-record is built, too, and plans of single ops are executed on the
# card. HEADROOM_PYTHON names the Python (default: python3). Nothing is downloaded.
#
# Build and checks take less than ten minutes on 16 cores; the checks get the time that the build leaves (--seconds).
# --prepare, on another machine, copies those headers, those that CUDA's own include (crt, which come with a toolkit and
# not with torch), and GLPK with what it needs, to build/gpu-check-prefix, for a GPU machine that has neither them nor a
# network. --only-build ends after the build. --build uses an existing build folder.
#
# Exit codes: 0 all checks passed, 1 some failed (the document says which), 2 something is missing for the build,
# 4 no GPU can be used: then nothing is written.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
prefix=$root/build/gpu-check-prefix
log=$root/build/gpu-check.log
build=
python=${HEADROOM_PYTHON:-python3}

fail() { echo "gpu-check: $2" >&2; exit "$1"; }

# Prints the first folder that has the header.
find_header() {
    local folder
    for folder in "$prefix/include" /usr/include /usr/local/include; do
        [ -e "$folder/$1" ] && echo "$folder" && return
    done
    return 1
}

find_planner() {
    find_header glpk.h > /dev/null && find_header CLI/CLI.hpp > /dev/null \
        && find_header boost/graph/boykov_kolmogorov_max_flow.hpp > /dev/null
}

# Copies a header or a folder of headers, given by the path in #include, to the prefix.
bring() {
    local from
    from=$(find_header "$1") || fail 2 "$1 is not there to be copied"
    [ "$from" != "$prefix/include" ] || return 0
    mkdir -p "$prefix/include/$(dirname "$1")"
    cp -r "$from/$1" "$prefix/include/$(dirname "$1")/"
}

bring_planner() {
    local name library header
    bring glpk.h
    bring CLI
    bring boost/version.hpp
    # Only the headers of Boost that are used: all of Boost may be too large to send.
    "${CXX:-c++}" -std=c++20 -M -I"$root" "$root/core/joint/min_cut.cpp" | tr -s ' \\' '\n' \
        | sed -n 's|^/.*/include/\(boost/.*\)|\1|p' | while read -r header; do bring "$header"; done
    mkdir -p "$prefix/lib" "$prefix/share/cmake"
    [ -e "$prefix/share/cmake/CLI11" ] || cp -r /usr/share/cmake/CLI11 "$prefix/share/cmake/"
    read -r name library < <(ldconfig -p | awk '/libglpk\.so\./ { print $1, $NF; exit }')
    cp -L "$library" "$prefix/lib/$name"
    cp -L "$library" "$prefix/lib/libglpk.so" # a copy, as links may get lost on the way
    ldd "$library" | awk '$1 ~ /^lib(colamd|amd|suitesparseconfig|ltdl|gmp)\.so/ { print $3 }' \
        | while read -r library; do cp -L "$library" "$prefix/lib/"; done
}

bring_crt() {
    local folder
    for folder in "$root"/build/torch-env/lib/python3*/site-packages/nvidia/cu13 "${CUDA_HOME:-/usr/local/cuda}"; do
        [ -e "$folder/include/crt/host_defines.h" ] || continue
        cp -r "$folder/include/crt" "$prefix/include/"
        return
    done
    echo "gpu-check: CUDA's crt headers are not here: the GPU machine needs a toolkit" >&2
}

prepare() {
    bring nlohmann
    bring_crt
    ! find_planner || bring_planner
    echo "$prefix holds what a machine without it needs for gpu-check.sh"
}

# build_target TARGET MESSAGE: ends with MESSAGE if the target cannot be built.
build_target() {
    cmake --build "$build" --target "$1" -j "$(nproc)" >> "$log" 2>&1 \
        || { grep -m 20 -E 'error|FAILED|unknown target' "$log" >&2 || true; fail 2 "$2"; }
}

build_recorder() {
    local folder given
    command -v cmake > /dev/null || fail 2 "cmake is missing"
    command -v ninja > /dev/null || fail 2 "ninja is missing"
    folder=$("$python" "$root/packaging/dependencies/find_torch.py" 2> /dev/null) \
        || fail 2 "$python has no torch of a version that Headroom knows: set HEADROOM_PYTHON to one that has"
    given=$(find_header nlohmann/json.hpp) \
        || fail 2 "nlohmann/json.hpp is missing: install nlohmann-json3-dev, or run gpu-check.sh --prepare where it is and bring $prefix"
    find_planner \
        || fail 2 "GLPK, Boost or CLI11 is missing: install libglpk-dev libboost-dev libcli11-dev, or run gpu-check.sh --prepare where they are and bring $prefix"
    build=$root/build/gpu-check
    # Little optimization: most of the time is the build's, and the times that count are the GPU's.
    cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE="-O1" \
        -DHEADROOM_TORCH_DIR="$folder" -DHEADROOM_JSON_INCLUDE_DIR="$given" -DHEADROOM_WINDOW=OFF \
        -DCMAKE_PREFIX_PATH="$prefix" -DHEADROOM_TESTS=OFF -DHEADROOM_BENCHMARKS=OFF \
        > "$log" 2>&1 || { tail -n 20 "$log" >&2; fail 2 "the build could not be configured"; }
    build_target headroom_python "the build failed; see build/gpu-check.log"
    build_target headroom_cuda "the part for CUDA was not built: are CUDA 13's and CUPTI's headers beside torch or in \
/usr/local/cuda? See build/gpu-check.log"
    LD_LIBRARY_PATH=$prefix/lib build_target torch-headroom-record \
        "torch-headroom-record was not built; see build/gpu-check.log"
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
[ -e "$build/lib/libheadroom_python.so" ] \
    || fail 2 "$build/lib/libheadroom_python.so is not there: name the build folder of a built recorder"
took=$((SECONDS - began))
echo "built in $took s: $build" >&2
[ "$only_build" = no ] || exit 0

export HEADROOM_LIBRARY=$build/lib/libheadroom_python.so
export PYTHONPATH=$root/packaging/python${PYTHONPATH:+:$PYTHONPATH}
export PYTHONDONTWRITEBYTECODE=1
export LD_LIBRARY_PATH=$prefix/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
[ ! -x "$build/bin/torch-headroom-record" ] || passed_on+=(--recorder "$build/bin/torch-headroom-record")
exec "$python" "$root/packaging/gpu_check/check.py" --seconds $((took < 400 ? 560 - took : 160)) "${passed_on[@]}"
