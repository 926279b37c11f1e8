# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program of this process, which auto_checkpoint() and fit() run again in a recording process, and the training
there. Imports no torch."""

import os
import sys

from .._library import HeadroomError
from .recordings import Program


def loop_of_recording():
    """Returns the ScriptLoop of this process; None: this process does not record a script."""
    module = sys.modules.get("torch_headroom._record.loop")  # imports torch
    return module and module.ScriptLoop.of_process


def fit_call():
    """Returns the number of the call of fit() that this process records, and the sizes; None: this process records no
    call of fit()."""
    loop = loop_of_recording()
    return loop and loop.fit_call


def this_program(caller):
    """Returns the Program of this process, for another run. `caller` names the function for sentences. Raises
    HeadroomError where the program cannot run again."""
    if int(os.environ.get("WORLD_SIZE", 1)) > 1:
        raise HeadroomError(f"{caller} does not plan a job of several processes: record one of them with "
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
        raise HeadroomError(f"{caller} runs the program again to record its step, and this one has no script "
                            "(a notebook, python -c, or torch_headroom.run, which plans it already): call it in a "
                            "script that is started by python")
    return Program(script, words[place + 1:])


def train_until_recorded(step, loop, name):
    """Calls `step` until the recorder ends the program. A step ends when the next step begins. `loop` is the ScriptLoop
    of the process; `name` names the function for sentences."""
    for _ in range(loop.most_steps()):
        step()
    raise HeadroomError(f"{name} made no whole training step, as the program {loop.why_unfinished()}: expected the "
                        "model's forward, backward and the step() of its optimizers")
