# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Applies a policy to a model. The named modules are checkpointed with torch.utils.checkpoint (non-reentrant):
selective contexts save the outputs of the ops that the policy saves, everything else is recomputed in backward. Or the
saved tensors of a named module go to the host (offload.py). A watch checks that training takes the predicted memory.
Also here: --without-checkpointing, which runs the program's own checkpoints as plain calls."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import warnings
import weakref

import torch
import torch.utils.checkpoint

from .._modules import parameters_of, without_compilation
from .._torch import before_steps
from .matching import CompiledOffload, CompiledRegion, compiled_calls, find
from .offload import OffloadedModule, Offloads
from .policy import PolicyError, read_policy
from .recompute import region_of
from .region import Region


def apply(model: torch.nn.Module, policy, object: str | None = None) -> torch.nn.Module:
    """Checkpoints, or offloads, the modules that `policy` (the path of a policy.json) names, in place. Returns `model`.

    `model` is the recorded model, contains the recorded model, or is a part of the recorded model. If the step had
    several models, the policy's part for this model is applied; `object` names that part ("QNet_2") where the part is
    ambiguous. The model may be wrapped by DistributedDataParallel, fully_shard or torch.compile; FSDP1, DataParallel
    and scripted models are refused.

    Names are checked here. Each module's forwards with gradients are then checked until a forward has run the recorded
    ops. If the optimizer's step or a different recomputation comes first, the policy does not fit: the policy is
    removed from the whole model, and PolicyError is raised. Copies of the model (copy.deepcopy) keep the policy; pickles,
    and copies of compiled modules, do not.
    """
    document = read_policy(policy)
    root = _unwrapped(model)
    others = [applied for applied in _all if applied.is_of(document) and applied.is_on()]
    fits = find(root, document, object, {name for applied in others for name in applied.names})
    _refuse_other_checkpointing(root, fits)
    _refuse_scripted_parts(fits)
    _warn_of_settings(document)
    applied = _Applied(document, root, fits)
    if not _hooks:
        _hooks.append(before_steps(_before_step))
    _all.add(applied)
    return model


def remove(model: torch.nn.Module) -> torch.nn.Module:
    """Removes a policy from a model, if the model has a policy. Returns `model`."""
    inside = list(_unwrapped(model).modules())
    for module in inside:
        region = region_of(module)
        if region is not None:
            region.remove_from(module)
    for applied in list(_all):
        applied.end_on(inside)
    return model


_all = weakref.WeakSet()  # policies applied in this process
_hooks = []  # never emptied: torch iterates over the hooks while a hook runs


def _before_step(optimizer, args, kwargs):
    for applied in list(_all):
        applied.before_step(optimizer, args, kwargs)


def _before_forward(root, _):
    """Does nothing inside of a graph of the whole model."""
    if torch.compiler.is_compiling():
        return
    for applied in list(_all):
        if applied.root() is root:
            applied.before_forward()


class _Applied:
    """One policy on one model. The regions are added and removed together. All regions are checked at the end of the
    first step, when an optimizer of the model makes a step. The model's modules hold the regions and through those this
    object, which does not hold the model."""

    def __init__(self, document, root, fits):
        self.document = document
        self.root = weakref.ref(root)
        self.names = [fit.name for fit in fits]
        self.watch = MemoryWatch(document, root)
        self.warned_of_forward = False  # an offloaded module's forward after the first step was not as recorded
        # The models of a step share a policy, which numbers the calls of all.
        self.offloads = next((other.offloads for other in _all if other.is_of(document) and other.is_on()), None)
        self.offloads = self.offloads or Offloads()
        compiled = compiled_calls(root)
        regions = [(module, self._region(module, entry, compiled.get(id(module)))) for module, entry in _planned(fits)]
        names = {id(module): name for name, module in root.named_modules()}
        self._paths = [names[id(module)] for module, _ in regions]
        for module, region in regions:
            region.put_on(module)
        self._regions = [(weakref.ref(module), region) for module, region in regions]
        if any(map(_may_surround_a_graph, (region for _, region in regions))):
            self._first_forward = root.register_forward_pre_hook(_before_forward)
        self._closure_may_come = True
        self._waits = True

    def _region(self, module, entry, compiled):
        if entry.offload:
            if compiled:
                return CompiledOffload(self, module, entry, *compiled, self.offloads)
            return OffloadedModule(self, module, entry, self.offloads)
        return CompiledRegion(self, module, entry, *compiled) if compiled else Region(self, module, entry)

    def before_forward(self):
        """Runs before the first forward. A module that was compiled after apply() gets a checkpoint around the graph,
        as in the recording."""
        self._first_forward.remove()
        compiled = compiled_calls(self.root())
        for i, (known, region) in enumerate(self._regions):
            module = known()
            if id(module) in compiled and _may_surround_a_graph(region) and region_of(module) is region:
                region.remove_from(module)
                region = self._region(module, region.policy, compiled[id(module)])
                region.put_on(module)
                self._regions[i] = known, region

    def _policed(self):
        """Returns the modules that still have the policy, with the regions."""
        found = [(known(), region) for known, region in self._regions]
        return [(module, region) for module, region in found if module is not None and region_of(module) is region]

    def check_modules(self):
        """Refuses the policy if the program has put another module in the place of a module that the policy
        checkpoints: the successor would run without a checkpoint. A module without a successor belongs to another
        pipeline stage."""
        root = self.root()
        if root is None:  # a copy of the model runs
            return
        planned = [known() for known, _ in self._regions]
        present = {id(module) for module in root.modules()}
        for path, module, (_, region) in zip(self._paths, planned, self._regions):
            if id(module) in present:
                continue
            with contextlib.suppress(AttributeError):
                successor = root.get_submodule(path)
                if all(successor is not other for other in planned):
                    region.refuse(f"the program has replaced the module by a {type(successor).__name__} since "
                                  "torch_headroom.apply(): apply the policy after that, such as after a first forward")

    def is_of(self, document):
        return os.path.abspath(self.document.source) == os.path.abspath(document.source)

    def check_forwards(self):
        """Refuses the policy if the program has assigned another forward to a module, and the policy's forward never
        ran: the new forward does not call the policy's."""
        for known, region in self._regions:
            module = known()
            if module is not None and region_of(module) is not region and not (region.ran or region.removed):
                region.refuse("the program has replaced the module's forward since torch_headroom.apply(): apply the "
                              "policy after that")

    def end_on(self, modules):
        """Ends the policy where a forward of the program calls the policy's."""
        inside = set(map(id, modules))
        for known, region in self._regions:
            region.removed = region.removed or id(known()) in inside

    def is_on(self):
        present = self.root() is not None
        return any((present or known() is not None) and not region.removed for known, region in self._regions)

    def refuse(self, sentence):
        self._waits = False
        for module, region in self._policed():
            region.remove_from(module)
        self.end_on(known() for known, _ in self._regions)
        raise PolicyError(f"{self.document.source}: {sentence}; the policy was removed from the model")

    def before_step(self, optimizer, args, kwargs):
        if not (self._waits or self.watch.is_on) or not self._is_stepped_by(optimizer) or not self.is_on():
            return
        self.watch.step_ends()
        if not self._waits:
            return
        if self._closure_may_come and (kwargs.get("closure") or any(map(callable, args[1:]))):
            self._closure_may_come = False  # this step's forwards come later: check at the next step
            return
        self._waits = False
        self.check_modules()
        self.check_forwards()
        for _, region in self._regions:
            region.step_ends()
        self._warn_of_others()

    def _is_stepped_by(self, optimizer):
        root = self.root()
        modules = [root] if root is not None else [module for module, _ in self._policed()]
        own = {id(parameter) for module in modules for parameter in parameters_of(module)}
        return any(id(parameter) in own for group in optimizer.param_groups for parameter in group["params"])

    def _warn_of_others(self):
        """Warns if modules of the plan have no policy: the plan relies on all of them."""
        found = {region.policy.fqn for applied in _all if applied.is_of(self.document) and applied.is_on()
                 for _, region in applied._regions}
        missing = [entry.fqn for entry in self.document.modules if entry.fqn not in found]
        if missing:
            names = ", ".join(dict.fromkeys(name.partition(".")[0] for name in missing))
            count = f"{len(missing)} modules" if len(missing) > 1 else "a module"
            warnings.warn(
                f"{self.document.source} has plans for {count} of {names}, but was not applied there, and the step "
                "may take more memory than was planned; apply the policy there, too, or plan with --pin",
                stacklevel=5)  # the user's line


def _warn_of_settings(document):
    """Warns if the plan runs on its card only with settings of the allocator that this process does not have."""
    settings = os.environ.get("PYTORCH_ALLOC_CONF") or os.environ.get("PYTORCH_CUDA_ALLOC_CONF") or ""
    missing = [option for option in _options(document.allocator_settings) if option not in _options(settings)]
    if missing:
        warnings.warn(
            f"{document.source} was planned for a card with PYTORCH_CUDA_ALLOC_CONF={document.allocator_settings}, "
            f"but this process lacks {', '.join(missing)}: training may run out of memory; set the variable "
            "before the program starts", stacklevel=3)


def _options(settings):
    """Returns the options of PYTORCH_CUDA_ALLOC_CONF. Commas divide options, except inside a list."""
    return re.findall(r"[^,\[\]]+(?:\[[^\]]*\])?", settings.replace(" ", ""))


def _unwrapped(model):
    """Returns the recorded model without wrappers for training."""
    if not isinstance(model, torch.nn.Module):
        raise PolicyError(f"expected a torch.nn.Module, not {type(model).__name__}")
    while True:
        model = without_compilation(model)
        kind = type(model).__name__
        if isinstance(model, torch.nn.parallel.DistributedDataParallel):
            model = model.module
        elif isinstance(model, torch.jit.ScriptModule):
            raise PolicyError("a scripted model cannot be checkpointed: apply the policy to the model in Python")
        elif kind == "FullyShardedDataParallel":
            raise PolicyError(f"{kind} wraps the model already: apply the policy to the model before that")
        elif kind == "DataParallel":
            raise PolicyError(f"{kind} is not supported: use fully_shard (FSDP2) or DistributedDataParallel, or none")
        else:
            return model


def _planned(fits):
    return [(module, entry) for fit in fits for module, entry in zip(fit.modules, fit.entries)]


def _refuse_other_checkpointing(root, fits):
    """Refuses modules that are known to be checkpointed already: nested checkpoints would recompute twice and exceed
    the plan. Other modules, and parts of offloaded modules, keep the program's checkpoints, as in the recorded step.
    The effect of another module's flag is only known when the module runs (region.py)."""
    touched = {id(module) for fit in fits for module in fit.base.modules()}
    planned = {id(module) for module, _ in _planned(fits)}
    inside = {id(part) for module, entry in _planned(fits)
              for part in ((module,) if entry.offload else module.modules())}
    for name, module in root.named_modules():
        where = f"module {name}" if name else "the model"
        if region_of(module) is not None and id(module) in touched:
            raise PolicyError(f"{where} has a policy already: call torch_headroom.remove(model) first")
        if id(module) not in inside and not any(id(part) in planned for part in module.modules()):
            continue
        if type(module).__name__ == "CheckpointWrapper":
            raise PolicyError(f"{where} is checkpointed by checkpoint_wrapper already: leave that out first")
        if _checkpoints_itself(module):
            raise PolicyError(f"{where} checkpoints itself already: call model.gradient_checkpointing_disable() first")


def _checkpoints_itself(module):
    """Returns whether a module is a layer of transformers with the flag that makes a call a checkpoint. The flag of
    another module (transformers' models, diffusers' blocks) may concern a part of the module, or nothing."""
    return (getattr(module, "gradient_checkpointing", False) is True
            and any(kind.__name__ == "GradientCheckpointingLayer" for kind in type(module).__mro__))


def _refuse_scripted_parts(fits):
    """Refuses modules with parts in TorchScript, as torch.utils.checkpoint ends a recomputation by an exception, which
    does not pass through TorchScript's interpreter."""
    for module, entry in _planned(fits):
        for name, part in module.named_modules() if not entry.offload else ():
            if isinstance(part, torch.jit.ScriptModule):
                is_scripted = f"contains the scripted module {name}" if name else "is scripted"
                raise PolicyError(f"module {entry.fqn} {is_scripted}, and PyTorch cannot end the recomputation of a "
                                  "scripted module: leave torch.jit out for this module, or plan with --pin "
                                  f"{entry.fqn}=save")


# Arguments of checkpoint() that checkpoint() does not pass to the function.
_CHECKPOINT_OPTIONS = ("use_reentrant", "context_fn", "determinism_check", "debug", "early_stop", "preserve_rng_state")


def leave_out():
    """Makes torch.utils.checkpoint save everything. Call before a program or a library imports checkpoint() by name.
    Policies that the script applies keep checkpoints: region.py has imported the original."""
    original = torch.utils.checkpoint.checkpoint

    @functools.wraps(original)
    def checkpoint(function, *arguments, **named):
        return function(*arguments, **{name: value for name, value in named.items() if name not in _CHECKPOINT_OPTIONS})

    torch.utils.checkpoint.checkpoint = checkpoint  # checkpoint_sequential() calls it too


def _may_surround_a_graph(region):
    """Returns whether a checkpoint that keeps no op's result, or an offload, would go around a graph, if the program
    still compiles the module."""
    return type(region) is OffloadedModule or (type(region) is Region and not region.policy.saved)


class MemoryWatch:
    """Compares the allocated memory at the borders of checkpointed modules with the plan and with the plan's budget,
    and warns once of each. The watch stops after two steps, since optimizers create state in the first step. The budget
    is for everything on the device, so other models of the process count too.

    The comparison with the plan counts only allocations during a step. Other memory at the start of the step, such as
    the last results of an evaluation or the buckets of DistributedDataParallel, is not counted. A first step may hold
    less, without optimizer state and often without gradients. Calls of a module are not matched with planned calls: the
    largest planned value of all calls is the limit for each call.
    """

    STEPS = 2
    # Bytes. The plan excludes cuBLAS's workspaces, which the first calls of cuBLAS take; a batch may be fetched earlier
    # or later.
    TOLERANCE = 128 << 20
    SHARE = 50  # or 1/50 of the plan's bytes, if larger

    def __init__(self, policy, model):
        self._policy = policy
        self._model = weakref.ref(model)
        self._device = next((p.device for p in parameters_of(model) if p.is_cuda), None)
        self._before = None  # peak in bytes before the first step
        self._steps = 0
        self._not_planned = None  # bytes beside the bytes of the plan, at the first module of this step
        self._as_planned = True  # no warning about the plan so far
        self.is_on = policy.budget > 0 and self._device is not None

    def at(self, where, planned=()):
        """Checks the memory at a border of a module, such as `where` = "at the end of module Net.layers.0". `planned`
        are the plan's bytes there, by call; empty: unknown."""
        if not self.is_on:
            return
        # Requested bytes: allocated bytes would include the slack of blocks that the caching allocator does not split.
        stats = torch.cuda.memory_stats(self._device)
        self._compare_with_budget(where, stats["requested_bytes.all.peak"], stats["requested_bytes.all.current"])
        if self.is_on and self._as_planned and any(planned):
            self._compare_with_plan(where, planned, stats["requested_bytes.all.current"])

    def step_ends(self):
        self.at("in backward, at the optimizer's step")
        self._steps += 1
        self._not_planned = None
        self.is_on = self.is_on and self._steps < self.STEPS

    def _compare_with_budget(self, where, highest, now):
        if self._before is None:
            self._before = highest
        if highest <= self._before:  # the peak was earlier, for example while the model was loaded
            highest = now
        if highest > self._policy.budget:
            self.is_on = False
            planned = f" ({self._policy.peak:,} bytes were planned)" if self._policy.peak else ""
            self._warn(f"the step has taken {highest:,} bytes{planned}, more than the budget of "
                       f"{self._policy.budget:,}, as first seen {where}")

    def _compare_with_plan(self, where, planned, held):
        if self._not_planned is None:
            self._not_planned = max(0, held - planned[0] + (0 if self._steps else self._missing_gradients()))
        most = max(planned)
        if held - most > self._not_planned + max(self.TOLERANCE, most // self.SHARE):
            self._as_planned = False
            self._warn(f"{where} the step holds {held:,} bytes, {most:,} were planned")

    def _missing_gradients(self):
        model = self._model()
        parameters = parameters_of(model) if model is not None else ()
        # FSDP1's parameters are views of a flat parameter while a unit is gathered: such views have no gradients.
        return sum(p.nbytes for p in parameters if p.is_cuda and p.is_leaf and p.requires_grad and p.grad is None)

    def _warn(self, sentence):
        warnings.warn(f"{self._policy.source}: {sentence}: this step differs from the recorded step (another batch, "
                      "dtype or sequence length), or something else is on the device, too: record and plan this step, or "
                      "leave memory free with --margin", stacklevel=4)
