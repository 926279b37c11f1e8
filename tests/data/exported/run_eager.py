# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs NAME.pt2 of this folder as PyTorch does, on this machine's CPU with the inputs of forward_backward.json, and
prints the CRC-32 of the loss and of each gradient: kernels of another CPU have other last bits.

    python run_eager.py NAME
"""
import base64
import json
import pathlib
import sys
import zlib

import torch

here = pathlib.Path(__file__).parent
name = sys.argv[1]
inputs = [
    torch.frombuffer(bytearray(base64.b64decode(given["bytes"])), dtype=getattr(torch, given["dtype"])).reshape(
        given["shape"]
    )
    for given in json.loads((here / "forward_backward.json").read_text())[name]["inputs"]
]


def crc32(tensor):
    tensor = tensor.detach().contiguous()
    return {"shape": list(tensor.shape), "crc32": zlib.crc32(bytes(tensor.view(-1).view(torch.uint8).tolist()))}


torch.set_num_threads(1)
module = torch.export.load(here / f"{name}.pt2").module()
loss = module(*inputs)
loss.backward()
# A tied weight has its gradient under one of its names.
gradients = {fqn: crc32(p.grad) for fqn, p in module.named_parameters(remove_duplicate=False) if p.grad is not None}
print(json.dumps({"loss": crc32(loss), "gradients": gradients}))
