# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""FSDP2 steps of one rank: the peak and what it is made of are those of PyTorch's FSDPMemTracker, to the byte, and what the
allocator has active is what PyTorch's own has, but for scratch of kernels that is named
(tests/data/fsdp2_mem_tracker.json; PyTorch's own tests of it, and a Llama)."""

import functools
import gc
import json
import pathlib
import tempfile
import unittest

import support

torch = support.simulated("h100-80gb")

import torch_headroom  # noqa: E402
import torch.distributed as dist  # noqa: E402
from distributed_model import Llama  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed._composable import checkpoint  # noqa: E402
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.testing._internal.distributed import fake_pg  # noqa: E402
from torch.testing._internal.distributed._tensor.common_dtensor import (  # noqa: E402
    ModelArgs, Transformer, TransformerBlock)

REFERENCE = json.loads((pathlib.Path(__file__).parent.parent / "data" / "fsdp2_mem_tracker.json").read_text())
WORKSPACES = 64 << 20  # cuBLAS's, of both threads
# FSDPMemTracker's names of categories, and those of step files.
CATEGORIES = {
    "parameter": ["Sharded Param"], "unsharded_parameter": ["Unsharded Param"], "buffer": ["Buffer"],
    "gradient": ["Sharded Grad"], "unsharded_gradient": ["Unsharded Grad"], "activation": ["Activation"],
    "temporary": ["Temp"], "communication": ["All Gather", "Reduce Scatter"], "optimizer": ["OptState"], "input": ["Inputs"],
}


class MLP(nn.Module):  # of torch.testing._internal.common_fsdp
    def __init__(self, dim, device):
        super().__init__()
        self.in_proj = nn.Linear(dim, 4 * dim, device=device)
        self.out_proj = nn.Linear(4 * dim, dim, device=device)

    def forward(self, x):
        return F.relu(self.out_proj(F.relu(self.in_proj(x))))


def multi_group(mesh, reshard):
    model = nn.Sequential(*[MLP(2048, "cuda") for _ in range(4)])
    shard = functools.partial(fully_shard, mesh=mesh, reshard_after_forward=reshard,
                              mp_policy=MixedPrecisionPolicy(param_dtype=torch.float16, reduce_dtype=torch.float32))
    for mlp in model:
        shard(mlp)
    shard(model)
    return model, torch.optim.Adam(model.parameters()), torch.randn((8192, 2048), device="cuda"), lambda m, x: m(x).sum()


def non_root(mesh):
    model = nn.Sequential(*[MLP(2048, "cuda") for _ in range(3)])
    for mlp in model:
        fully_shard(mlp, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.Adam(model.parameters(), foreach=True)
    return model, optimizer, torch.randn((8, 2048), device="cuda"), lambda m, x: m[0](x).sum()


def transformer(mesh, reshard, composable):
    with torch.device("cuda"):
        model = Transformer(ModelArgs(n_layers=4, n_heads=4, vocab_size=8192, max_seq_len=512, dropout_p=0.1))
    for module in list(model.modules()):
        if isinstance(module, TransformerBlock):
            if composable:
                checkpoint(module)
            fully_shard(module, mesh=mesh, reshard_after_forward=reshard)
    fully_shard(model, mesh=mesh, reshard_after_forward=reshard)
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    return model, optimizer, torch.randint(0, 8192, (16, 512), device="cuda"), lambda m, x: m(x).sum()


def llama(mesh, reshard, checkpoints, batch=4):
    with torch.device("cuda"):
        model = Llama()
    shard = functools.partial(fully_shard, mesh=mesh, reshard_after_forward=reshard,
                              mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32))
    for i, layer in enumerate(model.layers):
        if checkpoints:
            layer = model.layers[i] = checkpoint_wrapper(layer)
        shard(layer)
    shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    tokens = torch.randint(0, 32000, (batch, 1024), device="cuda")

    return model, optimizer, tokens, lambda m, x: F.cross_entropy(m(x).flatten(0, 1).float(), x.flatten())


STEPS = {
    "mg-reshard": functools.partial(multi_group, reshard=True),
    "mg-noreshard": functools.partial(multi_group, reshard=False),
    "nonroot": non_root,
    "ac-composable-reshard": functools.partial(transformer, reshard=True, composable=True),
    "ac-composable-noreshard": functools.partial(transformer, reshard=False, composable=True),
    "transformer-reshard": functools.partial(transformer, reshard=True, composable=False),
    "llama-bf16-reshard": functools.partial(llama, reshard=True, checkpoints=False),
    "llama-bf16-noreshard": functools.partial(llama, reshard=False, checkpoints=False),
    "llama-bf16-reshard-ac": functools.partial(llama, reshard=True, checkpoints=True),
    "llama-bf16-reshard-small": functools.partial(llama, reshard=True, checkpoints=False, batch=1),
    "llama-bf16-noreshard-ac-small": functools.partial(llama, reshard=False, checkpoints=True, batch=1),
}


def record(name, world, file):
    dist.init_process_group("fake", rank=0, world_size=world, store=fake_pg.FakeStore())
    try:
        gc.collect()
        torch.cuda.empty_cache()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        model, optimizer, batch, loss_of = STEPS[name](init_device_mesh("cuda", (world,)))
        with torch_headroom.record(file) as recording:
            recording.inputs(batch)
            for _ in range(2):
                loss = loss_of(model, batch)
                loss.backward()
                if name.startswith("llama"):
                    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
                    del norm
                optimizer.step()
                optimizer.zero_grad()
                gc.collect()  # when Python looks for garbage by itself is chance
                recording.step()
        statistics = torch.cuda.memory_stats()
        return recording.summary, statistics["active_bytes.all.peak"] - before, statistics["reserved_bytes.all.peak"]
    finally:
        dist.destroy_process_group()


class FsdpTest(unittest.TestCase):
    def test_bytes_are_the_trackers(self):
        self.assertEqual(set(STEPS), set(REFERENCE["cases"]))
        with tempfile.TemporaryDirectory() as folder:
            for name, expected in REFERENCE["cases"].items():
                with self.subTest(name):
                    summary, active, reserved = record(name, expected["world"], f"{folder}/{name}.hrs")
                    self.assertEqual(summary["peak_bytes"], expected["peak"])
                    found = {key: bytes_ for key, bytes_ in summary["at_peak"].items() if bytes_}
                    wanted = {key: sum(expected["categories"][part] for part in parts) for key, parts in CATEGORIES.items()}
                    self.assertEqual(found, {key: bytes_ for key, bytes_ in wanted.items() if bytes_})
                    allocator = expected["allocator"]
                    scratch = sum(allocator["scratch"].values())
                    self.assertEqual(active + scratch, allocator["active"])
                    self.assertLess(abs((reserved + WORKSPACES) / allocator["reserved"] - 1), 0.01)


if __name__ == "__main__":
    unittest.main()
