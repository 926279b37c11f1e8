# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes loss and gradients of PyTorch's own Transformer on the CPU: python3 transformer_cpu.py transformer_cpu.json

Weights and tokens come from a formula that is exact in float32, so that the C++ test can make the same ones. Floats are
written as their bit patterns.
"""

import json
import sys
import types
import unittest

import torch

# PyTorch's test modules import expecttest, which its wheel does not bring and this model does not use.
expecttest = types.ModuleType("expecttest")
expecttest.TestCase = unittest.TestCase
sys.modules.setdefault("expecttest", expecttest)
from torch.testing._internal.distributed._tensor.common_dtensor import ModelArgs, Transformer  # noqa: E402

torch.set_num_threads(1)
args = ModelArgs(n_layers=2, vocab_size=16, max_seq_len=6, dim=8, n_heads=2, dropout_p=0.0)
batch = 3
model = Transformer(args)
for index, (name, parameter) in enumerate(model.named_parameters()):
    i = torch.arange(parameter.numel())
    values = ((i * 37 + index * 11) % 101 - 50) / 256.0 + (1.0 if name.endswith("norm.weight") else 0.0)
    parameter.data.copy_(values.view_as(parameter))
tokens = ((torch.arange(batch * args.max_seq_len) * 7 + 3) % args.vocab_size).view(batch, -1)

output = model(tokens)
# Not sum(): gradients of a plain sum are the same for every position.
loss = (output * (torch.arange(output.numel()).view_as(output) % 13 - 6)).sum()
loss.backward()


def bits(tensor):
    return tensor.detach().contiguous().view(-1).view(torch.int32).tolist()


document = {
    "torch": torch.__version__.split("+")[0],
    "output": bits(output),
    "loss": bits(loss.view(1)),
    "gradients": {name: bits(parameter.grad) for name, parameter in model.named_parameters()},
}
with open(sys.argv[1], "w") as file:
    json.dump(document, file)
    file.write("\n")
