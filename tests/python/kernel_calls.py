# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a call of a kernel's stand-in returns, takes and computes. Tests import this once they simulate a GPU."""

import support
import torch
from torch_headroom._kernels import launches


def shapes(results):
    return [None if t is None else (tuple(t.shape), str(t.dtype).removeprefix("torch.")) for t in results]


def allocated_by(call):
    """What a call returns; the bytes of it, in blocks of 512, and the most that it took."""
    before, _ = support.tensor_bytes()
    torch.cuda.reset_peak_memory_stats()
    results = call()
    return results, *(after - before for after in support.tensor_bytes())


def flops_of(call):
    """Those that a call gives the only kernel that it launches, and the kernel's name."""
    seen = []
    launch = launches.launch
    launches.launch = lambda name, reads, writes, flops=0, how=None: seen.append((name, flops))
    try:
        call()
    finally:
        launches.launch = launch
    ((name, flops),) = seen
    return name, flops
