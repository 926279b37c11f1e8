# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The surroundings of a forward that runs again in backward: they are as at its first run, and it leaves nothing
behind. checkpoint() itself restores PyTorch's own generators and autocast."""

import contextlib
import random
import sys
import weakref

import torch
from torch.nn.attention import _cur_sdpa_kernel_backends, _sdpa_kernel

from ._checkpointing import pack_hook


class Surroundings:
    """State of the process that a forward may read, as it is when this object is made."""

    def __init__(self):
        self._random = _random_state()
        self._attention = _attention_kernels()

    @contextlib.contextmanager
    def again(self):
        """A context in which a forward runs again."""
        generators, kernels = _random_state(), _attention_kernels()
        _set_random_state(self._random)
        _set_attention_kernels(kernels, self._attention)
        try:
            with _graph_without_tensors():
                yield
        finally:
            _set_attention_kernels(self._attention, kernels)
            _set_random_state(generators)


def _numpys_generator():
    """Returns the module with NumPy's global generator; None: the program has not imported it."""
    return sys.modules.get("numpy.random")


def _random_state():
    """Returns the states of the global generators of Python and NumPy."""
    numpys = _numpys_generator()
    return random.getstate(), None if numpys is None else numpys.get_state(legacy=False)


def _set_random_state(state):
    pythons, numpys = state
    random.setstate(pythons)
    if numpys is not None:
        _numpys_generator().set_state(numpys)


def _attention_kernels():
    """Returns which kernels scaled_dot_product_attention() may take, and in which order it tries them: what
    torch.nn.attention.sdpa_kernel() sets."""
    return _cur_sdpa_kernel_backends(), torch._C._get_sdp_priority_order()


def _set_attention_kernels(now, wanted):
    if wanted != now:
        backends, order = wanted
        _sdpa_kernel(backends)
        torch._C._set_sdp_priority_order(order)


class _Packed:
    """What autograd saves in the run again."""

    __slots__ = ("tensor", "__weakref__")

    def __init__(self, tensor):
        self.tensor = tensor


@contextlib.contextmanager
def _graph_without_tensors():
    """Hands what autograd saves to checkpoint(), and takes it off the graph at the end. Otherwise a tensor that the
    forward stores anywhere keeps its graph alive, and the graph all activations."""
    hand_over = pack_hook()
    if hand_over is None:
        yield
        return
    alive = weakref.WeakSet()

    def pack(tensor):
        packed = _Packed(hand_over(tensor))
        alive.add(packed)
        return packed

    try:
        with torch.autograd.graph.saved_tensors_hooks(pack, _unpack):
            yield
    finally:
        for packed in alive:
            packed.tensor = None


def _unpack(packed):
    if packed.tensor is None:
        raise RuntimeError("backward through a recomputation: the tensor comes from a module that ran again in "
                           "backward, and its graph is gone; use that of the forward, or leave the module out of the "
                           "plan (--pin)")
    return packed.tensor
