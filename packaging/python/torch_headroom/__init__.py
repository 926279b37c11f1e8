# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Headroom plans the GPU memory of PyTorch training.

    torch_headroom.simulate("a100-80gb")          makes `cuda` a simulated GPU; call it before `import torch`
    torch_headroom.record("step.hrs")             records the training steps inside a `with` block
    torch_headroom.export(model, args, "model.pt2")
    torch_headroom.opaque("my_kernels.forward", results=…)    declares a kernel from outside PyTorch
    torch_headroom.apply(model, "policy.json")    checkpoints as planned; torch_headroom.remove(model) undoes it
    torch_headroom.auto_checkpoint(model, step, budget="8GiB")    records, plans and applies in one call
    torch_headroom.fit(train_step, "1..64", gpu="a100-80gb")    which batch sizes run on a card, and the fastest

`python -m torch_headroom.run train.py` trains with an unchanged script so that it fits on its card;
`python -m torch_headroom.record train.py` only records its step.

Importing this package does not import torch, since simulate() must come first.
"""

import importlib

_HOMES = {"simulate": "_simulate.simulate", "record": "record", "export": "_export", "apply": "_apply.apply",
          "remove": "_apply.apply", "auto_checkpoint": "_plan.training", "opaque": "_kernels.opaque",
          "fit": "_plan.fitting", "PolicyError": "_apply.policy", "HeadroomError": "_library"}

__all__ = sorted(_HOMES)


def __getattr__(name):
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'torch_headroom' has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{home}")
    # The module `record` itself is callable, since `python -m torch_headroom.record` needs a module of that name.
    value = module if home == name else getattr(module, name)
    globals()[name] = value
    return value


def __dir__():
    return sorted(set(globals()) | set(_HOMES))
