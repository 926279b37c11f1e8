# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds the modules of a program's model that a policy names. The policy's names start at the recorded model. The
recorded model may contain the given model (a loss around the model) or lie inside the given model (an average of
weights). If a step had several models, each model has a part of the policy, named by class: QNet and QNet_2, the model
called first in front.

Also the modules that torch.compile() compiled as graphs of their own, where a checkpoint surrounds the graph, as in the
recording. Inside a larger graph the checkpoint would be a part of that graph (region.py), and the partitioner would
decide what is recomputed."""

from __future__ import annotations

import difflib
import functools
import re
import weakref

import torch

from .._modules import is_compiled, without_compilation
from .policy import PolicyError
from .offload import OffloadedModule
from .recompute import Forward, note_around_graph
from .region import Region

_WRAPPER, _WRAPPED = "FullyShardedDataParallel", "_fsdp_wrapped_module"


class Fit:
    """A part of a policy, matched to modules of a model."""

    def __init__(self, name, base, entries, modules):
        self.name = name  # name of `base` in the policy
        self.base = base
        self.entries = entries
        self.modules = modules  # modules of the entries, in the same order

    def plan(self):
        """Returns the decisions, without the name of the model."""
        start = len(self.name)
        return {entry.fqn[start:]: (entry.calls, entry.saved, entry.offload, entry.hosted) for entry in self.entries}


def find(model, policy, part_name=None, taken=()):
    """Returns the parts of `policy` that fit `model`. `part_name` is the only part to consider; `taken` are names that
    other models already have. Returns none for a model of the step that the plan leaves unchanged. Raises PolicyError
    if no part fits another model, or if the choice is ambiguous."""
    parts = _parts(policy, part_name)
    found = _outermost([_bases(model, name, entries) for name, entries in parts.items()])
    for part in found:
        if len(part) > 1:
            several = _several_modules(model, found) if part[0].name == part[1].name else _several_names(model, part)
            raise PolicyError(f"{policy.source}: {several}")
    fits = {}
    for fit in (fit for part in found for fit in part):
        fits.setdefault(id(fit.base), []).append(fit)
    if part_name is None:
        _refuse_left(model, policy, parts, (fit for part in found for fit in part))
    if parts and not fits and not _is_left_as_it_is(model, policy, parts):
        raise PolicyError(f"{policy.source}: {_no_fit(model, policy, parts)}")
    for same in fits.values():
        if any(fit.plan() != same[0].plan() for fit in same):
            raise PolicyError(f"{policy.source}: {_several_names(model, same)}")
    return [next((fit for fit in same if fit.name not in taken), same[0]) for same in fits.values()]


def _refuse_left(model, policy, parts, fits):
    """Refuses a model that may also be another model of the step, of the same class, which the plan leaves
    unchanged."""
    for fit in fits:
        kind = _classes(fit.name, parts[fit.name][0])[0] if fit.name in parts else None
        left = [name for name in policy.objects_left if kind in _classes_by_name(name)]
        if left:
            names = ", ".join(name for name in policy.objects if name == fit.name or name in left)
            raise PolicyError(f"{policy.source}: the step had {names} (in the order of first calls), each fits this "
                              f"{type(model).__name__}, and the plan checkpoints only {fit.name}: name the object, "
                              f"as in torch_headroom.apply(model, policy, object=\"{fit.name}\")")


def _outermost(found):
    """Removes fits inside the fit of another part: models of a step are not nested, so the inner fits only have equal
    names."""
    inner = [{id(module) for fit in part for module in fit.base.modules() if module is not fit.base} for part in found]
    return [[fit for fit in part if not any(id(fit.base) in inner[j] for j in range(len(found)) if j != i)]
            for i, part in enumerate(found)]


def _parts(policy, part_name):
    """Returns the entries by the name of the recorded model, or only the entries of the requested module."""
    parts = {}
    for entry in policy.modules:
        parts.setdefault(entry.fqn.partition(".")[0], []).append(entry)
    if part_name is None:
        return parts
    entries = [entry for entry in policy.modules if f"{entry.fqn}.".startswith(f"{part_name}.")]
    if not entries and part_name in policy.objects:
        return {}
    if not entries:
        raise PolicyError(f"{policy.source}: the plan checkpoints nothing of {part_name}, only {', '.join(parts)}")
    return {part_name: entries}


def _bases(model, name, entries):
    """Finds module `name` of the recorded step. Returns the places in `model` that fit the module, or, if `model` lies
    inside that module, the parts of the module that `model` fits."""
    fit = _fit(model, name, entries, is_root=True)
    if fit:
        return [fit]
    inside = [_fit(module, name, entries) for module in model.modules() if module is not model]
    inside = [fit for fit in inside if fit]
    if inside:
        return inside
    depth = name.count(".") + 1
    while any(entry.types[depth:] for entry in entries):
        below = {}
        for entry in entries:
            if entry.types[depth:]:
                below.setdefault(".".join(entry.fqn.split(".")[: depth + 1]), []).append(entry)
        outside = [fit for fit in (_fit(model, prefix, part) for prefix, part in below.items()) if fit]
        if outside:
            return outside
        depth += 1
    return []


def _fit(base, name, entries, is_root=False):
    """Matches `entries`, whose names begin with the name of `base`, to modules of `base`; None if a module is
    missing."""
    depth = name.count(".")
    if not any(_is_a(base, kind) for kind in _classes(name, entries[0])):
        return None
    modules = []
    for entry in entries:
        module = base
        for place, key in enumerate(entry.fqn[len(name) + 1 :].split(".") if entry.fqn != name else (), depth + 1):
            # FSDP1 wraps modules inside of the model: the plan may be applied before FSDP1 wraps.
            if key == _WRAPPED and key not in module._modules:
                continue
            module = without_compilation(module._modules.get(key))
            if module is None or not (is_root or not entry.types or _is_a(module, entry.types[place])
                                      or entry.types[place] == _WRAPPER):
                return None
        modules.append(module)
    return Fit(name, base, entries, modules)


def _classes(name, entry):
    """Returns the possible class names of a recorded module. Policies of older versions have only the name."""
    if entry.types:
        return [entry.types[name.count(".")]]
    return _classes_by_name(name)


def _classes_by_name(name):
    return [name, re.sub(r"_\d+$", "", name)]


def _is_left_as_it_is(model, policy, parts):
    """Returns whether the model was in the recorded step and the plan has nothing to do for the model's class."""
    planned = [kind for name, entries in parts.items() for kind in _classes(name, entries[0])]
    recorded = [kind for name in policy.objects for kind in _classes_by_name(name)]
    return any(_is_a(model, kind) for kind in recorded) and not any(_is_a(model, kind) for kind in planned)


def _is_a(module, kind):
    """Compares class names, including base classes: fully_shard makes a subclass."""
    return any(cls.__name__ == kind for cls in type(module).__mro__)


def _several_names(model, fits):
    names = ", ".join(fit.name for fit in fits)
    return (f"there are plans for {names} (in the order of first calls), and each fits this {type(model).__name__}: "
            "name the object, as in torch_headroom.apply(model, policy, "
            f"object=\"{fits[0].name}\")")


def _several_modules(model, found):
    fits = next(part for part in found if len(part) > 1)
    names = {id(module): name for name, module in model.named_modules()}
    places = ", ".join(names[id(fit.base)] for fit in fits)
    alike = [part[0].name for part in found if len(part) > 1 and part[0].base is fits[0].base]
    if len(alike) == 1:
        return f"the plan for {alike[0]} fits {places} of this model: apply the plan to the recorded module"
    return (f"the plans for {', '.join(alike)} (in the order of first calls) each fit {places} of this model: apply "
            f"each plan to the recorded module, as in torch_headroom.apply(model.{names[id(fits[0].base)]}, policy, "
            f"object=\"{alike[0]}\")")


def _no_fit(model, policy, parts):
    """Returns why no part fits, for the part that comes nearest."""
    for name, entries in parts.items():
        if any(_is_a(model, kind) for kind in _classes(name, entries[0])):
            return _missing(model, name, entries)
    first = next(iter(parts.values()))[0]
    kind = (first.types or _classes(next(iter(parts)), first))[0]
    return (f"module {first.fqn} belongs to a {kind}, and this model is a {type(model).__name__}: the policy was made "
            f"for another model ({policy.model})")


def _missing(model, name, entries):
    known = dict(model.named_modules(remove_duplicate=False))
    inside = [(entry, entry.fqn[len(name) + 1 :]) for entry in entries]
    missing = [(entry, path) for entry, path in inside if path not in known]
    entry, path = missing[0]
    more = f" nor {len(missing) - 1} more of the policy's {len(entries)}" if len(missing) > 1 else ""
    why = _fewer(known, path) or _renamed(known, entry, path, {path for _, path in inside}, name)
    return f"the model has no module {entry.fqn}{more}; {why or 'was the policy made for another model?'}"


def _fewer(known, path):
    """Returns a sentence if a numbered module is missing from a list that has fewer modules; empty otherwise."""
    parts = path.split(".")
    for depth, part in enumerate(parts):
        above = ".".join(parts[:depth])
        if ".".join(parts[: depth + 1]) in known:
            continue
        numbers = [key for key in known[above]._modules if key.isdecimal()]
        if not part.isdecimal() or not numbers:
            return ""
        return (f"{above if above else 'the model'} has {len(numbers)} modules: make the model as recorded, or "
                "record the step and plan again")
    return ""


def _renamed(known, entry, path, planned, root):
    """Returns a question for the module that has the missing module's class and a similar name, which the policy does
    not use; empty if there is none."""
    free = [other for other, module in known.items()
            if other and other not in planned and (not entry.types or _is_a(module, entry.types[-1]))
            and re.sub(r"\d+", "", other) != re.sub(r"\d+", "", path)]
    close = difflib.get_close_matches(path, free, n=1)
    return f"was the module renamed to {root}.{close[0]}?" if close else ""


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


class _AroundGraph:
    """A planned module around a compiled graph. `owner` holds the compiled call as the attribute `name`."""

    def __init__(self, applied, module, policy, owner, name, *arguments):
        super().__init__(applied, module, policy, *arguments)
        self._owner, self._name = weakref.ref(owner), name
        self._graph = getattr(owner, name)

    def put_on(self, module):
        forward = Forward(self, module)
        setattr(self._owner(), self._name, forward)
        note_around_graph(module, forward)

    def take_off(self, module):
        setattr(self._owner(), self._name, self._graph)

    def forward_of(self, module, replaced):
        return self._graph


class CompiledRegion(_AroundGraph, Region):
    """A region around a compiled graph. Single ops are not visible, so the region is not checked."""

    def __init__(self, applied, module, policy, owner, name):
        super().__init__(applied, module, policy, owner, name)
        if policy.saved:
            raise PolicyError(f"{applied.document.source}: module {policy.fqn} is compiled, and single ops of a "
                              f"compiled graph cannot be kept: plan with --pin {policy.fqn}=recompute, or =save, or "
                              "apply before torch.compile")
        self.checked = self.settled = True

    def run(self, module, args, kwargs, replaced):
        return super().run(module, *_cast_by_fully_shard(module, args, kwargs), replaced)


class CompiledOffload(_AroundGraph, OffloadedModule):
    """An offloaded module around a compiled graph: what the graph saves goes to the host."""


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
