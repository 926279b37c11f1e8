#!/bin/bash
# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Installs what is missing to build Headroom, and nothing that is there:
#   install.sh [--tests] [--full-torch] [--packages]
# Debian packages by apt (with sudo when not root), torch by pip into build/torch-env unless HEADROOM_TORCH_DIR or the
# active Python environment has it; with --packages only the former. The lists are the files beside this script.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)

tests=no
full=no
torch=yes
for argument in "$@"; do
    case $argument in
        --tests) tests=yes ;;
        --full-torch) full=yes ;;
        --packages) torch=no ;;
        *) echo "install.sh: $argument: expected --tests, --full-torch or --packages" >&2; exit 2 ;;
    esac
done

names() { sed -e 's/#.*//' -e 's/[[:space:]]*$//' -e '/^$/d' "$@"; }

# No pipes to `grep -q`: it leaves at the first match, and who still writes then fails the pipe.
is_installed() { [[ $(dpkg-query -W -f='${db:Status-Status}' "$1" 2> /dev/null) == installed* ]]; }
is_known() { [[ $(LC_ALL=C apt-cache policy "$1" 2> /dev/null) == *"Candidate: "[!\(]* ]]; }

# Of the lists, what is not installed. A name with `?` counts only where the distribution has the package.
missing_packages() {
    local package
    for package in $(names "$@"); do
        is_installed "${package%\?}" && continue
        case $package in *\?) is_known "${package%\?}" || continue ;; esac
        echo "${package%\?}"
    done
}

install_packages() {
    local lists=("$here/apt-build.txt") missing
    [ "$tests" = yes ] && lists+=("$here/apt-test.txt")
    if ! command -v dpkg-query > /dev/null; then
        echo "Not a Debian: install these by hand, or what they are called here:" $(names "${lists[@]}") >&2
        return
    fi
    missing=$(missing_packages "${lists[@]}")
    [ -z "$missing" ] && return
    local as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo > /dev/null; then
            echo "These packages are missing; as root: apt-get install --no-install-recommends" $missing >&2
            exit 2
        fi
        as_root=(sudo)
    fi
    "${as_root[@]}" apt-get update
    missing=$(missing_packages "${lists[@]}")
    echo "Installing" $missing >&2
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing
}

# The folder of torch in the Python given, when it is one of torch-versions.txt.
torch_of() {
    command -v "$1" > /dev/null && "$1" "$here/find_torch.py" 2> /dev/null
}

install_torch() {
    if [ -n "${HEADROOM_TORCH_DIR:-}" ]; then
        echo "torch: $HEADROOM_TORCH_DIR (HEADROOM_TORCH_DIR)" >&2
        return
    fi
    local found
    if [ -n "${VIRTUAL_ENV:-}" ] && found=$(torch_of "$VIRTUAL_ENV/bin/python3"); then
        echo "torch: $found (the active environment)" >&2
        return
    fi
    local list=$here/torch-recorder.txt options=(--no-deps) env=$root/build/torch-env
    [ "$tests" = yes ] && list=$here/torch-tests.txt
    # Measuring on a GPU loads the CUDA half of torch, which needs all of NVIDIA's libraries.
    if [ "$full" = yes ] || [ -e /dev/nvidiactl ]; then
        list=$here/torch-full.txt
        options=()
    fi
    # What was asked for is noted when it is there, so that an interrupted installation is taken up again.
    cmp -s "$list" "$env/installed.txt" && return
    # The longer lists have all of the recorder's.
    if [ "$list" = "$here/torch-recorder.txt" ]; then
        cmp -s "$here/torch-tests.txt" "$env/installed.txt" && return
        cmp -s "$here/torch-full.txt" "$env/installed.txt" && return
    fi
    [ -x "$env/bin/pip" ] || /usr/bin/env python3 -m venv "$env"
    echo "Installing torch $(sed -n 's/^installed //p' "$here/torch-versions.txt") into $env" >&2
    "$env/bin/pip" install --disable-pip-version-check "${options[@]}" -r "$list"
    cp "$list" "$env/installed.txt"
}

install_packages
if [ "$torch" = yes ]; then install_torch; fi
