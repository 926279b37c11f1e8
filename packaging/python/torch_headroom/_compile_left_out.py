# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""torch.compile without Triton, in which Inductor writes its kernels: programs run eagerly, with a message."""

import functools
import sys

import torch

_told = []
_SENTENCE = ("torch.compile is left out, as Triton is not installed here: the model runs eagerly "
             "(install it: pip install triton)")


def sentences():
    """Returns remarks on a step that ran without compilation."""
    return _told


def _tell():
    if not _told:
        print(f"torch-headroom: {_SENTENCE}", file=sys.stderr)
        _told.append(f"{_SENTENCE}; compiled, it takes another time and mostly less memory")


def _eager(function):
    # Libraries compile functions that a program may never call.
    @functools.wraps(function)
    def call(*arguments, **named):
        _tell()
        return function(*arguments, **named)

    return call


def patch():
    def compile(model=None, **options):
        if model is None:
            return lambda function: compile(function, **options)
        if not isinstance(model, torch.nn.Module):
            return _eager(model)
        _tell()
        return model

    def compile_module(self, *arguments, **options):
        _tell()

    torch.compile = compile
    torch.nn.Module.compile = compile_module
