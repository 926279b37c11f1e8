# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""torch_headroom.auto_checkpoint(): plans a step of the running program for its card, and applies the plan.

The step is recorded in a process of its own, which runs the program from its beginning on the simulated card until it
comes to the same call. Nothing of it happens in the program itself: its parameters, gradients, optimizers and random
numbers stay as they are, wherever its tensors lie."""

import os
import sys

from ._first_training import FirstTraining
from ._library import HeadroomError
from ._planning import bytes_of, gpu_at_hand, plan_for_card
from ._recordings import Program, recorded


def auto_checkpoint(model, step, budget=None, gpu=None):
    """Checkpoints `model` so that its training runs on the card, with the least recompute time. Returns what was done:
    `modules` (the names of those checkpointed), `recompute_ms`, `step_ms`, `reserved_peak_bytes`, `left_bytes`,
    `policy` (a path, None if the step fits as it is); str() of it is a sentence.

    `step()` runs one training step: forward, backward and the optimizer's step. It is called only in the process that
    records. `budget` is what the caching allocator may reserve, as "8GB", "7.5GiB" or a number of bytes; by default all
    that the card gives. The program is held to it. `gpu` is the card, by default the one at hand, or the one that this
    process simulates.

    Call it when the model and its optimizer are made, in a program that is a script or module: a notebook cannot be run
    again. What the program does before the call, it does a second time in the other process. Raises an error with one
    sentence where no step can be recorded, no plan runs on the card, or the plan does not fit the model.
    """
    from . import _loop

    if _loop.of_script is not None:
        _record(step, _loop.of_script)
        return None
    program, gpu = _this_program(), gpu or _gpu()
    kept = recorded(program, gpu, lambda sentence: print(f"torch_headroom: {sentence}", file=sys.stderr, flush=True))
    plan = plan_for_card(kept, gpu, bytes_of(budget) if budget is not None else 0, may_change_settings=False)
    FirstTraining(plan.policy, plan.budget, plan.total).apply_now(model)
    return plan


def _record(step, loop):
    """Trains until the recorder ends the program. A step ends with the begin of the next one."""
    for _ in range(loop.wanted + 1):
        step()
    raise HeadroomError("step() made no whole training step: it has to run the model's forward, backward and the "
                        "step() of its optimizers")


def _gpu():
    from ._simulate import simulated_card

    name = simulated_card()["name"] if simulated_card() else gpu_at_hand()
    if not name:
        raise HeadroomError("this machine has no GPU: name the card to plan for, as in auto_checkpoint(model, step, "
                            "gpu=\"a100-80gb\") (python -m torch_headroom.record --gpu list)", 4)
    return name


def _this_program():
    """Returns the program of this process, to be run again."""
    if int(os.environ.get("WORLD_SIZE", 1)) > 1:
        raise HeadroomError("auto_checkpoint() does not plan a job of several processes: record one of them with "
                            "torch_headroom.record --nproc-per-node, plan it with torch-headroom plan --card, and call "
                            "torch_headroom.apply()")
    main, words = sys.modules["__main__"], sys.orig_argv[1:]
    spec = getattr(main, "__spec__", None)
    if spec is not None and "-m" in words:
        place = words.index("-m") + 1
        return Program(words[place], words[place + 1:], is_module=True)
    script = getattr(main, "__file__", None)
    place = next((i for i, word in enumerate(words) if script and os.path.realpath(word) == os.path.realpath(script)),
                 None)
    if place is None:
        raise HeadroomError("auto_checkpoint() runs the program again to record its step, and this one has no script "
                            "(a notebook, python -c, or torch_headroom.run, which plans it already): call it in a "
                            "script that is started by python")
    return Program(script, words[place + 1:])
