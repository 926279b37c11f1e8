# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A teacher runs without no_grad. Its output `t` lives until the next step's forward replaces it, so that one step's
graph of the teacher is carried into the next."""

import os

import torch
from torch import nn


class Teacher(nn.Module):
    def __init__(self, d=1024, n=6):
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d)) for _ in range(n))

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
        return x


class Student(Teacher):
    pass


teacher, student = Teacher().cuda(), Student(n=3).cuda()
optimizer = torch.optim.AdamW(student.parameters())
if os.environ.get("POLICY"):
    import torch_headroom
    for model in teacher, student:
        torch_headroom.apply(model, os.environ["POLICY"], object=type(model).__name__)
for _ in range(3):
    x = torch.randn(16384, 1024, device="cuda")
    t = teacher(x)
    loss = nn.functional.mse_loss(student(x), t.detach())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
