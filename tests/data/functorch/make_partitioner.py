# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What PyTorch's partitioner makes of three models, without decompositions, so that it sees the ops that a step records.

    python3 make_partitioner.py HEADROOM_RECORD

Writes partitioner.json: for each model and fraction the bytes that it saves (each tensor once, whichever view of it is
saved; parameters and inputs left out) and the flops of its backward graph; and records the models as steps.
"""

import json
import operator
import pathlib
import subprocess
import sys
import tempfile

import torch
import torch._functorch.config as config
from functorch.compile import aot_function, min_cut_rematerialization_partition
from torch import nn
from torch.utils._pytree import tree_map
from torch.utils.flop_counter import flop_registry

FRACTIONS = [1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0]
VIEWS = "view t permute transpose expand select split _unsafe_view slice unsqueeze squeeze detach alias unbind".split()


class Gates(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(512, 512) for _ in range(6)])

    def forward(self, x):
        for layer in self.layers:
            x = torch.sigmoid(layer(x)) * torch.tanh(x)
        return x.sum()


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        a = torch.softmax(q @ k.transpose(-1, -2) * (d // self.heads) ** -0.5, -1) @ v
        x = x + self.out(a.transpose(1, 2).reshape(b, t, d))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.input = nn.Linear(256, 256)
        self.layers = nn.ModuleList([Block(256, 4) for _ in range(4)])
        self.norm = nn.LayerNorm(256)

    def forward(self, x):
        x = self.input(x)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x).sum()


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Conv2d(3 if i == 0 else 32, 32, 3, padding=1) for i in range(5)])

    def forward(self, x):
        for layer in self.layers:
            x = nn.functional.silu(layer(x))
        return x.mean()


def models():
    yield "partitioner_gates", Gates(), torch.zeros(512, 512)
    yield "partitioner_transformer", Transformer(), torch.zeros(4, 128, 256)
    yield "partitioner_convolutions", Convolutions(), torch.zeros(8, 3, 32, 32)


def is_view(node):
    if node.op != "call_function":
        return False
    if node.target is operator.getitem:
        return is_view(node.args[0])
    name = str(node.target)
    return name.startswith("aten.") and name.split(".")[1] in VIEWS


def saved_bytes(graph):
    saved = {}
    for node in graph.find_nodes(op="output")[0].args[0][1:]:
        while is_view(node):
            node = node.args[0]
        if node.op != "placeholder":
            value = node.meta["val"]
            saved[node.name] = value.numel() * value.element_size()
    return sum(saved.values())


def flops(graph):
    total = 0
    for node in graph.nodes:
        formula = flop_registry.get(getattr(node.target, "_overloadpacket", None))
        if formula:
            value = lambda x: x.meta["val"] if isinstance(x, torch.fx.Node) else x
            args, kwargs = tree_map(value, (node.args, node.kwargs))
            total += formula(*args, **kwargs, out_val=node.meta["val"])
    return total


def partition(model, x, fraction, solver):
    names, parameters = zip(*model.named_parameters())
    graphs = {}

    def keep(name):
        def compile(module, inputs):
            graphs[name] = module.graph
            return module.forward

        return compile

    def call(x, *parameters):
        return torch.func.functional_call(model, dict(zip(names, parameters)), (x,))

    with config.patch(activation_memory_budget=fraction, activation_memory_budget_solver=solver):
        step = aot_function(
            call, fw_compiler=keep("forward"), bw_compiler=keep("backward"), decompositions={},
            partition_fn=min_cut_rematerialization_partition,
        )  # fmt: skip
        step(x, *parameters).backward()
    return {"saved_bytes": saved_bytes(graphs["forward"]), "backward_flops": flops(graphs["backward"])}


def main():
    here = pathlib.Path(__file__).parent
    rows = []
    for name, model, x in models():
        for fraction in FRACTIONS:
            for solver in ["dp", "greedy"]:
                rows.append({"step": name, "budget": fraction, "solver": solver})
                rows[-1].update(partition(model, x, fraction, solver))
        with tempfile.TemporaryDirectory() as folder:
            torch.export.save(torch.export.export(model, (x,)), pathlib.Path(folder) / f"{name}.pt2")
            subprocess.run(
                [sys.argv[1], "record", f"{name}.pt2", "--gpu", "a100-80gb", "--optimizer", "sgd",
                 "-o", here / f"{name}.hrs"],
                cwd=folder, check=True, stdout=subprocess.DEVNULL,
            )  # fmt: skip
    text = ",\n".join(json.dumps(row) for row in rows)
    (here / "partitioner.json").write_text(f"[\n{text}\n]\n")


if __name__ == "__main__":
    main()
