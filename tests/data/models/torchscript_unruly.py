# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes models that end badly, for tests of interrupted recordings: python3 torchscript_unruly.py FOLDER"""

import pathlib
import sys

import torch
from torch import nn


class Endless(nn.Module):
    """Counts and never comes back, as a kernel that hangs."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, x: torch.Tensor):
        count = 0
        while count >= 0:
            count = (count + 1) % 1000
        return x * self.weight * count


class Greedy(nn.Module):
    """Wants more memory than any machine has."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, x: torch.Tensor):
        return x * self.weight * torch.empty([1 << 58]).sum()


folder = pathlib.Path(sys.argv[1])
torch.jit.save(torch.jit.script(Endless()), str(folder / "endless.pt"))
torch.jit.save(torch.jit.script(Greedy()), str(folder / "greedy.pt"))
