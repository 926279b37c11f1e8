#!/bin/bash
# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Builds the Python package against a version of torch and runs its tests there:
#   check_torch.sh VERSION [arguments of ctest]
# The version, as 2.15.0, is installed from PyPI into build/torch-VERSION/env, with what the tests import; the build goes
# into build/torch-VERSION, too. HEADROOM_TORCH_PYTHON names a Python that has the version already: nothing is installed.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
version=${1:-}
if [[ ! $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]]; then
    echo "check_torch.sh: expected a version of torch such as 2.15.0, not '$version'" >&2
    exit 2
fi
shift
build=$root/build/torch-$version
python=${HEADROOM_TORCH_PYTHON:-$build/env/bin/python}
mkdir -p "$build"
# shellcheck source=../build_functions.sh
. "$root/packaging/build_functions.sh"

"$root/packaging/dependencies/install.sh" --tests --packages
if [ ! -x "$python" ]; then
    python3 -m venv "$build/env"
    echo "Installing torch $version into $build/env" >&2
    # torchvision and the like follow the version of torch.
    "$python" -m pip install --disable-pip-version-check --quiet "torch==$version" torchvision numpy expecttest pillow \
        transformers accelerate
fi
found=$("$python" -c 'import importlib.metadata as m; print(m.version("torch").split("+")[0])')
if [ "$found" != "$version" ]; then
    echo "check_torch.sh: $python has torch $found, not $version" >&2
    exit 2
fi

HEADROOM_TORCH_DIR=$("$python" -c 'import importlib.util as u; print(u.find_spec("torch").submodule_search_locations[0])')
export HEADROOM_TORCH_DIR
configure_build -DHEADROOM_TESTS=ON -DHEADROOM_BENCHMARKS=OFF -DHEADROOM_WINDOW=ON -DHEADROOM_RECORDER=ON
build_targets "Building Headroom for torch $version" headroom_python torch-headroom torch-headroom-record plan_checker stand_in_cuda
exec ctest --test-dir "$build" --output-on-failure --no-tests=error -L python -j "$(nproc)" "$@"
