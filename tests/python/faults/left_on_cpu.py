# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tensors that a program forgot to move, which every card refuses. argv[1] says which: teacher, labels, embedding."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

kind = sys.argv[1]
net = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 64)).cuda()
teacher = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 64)).requires_grad_(False)
table = torch.randn(512, 64)
optimizer = torch.optim.AdamW(net.parameters())
for _ in range(3):
    x = torch.randn(16, 64, device="cuda")
    if kind == "embedding":
        x = x + F.embedding(torch.randint(0, 512, (16,), device="cuda"), table)
    y = net(x)
    if kind == "teacher":
        loss = F.mse_loss(y, teacher(x))
    elif kind == "labels":
        loss = F.cross_entropy(y, torch.randint(0, 64, (16,)))
    else:
        loss = y.square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print("ended without an error")
