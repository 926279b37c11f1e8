# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Imports of TransformerEngine's half in Python without its libraries, which need a CUDA driver."""

import contextlib
import importlib
import os


@contextlib.contextmanager
def without_libraries():
    """Lets transformer_engine.common be imported without the library's compiled half, as its own build does."""
    names = {"NVTE_PROJECT_BUILDING": "1", "NVTE_RELEASE_BUILD": "0"}
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(names)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def load_stand_in(common):
    """transformer_engine.common: loads this module instead of a file."""
    load = common.load_framework_extension

    def load_framework_extension(framework):
        importlib.import_module("transformer_engine_torch") if framework == "torch" else load(framework)

    common.load_framework_extension = load_framework_extension
