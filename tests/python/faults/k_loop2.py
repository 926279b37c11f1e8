# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A layer of a transformer that runs twice in a step under autocast; KIND says which: an encoder layer of PyTorch, or
its attention alone. A policy is applied if POLICY names one."""

import os

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 16, batch_first=True)

    def forward(self, x):
        h = self.norm(x)
        return x + self.attention(h, h, h, need_weights=False)[0]


class Net(nn.Module):
    def __init__(self, width=1024):
        super().__init__()
        self.first = nn.Linear(width, width)
        if os.environ["KIND"] == "attention":
            self.block = Attention(width)
        else:
            self.block = nn.TransformerEncoderLayer(width, 16, 4 * width, dropout=0, batch_first=True, norm_first=True)
        self.last = nn.Linear(width, 10)

    def forward(self, x):
        return self.last(self.block(self.block(self.first(x))))


net = Net().cuda()
optimizer = torch.optim.AdamW(net.parameters())
if os.environ.get("POLICY"):
    import torch_headroom

    torch_headroom.apply(net, os.environ["POLICY"])
for _ in range(3):
    x, labels = torch.randn(4, 1024, 1024, device="cuda"), torch.randint(0, 10, (4096,), device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(net(x).float().flatten(0, 1), labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
