# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Categories of the tensors that FSDP holds besides its shards, by the rules of FSDPMemTracker
(torch/distributed/_tools/fsdp2_mem_tracker.py)."""

import sys

import torch

from ._modules import plain_parts

# Category numbers in step files (Category in core/trace/step_trace.h).
_GRADIENT, _UNSHARDED_PARAMETER, _UNSHARDED_GRADIENT, _COMMUNICATION = 2, 9, 10, 11
_FSDP2 = "torch.distributed.fsdp._fully_shard._fsdp_param_group"
_FSDP1 = "torch.distributed.fsdp._runtime_utils"


def _retype(tensors, category):
    found = [part for tensor in tensors if tensor is not None for part in plain_parts(tensor)]
    if found:
        torch.ops.torch_headroom.retype.default(found, category)


class _Units:
    """Tells the library which unit of FSDP holds a tensor: a module that the script wrapped."""

    def __init__(self, numbers):
        self._numbers = numbers  # id(module) -> number in the step
        self._open = []  # groups of FSDP2 whose collectives run now, the innermost last

    def holds(self, module, named, category):
        """`named` are (name, tensor or None)."""
        parts = [(name, part) for name, tensor in named if tensor is not None for part in plain_parts(tensor)]
        number = self._numbers.get(id(module))
        if number is None:
            _retype([part for _, part in parts], category)
        elif parts:
            names, tensors = map(list, zip(*parts))
            torch.ops.torch_headroom.unsharded.default(number, names, tensors, category)

    def of_group(self, group, of, category):
        """What `of(parameter)` is of each parameter of an FSDPParamGroup, which may be of several modules."""
        for unit in group.modules:
            paths = {id(module): f"{path}." if path else "" for path, module in unit.named_modules()}
            owners = [(parameter, parameter._module_info) for parameter in group.fsdp_params]
            self.holds(unit, [(paths[id(owner.module)] + owner.param_name, of(parameter)) for parameter, owner in owners
                              if id(owner.module) in paths], category)

    def communicates(self, name, tensor):
        if self._open:
            self.holds(self._open[-1].modules[0], [(name, tensor)], _COMMUNICATION)
        else:
            _retype([tensor], _COMMUNICATION)

    def opening(self, original):
        """Collectives inside of the call are of its group."""
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
        import torch.distributed.fsdp  # noqa: F401  (the script may import it later, and Hooks come before)
    if _FSDP2 in sys.modules:
        units = _Units(recorder.numbers)
        _install_fsdp2(replace, units)
        _install_fsdp1(replace, units)


def _install_fsdp2(replace, units):
    from torch.distributed.fsdp._fully_shard import _fsdp_collectives as collectives

    group = sys.modules[_FSDP2].FSDPParamGroup
    for gather in (collectives.DefaultAllGather, collectives.ProcessGroupAllocAllGather):
        replace(gather, "__call__", _marking(units, 0, "output of all_gather"))
    for scatter in (collectives.DefaultReduceScatter, collectives.ProcessGroupAllocReduceScatter):
        replace(scatter, "__call__", _marking(units, 1, "input of reduce_scatter"))
    replace(group, "unshard", units.opening)
    replace(group, "wait_for_unshard", _waiting(units))
    replace(group, "post_backward", units.opening)
    replace(group, "post_backward", _reducing(units))


def _marking(units, position, name):
    def make(original):
        def call(self, output_tensor, input_tensor, *arguments, **named):
            result = original(self, output_tensor, input_tensor, *arguments, **named)
            units.communicates(name, (output_tensor, input_tensor)[position])
            return result

        return call

    return make


def _waiting(units):
    def make(original):
        def wait_for_unshard(group):
            result = original(group)
            units.of_group(group, lambda parameter: getattr(parameter, "_unsharded_param", None), _UNSHARDED_PARAMETER)
            return result

        return wait_for_unshard

    return make


def _reducing(units):
    def gradient(parameter):
        return getattr(getattr(parameter, "_unsharded_param", None), "grad", None)

    def make(original):
        def post_backward(group, *unused):
            units.of_group(group, gradient, _UNSHARDED_GRADIENT)
            result = original(group, *unused)
            _retype([parameter.sharded_param.grad for parameter in group.fsdp_params], _GRADIENT)
            return result

        return post_backward

    return make


def _install_fsdp1(replace, units):
    runtime = sys.modules[_FSDP1]
    from torch.distributed.fsdp._flat_param import FlatParamHandle

    def unsharding(original):
        def unshard(handle):
            result = original(handle)
            flat = handle.flat_param
            full = [("flat_param", getattr(flat, name, None))
                    for name in ("_full_param_padded", "_full_prec_full_param_padded")]
            units.holds(handle._fully_sharded_module, full, _UNSHARDED_PARAMETER)
            return result

        return unshard

    def reducing(original):
        def post_backward(state, handle, *unused):
            units.holds(handle._fully_sharded_module, [("flat_param", handle.flat_param.grad)], _UNSHARDED_GRADIENT)
            result = original(state, handle, *unused)
            _retype([getattr(handle.flat_param, "_saved_grad_shard", None)], _GRADIENT)
            return result

        return post_backward

    replace(FlatParamHandle, "unshard", unsharding)
    replace(runtime, "_post_backward_hook", reducing)
