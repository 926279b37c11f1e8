# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Applies a policy to a model: the named modules are checkpointed with torch.utils.checkpoint (non-reentrant), the
outputs of the ops that the policy keeps are saved by selective contexts, everything else is recomputed in backward."""

from __future__ import annotations

import difflib

import torch

from ._policy import PolicyError, read_policy
from ._region import Region, region_of


def apply(model: torch.nn.Module, policy) -> torch.nn.Module:
    """Checkpoints the modules that `policy` (the path of a policy.json) names, in place, and returns `model`.

    Names are checked here. That each module runs the ops that were recorded is checked in its first forward with
    gradients: a policy that does not fit raises PolicyError there, after it has been removed from the whole model.
    `model` may be wrapped by DistributedDataParallel, fully_shard or torch.compile; FSDP1, DataParallel and scripted
    models are refused. Copies of the model (copy.deepcopy) keep the policy, pickles do not.
    """
    document = read_policy(policy)
    root = _unwrapped(model)
    _refuse_other_checkpointing(root)
    modules = _named(root, document)
    applied = _Applied(document.source)
    for module, wanted in zip(modules, document.modules):
        applied.add(module, wanted)
    return model


def remove(model: torch.nn.Module) -> torch.nn.Module:
    """Takes a policy off again; without one it does nothing. Returns `model`."""
    for module in _unwrapped(model).modules():
        region = region_of(module)
        if region is not None:
            region.remove_from(module)
    return model


class _Applied:
    """One policy on one model: its regions come and go together."""

    def __init__(self, source):
        self.source = source
        self.regions = []

    def add(self, module, wanted):
        region = Region(self, module, wanted)
        self.regions.append((module, region))
        region.put_on(module)

    def refuse(self, sentence):
        for module, region in self.regions:
            region.remove_from(module)
        raise PolicyError(f"{self.source}: {sentence}; the policy was removed from the model")


def _unwrapped(model):
    """The model that was recorded, without what training puts around it."""
    if not isinstance(model, torch.nn.Module):
        raise PolicyError(f"expected a torch.nn.Module, not {type(model).__name__}")
    while True:
        kind = type(model).__name__
        if kind == "OptimizedModule":
            model = model._orig_mod
        elif isinstance(model, torch.nn.parallel.DistributedDataParallel):
            model = model.module
        elif isinstance(model, torch.jit.ScriptModule):
            raise PolicyError("a scripted model cannot be checkpointed: apply the policy to the model in Python")
        elif kind in ("FullyShardedDataParallel", "DataParallel"):
            raise PolicyError(f"{kind} is not supported: use fully_shard (FSDP2) or DistributedDataParallel, or none")
        else:
            return model


def _refuse_other_checkpointing(root):
    """Two checkpoints, one inside the other, would recompute twice and break the plan's promise."""
    for name, module in root.named_modules():
        where = f"module {name}" if name else "the model"
        if region_of(module) is not None:
            raise PolicyError(f"{where} has a policy already: call headroom.remove(model) first")
        if type(module).__name__ == "CheckpointWrapper":
            raise PolicyError(f"{where} is checkpointed by checkpoint_wrapper already: leave that out first")
        if getattr(module, "gradient_checkpointing", False) is True:
            raise PolicyError(f"{where} checkpoints itself already: call model.gradient_checkpointing_disable() first")


def _named(root, policy):
    """The modules of a policy, in its order."""
    own = {cls.__name__ for cls in type(root).__mro__}  # fully_shard makes a subclass with another name
    known = dict(root.named_modules())
    modules, missing = [], []
    for wanted in policy.modules:
        first, _, name = wanted.fqn.partition(".")
        if first not in own:
            raise PolicyError(f"{policy.source}: module {wanted.fqn} belongs to a {first}, and this model is a "
                              f"{type(root).__name__}: the policy was made for another model ({policy.model})")
        module = known.get(name)
        if module is None:
            missing.append((wanted.fqn, first, name))
        modules.append(module)
    if missing:
        fqn, first, name = missing[0]
        close = difflib.get_close_matches(name, known, n=1)
        raise PolicyError(
            f"{policy.source}: the model has no module {fqn}" + (f" nor {len(missing) - 1} more of the policy's "
            f"{len(policy.modules)}" if len(missing) > 1 else "")
            + (f"; did you rename it to {first}.{close[0]}?" if close else "; was the policy made for another model?"))
    return modules
