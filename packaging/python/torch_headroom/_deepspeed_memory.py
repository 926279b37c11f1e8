# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Categories of the tensors that DeepSpeed's ZeRO holds besides the parameters: master weights, flat gradients,
buckets, gathered parameters. Source: github.com/deepspeedai/DeepSpeed, deepspeed/runtime/zero, version 0.19."""

import weakref

import torch

from ._around import patch_around
from ._categories import COMMUNICATION, GRADIENT, OPTIMIZER, UNSHARDED_GRADIENT, UNSHARDED_PARAMETER, retype
from ._modules import tensors_of
from ._simulate_refusals import change_after_import

_MASTER_WEIGHTS = "single_partition_of_fp32_groups", "fp32_partitioned_groups_flat", "fp32_groups_flat_partition"
_GRADIENTS = "grad_partitions_flat_buffer", "averaged_gradients", "fp32_groups_gradients_flat"

_living = weakref.WeakSet()  # ZeRO's optimizers
_gathers = []  # [True] if the running step has gathered parameters
_owners = {}  # id of a parameter of the running step -> (number of its module, its name there)


def watch():
    """Follows DeepSpeed, whether the program has imported it or will."""
    change_after_import("deepspeed.runtime.base_optimizer", _note)
    change_after_import("deepspeed.runtime.zero.stage_1_and_2", _follow_buckets)
    change_after_import("deepspeed.runtime.zero.partition_parameters", _follow_gathers)


def declare(modules):
    """Declares before a step what the optimizers hold. Parameters that are their own master weights stay parameters,
    as retype() does not change tensors that are declared already. `modules` are pairs of a number and a module."""
    _owners.clear()
    _gathers.clear()
    if not _living:
        return
    for number, module in modules:
        _owners.update((id(parameter), (number, name)) for name, parameter in module._parameters.items()
                       if parameter is not None)
    for zero in _living:
        weights = tensors_of([getattr(zero, name, None) for name in _MASTER_WEIGHTS])
        retype(weights, OPTIMIZER)
        retype([weight.grad for weight in weights] + [getattr(zero, name, None) for name in _GRADIENTS], GRADIENT)
        retype(_buckets(zero), COMMUNICATION)


def settings():
    """Returns what is noted in the step."""
    return [("parameters gathered by", "ZeRO-3")] if _gathers else []


def _note(module):
    def new(kind, *_, **__):
        made = object.__new__(kind)
        _living.add(made)
        return made

    module.ZeROOptimizer.__new__ = new


def _buckets(zero):
    return [bucket.buffer for bucket in getattr(zero, "ipg_buckets", {}).values()]


def _follow_buckets(module):
    def buckets_made(zero, *_, **__):
        retype(_buckets(zero), COMMUNICATION)

    def gradient_made(zero, parameter, *_, **__):
        # Stage 2 keeps only this rank's part of the gradient, stage 1 keeps all of it.
        gradient = zero.get_gradient_for_reduction(parameter)
        retype([gradient], UNSHARDED_GRADIENT if zero.partition_gradients else GRADIENT)

    def gradients_copied(zero, *_, **__):
        retype([zero.grads_in_partition], GRADIENT)

    def averaged(zero, *_, **__):
        retype([zero.averaged_gradients, zero.all_grad_tensors], GRADIENT)

    def clips(_, gradients, *__, **___):
        retype(gradients, GRADIENT)

    zero = module.DeepSpeedZeroOptimizer
    patch_around(zero, "setup_buckets", after=buckets_made)
    patch_around(zero, "reduce_independent_p_g_buckets_and_remove_grads", before=gradient_made)
    patch_around(zero, "copy_grads_in_partition", after=gradients_copied)
    patch_around(zero, "independent_gradient_partition_epilogue", after=averaged)
    patch_around(zero, "unscale_and_clip_grads", before=clips)


def _follow_gathers(module):
    def begun(gather, /, *placed, **named):  # DeepSpeed passes `handle` by keyword, too
        _gathers[:] = [True]
        parameters = placed[1] if len(placed) > 1 else named.get("params", named.get("param"))
        gather.headroom_parameters = [parameters] if isinstance(parameters, torch.Tensor) else parameters
        retype([*placed[2:], named.get("partitions")], COMMUNICATION)
        done(gather)

    def done(handle, *_, **__):
        for parameter in handle.headroom_parameters:
            number, name = _owners.get(id(parameter), (None, None))
            if number is not None:
                torch.ops.torch_headroom.unsharded.default(number, [name], [parameter.data], UNSHARDED_PARAMETER)

    for kind in (module.AllGatherHandle, module.AllGatherCoalescedHandle, module.AllReduceCoalescedHandle):
        patch_around(kind, "__init__", after=begun)
        patch_around(kind, "wait", after=done)
