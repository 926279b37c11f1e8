# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""torch.nn.functional.linear under a dispatch mode, with the same ops as without one."""

import threading

import torch


def with_own_linear(forward):
    """Decorates a forward: it runs inside OwnLinear()."""

    def under_mode(*args):
        with OwnLinear():
            return forward(*args)

    return under_mode


class OwnLinear:
    """A context in which linear() runs the same ops under a dispatch mode as without one. Under a mode, such as a
    selective context, torch's own linear() adds the bias out of place instead of in place: these are other ops than
    recorded, with one more tensor."""

    _torchs = torch.nn.functional.linear
    _lock = threading.Lock()
    _entered = 0  # number of threads that have entered; the replacement is correct in all threads

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
            if not input.is_cuda:  # autocast has no einsum() there, and memory is not planned
                return OwnLinear._torchs(input, weight, bias)
            bias, weight, input = _cast(bias), _cast(weight), _cast(input)
        if input.is_contiguous():  # a cast makes its input contiguous
            return OwnLinear._torchs(input, weight, bias)
        return torch.matmul(input, weight.t()).add_(bias)


def _cast(tensor):
    """Casts an argument of linear() as autocast does, which casts from the last to the first: einsum() is in the same
    list, and is only a view then."""
    return torch.einsum("...->...", tensor)
