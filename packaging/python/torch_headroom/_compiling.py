# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tells when PyTorch compiles: code that runs then is not the program's."""


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
    handler = module.CompilationCallbackHandler
    for name, begins in (("run_start_callbacks", True), ("run_end_callbacks", False)):
        setattr(handler, name, _telling(getattr(handler, name), begins))


def _telling(run, begins):
    def run_and_tell(self, arguments):
        if arguments.callback_trigger.name != "CUDAGRAPH_RECORDING":  # which runs the program's code
            compiling.tell(begins)
        run(self, arguments)

    return run_and_tell
