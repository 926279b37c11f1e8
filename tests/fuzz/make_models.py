# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes small models, where fuzzing of their readers starts, into FOLDER/torchscript and FOLDER/exported:
python3 make_models.py FOLDER
"""

import pathlib
import sys
from typing import Dict, List, Optional, Tuple

import torch
from torch import nn

torch.manual_seed(0)


class Attributes(nn.Module):
    """Every kind of value that a pickle of TorchScript holds."""

    sizes: List[int]
    names: Dict[str, float]
    nothing: Optional[torch.Tensor]
    tensors: List[torch.Tensor]
    floats: List[float]
    flags: List[bool]

    def __init__(self):
        super().__init__()
        self.sizes = [1, 2]
        self.names = {"a": 1.0}
        self.nothing = None
        self.tensors = [torch.ones(2)]
        self.floats = [1.0]
        self.flags = [True]
        self.device = torch.device("cpu")
        self.complex = 1 + 2j
        self.mixed = (1, "x", torch.ones(3))
        self.large = 2**40
        self.register_buffer("buffer", torch.ones(3, dtype=torch.bfloat16))
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, x: torch.Tensor, scale: Optional[float] = None) -> Tuple[torch.Tensor, List[int]]:
        y = x * self.weight + self.tensors[0].sum() + self.buffer.sum() + self.names["a"]
        if scale is not None:
            y = y * scale
        for i in range(self.sizes[0]):
            y = y + i
        return y.to(self.device), self.sizes


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(5, 4)
        self.blocks = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))
        self.head = nn.Linear(4, 5, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = x + block(x).relu()
        return self.head(x)


class Several(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3)

    def forward(self, pair: Tuple[torch.Tensor, torch.Tensor], named: Dict[str, torch.Tensor]):
        return self.norm(pair[0] + pair[1]) * named["scale"] + torch.arange(3)


class Branches(nn.Module):
    """Subgraphs, random numbers, buffers that change."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.linear = nn.Linear(4, 4)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x):
        with torch.no_grad():
            scale = x.abs().max()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.linear(x / scale)
        return self.dropout(self.norm(y.float())).chunk(2, dim=1)


def save_torchscript(folder):
    folder.mkdir(parents=True, exist_ok=True)
    models = {
        "attributes": torch.jit.script(Attributes()),
        "scripted": torch.jit.script(Tied()),
        "traced": torch.jit.trace(Tied(), torch.zeros(2, 3, dtype=torch.long)),
        "several": torch.jit.trace(Several(), ((torch.ones(2, 3), torch.ones(2, 3)), {"scale": torch.ones(())})),
    }
    for name, model in models.items():
        torch.jit.save(model, str(folder / f"{name}.pt"))


def save_exported(folder):
    folder.mkdir(parents=True, exist_ok=True)
    rows = {0: torch.export.Dim("rows", min=2, max=64)}
    tokens = torch.zeros(2, 3, dtype=torch.long)
    with torch.device("meta"):
        weightless = Tied()
    programs = {
        "tied": torch.export.export(Tied(), (tokens,), dynamic_shapes={"tokens": rows}),
        "weightless": torch.export.export(weightless, (tokens.to("meta"),), strict=False),
        "branches": torch.export.export(Branches(), (torch.ones(2, 4),), dynamic_shapes={"x": rows}),
    }
    for name, program in programs.items():
        torch.export.save(program, folder / f"{name}.pt2")


save_torchscript(pathlib.Path(sys.argv[1]) / "torchscript")
save_exported(pathlib.Path(sys.argv[1]) / "exported")
