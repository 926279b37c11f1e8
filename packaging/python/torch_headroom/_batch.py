# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sizes of a batch, read from the calls of models in a step."""

from collections import Counter

import torch

from ._containers import is_a, values_in
from ._modules import tensors_of


def sizes_of(arguments):
    """Returns (batch, sequence) of a call's `arguments`; a size is 0 if they give no single answer."""
    tensors = [tensor for tensor in _direct(arguments) if tensor.dim() > 0]
    if tensors:
        sizes = [tensor.shape[0] for tensor in tensors]
        batch = _commonest(sizes)
        # A size of 1 is a batch, or is broadcast over one.
        if 1 in sizes and batch != _commonest(size for size in sizes if size != 1) and set(sizes) != {1}:
            batch = 0
    else:  # lists: of views or sentences with a batch in each, or of images without one
        batch = _all_same([tensor for tensor in tensors_of(arguments) if tensor.dim() > 0])
    return batch, _sequence(tensors, batch) if batch else 0


def sizes_with(sizes, arguments):
    """Returns the sizes of a step after another call with data: one batch, or 0 if two calls have different ones. An
    argument that another call computed may be any part of the batch, so it is not counted."""
    if sizes == (0, 0) or any(tensor.grad_fn is not None for tensor in tensors_of(arguments)):
        return sizes
    batch, sequence = sizes_of(arguments)
    if not batch or (batch, sequence) == sizes:
        return sizes
    return (sizes[0], 0) if batch == sizes[0] else (0, 0)


def _direct(arguments):
    """Returns the tensors that are arguments themselves or values of dicts; items of lists may be parts of a batch."""
    found, waiting = [], list(arguments)
    for value in waiting:
        if is_a(value, dict):
            waiting.extend(values_in(value))
        elif is_a(value, torch.Tensor):
            found.extend(tensors_of(value))
    return found


def _commonest(sizes):
    """Returns the most frequent size; 0 if there is none or a tie."""
    counted = Counter(sizes).most_common(2)
    if not counted or (len(counted) == 2 and counted[0][1] == counted[1][1]):
        return 0
    return counted[0][0]


def _all_same(tensors):
    sizes = {tensor.shape[0] for tensor in tensors}
    return sizes.pop() if len(sizes) == 1 else 0


def _sequence(tensors, batch):
    """Returns the length of texts, from integer tensors [batch, sequence] with nothing but masks besides them."""
    wide = [tensor for tensor in tensors if tensor.dim() > 1 and tensor.shape[0] == batch]
    length = _commonest(t.shape[1] for t in wide if t.dim() == 2 and t.dtype in (torch.int64, torch.int32))
    return length if all(t.shape[1] == length for t in wide if t.is_floating_point()) else 0
