# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Headroom's C++ library, loaded with ctypes: app/python/python_api.h and recording_api.h."""

import ctypes
import functools
import importlib.util
import os
import pathlib
import re

OWN_FOLDER = os.path.dirname(__file__) + os.sep  # the folder of this package


class HeadroomError(Exception):
    """An error in one sentence: something that Headroom refuses or cannot do. `exit_code` is the exit code of the
    command line."""

    def __init__(self, message, exit_code=2):
        super().__init__(message)
        self.exit_code = exit_code


def library_path():
    """Returns the path of libheadroom_python.so: beside this file once installed; HEADROOM_LIBRARY overrides the path
    for a build folder."""
    given = os.environ.get("HEADROOM_LIBRARY")
    return pathlib.Path(given) if given else pathlib.Path(__file__).with_name("libheadroom_python.so")


def torch_folder():
    """Returns the folder of torch. Does not import torch."""
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        raise HeadroomError("torch is not installed for this Python: install torch into the same environment first")
    return pathlib.Path(spec.submodule_search_locations[0])


def _version_of(folder):
    found = re.search(r"__version__ = '([^'+]*)", (folder / "version.py").read_text())
    return found.group(1) if found else "unknown"


def _check_torch(path, folder):
    # Libraries of two torch versions are incompatible: loading would fail with a missing symbol, or succeed by
    # accident.
    built_for = path.with_suffix(".torch-version").read_text().strip()
    here = _version_of(folder)
    if here != built_for:
        raise HeadroomError(f"torch-headroom was built for torch {built_for}, but this Python has torch {here}: "
                            "install torch-headroom again with `pip install --force-reinstall --no-deps "
                            "packaging/python`")


def _declare(library):
    for name in ("last_error", "version", "devices", "fallbacks", "gpu_name"):
        getattr(library, f"headroom_{name}").restype = ctypes.c_char_p
    library.headroom_placeholder_values.restype = ctypes.c_int64


@functools.cache
def load():
    """Returns the library, loaded once. Works before and after `import torch`."""
    path = library_path()
    if not path.exists():
        raise HeadroomError(f"{path} is not there: install the package with pip, or set HEADROOM_LIBRARY", 1)
    folder = torch_folder()
    _check_torch(path, folder)
    # As in torch/__init__.py: torch's libraries, which ours needs, must find the libraries of CUDA.
    dependencies = folder / "lib" / "libtorch_global_deps.so"
    try:
        if dependencies.exists():
            ctypes.CDLL(str(dependencies), mode=ctypes.RTLD_GLOBAL)
        ctypes.CDLL(str(folder / "lib" / "libtorch_cpu.so"))
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise HeadroomError(f"the library of Headroom cannot be loaded: {error}", 1) from error
    _declare(library)
    return library


def check(code):
    """Raises HeadroomError if `code`, returned by a call of the library, is not 0."""
    if code:
        raise HeadroomError(load().headroom_last_error().decode(), code)


def gpu_name(text):
    """Returns the name of the known card that a text means: "rtx-4090-24gb" by "RTX 4090". The text: no single card."""
    return load().headroom_gpu_name(str(text).encode()).decode()


class Instant:
    """Instants of a step: HeadroomInstant in app/python/recording_api.h."""

    (FORWARD_END, BACKWARD_END, OPTIMIZER_BEGIN, OPTIMIZER_END, ZERO_GRAD_BEGIN, ZERO_GRAD_END, BACKWARD_GRAPH_BEGIN,
     BACKWARD_GRAPH_END, OWN_UPDATE_BEGIN, OWN_UPDATE_END, RECOMPUTATION_BEGIN, RECOMPUTATION_END, COMPILATION_BEGIN,
     COMPILATION_END, SAVES_LEFT, COMPILED_BACKWARD_BEGIN, COMPILED_BACKWARD_END) = range(17)
