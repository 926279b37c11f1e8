# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs a script and writes what the script can see of its own tensors, objects and memory, one line each: the graph of
each backward pass with what autograd saved, and the memory and the living objects after each optimizer's step.

    python observed_script.py OUTPUT SCRIPT [its arguments]        on the simulated card, not recorded
    python -m torch_headroom.record observed_script.py OUTPUT ...  the same while it is recorded
"""

import gc
import os
import random
import runpy
import sys

import torch_headroom

output, script, *arguments = sys.argv[1:]
if "torch" not in sys.modules:
    torch_headroom.simulate("a100-80gb")

import torch  # noqa: E402
from torch.optim.optimizer import register_optimizer_step_post_hook  # noqa: E402

MOST_STEPS = 8
optimizer_steps = 0
seen = open(output, "w", buffering=1)


def names():
    found = {}
    for module in gc.get_objects():
        if issubclass(type(module), torch.nn.Module) and "_parameters" in vars(module):
            for tensors in (module._parameters, module._buffers):
                for name, tensor in tensors.items():
                    found.setdefault(id(tensor), f"{type(module).__name__}.{name}")
    return found


def described(tensor, known):
    """Of a tensor that only autograd holds, the recorder may give another one on the same storage, which is no view."""
    own = known.get(id(tensor), "")
    history = type(tensor.grad_fn).__name__ if tensor.grad_fn is not None else "leaf"
    if tensor.is_leaf and tensor.requires_grad:
        history += f" view={tensor._is_view()}"
    attributes = sorted(name for name in vars(tensor) if not name.startswith("_"))
    return (f"{type(tensor).__name__} {own} {tuple(tensor.shape)} {tensor.stride()} {tensor.storage_offset()} "
            f"{tensor.dtype} {tensor.device} {tensor.requires_grad} {history} v{tensor._version} {attributes}")


def saved_by(node):
    if hasattr(node, "saved_tensors"):
        yield from node.saved_tensors
    for name in dir(node):
        if name.startswith("_saved_"):
            value = getattr(node, name)
            yield from value if isinstance(value, (tuple, list)) else [value]


def see_graph(tensor):
    known, visited, waiting = names(), set(), [tensor.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in visited:
            continue
        visited.add(node)
        saved = [described(value, known) for value in saved_by(node) if isinstance(value, torch.Tensor)]
        print("node", node.name(), *saved, sep="\n    ", file=seen)
        waiting.extend(after for after, _ in node.next_functions)


def see_memory(*_):
    """Ends the script after a while: recorded, it ends earlier."""
    global optimizer_steps
    optimizer_steps += 1
    gc.collect()
    kinds = {}
    for thing in gc.get_objects():
        for kind in (torch.nn.Module, torch.optim.Optimizer):
            if issubclass(type(thing), kind):
                kinds[type(thing).__name__] = kinds.get(type(thing).__name__, 0) + 1
    cuda = torch.cuda
    print("step", cuda.memory_allocated(), cuda.max_memory_allocated(), cuda.memory_reserved(), sorted(kinds.items()),
          file=seen)
    if optimizer_steps == MOST_STEPS:
        os._exit(0)


def backward(tensor, *given, **named):
    if torch._C._current_graph_task_id() == -1 and "--no-graph" not in sys.argv:
        see_graph(tensor)
    return backward_of_torch(tensor, *given, **named)


backward_of_torch, torch.Tensor.backward = torch.Tensor.backward, backward
register_optimizer_step_post_hook(see_memory)
random.seed(0)
torch.manual_seed(0)
sys.argv = [script, *arguments]
runpy.run_path(script, run_name="__main__")
