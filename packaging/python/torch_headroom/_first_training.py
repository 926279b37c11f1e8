# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Applies a policy to the models of an unchanged program when they first train. Imports torch only if the program has.

The models get the names that the recorder gave them (_modules.names_of), at the moment at which the recorder began its
step: at the outermost call of a module under gradients. A policy is thus applied to what was recorded, after the
program has wrapped, moved and adapted its models."""

import importlib.abc
import importlib.util
import os
import sys

from ._policy import PolicyError, read_policy


class FirstTraining:
    """Waits from install() on until every model of the policy has been found, and applies it. `policy` is the path of a
    policy, None if the step runs as it is. `budget` limits what the program may reserve of the `total` bytes of its GPU
    from then on, where the allocator's variable came too late for that; 0: no limit is to be set."""

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
        return (f"the program called no {' and no '.join(self._missing)} under gradients, which the recorded step did: "
                "the plan was not applied")

    def apply_now(self, model):
        """Applies the policy to the models of the program, of which `model` is called first. Raises PolicyError."""
        from ._modules import Inventory, without_compilation

        self._inventory = Inventory()
        self._find(without_compilation(model))
        if self._missing:
            raise PolicyError(f"the recorded step had a {' and a '.join(self._missing)}, which the program does not "
                              "have now: make the models before auto_checkpoint()")

    def _begin(self):
        import torch

        from ._loop import in_backward, in_transform
        from ._modules import Inventory, parameters_of, watch
        from ._optimizer_hooks import before_steps

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
            if torch.nn.Module.__call__ is call:  # not if the program has patched it since
                torch.nn.Module.__call__ = original

        torch.nn.Module.__call__ = call
        self._stop_waiting = [put_back, before_steps(self._before_step)]

    def _end(self):
        while self._stop_waiting:
            self._stop_waiting.pop()()

    def _training_call(self, module):
        if os.getpid() != self._process:  # a worker's model is not the one that was recorded
            return
        try:
            self._find(module)
        except PolicyError:
            # Before it has an optimizer, the program may only look at a model that it changes afterwards.
            if self._inventory.optimizers():
                raise
        if not self._missing:
            self._end()

    def _find(self, module):
        """Applies the policy to the living models, of which `module` is called first."""
        from ._apply import apply
        from ._modules import names_of

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
