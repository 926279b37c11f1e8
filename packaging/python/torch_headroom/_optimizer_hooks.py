# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hooks before and after the steps of all optimizers, including steps inside compiled functions: tracing skips the
hooks, and the compiled graph that contains the step calls them when it runs."""

import weakref

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from ._around import patch_around
from ._simulate_refusals import change_after_import

_before, _after = {}, {}  # hook -> registered function
_stepping = weakref.WeakSet()  # optimizers whose step is running and has called its hooks
_traced = []  # optimizers whose step is in the next graph to be compiled


def before_steps(hook):
    """Registers a hook before steps; returns the function that removes it."""
    return _register(hook, _before, register_optimizer_step_pre_hook, _stepping.add)


def after_steps(hook):
    return _register(hook, _after, register_optimizer_step_post_hook, _stepping.discard)


def _register(hook, known, register, follow):
    def call(optimizer, args, kwargs):
        if torch.compiler.is_compiling():
            return None
        follow(optimizer)
        return hook(optimizer, args, kwargs)

    handle = register(call)
    known[hook] = call
    change_after_import("torch._dynamo.eval_frame", _leave_out)

    def remove():
        known.pop(hook, None)
        handle.remove()

    return remove


def _leave_out(module):
    """Keeps Dynamo from compiling the hooks when eager code calls them."""
    for call in (*_before.values(), *_after.values()):
        module.skip_code(call.__code__)


def patch():
    change_after_import("torch._dynamo.variables.optimizer", _note_steps)
    change_after_import("torch._inductor.output_code", _call_from_graphs)


def _note_steps(module):
    def note(variable, tx, name, *_, **__):
        if name == "_init_group" and not any(variable.value is known for known in _traced):
            _traced.append(variable.value)

    patch_around(module.OptimizerVariable, "call_method", before=note)


def _call_from_graphs(module):
    graph = module.CompiledFxGraph
    run = graph.__call__

    def take_traced(self, *_):
        self.headroom_optimizers = tuple(_traced)
        _traced.clear()

    def run_with_hooks(self, inputs):
        optimizers = [optimizer for optimizer in getattr(self, "headroom_optimizers", ()) if optimizer not in _stepping]
        _call(_before, optimizers)
        try:
            return run(self, inputs)
        finally:
            _call(_after, optimizers)

    patch_around(graph, "post_compile", after=take_traced)
    graph.__call__ = run_with_hooks


def _call(hooks, optimizers):
    for optimizer in optimizers:
        for hook in list(hooks):
            hook(optimizer, (optimizer,), {})
