# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Teacher and student of one class and size. The teacher runs first, without no_grad, and only it is planned; the
script applies the policy to the student, or to the model that OBJECT names."""

import os

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, d=1024, n=6):
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d)) for _ in range(n))

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
        return x


teacher, student = Net().cuda(), Net().cuda()
optimizer = torch.optim.AdamW(student.parameters())
if os.environ.get("POLICY"):
    import torch_headroom
    torch_headroom.apply(teacher if os.environ.get("OBJECT") == "Net" else student, os.environ["POLICY"],
                         object=os.environ.get("OBJECT"))
for _ in range(3):
    x = torch.randn(16384, 1024, device="cuda")
    t = teacher(x)
    loss = nn.functional.mse_loss(student(x), t.detach())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    del t
