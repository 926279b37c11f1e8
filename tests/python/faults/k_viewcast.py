# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The input of a block is a view that was made a leaf, as in Wav2Vec2's feature encoder, under autocast. POLICY names a
policy to apply."""

import os

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.a, self.b, self.c = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x):
        return self.c(torch.tanh(self.a(x)) * torch.sigmoid(self.b(self.norm(x))))


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.block, self.out = Block(width), nn.Linear(width, 10)

    def forward(self, x):
        x = x[:, 0]
        if self.training:
            x.requires_grad = True
        return self.out(self.block(x))


width, batch = 1024, 4096
net = Net(width).cuda()
if os.environ.get("POLICY"):
    import torch_headroom

    torch_headroom.apply(net, os.environ["POLICY"])
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    x, y = torch.randn(batch, 1, width, device="cuda"), torch.randint(0, 10, (batch,), device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(net(x).float(), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
