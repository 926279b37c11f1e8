# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Quantization-aware training by torch.ao: one op updates its running range and quantizes with it."""

import os
import warnings

import torch
from torch import nn
from torch.ao.quantization import QuantStub, get_default_qat_qconfig, prepare_qat

warnings.simplefilter("ignore")


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.a, self.r, self.b = nn.Linear(d, 4 * d), nn.ReLU(), nn.Linear(4 * d, d)

    def forward(self, x):
        return self.b(self.r(self.a(x)))


class Net(nn.Module):
    def __init__(self, d, n):
        super().__init__()
        self.q, self.blocks, self.out = QuantStub(), nn.ModuleList(Block(d) for _ in range(n)), nn.Linear(d, 10)

    def forward(self, x):
        x = self.q(x)
        for block in self.blocks:
            x = block(x)
        return self.out(x)


net = Net(256, 4).train()
net.qconfig = get_default_qat_qconfig("x86")
net = prepare_qat(net).cuda()
if os.environ.get("POLICY"):
    import torch_headroom
    torch_headroom.apply(net, os.environ["POLICY"])
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for _ in range(3):
    x, y = torch.randn(4096, 256, device="cuda"), torch.randint(0, 10, (4096,), device="cuda")
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(x), y).backward()
    optimizer.step()
