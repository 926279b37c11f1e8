# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Blocks of the program's own, with a policy applied if POLICY names one."""

import os

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.a, self.b = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.b(nn.functional.gelu(self.a(x)))


net = nn.Sequential(*(Block(512) for _ in range(6))).cuda()
if os.environ.get("POLICY"):
    import torch_headroom

    torch_headroom.apply(net, os.environ["POLICY"])
optimizer = torch.optim.AdamW(net.parameters())
for _ in range(3):
    net(torch.randn(4096, 512, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
