# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Three steps of one of two processes, sharded and on the device as the arguments say, under the plan that a third one
names. On the CPU the partner is real, and the
peak that PyTorch's MemTracker finds in the third step is printed: before, DTensor asks what shapes ops make, by fake
tensors, which MemTracker counts, too."""

import hashlib
import json
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.utils._python_dispatch import TorchDispatchMode


def gloo_with_one_thread(store, rank, size, timeout):
    options = dist.ProcessGroupGloo._Options()
    options._devices = [dist.ProcessGroupGloo.create_default_device()]
    options._timeout = timeout
    options._threads = 1
    return dist.ProcessGroupGloo(store, rank, size, options)


class Released(TorchDispatchMode):
    """After each op, gloo's thread has released the tensors of finished collectives. By itself it holds them until it
    takes the next one, a little while in which MemTracker would count them."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        dist.barrier()
        return result


how, device, *policy = sys.argv[1:]
torch.manual_seed(0)
gradients = []  # of the last step
dist.Backend.register_backend("gloo_with_one_thread", gloo_with_one_thread, devices=["cpu"])
dist.init_process_group("gloo_with_one_thread" if device == "cpu" else "nccl", init_method=os.environ.get("STORE"),
                        rank=int(os.environ["RANK"]), world_size=2)


calls = []  # of forward, recomputations included
note_call = calls.append  # a recomputation leaves the variables that a forward names as they were


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(256, 1024), nn.Linear(1024, 256)

    def forward(self, x):
        note_call(None)
        return x + self.down(torch.relu(self.up(x)))


def sharded():
    mesh = init_device_mesh(device, (2,))
    model = nn.Sequential(*(Block() for _ in range(4))).to(device)
    for block in model:
        if how == "tp":
            parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
        elif how == "fsdp2":
            fully_shard(block, mesh=mesh)
    if how == "fsdp2":
        fully_shard(model, mesh=mesh)
    if policy:
        import torch_headroom

        torch_headroom.apply(model, policy[0])
    return model


def local(tensor):
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def train():
    model = sharded()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=False)
    for _ in range(3):
        yield model, optimizer
        x = torch.randn(1024, 256, device=device)
        loss = model(x).square().mean()
        loss.backward()
        gradients[:] = [local(p.grad).numpy().tobytes() for p in model.parameters() if device == "cpu"]
        optimizer.step()
        optimizer.zero_grad()
        del x, loss
    yield model, optimizer


if device == "cuda":
    for _ in train():
        pass
else:
    from torch.distributed._tools import mem_tracker

    # Blocks of the card's allocator, of which the CPU's has none.
    mem_tracker._WeakRefInfo._calculate_mem_consumed = lambda info: -(-info.size * info.element_size // 512) * 512
    tracker = mem_tracker.MemTracker()
    steps = train()
    next(steps), next(steps)
    model, optimizer = next(steps)
    tracker.track_external(model, optimizer)
    with Released(), tracker:
        next(steps)
        peak = tracker.get_tracker_snapshot("peak")[torch.device("cpu")]["Total"]
    digest = hashlib.sha256(b"".join(gradients)).hexdigest()
    print(json.dumps({"peak": peak, "calls": len(calls), "gradients": digest}))
    dist.barrier()
dist.destroy_process_group()
