# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Temporaries of 6 and 7 GiB in turn. A card of 12 GB is full in the first step alone: from then on the segment of 7
GiB serves both."""

import torch

model = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    y = model(torch.randn(8, 64, device="cuda"))
    for gigabytes in 6, 7:
        torch.empty(gigabytes << 30, dtype=torch.uint8, device="cuda")
    y.sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    print("retries", torch.cuda.memory_stats()["num_alloc_retries"], flush=True)
