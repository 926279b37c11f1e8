# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Blocks as those of diffusers' UNet: the flag gradient_checkpointing is set, and a block checkpoints its resnets
alone. Its upsampler may still be planned. A policy is applied if POLICY names one."""

import os

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Part(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.a = nn.Conv2d(channels, 4 * channels, 3, padding=1)
        self.act = nn.SiLU()
        self.b = nn.Conv2d(4 * channels, channels, 3, padding=1)

    def forward(self, x):
        return self.b(self.act(self.a(x)))


class UpBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.resnets = nn.ModuleList(Part(channels) for _ in range(2))
        self.upsampler = Part(channels)
        self.gradient_checkpointing = True

    def forward(self, x):
        for resnet in self.resnets:
            if self.gradient_checkpointing:
                x = x + checkpoint(resnet, x, use_reentrant=False)
            else:
                x = x + resnet(x)
        return self.upsampler(nn.functional.interpolate(x, scale_factor=2.0))


net = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), UpBlock(32), UpBlock(32), nn.Conv2d(32, 3, 3, padding=1)).cuda()
optimizer = torch.optim.AdamW(net.parameters())
if os.environ.get("POLICY"):
    import torch_headroom

    torch_headroom.apply(net, os.environ["POLICY"])
for _ in range(3):
    net(torch.randn(4, 3, 64, 64, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
