# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Leaves distributed checkpoints out: each rank writes a part, and the other ranks do not run."""

import concurrent.futures
import sys

from ._simulate_refusals import change_after_import

_NAME = "torch.distributed.checkpoint"


def patch():
    change_after_import(_NAME, _leave_out)


def _leave_out(module):
    def told(name, result):
        def call(*arguments, **named):
            print(f"torch-headroom: {_NAME}.{name} is left out: the other ranks, which would write their parts, do not "
                  "run",
                  file=sys.stderr)
            return result()

        return call

    def done():
        future = concurrent.futures.Future()
        future.set_result(None)
        return future

    savers = sys.modules[f"{_NAME}.state_dict_saver"]
    for place in (module, savers):
        place.save = told("save", lambda: None)
        place.async_save = told("async_save", done)
