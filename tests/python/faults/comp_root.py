# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""fully_shard and torch.compile of the whole model, by its wrapper or its method (HOW)."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

torch.cuda.set_device(0)
dist.init_process_group("nccl")


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(512, 2048), nn.Linear(2048, 512)

    def forward(self, x):
        return x + self.b(torch.nn.functional.gelu(self.a(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Block() for _ in range(4))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


net = Net().cuda()
for layer in net.layers:
    fully_shard(layer)
fully_shard(net)
if os.environ.get("POLICY"):
    import torch_headroom
    torch_headroom.apply(net, os.environ["POLICY"])
run = net
if os.environ["HOW"] == "method":
    net.compile()
elif os.environ["HOW"] == "wrapper":
    run = torch.compile(net)
optimizer = torch.optim.AdamW(net.parameters())
for _ in range(3):
    run(torch.randn(4096, 512, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
