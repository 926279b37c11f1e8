# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Exports the small models of tests/torch/exported_program_test.cpp with torch.export, into this folder."""
import json
import pathlib

import torch
from torch import nn
from torch.export import Dim

here = pathlib.Path(__file__).parent


class Twice(nn.Module):
    """Two inputs, several results of which two are no loss, and a layer that is called twice."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 16)
        self.drop = nn.Dropout(0.1)
        self.head = nn.Sequential(nn.Linear(16, 16), nn.ReLU())

    def forward(self, x, mask):
        y = self.drop(self.linear(self.linear(x)))
        return {"index": y.argmax(-1), "output": self.head(y) * mask, "size": x.shape[0] * 2}


class Scopes(nn.Module):
    """Inner graphs: autocast and no_grad."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, x):
        with torch.no_grad():
            scale = x.abs().mean() + 1
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.linear(x)
        return (y.float() / scale).sum()


class Dynamic(nn.Module):
    """Sizes that are computed, and buffers that training changes."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(32, 8)
        self.norm = nn.BatchNorm1d(8)

    def forward(self, ids):
        batch, length = ids.shape
        hidden = self.norm(self.embedding(ids).reshape(batch * length, 8))
        padded = torch.zeros(batch, 2 * length + 1, device=ids.device)
        return hidden.view(batch, length, 8), padded.sum()


class Tied(nn.Module):
    """A head that shares the embedding's weight; a file without weights cannot show it."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(64, 16)
        self.head = nn.Linear(16, 64, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids):
        return self.head(self.embedding(ids)).sum()


def save(name, program, **extra):
    # A file says where its lines stand; not on whose machine.
    for module in program.graph_module.modules():
        for node in module.graph.nodes if isinstance(module, torch.fx.GraphModule) else ():
            if node.meta.get("stack_trace"):
                trace = node.meta["stack_trace"].replace(f"{here}/", "")
                node.meta["stack_trace"] = trace.replace(f"{pathlib.Path(torch.__file__).parent.parent}/", "")
    torch.export.save(program, here / f"{name}.pt2", extra_files=extra or None)


save("twice", torch.export.export(Twice(), (torch.randn(8, 16), torch.ones(8, 16))))
save("scopes", torch.export.export(Scopes(), (torch.randn(8, 16),)))
sizes = {"ids": {0: Dim("batch", min=2, max=64), 1: Dim("length", min=4)}}
save("dynamic", torch.export.export(Dynamic(), (torch.randint(0, 32, (4, 8)),), dynamic_shapes=sizes))
with torch.device("meta"):
    tied = torch.export.export(Tied(), (torch.empty(2, 8, dtype=torch.int64),), strict=False)
save("tied_weightless", tied)
names = json.dumps([["embedding.weight", "head.weight"]])
save("tied_weightless_noted", tied, **{"headroom_tied_weights.json": names})
