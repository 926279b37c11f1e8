# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plain transformer, with a policy applied if POLICY names one."""

import os

import torch
from torch import nn

net = nn.Sequential(*[nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True) for _ in range(3)]).cuda()
if os.environ.get("POLICY"):
    import torch_headroom

    torch_headroom.apply(net, os.environ["POLICY"])
optimizer = torch.optim.AdamW(net.parameters())
for step in range(3):
    net(torch.randn(8, 128, 256, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
