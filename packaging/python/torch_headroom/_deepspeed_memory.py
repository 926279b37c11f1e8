# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Categories of what DeepSpeed's ZeRO holds besides the parameters: master weights, flat gradients, buckets, gathered
parameters. Source: github.com/deepspeedai/DeepSpeed, deepspeed/runtime/zero, version 0.19."""

import functools
import weakref

import torch

from ._modules import tensors_of
from ._simulate_refusals import change_after_import

# Category numbers in step files (Category in core/trace/step_trace.h).
_GRADIENT, _OPTIMIZER, _UNSHARDED_PARAMETER, _UNSHARDED_GRADIENT, _COMMUNICATION = 2, 5, 9, 10, 11

_MASTER_WEIGHTS = "single_partition_of_fp32_groups", "fp32_partitioned_groups_flat", "fp32_groups_flat_partition"
_GRADIENTS = "grad_partitions_flat_buffer", "averaged_gradients", "fp32_groups_gradients_flat"

_living = weakref.WeakSet()  # optimizers of ZeRO
_owners = {}  # id of a parameter of the running step -> (number of its module, its name there)


def watch():
    """Follows what a program imports from here on, or has imported."""
    change_after_import("deepspeed.runtime.base_optimizer", _note)
    change_after_import("deepspeed.runtime.zero.stage_1_and_2", _follow_buckets)
    change_after_import("deepspeed.runtime.zero.partition_parameters", _follow_gathers)


def declare(modules):
    """Says before a step what the optimizers hold: as retype() does not change what is declared already, parameters
    that are their own master weights stay parameters. `modules` are ModuleNames.modules."""
    _owners.clear()
    if not _living:
        return
    for number, (_, _, _, module) in enumerate(modules):
        named = module._parameters.items() if module is not None else ()
        _owners.update((id(parameter), (number, name)) for name, parameter in named if parameter is not None)
    for zero in _living:
        weights = tensors_of([getattr(zero, name, None) for name in _MASTER_WEIGHTS])
        _retype(weights, _OPTIMIZER)
        _retype([weight.grad for weight in weights] + [getattr(zero, name, None) for name in _GRADIENTS], _GRADIENT)
        _retype(_buckets(zero), _COMMUNICATION)


def _retype(held, category):
    torch.ops.torch_headroom.retype.default(tensors_of(held), category)


def _note(module):
    def new(kind, *_, **__):
        made = object.__new__(kind)
        _living.add(made)
        return made

    module.ZeROOptimizer.__new__ = new


def _buckets(zero):
    return [bucket.buffer for bucket in getattr(zero, "ipg_buckets", {}).values()]


def _around(owner, name, before=None, after=None):
    """Calls before(self, arguments of the call) and after(self, arguments) around each call of a method."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def call(self, *arguments, **named):
        if before:
            before(self, (*arguments, named))
        result = original(self, *arguments, **named)
        if after:
            after(self, (*arguments, named))
        return result

    setattr(owner, name, call)


def _follow_buckets(module):
    zero = module.DeepSpeedZeroOptimizer
    _around(zero, "setup_buckets", after=lambda zero, _: _retype(_buckets(zero), _COMMUNICATION))
    _around(zero, "reduce_independent_p_g_buckets_and_remove_grads", before=_whole_gradient)
    _around(zero, "copy_grads_in_partition", after=lambda zero, _: _retype([zero.grads_in_partition], _GRADIENT))
    _around(zero, "independent_gradient_partition_epilogue", after=_averaged)
    _around(zero, "unscale_and_clip_grads", before=lambda _, arguments: _retype(arguments[0], _GRADIENT))


def _whole_gradient(zero, arguments):
    """Stage 2 keeps only the rank's part of it, stage 1 all."""
    gradient = zero.get_gradient_for_reduction(arguments[0])
    _retype([gradient], _UNSHARDED_GRADIENT if zero.partition_gradients else _GRADIENT)


def _averaged(zero, _):
    _retype([zero.averaged_gradients, zero.all_grad_tensors], _GRADIENT)


def _follow_gathers(module):
    def begun(handle, arguments):
        *placed, named = arguments
        parameters = placed[1] if len(placed) > 1 else named.get("params", named.get("param"))
        handle.headroom_parameters = [parameters] if isinstance(parameters, torch.Tensor) else parameters
        _retype([*placed[2:], named.get("partitions")], _COMMUNICATION)
        done(handle)

    def done(handle, _=None):
        for parameter in handle.headroom_parameters:
            number, name = _owners.get(id(parameter), (None, None))
            if number is not None:
                torch.ops.torch_headroom.unsharded.default(number, [name], [parameter.data], _UNSHARDED_PARAMETER)

    for kind in (module.AllGatherHandle, module.AllGatherCoalescedHandle, module.AllReduceCoalescedHandle):
        _around(kind, "__init__", after=begun)
        _around(kind, "wait", after=done)
