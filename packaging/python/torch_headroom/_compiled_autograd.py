# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compiled autograd: PyTorch traces a backward pass into one graph and compiles it. The recorder must not change
autograd's graph then. A tensor that two nodes saved is one input of the compiled graph, and a hook on a parameter makes
a copy of its gradient."""

import contextlib
import sys

from . import _instants
from ._around import patch_around
from ._compiling import compiling

_UNFORESEEN = ("compiled autograd ran a backward pass, which nothing had said before the step: its graph has two "
               "inputs for a tensor that two ops saved, and its peak may differ; record a later step (--steps 2)")


def follow(module):
    """Reports captures of backward passes as compilations, since the code that they run is not the program's. Call it
    once, after the import of torch._dynamo.compiled_autograd."""

    def begins(instance, *_):
        compiling.tell(True)
        instance.stack.callback(compiling.tell, False)

    patch_around(module.AutogradCompilerInstance, "begin_capture", before=begins)


def _runs_now():
    module = sys.modules.get("torch._dynamo.compiled_autograd")
    return module is not None and module.compiled_autograd_enabled


def _may_run():
    config = sys.modules.get("torch._dynamo.config")
    return _runs_now() or config is not None and config.compiled_autograd


class CompiledBackward:
    """Counts the backward passes that compiled autograd runs. If it ran those of the last step, the tensors that
    autograd saves in this step are not recorded, as that would change the compiled graph."""

    def __init__(self):
        self._ran = None  # whether compiled autograd ran a backward pass of the last step; None: there was no step
        self._passes = 0  # number of its backward passes in this step
        self._leaves_saves = False  # whether the saved tensors of this step are not recorded

    def step_begins(self, library):
        """Called between headroom_recording_new() and headroom_recording_begin()."""
        self._passes = 0
        self._leaves_saves = _may_run() if self._ran is None else self._ran
        if self._leaves_saves:
            library.headroom_recording_at(_instants.SAVES_LEFT)

    def step_ends(self):
        """Returns the settings and the remarks of the step."""
        self._ran = self._passes > 0
        if not self._ran and not self._leaves_saves:
            return [], []
        return [("compiled autograd", str(self._passes))], [] if self._leaves_saves else [_UNFORESEEN]

    @contextlib.contextmanager
    def around(self, recorder):
        """Surrounds a backward pass."""
        if not recorder.recording or not _runs_now():
            yield
            return
        self._passes += 1
        recorder.at(_instants.COMPILED_BACKWARD_BEGIN)
        try:
            yield
        finally:
            recorder.at(_instants.COMPILED_BACKWARD_END)
