# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes parameters and state after two steps of torch.optim's foreach optimizers: python3 optimizers_cpu.py FILE.json

Parameters and gradients come from a formula that is exact in float32; floats are written as their bit patterns.
"""

import json
import sys

import torch

torch.set_num_threads(1)


def formula(count, factor):
    return ((torch.arange(count) * factor) % 101 - 50) / 256.0


def bits(tensors):
    return [tensor.detach().contiguous().view(-1).view(torch.int32).tolist() for tensor in tensors]


document = {}
for name, make in {
    "sgd": lambda parameters: torch.optim.SGD(parameters, foreach=True),
    "sgd_momentum": lambda parameters: torch.optim.SGD(parameters, momentum=0.9, foreach=True),
    "adam": lambda parameters: torch.optim.Adam(parameters, foreach=True),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, foreach=True),
}.items():
    # The last one never gets a gradient.
    parameters = [torch.nn.Parameter(formula(12, 37)), torch.nn.Parameter(formula(5, 11)), torch.nn.Parameter(formula(3, 5))]
    optimizer = make(parameters)
    for factor in (13, 29):
        for parameter in parameters[:2]:
            parameter.grad = formula(parameter.numel(), factor)
        optimizer.step()
        optimizer.zero_grad()
    state = [tensor for values in optimizer.state.values() for tensor in values.values() if isinstance(tensor, torch.Tensor)]
    document[name] = {"parameters": bits(parameters), "state": bits(state)}
with open(sys.argv[1], "w") as file:
    json.dump(document, file)
    file.write("\n")
