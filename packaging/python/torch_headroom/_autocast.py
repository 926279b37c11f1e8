# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Autocast in regions that run twice: torch.autocast, which caches the casts of weights until its context ends, and
TransformerEngine's own autocast."""

import contextlib
import functools
import sys

import torch

_CAST = torch.ops.aten._to_copy.default


def is_cached_cast(op, args):
    """Returns whether an op seen by a dispatch mode is autocast's own cast of a weight (cached_cast in
    aten/src/ATen/autocast_mode.cpp)."""
    if op is not _CAST or not isinstance(args[0], torch.Tensor):
        return False
    weight = args[0]
    key = torch._C.DispatchKey.AutocastCPU if weight.device.type == "cpu" else torch._C.DispatchKey.AutocastCUDA
    return (weight.dtype == torch.float32 and weight.requires_grad and weight.is_leaf and not weight._is_view()
            and torch.is_autocast_cache_enabled() and torch._C._dispatch_tls_is_dispatch_key_excluded(key))


def beside_cached_casts(mode, watch=None, result=None):
    """Makes a selective context, `mode`, ignore autocast's casts of weights: whether a region runs them depends on
    earlier calls, and from torch 2.12 on a recomputation finds an op by its index. `watch`, if given, is called with
    their arguments, and `result` with what each other op returns. The context also ignores the recorder's marks of module calls, which are not ops of the program."""
    mode.__class__ = _beside_cached_casts(type(mode))
    mode.headroom_watch = watch
    mode.headroom_result = result
    return mode


@functools.cache
def _beside_cached_casts(mode_class):
    class BesideCachedCasts(mode_class):
        def __torch_dispatch__(self, op, types, args=(), kwargs=None):
            if getattr(op, "namespace", None) == "torch_headroom":
                return op(*args, **(kwargs or {}))
            if not is_cached_cast(op, args):
                result = super().__torch_dispatch__(op, types, args, kwargs)
                if self.headroom_result is not None:
                    self.headroom_result(result)
                return result
            if self.headroom_watch is not None:
                self.headroom_watch(args, kwargs or {})
            return op(*args, **(kwargs or {}))

    return BesideCachedCasts


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
