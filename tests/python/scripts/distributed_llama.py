# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Llama trained by torchrun, sharded as the first argument says, and compiled as a second one does: "blocks" before they
are sharded, "checkpointed" ones, or the whole "model" afterwards."""

import os
import pathlib
import sys

import torch
import torch.distributed as dist
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, FullyShardedDataParallel, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel,
                                               loss_parallel, parallelize_module)
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from distributed_model import Block, Llama  # noqa: E402

how, compiled = (*sys.argv[1:], None)[:2]
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl", device_id=torch.device("cuda", local_rank) if how in ("fsdp2", "hsdp") else None)
world = dist.get_world_size()
torch.manual_seed(0)


def parallelize(model, mesh):
    parallelize_module(model, mesh, {
        "tok_embeddings": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
        "norm": SequenceParallel(),
        "output": ColwiseParallel(input_layouts=Shard(1), output_layouts=Shard(-1), use_local_output=False)})
    for layer in model.layers:
        parallelize_module(layer, mesh, {
            "attention_norm": SequenceParallel(),
            "attention": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
            "attention.wq": ColwiseParallel(), "attention.wk": ColwiseParallel(), "attention.wv": ColwiseParallel(),
            "attention.wo": RowwiseParallel(output_layouts=Shard(1)),
            "ffn_norm": SequenceParallel(),
            "feed_forward": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
            "feed_forward.w1": ColwiseParallel(), "feed_forward.w3": ColwiseParallel(),
            "feed_forward.w2": RowwiseParallel(output_layouts=Shard(1))})


def shard(model, mesh, **more):
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy, **more)
    fully_shard(model, mesh=mesh, mp_policy=policy, **more)


with torch.device("cuda"):
    model = Llama(layers=4, kv_heads=8)
if compiled == "checkpointed":
    model.layers = torch.nn.ModuleList(checkpoint_wrapper(layer, preserve_rng_state=False) for layer in model.layers)
if compiled in ("blocks", "checkpointed"):
    for layer in model.layers:
        layer.compile(fullgraph=True)
sharded_loss = how.startswith("tp")
if how == "ddp":
    model = DistributedDataParallel(model, device_ids=[local_rank])
elif how == "ddp-views":
    model = DistributedDataParallel(model, device_ids=[local_rank], gradient_as_bucket_view=True)
elif how == "fsdp1":
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy
    model = FullyShardedDataParallel(model, auto_wrap_policy=ModuleWrapPolicy({Block}), use_orig_params=True)
elif how == "fsdp2":
    shard(model, None)
elif how == "fsdp2-offload":
    shard(model, None, offload_policy=CPUOffloadPolicy())
elif how == "hsdp":
    shard(model, init_device_mesh("cuda", (2, world // 2), mesh_dim_names=("replicate", "shard")))
elif how == "tp":
    parallelize(model, init_device_mesh("cuda", (world,)))
elif how == "tp-fsdp2":
    mesh = init_device_mesh("cuda", (world // 4, 4), mesh_dim_names=("dp", "tp"))
    parallelize(model, mesh["tp"])
    shard(model, mesh["dp"])
elif how == "large-mesh":
    init_device_mesh("cuda", (world, 2))
elif how == "mixed-devices":
    dist.all_reduce(torch.ones(1))

if compiled == "model":
    model = torch.compile(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=not sharded_loss)
for step in range(3):
    tokens = torch.randint(0, 32000, (4, 1024), device="cuda")
    if sharded_loss:
        with loss_parallel():
            loss = F.cross_entropy(model(tokens).flatten(0, 1).float(), tokens.flatten())
            loss.backward()
    else:
        loss = F.cross_entropy(model(tokens).flatten(0, 1).float(), tokens.flatten())
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("step", step, "peak", torch.cuda.max_memory_allocated(), flush=True)
    if compiled:
        print("graphs", torch._dynamo.utils.counters["aot_autograd"]["total"], flush=True)
dist.barrier()
dist.destroy_process_group()
