# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes results and gradients of TorchScript files as torch.jit runs them on the CPU:
python3 torchscript_cpu.py OUT.json [NAME...]

The files are those of the folder torchscript: tests/fuzz/make_models.py made attributes, scripted, traced and several;
ts_script_toy, ts_trace_transformer_tiny and ts_trace_gpt2_tiny are a scripted MLP, PyTorch's own test Transformer and
Hugging Face's GPT-2, the two with their loss. Inputs come from a formula that is exact in float32, so that the C++ test can
make the same ones. Floats are written as their bit patterns. torchscript_cpu.json has the small ones.
"""

import json
import pathlib
import sys

import torch


def tokens(rows, columns, words):
    return ((torch.arange(rows * columns) * 7 + 3) % words).view(rows, columns)


def numbers(*sizes):
    count = torch.Size(sizes).numel()
    return (((torch.arange(count) * 37 + 11) % 101 - 50) / 64.0).view(sizes)


INPUTS = {
    "attributes": lambda: (numbers(4, 3),),
    "scripted": lambda: (tokens(2, 3, 5),),
    "traced": lambda: (tokens(2, 3, 5),),
    "several": lambda: ((numbers(2, 3), numbers(2, 3)), {"scale": numbers()}),
    "ts_script_toy": lambda: (numbers(8, 100),),
    "ts_trace_transformer_tiny": lambda: (tokens(2, 16, 64),),
    "ts_trace_gpt2_tiny": lambda: (tokens(2, 64, 512),),
}


def bits(tensor):
    return tensor.detach().contiguous().view(-1).view(torch.int32).tolist()


def run(name):
    model = torch.jit.load(str(pathlib.Path(__file__).parent / "torchscript" / f"{name}.pt"))
    model.train()
    output = model(*INPUTS[name]())
    output = output[0] if isinstance(output, tuple) else output
    (output * (torch.arange(output.numel()).view_as(output) % 13 - 6)).sum().backward()
    return {
        "output": bits(output),
        "gradients": {n: bits(p.grad) for n, p in model.named_parameters()},
        "buffers": {n: bits(b) for n, b in model.named_buffers() if b.dtype == torch.float32},
    }


torch.set_num_threads(1)
with torch.jit.optimized_execution(False):
    results = {name: run(name) for name in sys.argv[2:] or INPUTS}
with open(sys.argv[1], "w") as file:
    json.dump({"torch": torch.__version__.split("+")[0], "models": results}, file)
    file.write("\n")
