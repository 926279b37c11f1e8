# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Categories of the tensors that FSDP holds besides its shards, by the rules of FSDPMemTracker
(torch/distributed/_tools/fsdp2_mem_tracker.py)."""

import sys

import torch

from ._around import around
from ._categories import COMMUNICATION, GRADIENT, UNSHARDED_GRADIENT, UNSHARDED_PARAMETER, retype
from ._modules import plain_parts

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


def install(replace, recorder):
    """Installs the hooks. `replace(owner, name, make)` replaces owner.name by make(original)."""
    if recorder.job is not None:
        import torch.distributed.fsdp  # noqa: F401  (the script may import it only after the hooks are installed)
    if _FSDP2 in sys.modules:
        units = _Units(recorder.numbers)
        _install_fsdp2(replace, units)
        _install_fsdp1(replace, units)


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
