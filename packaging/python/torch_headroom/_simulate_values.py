# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random values of large CPU tensors are drawn when they are first read (core/device/deferred_fill.h), so that a model
that is only moved to the simulated GPU is built at once. Ops draw them by themselves; this module covers the ways to
the memory without an op."""

import ctypes
import functools

import torch

from ._library import check

_READERS = ("numpy", "tolist", "data_ptr", "untyped_storage", "__dlpack__")


def patch(library):
    library.headroom_make_values.argtypes = [ctypes.c_void_p]
    for name in _READERS:
        setattr(torch.Tensor, name, _making(library, getattr(torch.Tensor, name)))
    library.headroom_defer_fills()


def _making(library, read):
    @functools.wraps(read)
    def reader(self, *arguments, **named):
        if self.device.type == "cpu":
            check(library.headroom_make_values(self._cdata))
        return read(self, *arguments, **named)

    return reader
