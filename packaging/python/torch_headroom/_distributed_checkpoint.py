# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Leaves distributed checkpoints out: each rank writes a part, and the other ranks do not run."""

import concurrent.futures
import sys

from . import _remarks
from ._simulate_refusals import change_after_import

_NAME = "torch.distributed.checkpoint"
_FSDP1 = "torch.distributed.fsdp.fully_sharded_data_parallel"


def patch():
    change_after_import(_NAME, _leave_out)
    change_after_import(_FSDP1, _leave_out_optimizer_state)


def _told(name, result):
    def call(*arguments, **named):
        _remarks.add(f"{name} was left out: the other ranks, which would write their parts, do not run")
        return result()

    return call


def _leave_out_optimizer_state(module):
    """Each rank gets the state of the others' flat parameters, in which it takes part with names that it alone has."""
    kind = module.FullyShardedDataParallel
    kind.optim_state_dict = staticmethod(_told(f"{_FSDP1.rpartition('.')[0]}.{kind.__name__}.optim_state_dict", dict))


def _leave_out(module):
    def done():
        future = concurrent.futures.Future()
        future.set_result(None)
        return future

    savers = sys.modules[f"{_NAME}.state_dict_saver"]
    for place in (module, savers):
        place.save = _told(f"{_NAME}.save", lambda: None)
        place.async_save = _told(f"{_NAME}.async_save", done)
