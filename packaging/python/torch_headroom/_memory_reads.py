# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads of the card's memory by a model's forward or backward, as of attention that splits its work by the free memory.
Under a plan it reads other numbers."""

import functools
import os
import sys

import torch

from ._compiling import compiling

_OWN = os.path.dirname(__file__) + os.sep
_TORCHS = os.path.dirname(torch.__file__) + os.sep
_READERS = tuple(_TORCHS + name + os.sep for name in ("cuda", "accelerator"))
_MOST_NAMED = 2  # modules in the remark

_place = None  # function that returns the name of the running module; empty: none; None: nothing is recorded now
_modules, _functions = {}, {}  # names of those that have read in this step, in order


def follow(place):
    """Sets the function that says where the program is: the name of the module that runs now, "backward", or an empty
    string outside of the step's forward and backward."""
    global _place
    _place = place


def begin():
    """Forgets the reads of earlier steps."""
    _modules.clear()
    _functions.clear()


def modules():
    """Returns the names of the modules that have read the card's memory in this step."""
    return list(_modules)


def noted(function):
    """Decorates a function of torch._C that reads the card's memory."""

    @functools.wraps(function)
    def read(*arguments, **named):
        where = _place() if _place and not compiling.now else ""
        if where:
            _note(where)
        return function(*arguments, **named)

    return read


def _note(where):
    frame, name = sys._getframe(2), ""
    while frame is not None and frame.f_code.co_filename.startswith(_READERS):
        name, frame = frame.f_code.co_name, frame.f_back
    # A policy that watches its plan, or PyTorch itself.
    if frame is not None and frame.f_code.co_filename.startswith((_OWN, _TORCHS)):
        return
    _modules[where] = _functions[name or "mem_get_info"] = True


def sentences():
    """Returns the remark on the step, if there were reads."""
    if not _modules:
        return []
    named = list(_modules)[:_MOST_NAMED]
    more = len(_modules) - len(named)
    places = " and ".join(named) if not more else f"{', '.join(named)} and {more} more"
    return [f"the model reads the card's memory while it computes ({', '.join(_functions)}, in {places}): on the card "
            "and under a plan it reads other numbers, and may run other ops and take other memory than recorded and "
            "planned. Give it a fixed number in place of these (a chunk size), then record the step again"]
