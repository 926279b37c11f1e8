# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `plan` offers, `apply` takes and runs as predicted; what it cannot offer, it refuses by name. Programs that once
were another case.

    plan_and_apply_test.py HEADROOM
"""

import json
import os
import pathlib
import subprocess
import sys
import unittest

import support

support.need("torch", "triton")

from recorded_script import Recorded  # noqa: E402

HEADROOM = sys.argv.pop()
FAULTS = pathlib.Path(__file__).with_name("faults")
EIGHT_RANKS = "--nproc-per-node", "8"

_IMPLICIT = """
    import torch
    from torch import nn
    class Solve(torch.autograd.Function):
        @staticmethod
        def forward(ctx, cell, z, x, *parameters):
            for _ in range(4):
                z = cell(z, x)
            ctx.cell = cell
            ctx.save_for_backward(z, x)
            return z
        @staticmethod
        def backward(ctx, gradient):
            z, x = (t.detach().requires_grad_() for t in ctx.saved_tensors)
            with torch.enable_grad():
                f = ctx.cell(z, x)
            v = gradient
            for _ in range(4):
                v = gradient + torch.autograd.grad(f, z, v, retain_graph=True)[0]
            parameters = list(ctx.cell.parameters())
            of_x, *rest = torch.autograd.grad(f, [x, *parameters], v)
            return None, None, of_x, *rest
    class Cell(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(256, 1024), nn.Linear(1024, 256)
        def forward(self, z, x):
            return torch.tanh(self.b(torch.relu(self.a(z))) + x)
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = Cell()
        def forward(self, x):
            return Solve.apply(self.cell, torch.zeros_like(x), x, *self.cell.parameters())
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(256, 1024), nn.Linear(1024, 256)
        def forward(self, x):
            return x + self.b(torch.relu(self.a(x)))
    net = nn.Sequential(Block(), Block(), Layer(), Block()).cuda()
    optimizer = torch.optim.AdamW(net.parameters())
    if POLICY:
        import torch_headroom
        torch_headroom.apply(net, POLICY)
    for _ in range(3):
        net(torch.randn(4096, 256, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
"""

_SAVED_VIEWS = """
    import os
    import torch
    from torch import nn
    class Gate(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            rows = a.view(-1, a.shape[-1])
            ctx.save_for_backward(rows)
            return (rows * rows).view(a.shape)
        @staticmethod
        def backward(ctx, gradient):
            rows, = ctx.saved_tensors
            return 2 * rows.view(gradient.shape) * gradient
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.down = nn.Linear(256, 1024, bias=False), nn.Linear(1024, 256, bias=False)
        def forward(self, x):
            return x + self.down(Gate.apply(self.up(x)))
    net = nn.Sequential(*[Block() for _ in range(6)]).cuda()
    if "POLICY" in os.environ:
        import torch_headroom
        torch_headroom.apply(net, os.environ["POLICY"])
    optimizer = torch.optim.SGD(net.parameters())
    for _ in range(3):
        net(torch.randn(4, 1024, 256, device="cuda", requires_grad=True)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
"""

_CALLED_IN_BACKWARD = """
    import os
    import torch
    from torch import nn
    from torch.utils.checkpoint import checkpoint
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256))
            self.cell = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256))
        def forward(self, x):
            z = self.first(x)
            if os.environ["HOW"] != "hook":
                return checkpoint(self.cell, z, use_reentrant=os.environ["HOW"] == "reentrant")
            z = self.cell(z)
            def solve(gradient):
                with torch.enable_grad():
                    y = torch.zeros_like(gradient, requires_grad=True)
                    f = self.cell(y)
                return gradient + torch.autograd.grad(f, y, gradient)[0]
            z.register_hook(solve)
            return z
    net = Net().cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        net(torch.randn(512, 256, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
"""

_WAITING_GRADIENTS = """
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.distributed.fsdp import fully_shard
    torch.cuda.set_device(0)
    dist.init_process_group("nccl")
    net = nn.Sequential(*(nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 1024)) for _ in range(4))).cuda()
    for block in net:
        fully_shard(block)
    fully_shard(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        for i in range(2):
            net.set_requires_gradient_sync(i == 1)
            net(torch.randn(16, 1024, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
"""


class Offered(Recorded):
    def setUp(self):
        super().setUp()
        self.executed, self.policy = (self.step.with_name(name) for name in ("run.hrs", "policy.json"))

    def run_fault(self, name, *options, path=None, **environment):
        path = path or FAULTS / name
        command = [str(self.executed) if word == self.step and "POLICY" in environment else word
                   for word in self.command(path, "--json", "--gpu", "a100-80gb", *options)]
        return self.run_recorder(command, **environment)

    def record(self, name, *options, **environment):
        result = self.run_fault(name, *options, **environment)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def headroom(self, *arguments):
        return subprocess.run([HEADROOM, *map(str, arguments)], capture_output=True, text=True)

    def plan(self, budget, *options):
        return self.headroom("plan", self.step, "--budget", budget, "-o", self.policy, "--json", *options)

    def least(self):
        return json.loads(self.plan(1).stdout)["least_budget_bytes"]

    def check_offered(self, recorded, name, *options, **environment):
        """A plan between the least budget and the peak is executed within its budget, and as predicted after each
        allocation."""
        budget = (self.least() + recorded["peak_bytes"]) // 2
        planned = self.plan(budget)
        self.assertEqual(planned.returncode, 0, planned.stderr)
        self.assertTrue(json.loads(self.policy.read_text())["modules"])
        executed = self.record(name, *options, POLICY=str(self.policy), **environment)
        self.assertLessEqual(executed["peak_bytes"], budget)
        verified = json.loads(self.headroom("verify", self.step, "--executed", self.executed, "--policy", self.policy,
                                            "--json").stdout)
        self.assertEqual(verified["reason"], "")

    def check_refused(self, recorded, *sentences):
        """No plan saves anything, and the reason is named."""
        planned = self.plan(recorded["peak_bytes"] * 9 // 10)
        self.assertEqual(planned.returncode, 3, planned.stdout + planned.stderr)
        for sentence in sentences:
            self.assertIn(sentence, planned.stderr)

    def test_quantization_that_updates_its_range(self):
        self.check_refused(self.record("k_qat.py"), "computes with a state that the op itself changes")

    def test_a_layer_that_runs_twice_under_autocast(self):
        for kind in "attention", "layer":
            with self.subTest(kind):
                self.check_offered(self.record("k_loop2.py", KIND=kind), "k_loop2.py", KIND=kind)

    def test_blocks_that_checkpoint_parts_of_themselves(self):
        recorded = self.record("k_gc_flag.py")
        self.check_offered(recorded, "k_gc_flag.py")
        planned = json.loads(self.plan(self.least()).stdout)
        self.assertEqual(set(planned["decisions"]), {"Sequential.1.upsampler"})
        self.assertEqual({entry["module"] for entry in planned["not_checkpointable"]},
                         {"Sequential", "Sequential.1", "Sequential.2"})

    def test_a_model_that_reads_the_cards_memory(self):
        recorded = self.record("k_free_mem.py")
        remark = ("the model reads the card's memory while it computes (mem_get_info, memory_reserved, memory_allocated, in "
                  "Sequential.0.0, Sequential.1.0 and 4 more)")
        self.assertTrue(any(remark in said for said in recorded["remarks"]), recorded["remarks"])
        self.assertIn(remark, self.headroom("info", self.step).stdout)
        budget = recorded["peak_bytes"] * 85 // 100
        self.assertIn(remark, " ".join(json.loads(self.plan(budget).stdout)["remarks"]))
        self.assertIn(f"Remark        {remark}", self.headroom("plan", self.step, "--budget", budget).stdout)
        self.assertIn(f"Remark        {remark}", self.headroom("plan", self.step, "--budget", 1).stdout)
        document = json.loads(self.policy.read_text())
        self.assertEqual(document["memory_readers"], [f"Sequential.{i}.0" for i in range(6)])
        for entry in document["modules"]:  # as if the split had been another one
            entry["ops"].append({"op": "aten.bmm.default", "index": sum(op["op"] == "aten.bmm.default"
                                                                       for op in entry["ops"]), "save": True})
        self.policy.write_text(json.dumps(document))
        applied = self.run_fault("k_free_mem.py", POLICY=str(self.policy))
        self.assertEqual(applied.returncode, 2)
        self.assertIn("use a fixed number in place of the card's memory (a chunk size) first", applied.stderr)
        self.assertNotIn("as now", applied.stderr)

    def test_a_model_that_keeps_a_size_from_the_first_step(self):
        script = self.written("""
            import torch
            class Chunked(torch.nn.Linear):
                chunks = None
                def forward(self, x):
                    self.chunks = self.chunks or min(8, torch.cuda.mem_get_info()[0] >> 33)
                    return torch.cat([super(Chunked, self).forward(part) for part in x.chunk(self.chunks)])
            net = torch.nn.Sequential(Chunked(64, 64), torch.nn.ReLU()).cuda()
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            for _ in range(3):
                net(torch.randn(64, 64, device="cuda")).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
        """)
        [remark] = json.loads(self.run_fault("", path=script).stdout)["remarks"]
        self.assertIn("reads the card's memory while it computes (mem_get_info, in Sequential.0)", remark)

    def test_a_loop_that_prints_the_cards_memory_is_none(self):
        script = self.written("""
            import torch
            net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU()).cuda()
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            for _ in range(3):
                loss = net(torch.randn(8, 64, device="cuda")).sum()
                print(torch.cuda.memory_allocated(), torch.cuda.mem_get_info())
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
        """)
        self.assertEqual(json.loads(self.run_fault("", path=script).stdout)["remarks"], [])

    def test_a_graph_of_the_step_before(self):
        recorded = self.record("k_carry.py")
        note = "of activations that the step before left alive in a graph without a backward"
        refused = self.plan(1)
        self.assertIn(note, refused.stderr)
        self.assertIn(note, " ".join(json.loads(refused.stdout)["remarks"]))
        self.assertIn(note, self.headroom("plan", self.step, "--budget", recorded["peak_bytes"]).stdout)

    def test_two_models_of_one_class(self):
        recorded = self.record("k_two_models.py")
        budget = recorded["peak_bytes"] * 9 // 10
        self.assertEqual(self.plan(budget, "--pin", "models.Net_2=save").returncode, 0)
        document = json.loads(self.policy.read_text())
        self.assertEqual(({module["fqn"].partition(".")[0] for module in document["modules"]}, document["objects_left"]),
                         ({"Net"}, ["Net_2"]))
        refused = self.run_fault("k_two_models.py", POLICY=str(self.policy))
        self.assertIn("the step had Net, Net_2 (in the order of first calls), each fits this Net, and the plan "
                      "checkpoints only Net: name the object", refused.stderr)
        executed = self.record("k_two_models.py", POLICY=str(self.policy), OBJECT="Net")
        self.assertLessEqual(executed["peak_bytes"], budget)
        plain = self.record("k_two_models.py", POLICY=str(self.policy), OBJECT="Net_2")
        self.assertEqual(plain["peak_bytes"], recorded["peak_bytes"])

    def test_a_compiled_model_with_breaks(self):
        recorded = self.record("brk.py")
        self.check_refused(recorded, "torch.compile compiled the module as a part of a larger graph",
                           "torch_headroom.record --activation-memory-budget 0.25,0.5,0.75")

    def test_a_compiled_model_under_fully_shard(self):
        recorded = self.record("comp_root.py", *EIGHT_RANKS, HOW="wrapper")
        self.check_refused(recorded, "torch_headroom.record --activation-memory-budget 0.25,0.5,0.75")
        self.check_offered(self.record("comp_root.py", *EIGHT_RANKS, HOW="none"), "comp_root.py", *EIGHT_RANKS, HOW="none")

    def test_compiled_blocks_under_fully_shard_that_get_another_dtype(self):
        for named in "", "1":
            with self.subTest(named=named):
                options = "compiled_block_cast.py", *EIGHT_RANKS
                self.check_offered(self.record(*options, NAMED=named), *options, NAMED=named)

    def test_gradients_inside_of_a_backward_are_no_checkpoints(self):
        script = self.written(_IMPLICIT.replace("POLICY", "__import__('os').environ.get('POLICY')"))
        recorded = json.loads(self.run_fault("", path=script).stdout)
        info = self.headroom("info", self.step)
        self.assertNotIn("own checkpoints", info.stdout)
        self.assertNotIn("script_recompute_ms", self.headroom("info", self.step, "--json").stdout)
        planned = json.loads(self.plan(self.least()).stdout)
        reasons = {entry["module"]: entry["reason"] for entry in planned["not_checkpointable"]}
        self.assertEqual(reasons, {
            name: "backward runs the module, or a part of the module, to take further gradients (as in an implicit layer)"
            for name in ("Sequential", "Sequential.2", "Sequential.2.cell")})
        executed = json.loads(self.run_fault("", path=script, POLICY=str(self.policy)).stdout)
        self.assertLess(executed["peak_bytes"], recorded["peak_bytes"])
        verified = json.loads(self.headroom("verify", self.step, "--executed", self.executed, "--policy", self.policy,
                                            "--json").stdout)
        self.assertEqual(verified["reason"], "")

    def test_a_view_that_a_function_saves_is_freed(self):
        """Without a graph, a view of what requires a gradient is a leaf that requires one, too."""
        script = self.written(_SAVED_VIEWS)
        self.assertEqual(self.run_fault("", path=script).returncode, 0)
        planned = json.loads(self.plan(self.least()).stdout)
        executed = json.loads(self.run_fault("", path=script, POLICY=str(self.policy)).stdout)
        self.assertEqual(executed["peak_bytes"], planned["peak_bytes"])

    def test_an_implicit_layer_by_a_hook(self):
        """A module that a hook calls in backward is no recomputation; one under a checkpoint, of either kind, is."""
        for how, own in ("hook", 0), ("reentrant", 1), ("checkpoint", 1):
            with self.subTest(how=how):
                result = self.run_fault("", path=self.written(_CALLED_IN_BACKWARD), HOW=how)
                self.assertEqual(result.returncode, 0, result.stderr)
                info = json.loads(self.headroom("info", self.step, "--json").stdout)
                self.assertEqual(info.get("script_recompute_ms", 0) > 0, bool(own))

    def test_gradients_that_wait_for_their_reduction(self):
        script = self.written(_WAITING_GRADIENTS)
        result = self.run_fault("", *EIGHT_RANKS, path=script)
        self.assertEqual(result.returncode, 0, result.stderr)
        refused = self.plan(1)
        self.assertIn("most of that is gradients of whole parameters that wait for the reduction", refused.stderr)
        self.assertNotIn("smaller batch", refused.stderr)


if __name__ == "__main__":
    unittest.main()
