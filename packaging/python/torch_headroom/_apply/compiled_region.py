# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A checkpointed module that torch.compile() compiled as a graph of its own. The checkpoint surrounds the graph, as in
the recording. Inside a larger graph the checkpoint would be a part of that graph (region.py), and the partitioner would
decide what is recomputed."""

from __future__ import annotations

import functools

import torch

from .._modules import is_compiled, without_compilation
from .policy import PolicyError
from .region import Region


def compiled_calls(root: torch.nn.Module):
    """Finds compiled modules inside `root`: id(module) -> (object, name of the attribute that holds the compiled
    call)."""
    found = {}
    for module in root.modules():
        if is_compiled(module):
            found[id(without_compilation(module))] = module, "forward"
        elif module._compiled_call_impl is not None:
            found[id(module)] = module, "_compiled_call_impl"
    return found


class CompiledRegion(Region):
    """A region around a compiled graph. Single ops are not visible, so the region is not checked."""

    def __init__(self, applied, module, policy, owner, name):
        super().__init__(applied, module, policy)
        if policy.saved:
            raise PolicyError(f"{applied.document.source}: module {policy.fqn} is compiled, and single ops of a "
                              f"compiled graph cannot be kept: plan with --pin {policy.fqn}=recompute, or =save, or "
                              "apply before torch.compile")
        self.checked = self.settled = True
        self._owner, self._name = owner, name
        self._graph = getattr(owner, name)

    def run(self, module, args, kwargs):
        return super().run(module, *_cast_by_fully_shard(module, args, kwargs))

    def put_on(self, module):
        setattr(self._owner, self._name, lambda *args, **kwargs: self.run(module, args, kwargs))
        module.headroom_region = self

    def remove_from(self, module):
        setattr(self._owner, self._name, self._graph)
        del module.headroom_region

    def forward_of(self, module):
        return self._graph


def _cast_by_fully_shard(module, args, kwargs):
    """Casts arguments as the hook of fully_shard does before the forward. The graph contains that hook, and a
    recomputation, in backward, runs the hook without the cast."""
    state = module._get_fsdp_state() if hasattr(module, "_get_fsdp_state") else None
    policy = getattr(state, "_mp_policy", None)
    if policy is None or not policy.cast_forward_inputs or policy.param_dtype is None:
        return args, kwargs
    from torch.distributed.fsdp._fully_shard._fsdp_common import _cast_fp_tensor
    from torch.distributed.utils import _apply_to_tensors

    cast = functools.partial(_cast_fp_tensor, policy.param_dtype)
    return _apply_to_tensors(cast, args), _apply_to_tensors(cast, kwargs)
