# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compiled autograd: a backward pass that PyTorch traces into one graph and compiles. It runs unchanged, and so must
autograd's graph be what it is without the recorder: tensors that two nodes saved are one input of the compiled graph,
and a hook of a parameter has its gradient copied."""

import contextlib
import sys

from . import _instants
from ._compiling import compiling

_UNFORESEEN = ("compiled autograd ran a backward pass, which nothing had said before the step: its graph has two "
               "inputs for a tensor that two ops saved, and its peak may differ; record a later step (--steps 2)")


def follow(module):
    """Makes its captures compilations: what they run is not the program's. Call it once, after the module's import."""
    instance = module.AutogradCompilerInstance
    begin = instance.begin_capture

    def begin_capture(self, *arguments):
        compiling.tell(True)
        self.stack.callback(compiling.tell, False)
        return begin(self, *arguments)

    instance.begin_capture = begin_capture


def _runs_now():
    module = sys.modules.get("torch._dynamo.compiled_autograd")
    return module is not None and module.compiled_autograd_enabled


def _may_run():
    config = sys.modules.get("torch._dynamo.config")
    return _runs_now() or config is not None and config.compiled_autograd


class CompiledBackward:
    """The backward passes that compiled autograd runs. Where it ran those of the step before, what autograd saves is
    left as it is; otherwise it is recorded."""

    def __init__(self):
        self._ran = None  # whether it ran a backward pass of the last finished step
        self._passes = 0  # in this step
        self._leaves_saves = False

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
