# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Opaque kernels: kernels from outside PyTorch, such as Triton's or an extension module's. Known are the tensors that a
kernel reads and writes, but not what the kernel computes."""

import collections

import torch

from .. import _remarks as remarks

# (kernel name, how the time is estimated) -> number of launches in this process.
counts = collections.Counter()

# Kernels whose configuration would be chosen by measuring.
choices = set()

# How a time is estimated. PRODUCTS: the kernel multiplies matrices, but the flops are unknown.
BYTES, FLOPS = "bytes", "bytes and the flops given"
TABLE, PRODUCTS = "bytes and the flops of Headroom's table", "bytes alone, though the kernels multiply matrices"


def launch(name, reads, writes, flops=0, how=None):
    """Runs an opaque kernel as an op of the step. `reads` and `writes` are tensors or None. The kernel's time is the
    time of moving the bytes of the tensors and computing `flops`. The launch allocates nothing. Known values of the
    written tensors are forgotten."""
    if torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE) is not None:
        return  # fake tensors of a tracer
    counts[name, how or (FLOPS if flops else BYTES)] += 1
    reads, writes = ([tensor for tensor in tensors if tensor is not None] for tensors in (reads, writes))
    if not any(tensor.is_cuda for tensor in (*reads, *writes)):
        return
    if how == TABLE:
        _check_devices(name, (*reads, *writes))
    # PyTorch's modes and subclasses do not see a launch.
    with torch._C.DisableTorchFunctionSubclass(), torch._C._DisableTorchDispatch():
        torch.ops.headroom.opaque.default(name, reads, writes, int(flops))


def is_out_of_reach(tensor):
    """Returns whether a kernel on the GPU cannot read the tensor, since the tensor is in CPU memory that is not
    pinned."""
    return tensor.device.type == "cpu" and tensor.numel() > 0 and not tensor.is_pinned()


def _check_devices(name, tensors):
    for tensor in filter(is_out_of_reach, tensors):
        raise RuntimeError(f"{name}: Expected all tensors to be on the same device, but found at least two devices, "
                           f"cuda:0 and cpu! The tensor of the size {list(tensor.shape)} is on the CPU.")


def rounded(size, multiple):
    """Returns `size` rounded up to a multiple."""
    return -(-size // multiple) * multiple


def _sentences():
    """Yields remarks on the kernels that were launched in this step."""
    by_estimate = {}
    for (name, how), count in counts.items():
        by_estimate.setdefault(how, []).append(f"{name} ({count:,} ×)")
    for how, kernels in by_estimate.items():
        yield f"kernels that are not PyTorch's, with a time guessed by {how}: {', '.join(kernels)}"
    if choices:
        kernels = ", ".join(sorted(choices))
        yield f"configurations that are chosen by measuring on the card, here taken as the first: {kernels}"


remarks.add_source(remarks.KERNELS, _sentences, begin=counts.clear)
