# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Applies a policy to a model: the named modules are checkpointed with torch.utils.checkpoint (non-reentrant), the
outputs of the ops that the policy keeps are saved by selective contexts, everything else is recomputed in backward."""

from __future__ import annotations

import difflib
import functools
import threading
import types
from collections import Counter

import torch
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from ._policy import ModulePolicy, PolicyError, read_policy


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
        region = _region_of(module)
        if region is not None:
            region.remove_from(module)
    return model


class _Applied:
    """One policy on one model: its regions come and go together."""

    def __init__(self, source):
        self.source = source
        self.regions = []

    def add(self, module, wanted):
        region = _Region(self, module, wanted)
        self.regions.append((module, region))
        region.put_on(module)

    def refuse(self, sentence):
        for module, region in self.regions:
            region.remove_from(module)
        raise PolicyError(f"{self.source}: {sentence}; the policy was removed from the model")


class _Region:
    """A checkpointed module. The module's `forward` becomes an attribute of the instance, so that hooks (those of
    fully_shard among them), names, state_dict and the class stay what they are."""

    def __init__(self, applied: _Applied, module: torch.nn.Module, policy: ModulePolicy):
        self.applied = applied
        self.policy = policy
        self.checked = False
        self.casts = 0  # in the forward that was checked
        self.context_fn = lambda: self.contexts(compiled=False)
        self.compiled_context_fn = lambda: self.contexts(compiled=True)  # has to be a function, no bound method
        self.replaced = module.__dict__.get("forward")  # somebody's own patch, which then runs inside

    def put_on(self, module):
        region = self

        def forward(module, *args, **kwargs):
            return region.run(module, args, kwargs)

        forward.headroom_region = self
        module.forward = types.MethodType(forward, module)

    def remove_from(self, module):
        del module.forward
        if self.replaced is not None:
            module.forward = self.replaced

    def run(self, module, args, kwargs):
        forward = self.forward_of(module)
        if not torch.is_grad_enabled():
            return forward(*args, **kwargs)
        forward, args = _with_arguments(forward, args, kwargs)
        if self.checked and not self.policy.saved:
            return checkpoint(forward, *args, use_reentrant=False)
        if torch.compiler.is_compiling():
            return checkpoint(forward, *args, use_reentrant=False, context_fn=self.compiled_context_fn)
        return checkpoint(_with_own_linear(forward), *args, use_reentrant=False, context_fn=self.context_fn)

    def forward_of(self, module):
        """What ran before the policy came, bound to `module`, which may be a copy of the one it was put on."""
        if self.replaced is None:
            return functools.partial(type(module).forward, module)
        if isinstance(self.replaced, types.MethodType):
            return types.MethodType(self.replaced.__func__, module)
        return self.replaced

    def contexts(self, compiled):
        """The two contexts of one call: for its forward and for its recomputation."""
        calls = {False: Counter(), True: Counter()}

        def decide(context, op, *args, **kwargs):
            name = str(op)
            seen = calls[context.is_recompute]
            index = seen[name]
            seen[name] += 1
            saved = (name, index) in self.policy.saved
            return CheckpointPolicy.MUST_SAVE if saved else CheckpointPolicy.MUST_RECOMPUTE

        forward, recompute = create_selective_checkpoint_contexts(decide)
        if compiled:  # wants the dispatch modes themselves; a graph has no autocast
            return (forward if self.checked else _Checking(forward, self, calls[False])), recompute
        return _Checking(forward, self, calls[False]), _Recomputing(recompute)

    def check(self, calls: Counter):
        """Whether a forward ran what was recorded. Views and in-place ops are never kept and may be named differently
        where the step was recorded, so only the others are compared."""
        if self.checked:
            return self.check_casts(calls)
        self.checked = True
        self.casts = calls[_CAST]
        for name, count in self.policy.calls.items():
            kept = any(saved == name for saved, _ in self.policy.saved)
            if not _makes_new_tensors(name) or calls[name] == count or (calls[name] > 0 and not kept):
                continue
            ran = f"ran {calls[name]} times" if calls[name] else "never ran"
            self.applied.refuse(
                f"module {self.policy.fqn}: {name} {ran} in its forward, {count} times when the step was recorded; "
                "record the step again as it runs now (same batch layout, dtype, autocast and device)")

    def check_casts(self, calls):
        """Autocast keeps its casts of weights until it is left, and casts them anew in a recomputation, in which kept
        outputs would then go to other ops than they came from."""
        if calls[_CAST] < self.casts and any(name == _CAST for name, _ in self.policy.saved):
            self.applied.refuse(
                f"module {self.policy.fqn}: {_CAST} ran {calls[_CAST]} times in this forward, {self.casts} times in the "
                "first: it was called again under the same torch.autocast, which kept the weights' casts; leave "
                "torch.autocast between two calls")


_CAST = "aten._to_copy.default"


class _Checking:
    """The forward's context, with the check at its end."""

    def __init__(self, context, region, calls):
        self.context, self.region, self.calls = context, region, calls

    def __enter__(self):
        return self.context.__enter__()

    def __exit__(self, kind, value, traceback):
        result = self.context.__exit__(kind, value, traceback)
        if kind is None:
            self.region.check(self.calls)
        return result


class _Recomputing:
    """The recomputation's context. What it casts is cast again, as in the forward, also where backward runs inside of
    torch.autocast, which then still has the casts of weights."""

    def __init__(self, context):
        self.context = context

    def __enter__(self):
        torch.clear_autocast_cache()
        return self.context.__enter__()

    def __exit__(self, kind, value, traceback):
        result = self.context.__exit__(kind, value, traceback)
        torch.clear_autocast_cache()
        return result


def _with_arguments(forward, args, kwargs):
    """`forward` and what checkpoint() is to call it with: keywords of the module stay apart from those of checkpoint(),
    and a tensor that is given twice is handed over once. checkpoint() makes an object of its own of each when it runs
    the forward again, and forwards ask whether two are the same (`query is key` in nn.MultiheadAttention)."""
    if torch.compiler.is_compiling():  # which asks once
        return functools.partial(forward, **kwargs) if kwargs else forward, args
    places = {}
    for place, value in enumerate(args):
        if isinstance(value, torch.Tensor):
            places.setdefault(id(value), place)
    first = [places.get(id(value), place) for place, value in enumerate(args)]
    named = {name: places[id(value)] for name, value in kwargs.items() if id(value) in places}
    others = {name: value for name, value in kwargs.items() if name not in named}
    if not named and first == list(range(len(args))):
        return functools.partial(forward, **others) if others else forward, args

    def forward_with_same(*given):
        same = {name: given[place] for name, place in named.items()}
        return forward(*(given[place] for place in first), **others, **same)

    return forward_with_same, tuple(value if first[place] == place else None for place, value in enumerate(args))


def _with_own_linear(forward):
    @functools.wraps(forward)
    def under_mode(*args):
        with _OwnLinear():
            return forward(*args)

    return under_mode


class _OwnLinear:
    """Under a dispatch mode, which selective contexts are, torch's linear() adds the bias out of place where it else adds
    it in place: other ops than were recorded, and a tensor more. While this is entered it does what it does without."""

    _torchs = torch.nn.functional.linear
    _lock = threading.Lock()
    _entered = 0  # threads may be in it at once; what it does is right in all of them

    def __enter__(self):
        with _OwnLinear._lock:
            if _OwnLinear._entered == 0:
                _OwnLinear._torchs = torch.nn.functional.linear
                torch.nn.functional.linear = _OwnLinear.linear
            _OwnLinear._entered += 1

    def __exit__(self, kind, value, traceback):
        with _OwnLinear._lock:
            _OwnLinear._entered -= 1
            if _OwnLinear._entered == 0:
                torch.nn.functional.linear = _OwnLinear._torchs

    @staticmethod
    def linear(input, weight, bias=None):
        tensors = (input, weight, bias)
        if (all(type(tensor) in (torch.Tensor, torch.nn.Parameter) for tensor in tensors) and input.dim() > 2
                and not input.is_contiguous() and not torch.is_autocast_enabled(input.device.type)):
            return torch.matmul(input, weight.t()).add_(bias)
        return _OwnLinear._torchs(input, weight, bias)


def _region_of(module):
    forward = module.__dict__.get("forward")
    return getattr(getattr(forward, "__func__", None), "headroom_region", None)


def _makes_new_tensors(name):
    """Whether an op, named as in a policy, neither changes an argument nor returns a view of one. An op that torch does
    not know (yet) counts as one that does make new tensors."""
    try:
        namespace, packet, overload = name.split(".")
        schema = getattr(getattr(getattr(torch.ops, namespace), packet), overload)._schema
    except (ValueError, AttributeError):
        return True
    return not any(value.alias_info is not None for value in (*schema.arguments, *schema.returns))


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
        if _region_of(module) is not None:
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
