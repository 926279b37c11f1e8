# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Autocast in regions that run twice: torch.autocast, which caches the casts of weights until its context ends, and
TransformerEngine's own autocast."""

import contextlib
import functools
import sys
import threading

import torch

_CAST = torch.ops.aten._to_copy.default


class _Casts(threading.local):
    """Casts that the program itself calls, in a thread."""

    running = 0  # number of these


_casts = _Casts()


def _own_cast(name):
    """Returns a method of torch.Tensor that casts. While the method runs, a cast is the program's own: inside of a
    dispatch mode, nothing else tells that from autocast's."""
    original = getattr(torch.Tensor, name)

    @functools.wraps(original)
    def cast(*args, **kwargs):
        _casts.running += 1
        try:
            return original(*args, **kwargs)
        finally:
            _casts.running -= 1

    return cast


OWN_CASTS = {name: _own_cast(name) for name in ("to", "type", "type_as", "float", "double", "half", "bfloat16")}


def _is_inside_autocast():
    """Returns whether this thread has entered torch.autocast. Inside of autocast's kernels is_autocast_enabled() is
    False."""
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting() > 0


def is_cached_cast(op, args):
    """Returns whether an op seen by a dispatch mode is autocast's own cast of a weight (cached_cast in
    aten/src/ATen/autocast_mode.cpp). The program's own casts are told apart where OWN_CASTS replace torch's."""
    if op is not _CAST or _casts.running or not isinstance(args[0], torch.Tensor) or not _is_inside_autocast():
        return False
    weight = args[0]
    key = torch._C.DispatchKey.AutocastCPU if weight.device.type == "cpu" else torch._C.DispatchKey.AutocastCUDA
    return (weight.dtype == torch.float32 and weight.requires_grad and weight.is_leaf and not weight._is_view()
            and torch.is_autocast_cache_enabled() and torch._C._dispatch_tls_is_dispatch_key_excluded(key))


def beside_cached_casts(mode, watch=None, result=None):
    """Makes a selective context, `mode`, ignore autocast's casts of weights: whether a region runs them depends on
    earlier calls, and from torch 2.12 on a recomputation finds an op by its index. `watch`, if given, is called with
    their arguments, and `result` with what each other op returns. The context also ignores the recorder's marks of
    module calls, which are not ops of the program."""
    mode.__class__ = _beside_cached_casts(type(mode))
    mode.headroom_watch = watch
    mode.headroom_result = result
    return mode


@functools.cache
def _beside_cached_casts(mode_class):
    class BesideCachedCasts(mode_class):
        supports_higher_order_operators = True

        def __torch_dispatch__(self, op, types, args=(), kwargs=None):
            if isinstance(op, torch._ops.HigherOrderOperator):
                return _run_inside(self, op, args, kwargs or {})
            if getattr(op, "namespace", None) == "torch_headroom":
                return op(*args, **(kwargs or {}))
            if not is_cached_cast(op, args):
                result = super().__torch_dispatch__(op, types, args, kwargs)
                if self.headroom_result is not None:
                    self.headroom_result(result)
                return result
            if self.headroom_watch is not None:
                self.headroom_watch(op, args, kwargs or {})
            return op(*args, **(kwargs or {}))

    return BesideCachedCasts


def _run_inside(mode, op, args, kwargs):
    """Runs an operator of higher order, such as flex_attention(), whose own ops `mode` sees as those of a composite
    one: they are what was recorded. An operator that is written for other keys runs as one op that is not kept."""
    kernel = op.py_kernels.get(torch._C.DispatchKey.CompositeExplicitAutograd)
    if kernel is None:
        return op(*args, **kwargs)
    with mode:
        return kernel(*args, **kwargs)


class Recomputing:
    """Wraps the context of a recomputation so that it begins and ends with an empty autocast cache. On a GPU it does,
    since backward has its own thread; elsewhere casts would stay if backward runs inside another torch.autocast. Also
    enters TransformerEngine's autocast again as in the forward, which checkpoint() does only for PyTorch's."""

    def __init__(self, context):
        self.context = context
        self.quantized = _quantized()
        self.entered = None

    def __enter__(self):
        torch.clear_autocast_cache()
        self.entered = self.quantized()
        self.entered.__enter__()
        return self.context.__enter__()

    def __exit__(self, kind, value, traceback):
        result = self.context.__exit__(kind, value, traceback)
        self.entered.__exit__(kind, value, traceback)
        torch.clear_autocast_cache()
        return result


def _quantized():
    """Returns a function that makes TransformerEngine's autocast context as it is now. Delayed scales change when that
    context ends, so no plan recomputes a module that reads them."""
    library = sys.modules.get("transformer_engine.pytorch.quantization")
    state = getattr(library, "FP8GlobalStateManager", None)
    if state is None or not hasattr(library, "autocast") or not state.is_fp8_enabled():
        return contextlib.nullcontext
    recipe = state.get_fp8_recipe()
    if recipe.delayed():
        return contextlib.nullcontext
    return functools.partial(library.autocast, recipe=recipe, amax_reduction_group=state.get_fp8_group())
