# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Needs 18.2 of 24 GB. Runs on a 24 GB card with PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, and not without:
22 segments of 1 GiB are each split by a tensor of 0.6 GiB, and then 5 GiB are asked for."""
import torch
model = torch.nn.Linear(1024, 1024).cuda()
opt = torch.optim.SGD(model.parameters(), lr=.1)
GiB = 1 << 30
for _ in range(3):
    first = [torch.empty(GiB, dtype=torch.int8, device="cuda") for _ in range(22)]
    del first
    cache = [torch.empty(int(.6 * GiB), dtype=torch.int8, device="cuda") for _ in range(22)]
    big = torch.empty(5 * GiB, dtype=torch.int8, device="cuda")
    loss = model(torch.randn(8, 1024, device="cuda")).square().mean()
    loss.backward(); opt.step(); opt.zero_grad()
    del cache, big
print("ran; reserved GiB", torch.cuda.max_memory_reserved() / GiB)
