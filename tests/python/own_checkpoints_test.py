# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A script that checkpoints some of its modules itself: its recomputation is not the plan's, and can be left out.

    own_checkpoints_test.py HEADROOM_PROGRAM
"""

import json
import os
import subprocess
import sys
import unittest

import support

support.need("torch")

from recorded_script import Recorded  # noqa: E402

_SCRIPT = """
    import os, torch_headroom, torch
    from torch import nn
    from torch.utils.checkpoint import checkpoint
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)) for _ in range(6))
        def forward(self, x):
            for i, block in enumerate(self.blocks):
                x = checkpoint(block, x, use_reentrant=False, preserve_rng_state=True) if i % 2 == 0 else block(x)
            return x
    net = Net().cuda()
    if "POLICY" in os.environ:
        torch_headroom.apply(net, os.environ["POLICY"])
    optimizer = torch.optim.AdamW(net.parameters())
    while True:
        net(torch.randn(4096, 256, device="cuda")).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
"""


class OwnCheckpoints(Recorded):
    program = ""

    def headroom(self, *arguments):
        result = subprocess.run([self.program, *map(str, arguments)], capture_output=True, text=True, cwd=self.folder.name)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout) if "--json" in arguments else result.stdout

    def test_a_plan_starts_from_them(self):
        budget = self.recorded(_SCRIPT)["peak_bytes"] * 9 // 10
        plain = self.step.rename(self.step.with_name("plain.hrs"))
        own = self.headroom("info", plain, "--json")["script_recompute_ms"]
        self.assertGreater(own, 0)
        self.assertIn(f"A plan starts from the script's own checkpoints: {own:.2f} ms of recomputation that stays",
                      self.headroom("info", plain))
        self.assertNotIn("left out", self.headroom("info", plain))
        policy = self.step.with_name("policy.json")
        plan = self.headroom("plan", plain, "--budget", budget, "-o", policy, "--json")
        self.assertEqual(plan["script_recompute_ms"], own)
        self.assertGreater(plan["recompute_ms"], 0)
        self.assertIn(f"Starts from   the script's own checkpoints: {own:.2f} ms of recomputation that stays",
                      self.headroom("plan", plain, "--budget", budget))
        os.environ["POLICY"] = str(policy)
        self.addCleanup(os.environ.pop, "POLICY")
        self.recorded(_SCRIPT)
        answer = self.headroom("verify", plain, "--executed", self.step, "--policy", policy, "--json")
        self.assertEqual(answer["reason"], "")
        self.assertAlmostEqual(answer["executed_recompute_ms"], plan["recompute_ms"], 9)

    def test_a_plan_of_ops_leaves_them_alone(self):
        self.recorded(_SCRIPT)
        plain = self.step.rename(self.step.with_name("plain.hrs"))
        policy = self.step.with_name("policy.json")
        plan = self.headroom("ops-plan", plain, "--memory-budget", 0.6, "-o", policy, "--json")
        self.assertEqual({module["reason"] for module in plan["not_checkpointable"]},
                         {"the program already checkpoints a part of the module"})
        again = {op["module"] for op in plan["recomputed"]}
        self.assertTrue(again)
        self.assertFalse({module for module in again if module.startswith(("Net.blocks.0", "Net.blocks.2", "Net.blocks.4"))})
        modules = [module["fqn"] for module in json.loads(policy.read_text())["modules"]]
        self.assertTrue(modules)
        self.assertLessEqual(set(modules), {"Net.blocks.1", "Net.blocks.3", "Net.blocks.5"})
        os.environ["POLICY"] = str(policy)
        self.addCleanup(os.environ.pop, "POLICY")
        self.recorded(_SCRIPT)
        answer = self.headroom("verify", plain, "--executed", self.step, "--policy", policy, "--json")
        self.assertEqual(answer["reason"], "")

    def test_a_checkpoint_of_functions_alone(self):
        """Nothing of a module runs again: a checkpoint of a single function runs no op again at all."""
        for function in "nn.functional.gelu", "lambda x: nn.functional.gelu(x).tanh()":
            with self.subTest(function):
                self.recorded(f"""
                    import torch
                    from torch import nn
                    from torch.utils.checkpoint import checkpoint
                    class Block(nn.Module):
                        def __init__(self):
                            super().__init__()
                            self.up, self.down = nn.Linear(256, 1024), nn.Linear(1024, 256)
                        def forward(self, x):
                            return self.down(checkpoint({function}, self.up(x), use_reentrant=False))
                    net = nn.Sequential(Block(), Block()).cuda()
                    while True:
                        net(torch.randn(4096, 256, device="cuda")).pow(2).mean().backward()
                        net.zero_grad()
                    """)
                plan = self.headroom("ops-plan", self.step, "--memory-budget", 0.6, "--json")
                self.assertEqual({module["module"]: module["reason"] for module in plan["not_checkpointable"]},
                                 dict.fromkeys(("Sequential", "Sequential.0", "Sequential.1"),
                                               "the program already checkpoints a part of the module"))

    def test_they_are_left_out_where_that_is_asked_for(self):
        own = self.recorded(_SCRIPT)["peak_bytes"]
        without = self.recorded(_SCRIPT, "--without-checkpointing")
        self.assertGreater(without["peak_bytes"], own)
        self.assertEqual(without["peak_bytes"], self.recorded(_SCRIPT.replace("i % 2 == 0", "False"))["peak_bytes"])
        self.recorded(_SCRIPT, "--without-checkpointing")
        self.assertIn("--without-checkpointing", self.noted("arguments"))
        info = self.headroom("info", self.step, "--json")
        self.assertNotIn("script_recompute_ms", info)
        self.assertEqual(info["without_checkpointing"], True)
        self.assertIn("The script's own checkpoints were left out (--without-checkpointing).", self.headroom("info", self.step))


if __name__ == "__main__":
    OwnCheckpoints.program = os.path.abspath(sys.argv.pop(1))
    unittest.main()
