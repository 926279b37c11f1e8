# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Categories of the tensors that sharding holds besides the shards. FSDP: by the rules of FSDPMemTracker
(torch/distributed/_tools/fsdp2_mem_tracker.py). DeepSpeed's ZeRO: master weights, flat gradients, buckets, gathered
parameters (github.com/deepspeedai/DeepSpeed, deepspeed/runtime/zero, version 0.19)."""

import functools
import sys
import weakref

import torch

from .._modules import (COMMUNICATION, GRADIENT, OPTIMIZER, UNSHARDED_GRADIENT, UNSHARDED_PARAMETER, plain_parts,
                        retype, tensors_of)
from .._torch import around, change_after_import, patch_around

_FSDP2 = "torch.distributed.fsdp._fully_shard._fsdp_param_group"
_FSDP1 = "torch.distributed.fsdp._runtime_utils"


class _Units:
    """Tells the library which unit of FSDP holds a tensor: a module that the script wrapped."""

    def __init__(self, numbers):
        self._numbers = numbers  # id(module) -> number in the step
        self._open = []  # groups of FSDP2 whose collectives run now, the innermost last

    def holds(self, module, named, category):
        """Declares that `module` holds tensors of a category. `named` are pairs (name, tensor or None)."""
        parts = [(name, part) for name, tensor in named if tensor is not None for part in plain_parts(tensor)]
        number = self._numbers.get(id(module))
        if number is None:
            retype([part for _, part in parts], category)
        elif parts:
            names, tensors = map(list, zip(*parts))
            torch.ops.torch_headroom.unsharded.default(number, names, tensors, category)

    def of_group(self, group, of, category):
        """Declares what a group's modules hold: the tensor `of(parameter)` of each parameter of an FSDPParamGroup."""
        for unit in group.modules:
            paths = {id(module): f"{path}." if path else "" for path, module in unit.named_modules()}
            owners = [(parameter, parameter._module_info) for parameter in group.fsdp_params]
            self.holds(unit, [(paths[id(owner.module)] + owner.param_name, of(parameter)) for parameter, owner in owners
                              if id(owner.module) in paths], category)

    def communicates(self, name, tensor):
        if self._open:
            self.holds(self._open[-1].modules[0], [(name, tensor)], COMMUNICATION)
        else:
            retype([tensor], COMMUNICATION)

    def opening(self, original):
        """Decorates a method of a group: collectives inside the call belong to the group."""

        def call(group, *arguments, **named):
            self._open.append(group)
            try:
                return original(group, *arguments, **named)
            finally:
                self._open.pop()

        return call


def install_fsdp_hooks(replace, recorder):
    """Installs the hooks, now or after the program's import of FSDP. `replace(owner, name, make)`, a method of an object
    that lives while the hooks are wanted, replaces owner.name by make(original)."""
    units, wanted = _Units(recorder.numbers), weakref.WeakMethod(replace)

    def install(change, _):
        if wanted() is not None:
            change(wanted(), units)

    change_after_import(_FSDP2, functools.partial(install, _install_fsdp2))
    change_after_import(_FSDP1, functools.partial(install, _install_fsdp1))


def _install_fsdp2(replace, units):
    from torch.distributed.fsdp._fully_shard import _fsdp_collectives as collectives

    def gathered(_, output_tensor, *__, **___):
        units.communicates("output of all_gather", output_tensor)

    def scattered(_, output_tensor, input_tensor, *__, **___):
        units.communicates("input of reduce_scatter", input_tensor)

    def unsharded_parameter(parameter):
        return getattr(parameter, "_unsharded_param", None)

    def unsharded(group):
        units.of_group(group, unsharded_parameter, UNSHARDED_PARAMETER)

    def reduction_begins(group, *_):
        units.of_group(group, lambda parameter: getattr(unsharded_parameter(parameter), "grad", None),
                       UNSHARDED_GRADIENT)

    def reduced(group, *_):
        retype([parameter.sharded_param.grad for parameter in group.fsdp_params], GRADIENT)
        # What HSDP keeps until all replicas are reduced, and the program accumulates meanwhile.
        reduction = getattr(group, "_all_reduce_state", None)
        retype([getattr(reduction, "all_reduce_input", None), getattr(group, "_partial_reduce_output", None)], GRADIENT)
        if not group.reduce_grads:  # as model.set_requires_gradient_sync(False) has it
            retype([gradient for parameter in group.fsdp_params for gradient in kept_unsharded(parameter)], GRADIENT)

    def kept_unsharded(parameter):
        return (getattr(unsharded_parameter(parameter), "grad", None),
                getattr(parameter, "unsharded_accumulated_grad", None))

    group = sys.modules[_FSDP2].FSDPParamGroup
    for gather in (collectives.DefaultAllGather, collectives.ProcessGroupAllocAllGather):
        replace(gather, "__call__", around(after=gathered))
    for scatter in (collectives.DefaultReduceScatter, collectives.ProcessGroupAllocReduceScatter):
        replace(scatter, "__call__", around(after=scattered))
    replace(group, "unshard", units.opening)
    replace(group, "wait_for_unshard", around(after=unsharded))
    replace(group, "post_backward", units.opening)
    replace(group, "post_backward", around(reduction_begins, reduced))


def _install_fsdp1(replace, units):
    runtime = sys.modules[_FSDP1]
    from torch.distributed.fsdp._flat_param import FlatParamHandle

    def unsharded(handle):
        names = "_full_param_padded", "_full_prec_full_param_padded"
        full = [("flat_param", getattr(handle.flat_param, name, None)) for name in names]
        units.holds(handle._fully_sharded_module, full, UNSHARDED_PARAMETER)

    def reduction_begins(_, handle, *__):
        units.holds(handle._fully_sharded_module, [("flat_param", handle.flat_param.grad)], UNSHARDED_GRADIENT)

    def reduced(state, handle, *_):
        kept = None if state._sync_gradients else handle.flat_param.grad  # inside of no_sync()
        retype([getattr(handle.flat_param, "_saved_grad_shard", None), kept], GRADIENT)

    replace(FlatParamHandle, "unshard", around(after=unsharded))
    replace(runtime, "_post_backward_hook", around(reduction_begins, reduced))


_MASTER_WEIGHTS = "single_partition_of_fp32_groups", "fp32_partitioned_groups_flat", "fp32_groups_flat_partition"
_GRADIENTS = "grad_partitions_flat_buffer", "averaged_gradients", "fp32_groups_gradients_flat"

_living = weakref.WeakSet()  # ZeRO's optimizers
_gathers = []  # [True] if the running step has gathered parameters
_owners = {}  # id of a parameter of the running step -> (number of the module, name there)


def follow_deepspeed():
    """Follows DeepSpeed, whether the program has imported DeepSpeed or will."""
    change_after_import("deepspeed.runtime.base_optimizer", _note)
    change_after_import("deepspeed.runtime.zero.stage_1_and_2", _follow_buckets)
    change_after_import("deepspeed.runtime.zero.partition_parameters", _follow_gathers)


def declare_zero(modules):
    """Declares before a step what the optimizers hold. Parameters that are also master weights stay parameters, since
    retype() does not change declared tensors. `modules` are pairs of a number and a module."""
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


def zero_settings():
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
        # Stage 2 keeps only this rank's part of the gradient, stage 1 keeps the whole gradient.
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
