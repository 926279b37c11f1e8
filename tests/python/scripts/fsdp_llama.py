# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small Llama trained with FSDP2, for torchrun: the model of the manual's page of questions."""

import argparse
import os
import pathlib
import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard
from torch.nn import functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from distributed_model import Llama  # noqa: E402

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
parser = argparse.ArgumentParser()
parser.add_argument("--layers", type=int, default=8)
parser.add_argument("--width", type=int, default=1024)
parser.add_argument("--vocabulary", type=int, default=32000)
parser.add_argument("--batch", type=int, default=4)
parser.add_argument("--seq", type=int, default=1024)
parser.add_argument("--units", choices=["blocks", "halves", "root"], default="blocks", help="what is a unit of FSDP")
parser.add_argument("--reshard", default="default", help="after forward: never, over so many ranks, else as FSDP does")
parser.add_argument("--replicate", type=int, default=1, help="above 1: HSDP")
parser.add_argument("--compute", choices=DTYPES, default="bfloat16")
parser.add_argument("--reduce", choices=DTYPES, default="float32")
parser.add_argument("--offload", action="store_true", help="parameters, gradients and optimizer on the CPU")
options = parser.parse_args()

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
world = dist.get_world_size()
if options.replicate > 1:
    shape, names = (options.replicate, world // options.replicate), ("replicate", "shard")
else:
    shape, names = (world,), ("shard",)
with torch.device("cuda"):
    model = Llama(options.layers, options.width, hidden=options.width * 7 // 2, vocabulary=options.vocabulary)
sharding = dict(
    mesh=init_device_mesh("cuda", shape, mesh_dim_names=names),
    reshard_after_forward=int(options.reshard) if options.reshard.isdigit() else {"never": False}.get(options.reshard),
    mp_policy=MixedPrecisionPolicy(param_dtype=DTYPES[options.compute], reduce_dtype=DTYPES[options.reduce]),
    offload_policy=CPUOffloadPolicy() if options.offload else OffloadPolicy())
for layer in model.layers:
    if options.units == "halves":
        fully_shard(layer.attention, **sharding)
        fully_shard(layer.feed_forward, **sharding)
    if options.units != "root":
        fully_shard(layer, **sharding)
fully_shard(model, **sharding)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
for _ in range(3):
    tokens = torch.randint(0, options.vocabulary, (options.batch, options.seq), device="cuda")
    loss = F.cross_entropy(model(tokens).flatten(0, 1).float(), tokens.flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
