# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random values. Those of large CPU tensors are drawn when they are first read (core/device/deferred_fill.h), so that a
model that is only moved to the simulated GPU is built at once. Ops draw them by themselves; patch() covers the methods
that access a tensor's memory without an op."""

import ctypes
import random

import torch

from ._around import patch_around
from ._library import check
from ._simulate_refusals import change_after_import

_READERS = ("numpy", "tolist", "data_ptr", "untyped_storage", "__dlpack__")
_SEED = 0


def patch(library):
    library.headroom_make_values.argtypes = [ctypes.c_void_p]

    def make_values(tensor, *_, **__):
        if tensor.device.type == "cpu":
            check(library.headroom_make_values(tensor._cdata))

    for name in _READERS:
        patch_around(torch.Tensor, name, before=make_values)
    library.headroom_defer_fills()


def set_seeds():
    """Seeds Python, PyTorch and NumPy for a script that sets no seed. Random numbers may decide sizes, such as those of
    masks and boxes: a step under a policy then takes the planned memory only if it draws the same numbers."""
    random.seed(_SEED)
    torch.manual_seed(_SEED)
    change_after_import("numpy.random", lambda module: module.seed(_SEED))
