# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""When PyTorch compiles: what runs then is not the program."""


class Compiling:
    """Who wants to know is called with True where it begins, with False where it has ended."""

    def __init__(self):
        self.listeners = []
        self.now = False
        self.count = 0  # how often it began

    def tell(self, begins):
        self.now = begins
        self.count += begins
        for listener in self.listeners:
            listener(begins)


compiling = Compiling()


def follow(module):
    """Once, after the import of torch._dynamo.callback. Callbacks that are registered there end with torch._dynamo.reset()."""
    handler = module.CompilationCallbackHandler
    for name, begins in (("run_start_callbacks", True), ("run_end_callbacks", False)):
        setattr(handler, name, _telling(getattr(handler, name), begins))


def _telling(run, begins):
    def run_and_tell(self, arguments):
        compiling.tell(begins)
        run(self, arguments)

    return run_and_tell
