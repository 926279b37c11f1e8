# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""linear() and scaled_dot_product_attention() of torch.nn.functional under a dispatch mode, with the same ops as
without one, and the program's own casts told from autocast's."""

import threading

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ._autocast import OWN_CASTS


def with_own_ops(forward):
    """Decorates a forward: it runs inside OwnOps()."""

    def under_mode(*args):
        with OwnOps():
            return forward(*args)

    return under_mode


class OwnOps:
    """A context in which linear() and attention run the same ops under a dispatch mode as without one. Under a mode,
    such as a selective context, torch's own add the bias and the mask out of place instead of in place: these are other
    ops than recorded, with one more tensor. A graph that torch.compile makes has torch's own."""

    _torchs = {}  # name in torch.nn.functional -> torch's function
    _torchs_casts = {}  # name -> torch's method, if torch.Tensor does not inherit it
    _lock = threading.Lock()
    _entered = 0  # number of threads that have entered; the replacements are correct in all threads

    def __enter__(self):
        with OwnOps._lock:
            if OwnOps._entered == 0:
                for own in (linear, scaled_dot_product_attention):
                    OwnOps._torchs[own.__name__] = getattr(torch.nn.functional, own.__name__)
                    setattr(torch.nn.functional, own.__name__, own)
                for name, own in OWN_CASTS.items():
                    if name in torch.Tensor.__dict__:
                        OwnOps._torchs_casts[name] = torch.Tensor.__dict__[name]
                    setattr(torch.Tensor, name, own)
            OwnOps._entered += 1

    def __exit__(self, kind, value, traceback):
        with OwnOps._lock:
            OwnOps._entered -= 1
            if OwnOps._entered == 0:
                for name, function in OwnOps._torchs.items():
                    setattr(torch.nn.functional, name, function)
                for name in OWN_CASTS:
                    delattr(torch.Tensor, name)
                for name, method in OwnOps._torchs_casts.items():
                    setattr(torch.Tensor, name, method)


def linear(input, weight, bias=None):
    torchs = OwnOps._torchs["linear"]
    if torch.compiler.is_compiling() or not _are_plain(input, weight, bias) or input.dim() < 3 or input.is_contiguous():
        return torchs(input, weight, bias)
    if torch.is_autocast_enabled(input.device.type):
        if not input.is_cuda:  # autocast has no einsum() there, and memory is not planned
            return torchs(input, weight, bias)
        bias, weight, input = _cast(bias), _cast(weight), _cast(input)
    if input.is_contiguous():  # a cast makes its input contiguous
        return torchs(input, weight, bias)
    return torch.matmul(input, weight.t()).add_(bias)


def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, **others):
    torchs = OwnOps._torchs["scaled_dot_product_attention"]
    masks = [] if attn_mask is None else [attn_mask]
    if torch.compiler.is_compiling() or not (masks or is_causal) or not _are_plain(query, key, value, *masks):
        return torchs(query, key, value, attn_mask, dropout_p, is_causal, **others)
    with _MaskInPlace():
        return torchs(query, key, value, attn_mask, dropout_p, is_causal, **others)


class _MaskInPlace(TorchDispatchMode):
    """Adds a mask to the scores in place, as attention without a fused kernel does without a mode: its only add()."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is not torch.ops.aten.add.Tensor:
            return func(*args, **(kwargs or {}))
        torch.ops.aten.add_.Tensor(*args)
        return torch.ops.aten.detach.default(args[0])  # autograd requires another tensor


def _are_plain(*tensors):
    """Whether torch would compute with these in place without a mode."""
    return all(type(tensor) in (torch.Tensor, torch.nn.Parameter)
               and not torch._C._functorch.is_functorch_wrapped_tensor(tensor) for tensor in tensors)


def _cast(tensor):
    """Casts an argument of linear() as autocast does, which casts from the last to the first: einsum() is in the same
    list, and is only a view then. Its base is the cast: the view would be a node of the graph, which changes the order
    in which the gradients of a weight that several calls use are added."""
    viewed = torch.einsum("...->...", tensor)
    if viewed.dtype == tensor.dtype:
        return tensor
    return viewed._base if viewed._is_view() else viewed
