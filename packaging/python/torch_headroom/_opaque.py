# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernels that are not PyTorch's: Triton's, those of extension modules. Here they are only what they read and write; what
they compute nobody knows."""

import collections

import torch

# By name of the kernel and how its time was guessed: how often it was launched in this process.
launches = collections.Counter()

# Kernels whose configuration, or time, would have been measured.
choices = set()

# How. PRODUCTS: a kernel multiplies matrices, and nobody knows how many.
BYTES, FLOPS = "their bytes", "their bytes and the flops given"
TABLE, PRODUCTS = "their bytes and the flops of Headroom's table", "their bytes alone, though they multiply matrices"


def launch(name, reads, writes, flops=0, how=None):
    """A kernel `name` runs: an op of the step that takes as long as to move the bytes of the tensors and to compute
    `flops`. What is known of the values that it writes is forgotten. It allocates nothing."""
    if torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE) is not None:
        return  # a tracer's tensors
    launches[name, how or (FLOPS if flops else BYTES)] += 1
    if not any(tensor.is_cuda for tensor in (*reads, *writes)):
        return
    # Neither modes nor subclasses of PyTorch see a launch.
    with torch._C.DisableTorchFunctionSubclass(), torch._C._DisableTorchDispatch():
        torch.ops.headroom.opaque.default(name, list(reads), list(writes), int(flops))
