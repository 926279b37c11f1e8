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


def install(replace, is_job):
    """Installs the hooks. `replace(owner, name, make)` replaces owner.name by make(original)."""
    if is_job:
        import torch.distributed.fsdp  # noqa: F401  (the script may import it later, and Hooks come before)
    if _FSDP2 in sys.modules:
        _install_fsdp2(replace)
        _install_fsdp1(replace)


def _install_fsdp2(replace):
    from torch.distributed.fsdp._fully_shard import _fsdp_collectives as collectives

    group = sys.modules[_FSDP2].FSDPParamGroup
    for gather in (collectives.DefaultAllGather, collectives.ProcessGroupAllocAllGather):
        replace(gather, "__call__", _marking(0))
    for scatter in (collectives.DefaultReduceScatter, collectives.ProcessGroupAllocReduceScatter):
        replace(scatter, "__call__", _marking(1))
    replace(group, "wait_for_unshard", _waiting)
    replace(group, "post_backward", _reducing)


def _marking(position):
    def make(original):
        def call(self, output_tensor, input_tensor, *arguments, **named):
            result = original(self, output_tensor, input_tensor, *arguments, **named)
            _retype([(output_tensor, input_tensor)[position]], _COMMUNICATION)
            return result

        return call

    return make


def _waiting(original):
    def wait_for_unshard(group):
        result = original(group)
        _retype([getattr(parameter, "_unsharded_param", None) for parameter in group.fsdp_params], _UNSHARDED_PARAMETER)
        return result

    return wait_for_unshard


def _reducing(original):
    def post_backward(group, *unused):
        unsharded = [getattr(parameter, "_unsharded_param", None) for parameter in group.fsdp_params]
        _retype([tensor.grad for tensor in unsharded if tensor is not None], _UNSHARDED_GRADIENT)
        result = original(group, *unused)
        _retype([parameter.sharded_param.grad for parameter in group.fsdp_params], _GRADIENT)
        return result

    return post_backward


def _install_fsdp1(replace):
    runtime = sys.modules[_FSDP1]
    from torch.distributed.fsdp._flat_param import FlatParamHandle

    def unsharding(original):
        def unshard(handle):
            result = original(handle)
            flat = handle.flat_param
            full = [getattr(flat, name, None) for name in ("_full_param_padded", "_full_prec_full_param_padded")]
            _retype(full, _UNSHARDED_PARAMETER)
            return result

        return unshard

    def reducing(original):
        def post_backward(state, handle, *unused):
            _retype([handle.flat_param.grad], _UNSHARDED_GRADIENT)
            result = original(state, handle, *unused)
            _retype([getattr(handle.flat_param, "_saved_grad_shard", None)], _GRADIENT)
            return result

        return post_backward

    replace(FlatParamHandle, "unshard", unsharding)
    replace(runtime, "_post_backward_hook", reducing)
