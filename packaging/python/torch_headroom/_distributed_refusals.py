# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refuses functions that read the memory of other GPUs, which does not exist here; the error names the function."""

import torch

from ._library import HeadroomError


def _refuse(name):
    def refuse(*_, **__):
        raise HeadroomError(
            f"{name} maps the memory of other ranks' GPUs, which are not there: record the step with NCCL's "
            "collectives (in torchtitan without async tensor parallelism)"
        )

    return refuse


def patch():
    from torch.distributed import _symmetric_memory

    for name in ("enable_symm_mem_for_group", "get_symm_mem_workspace", "rendezvous", "empty"):
        setattr(_symmetric_memory, name, _refuse(f"torch.distributed._symmetric_memory.{name}"))
    for name in ("rendezvous", "has_multicast_support"):
        setattr(torch._C._distributed_c10d._SymmetricMemory, name, _refuse(f"_SymmetricMemory.{name}"))
