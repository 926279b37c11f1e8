# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans of sharded steps, applied: memory is as predicted after every allocation, to the byte.

    distributed_plans_test.py PLAN_CHECKER [TEST...]
"""

import functools
import gc
import sys
import tempfile
import unittest

import support

torch = support.simulated("h100-80gb")

import torch_headroom  # noqa: E402
import torch.distributed as dist  # noqa: E402
from distributed_model import Block, Llama  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecisionPolicy, fully_shard  # noqa: E402
from torch.distributed.fsdp.wrap import ModuleWrapPolicy  # noqa: E402
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.testing._internal.distributed import fake_pg  # noqa: E402

SHARES = (0.0, 0.3, 0.6)  # of the way from the least budget to the step's own peak
FRACTIONS = {0: 0.85, 0.3: 0.9}  # of plans by op, with the most memory that such a plan takes as a share of the step's


def shard(model, mesh, reshard=True):
    shard = functools.partial(fully_shard, mesh=mesh, reshard_after_forward=reshard,
                              mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32))
    for layer in model.layers:
        shard(layer)
    shard(model)


def hybrid(model):
    shard(model, init_device_mesh("cuda", (2, 4), mesh_dim_names=("replicate", "shard")))


def tensor_parallel(model):
    mesh = init_device_mesh("cuda", (2, 4), mesh_dim_names=("dp", "tp"))
    for layer in model.layers:
        parallelize_module(layer, mesh["tp"], {
            "attention.wq": ColwiseParallel(), "attention.wk": ColwiseParallel(), "attention.wv": ColwiseParallel(),
            "attention.wo": RowwiseParallel(), "feed_forward.w1": ColwiseParallel(),
            "feed_forward.w3": ColwiseParallel(), "feed_forward.w2": RowwiseParallel()})
    shard(model, mesh["dp"])


def flat(model):
    return FullyShardedDataParallel(model, auto_wrap_policy=ModuleWrapPolicy({Block}), use_orig_params=True,
                                    device_id=torch.device("cuda", 0))


def record(parallelize, file, policy=None, before=False):
    gc.collect()
    dist.init_process_group("fake", rank=0, world_size=8, store=fake_pg.FakeStore())
    try:
        with torch.device("cuda"):
            model = Llama(layers=4, width=512, heads=8, kv_heads=4, hidden=1024, vocabulary=8000)
        if policy and before:
            torch_headroom.apply(model, policy)
        model = parallelize(model) or model
        if policy and not before:
            torch_headroom.apply(model, policy)
        optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
        with torch_headroom.record(file) as recording:
            for _ in range(2):
                tokens = torch.randint(0, 8000, (4, 512), device="cuda")
                loss = F.cross_entropy(model(tokens).flatten(0, 1).float(), tokens.flatten())
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                del tokens, loss
                gc.collect()
                recording.step()
        return recording.summary
    finally:
        dist.destroy_process_group()


class Plans(unittest.TestCase):
    checker = None

    def kept(self, parallelize, before=False):
        with tempfile.TemporaryDirectory() as folder:
            step, policy, run = (f"{folder}/{name}" for name in ("step.hrs", "policy.json", "run.hrs"))
            own = record(parallelize, step)["peak_bytes"]
            modules = 0

            def check(planned):
                executed = record(parallelize, run, policy, before)["peak_bytes"]
                verified = self.checker.ask("verify", step, run, policy)
                self.assertEqual((executed, verified[1]), (int(planned), ""))

            for share in SHARES:
                with self.subTest(share=share):
                    budget, planned, _, count, _ = self.checker.ask("plan", step, policy, share)
                    modules += int(count)
                    self.assertLess(int(planned), own)
                    self.assertLessEqual(int(planned), int(budget))
                    check(planned)
            self.assertGreater(modules, 0)
            for fraction, most in FRACTIONS.items():
                with self.subTest(fraction=fraction):
                    planned, count = self.checker.ask("ops", step, policy, fraction)
                    self.assertGreater(int(count), 0)
                    self.assertLess(int(planned), most * own)
                    check(planned)

    def test_fully_shard(self):
        self.kept(functools.partial(shard, mesh=None))

    def test_applied_before_fully_shard(self):
        self.kept(functools.partial(shard, mesh=None), before=True)

    def test_applied_before_flat_parameters(self):
        self.kept(flat, before=True)

    def test_without_resharding(self):
        self.kept(functools.partial(shard, mesh=None, reshard=False))

    def test_hybrid(self):
        self.kept(hybrid)

    def test_tensor_parallel(self):
        self.kept(tensor_parallel)


if __name__ == "__main__":
    Plans.checker = support.Checker(sys.argv.pop(1))
    unittest.main()
