# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Llama laid over a mesh as `torch-headroom shard` says: resharding by an argument, the rest by its variables."""

import os
import pathlib
import sys

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from distributed_model import Llama  # noqa: E402

reshard = sys.argv[sys.argv.index("--reshard") + 1] == "always"
dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
mesh = dist.init_device_mesh("cuda", (int(os.environ["SHARD_REPLICATE"]), int(os.environ["SHARD_SHARD"])),
                             mesh_dim_names=("replicate", "shard"))
model = Llama(layers=4).cuda()
for layer in model.layers:
    fully_shard(layer, mesh=mesh, reshard_after_forward=reshard)
fully_shard(model, mesh=mesh, reshard_after_forward=reshard)
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    tokens = torch.randint(0, 32000, (int(os.environ["SHARD_BATCH"]), 512), device="cuda")
    model(tokens).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
