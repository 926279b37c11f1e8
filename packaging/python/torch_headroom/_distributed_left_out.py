# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts of torch.distributed that need the other ranks, which do not run. Distributed checkpoints are left out with a
remark: each rank would write its part. Functions that map the memory of other ranks' GPUs are refused."""

import concurrent.futures
import sys

import torch

from . import _remarks
from ._library import HeadroomError
from ._simulate_refusals import change_after_import

_CHECKPOINT = "torch.distributed.checkpoint"
_FSDP1 = "torch.distributed.fsdp.fully_sharded_data_parallel"


def patch():
    from torch.distributed import _symmetric_memory

    change_after_import(_CHECKPOINT, _leave_out_checkpoints)
    change_after_import(_FSDP1, _leave_out_optimizer_state)
    for name in ("enable_symm_mem_for_group", "get_symm_mem_workspace", "rendezvous", "empty"):
        setattr(_symmetric_memory, name, _refusing(f"torch.distributed._symmetric_memory.{name}"))
    for name in ("rendezvous", "has_multicast_support"):
        setattr(torch._C._distributed_c10d._SymmetricMemory, name, _refusing(f"_SymmetricMemory.{name}"))


def _refusing(name):
    def refuse(*_, **__):
        raise HeadroomError(f"{name} maps the memory of other ranks' GPUs, which are not there: record the step with "
                            "NCCL's collectives (in torchtitan without async tensor parallelism)")

    return refuse


def _left_out(name, result):
    def call(*_, **__):
        _remarks.add(f"{name} was left out: the other ranks, which would write their parts, do not run")
        return result()

    return call


def _leave_out_optimizer_state(module):
    """FSDP1's optim_state_dict() gathers the state of flat parameters from all ranks, by names that only their owners
    know."""
    kind = module.FullyShardedDataParallel
    name = f"{_FSDP1.rpartition('.')[0]}.{kind.__name__}.optim_state_dict"
    kind.optim_state_dict = staticmethod(_left_out(name, dict))


def _leave_out_checkpoints(module):
    def done():
        future = concurrent.futures.Future()
        future.set_result(None)
        return future

    for place in (module, sys.modules[f"{_CHECKPOINT}.state_dict_saver"]):
        place.save = _left_out(f"{_CHECKPOINT}.save", lambda: None)
        place.async_save = _left_out(f"{_CHECKPOINT}.async_save", done)
