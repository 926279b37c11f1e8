# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tries smaller and smaller batches until one fits on a card of 24 GB. Each try builds the model anew: 14 GiB of frozen
weights and a small trained head. argv[1] says who tries: accelerate, or what it does in this script's own words."""

import gc
import sys

import torch
from torch import nn

if sys.argv[1] == "accelerate":
    from accelerate.utils import find_executable_batch_size
else:

    def find_executable_batch_size(function, starting_batch_size):
        def tries():
            batch = starting_batch_size
            while True:
                try:
                    return function(batch)
                except torch.OutOfMemoryError:
                    gc.collect()
                    torch.cuda.empty_cache()
                    batch //= 2

        return tries


def train(batch):
    gc.collect()
    torch.cuda.empty_cache()
    print(f"seen {batch}: {torch.cuda.memory_allocated()} bytes at its start", flush=True)
    with torch.device("cuda"):
        model = nn.Sequential(*(nn.Linear(8192, 8192, bias=False, dtype=torch.bfloat16) for _ in range(112)))
    model.requires_grad_(False)
    model[-1].requires_grad_(True)
    optimizer = torch.optim.AdamW(model[-1].parameters())
    for _ in range(3):
        model(torch.randn(batch, 8192, device="cuda", dtype=torch.bfloat16)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


find_executable_batch_size(train, starting_batch_size=1 << 18)()
