# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A block that splits its work by the card's free memory (as sub-quadratic attention does): under a plan it reads other
numbers."""

import os

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.qkv = nn.Linear(d, 3 * d)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        need = 3 * x.shape[0] * x.shape[1] ** 2 * 4
        free = torch.cuda.mem_get_info()[0] + torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
        n = 1
        while need / n > free * 0.2:
            n *= 2
        return torch.cat([torch.softmax(part @ k.transpose(1, 2), -1) @ v for part in q.chunk(n, 1)], 1)


net = nn.Sequential(*[nn.Sequential(Attention(512), nn.Linear(512, 512)) for _ in range(6)]).cuda()
optimizer = torch.optim.AdamW(net.parameters())
if os.environ.get("POLICY"):
    import torch_headroom
    torch_headroom.apply(net, os.environ["POLICY"])
for _ in range(3):
    net(torch.randn(8, 4096, 512, device="cuda")).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
