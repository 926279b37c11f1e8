# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Blocks that are compiled by themselves under fully_shard in bfloat16 and get a float32 tensor beside x."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

torch.cuda.set_device(0)
dist.init_process_group("nccl")


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(512, 2048), nn.Linear(2048, 512)

    def forward(self, x, scale):
        return x + self.b(torch.nn.functional.gelu(self.a(x * scale)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Block() for _ in range(4))

    def forward(self, x, scale):
        for layer in self.layers:
            x = layer(x, scale=scale) if os.environ.get("NAMED") else layer(x, scale)
        return x


net = Net().cuda()
for layer in net.layers:
    layer.compile()
    fully_shard(layer, mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32))
fully_shard(net, mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32, cast_forward_inputs=False))
if os.environ.get("POLICY"):
    import torch_headroom
    torch_headroom.apply(net, os.environ["POLICY"])
optimizer = torch.optim.AdamW(net.parameters())
for _ in range(3):
    x, scale = (torch.ones(4096, 512, device="cuda", dtype=dtype) for dtype in (torch.bfloat16, torch.float32))
    net(x, scale).float().square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
