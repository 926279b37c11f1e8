# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Categories of memory, by their numbers in step files (Category in core/trace/step_trace.h)."""

import functools

import torch

from ._modules import tensors_of

GRADIENT, OPTIMIZER, UNSHARDED_PARAMETER, UNSHARDED_GRADIENT, COMMUNICATION = 2, 5, 9, 10, 11


# Defined by the library, which calls it for a gradient that is a wrapper, such as a DTensor.
_library = torch.library.Library("torch_headroom", "IMPL")


@functools.cache
def implement_retype_parts():
    """Implements the operator, after the library is loaded."""
    for key in ("CompositeImplicitAutograd", "Fake"):
        _library.impl("retype_parts", lambda tensor, category: retype([tensor], category), key)


def retype(held, category):
    """Sets the category of the tensors in nested lists, which may contain None."""
    if tensors := tensors_of(held):
        torch.ops.torch_headroom.retype.default(tensors, category)
