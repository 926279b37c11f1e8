# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Applies a policy to the models of an unchanged program at the first training call, and
torch_headroom.auto_checkpoint(). Imports torch only if the program has imported torch.

The models get the names that the recorder gave (_modules.names_of), at the same moment as in the recorder: at the
outermost call of a module under gradients. A policy is thus applied to the recorded models, after the program has
wrapped, moved and adapted the models."""

import importlib.abc
import importlib.util
import os
import sys

from .._apply.policy import PolicyError, read_policy
from .._library import HeadroomError
from .planning import bytes_of, gpu_at_hand, plan_for_card, wishes_of
from .recordings import recorded, this_program


class FirstTraining:
    """Waits from install() on until every model of the policy has been found, and applies the policy. `policy` is the
    path of a policy, None if the step runs without a plan. `budget` limits the bytes that the program may reserve from
    then on, of the `total` bytes of the GPU, where the allocator's variable would come too late; 0: no limit is set."""

    def __init__(self, policy, budget=0, total=0):
        self._policy = policy
        self._share = budget / total if budget else 0
        names = [entry.fqn.partition(".")[0] for entry in read_policy(policy).modules] if policy else []
        self._missing = list(dict.fromkeys(names))
        self._applied = False
        self._depth = 0  # of calls under gradients
        self._process = os.getpid()
        self._stop_waiting = []

    def install(self):
        """Begins to wait, at once or as soon as the program has imported torch."""
        if not self._missing and not self._share:
            return
        if "torch" in sys.modules:
            self._begin()
        else:
            sys.meta_path.insert(0, _AfterTorch(self._begin))

    def unapplied(self):
        """Returns a sentence if the policy was applied to nothing; empty otherwise."""
        if not self._missing or self._applied:
            return ""
        return (f"the program called no {' and no '.join(self._missing)} under gradients, but the recorded step "
                "did: the plan was not applied")

    def apply_now(self, model):
        """Applies the policy to the models of the program, of which `model` is called first. Raises PolicyError."""
        from .._modules import Inventory, without_compilation

        self._inventory = Inventory()
        self._find(without_compilation(model))
        if self._missing:
            raise PolicyError(f"the recorded step had a {' and a '.join(self._missing)}, but the program has none "
                              "now: make the models before auto_checkpoint()")

    def _begin(self):
        import torch

        from .._modules import Inventory, parameters_of, watch
        from .._torch import before_steps, in_backward, in_transform

        watch()
        self._inventory = Inventory()
        original = torch.nn.Module.__call__

        def trains(module):
            return (torch.is_grad_enabled() and not in_backward() and not in_transform()
                    and any(parameter.requires_grad for parameter in parameters_of(module)))

        def call(module, *args, **kwargs):
            if not self._stop_waiting or torch.compiler.is_compiling() or not trains(module):
                return original(module, *args, **kwargs)
            if self._depth == 0:
                self._training_call(module)
            self._depth += 1
            try:
                return original(module, *args, **kwargs)
            finally:
                self._depth -= 1

        def put_back():
            if torch.nn.Module.__call__ is call:  # not if the program has patched the call since
                torch.nn.Module.__call__ = original

        torch.nn.Module.__call__ = call
        self._stop_waiting = [put_back, before_steps(self._before_step)]

    def _end(self):
        while self._stop_waiting:
            self._stop_waiting.pop()()

    def _training_call(self, module):
        if os.getpid() != self._process:  # a worker's model is not the recorded model
            return
        try:
            self._find(module)
        except PolicyError:
            # Before an optimizer exists, the program may only inspect a model that the program changes afterwards.
            if self._inventory.optimizers():
                raise
        if not self._missing:
            self._end()

    def _find(self, module):
        """Applies the policy to the living models, of which `module` is called first."""
        from .._apply.apply import apply
        from .._modules import names_of

        self._inventory.add_root(module)
        self._limit_memory()
        models = dict(names_of(self._inventory.roots()))
        for name in [name for name in self._missing if name in models]:
            apply(models[name], self._policy, object=name)
            self._missing.remove(name)
            self._applied = True

    def _limit_memory(self):
        import torch

        if self._share and torch.cuda.is_available():
            torch.cuda.set_per_process_memory_fraction(min(self._share, 1))
        self._share = 0

    def _before_step(self, optimizer, args, kwargs):
        """Ends the search with the first step of an optimizer. apply() warns of models missing beside others."""
        self._end()
        if self._missing and not self._applied:
            raise PolicyError(self.unapplied())


class _AfterTorch(importlib.abc.MetaPathFinder):
    """Calls a function when torch has been imported."""

    def __init__(self, function):
        self._function = function

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def run_and_tell(module):
                run(module)
                self._function()

            spec.loader.exec_module = run_and_tell
        return spec


def auto_checkpoint(model, step, budget=None, gpu=None, offload=False, host_memory=None, recompute=True,
                    margin=None, longest_batch=None, pins=None):
    """Checkpoints `model` so that training runs on the card, with the least recompute time. Returns what was done:
    `modules` (names of the checkpointed modules), `recompute_ms`, `step_ms`, `reserved_peak_bytes`, `left_bytes`,
    `policy` (a path, None if the step fits without a plan). str() of the result is a sentence.

    With `offload`, saved tensors of modules may also go to pinned host memory, where that costs less time.
    `host_memory` is the most pinned host memory, as `budget`; by default any. Without `recompute` the plan only
    offloads. `pins` decides for modules, by name: {"Net.layers.0": "save"}; the decisions are "save", "recompute" and
    "offload".

    `step()` runs one training step: forward, backward and the optimizer's step. Only the recording process calls
    step(). `budget` is the memory that the caching allocator may reserve, as "7.5GiB" or a number of bytes; by
    default all that the card gives. The program is held to the budget. `margin` is the part of this memory that the
    plan leaves free, for what the recorded step does not show; by default none. With `longest_batch` the plan is for the
    longest of so many batches of each torch.utils.data.DataLoader; by default for the recorded step's batch. `gpu` is the card, by default the card
    at hand, or the card that this process simulates.

    Call auto_checkpoint() when the model and the optimizer are made, in a program that is a script or module: a
    notebook cannot run again. The program's work before the call is done a second time, in the recording process, which
    runs the program from the beginning to the same call on the simulated card. Parameters, gradients, optimizers and
    random numbers of the calling program stay unchanged. Raises HeadroomError or PolicyError with one sentence where no
    step can be recorded, no plan runs on the card, or the plan does not fit the model.
    """
    from .._record.loop import ScriptLoop

    loop = ScriptLoop.of_process
    if loop is not None and not loop.fit_call:
        train_until_recorded(step, loop, "step()")
        return None
    pinned = [f"{fqn}={what}" for fqn, what in (pins or {}).items()]
    wishes = wishes_of(offload, host_memory, recompute, pinned)
    budget = bytes_of(budget) if budget is not None else 0
    margin = bytes_of(margin, "margin", 0) if margin is not None else 0
    program, gpu = this_program("auto_checkpoint()", longest_batch), gpu or _gpu()
    kept = recorded(program, gpu, lambda sentence: print(f"torch_headroom: {sentence}", file=sys.stderr, flush=True))
    plan = plan_for_card(kept, gpu, budget, wishes, may_change_settings=False, margin=margin)
    FirstTraining(plan.policy, plan.budget, plan.total).apply_now(model)
    return plan


def loop_of_recording():
    """Returns the ScriptLoop of this process; None: this process does not record a script."""
    module = sys.modules.get("torch_headroom._record.loop")  # imports torch
    return module and module.ScriptLoop.of_process


def train_until_recorded(step, loop, name):
    """Calls `step` until the recorder ends the program. A step ends when the next step begins. `loop` is the ScriptLoop
    of the process; `name` names the function for sentences."""
    for _ in range(loop.most_steps()):
        step()
    raise HeadroomError(f"{name} made no whole training step, as the program {loop.why_unfinished()}: expected the "
                        "model's forward, backward and the step() of the optimizers")


def _gpu():
    from .._simulate import simulated_card

    name = simulated_card()["name"] if simulated_card() else gpu_at_hand()
    if not name:
        raise HeadroomError("this machine has no GPU: name the card to plan for, as in auto_checkpoint(model, step, "
                            "gpu=\"a100-80gb\") (python -m torch_headroom.record --gpu list)", 4)
    return name
