# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tells when PyTorch compiles: code that runs then is not the program's."""

import functools

from ._around import patch_around


class Compiling:
    """Listeners are called with True when a compilation begins, and with False when it has ended."""

    def __init__(self):
        self.listeners = []
        self.now = False
        self.count = 0  # number of compilations
        self.graphs = 0  # number of runs of compiled graphs in this step

    def tell(self, begins):
        self.now = begins
        self.count += begins
        for listener in self.listeners:
            listener(begins)


compiling = Compiling()


def follow(module):
    """Follows compilations; call it once, after the import of torch._dynamo.callback. It replaces methods, since
    torch._dynamo.reset() removes registered callbacks."""
    for name, begins in (("run_start_callbacks", True), ("run_end_callbacks", False)):
        patch_around(module.CompilationCallbackHandler, name, before=functools.partial(_tell, begins))


def _tell(begins, _, arguments):
    if arguments.callback_trigger.name != "CUDAGRAPH_RECORDING":  # the recording of a graph runs the program's code
        compiling.tell(begins)
