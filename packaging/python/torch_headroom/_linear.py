# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""torch.nn.functional.linear under a dispatch mode, with the ops that it has without one."""

import threading

import torch


def with_own_linear(forward):
    def under_mode(*args):
        with OwnLinear():
            return forward(*args)

    return under_mode


class OwnLinear:
    """Under a dispatch mode, which selective contexts are, torch's linear() adds the bias out of place where it else adds
    it in place: other ops than were recorded, and a tensor more. While this is entered it does what it does without."""

    _torchs = torch.nn.functional.linear
    _lock = threading.Lock()
    _entered = 0  # threads may be in it at once; what it does is right in all of them

    def __enter__(self):
        with OwnLinear._lock:
            if OwnLinear._entered == 0:
                OwnLinear._torchs = torch.nn.functional.linear
                torch.nn.functional.linear = OwnLinear.linear
            OwnLinear._entered += 1

    def __exit__(self, kind, value, traceback):
        with OwnLinear._lock:
            OwnLinear._entered -= 1
            if OwnLinear._entered == 0:
                torch.nn.functional.linear = OwnLinear._torchs

    @staticmethod
    def linear(input, weight, bias=None):
        tensors = (input, weight, bias)
        plain = all(type(tensor) in (torch.Tensor, torch.nn.Parameter) for tensor in tensors)
        if not plain or input.dim() < 3 or input.is_contiguous():
            return OwnLinear._torchs(input, weight, bias)
        if torch.is_autocast_enabled(input.device.type):
            if not input.is_cuda:  # where autocast knows no einsum(), and memory is not planned
                return OwnLinear._torchs(input, weight, bias)
            bias, weight, input = _cast(bias), _cast(weight), _cast(input)
        if input.is_contiguous():  # a cast fills the gaps of its input
            return OwnLinear._torchs(input, weight, bias)
        return torch.matmul(input, weight.t()).add_(bias)


def _cast(tensor):
    """What autocast makes of linear()'s arguments, which it casts from the last to the first: einsum() is in the same list
    of its, and makes only a view then."""
    return torch.einsum("...->...", tensor)
