# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One rank of a compiled distributed step: what is sharded, gathered and communicated is as in the eager one."""

import json
import pathlib
import re
import subprocess
import sys
import unittest

import support
from recorded_script import Recorded

support.need("torch", "triton")

HEADROOM = sys.argv.pop()
_LLAMA = pathlib.Path(__file__).with_name("scripts") / "distributed_llama.py"
_OF_THE_SHARDS = "parameter", "gradient", "optimizer", "unsharded_parameter", "unsharded_gradient", "communication"


def moved(collectives):
    """Bytes by kind: buckets are filled in the order of backward, which is another one in a graph."""
    return {kind: sum(row["bytes"] for row in collectives if row["collective"] == kind)
            for kind in ("all_gather", "all_reduce", "reduce_scatter")}


class Compiled(Recorded):
    def sharded(self, *how):
        result = self.run_script(_LLAMA, "--json", "--nproc-per-node", "8", arguments=how)
        self.assertEqual(result.returncode, 0, result.stderr)
        info = subprocess.run([HEADROOM, "info", self.step, "--json"], capture_output=True, text=True, check=True)
        collectives = json.loads(info.stdout)["communication"]["collectives"]
        graphs = re.search(r"graphs (\d+)", result.stdout + result.stderr)
        return json.loads(result.stdout), collectives, int(graphs[1]) if graphs else 0

    def check(self, how, compiled):
        eager, of_eager, _ = self.sharded(how)
        step, collectives, graphs = self.sharded(how, compiled)
        for phase, bytes_of in eager["phases"].items():
            self.assertEqual({name: step["phases"][phase][name] for name in _OF_THE_SHARDS},
                             {name: bytes_of[name] for name in _OF_THE_SHARDS}, phase)
        # Graphs of single buckets save what lies between them.
        self.assertLessEqual(step["phases"]["after_forward"]["activation"], eager["phases"]["after_forward"]["activation"])
        self.assertEqual(moved(collectives), moved(of_eager))
        self.assertTrue(any("triton_" in remark for remark in step["remarks"]), step["remarks"])
        return graphs

    def test_blocks_before_fully_shard(self):
        self.assertEqual(self.check("fsdp2", "blocks"), 1)  # which all four share

    def test_compiled_blocks_are_offloaded(self):
        how = "--json", "--nproc-per-node", "8"
        recorded = self.run_script(_LLAMA, *how, arguments=("fsdp2", "blocks"))
        self.assertEqual(recorded.returncode, 0, recorded.stderr)
        step, policy = self.step.rename(self.step.with_name("planned.hrs")), self.step.with_name("policy.json")
        planned = subprocess.run([HEADROOM, "plan", step, "--pin=Llama.layers.1=offload", "-o", policy, "--budget",
                                  str(json.loads(recorded.stdout)["peak_bytes"] * 9 // 10)], capture_output=True, text=True)
        self.assertEqual(planned.returncode, 0, planned.stderr)
        moved = [module["fqn"] for module in json.loads(policy.read_text())["modules"] if "offload" in module]
        self.assertEqual(moved, ["Llama.layers.1"])
        executed = self.run_script(_LLAMA, *how, "--policy", policy, arguments=("fsdp2", "blocks"))
        self.assertEqual(executed.returncode, 0, executed.stderr)
        subprocess.run([HEADROOM, "verify", step, "--executed", self.step, "--policy", policy], check=True)

    def test_checkpointed_blocks_recompute_attention_with_its_random_state(self):
        self.assertEqual(self.check("fsdp2", "checkpointed"), 1)

    def test_flat_parameters(self):
        self.check("fsdp1", "model")

    def test_data_parallel_has_a_graph_for_each_bucket(self):
        self.assertGreater(self.check("ddp", "model"), 1)


_PYTHON_REDUCER = """
    import os, torch
    import torch.distributed
    from torch import nn
    torch._dynamo.config.optimize_ddp = "python_reducer"
    torch._dynamo.config.compiled_autograd = True
    torch.distributed.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)).cuda()
    model = nn.parallel.DistributedDataParallel(model, device_ids=[torch.cuda.current_device()])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    @torch.compile
    def train(x):
        model(x).square().mean().backward()
    while True:
        train(torch.randn(512, 256, device="cuda"))
        optimizer.step()
        optimizer.zero_grad()
"""


class CompiledAutograd(Recorded):
    def test_its_graph_reduces_the_gradients(self):
        document = self.recorded(_PYTHON_REDUCER, "--nproc-per-node", "2")
        rows = subprocess.run([HEADROOM, "ops", self.step, "--json"], capture_output=True, text=True, check=True)
        reductions = [op for op in json.loads(rows.stdout)["ops"] if "all_reduce" in op["name"]]
        self.assertEqual({op["phase"] for op in reductions}, {"backward"})
        parameters = 4 * (2 * 256 * 1024 + 256 + 1024)
        self.assertEqual(sum(op["read_bytes"] for op in reductions), parameters)
        self.assertNotIn("compiled autograd", " ".join(document["remarks"]))


if __name__ == "__main__":
    unittest.main()
