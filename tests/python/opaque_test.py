# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernels that are not PyTorch's (torch_kernels/launches.py) are ops of the step.

    opaque_test.py HEADROOM
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import support

torch = support.simulated("a100-80gb")

import torch_headroom  # noqa: E402
from torch import nn  # noqa: E402
from torch_headroom._kernels import launches  # noqa: E402

HEADROOM = sys.argv.pop()
ROWS, COLUMNS = 4096, 4096
BYTES = ROWS * COLUMNS * 4
FLOPS = 10**12


class Scale(torch.autograd.Function):
    """As libraries call their kernels."""

    @staticmethod
    def forward(context, x):
        out, saved = torch.empty_like(x), torch.empty_like(x)
        launches.launch("_scale_forward", [x], [out, saved])
        context.save_for_backward(saved)
        return out

    @staticmethod
    def backward(context, gradient):
        (saved,) = context.saved_tensors
        result = torch.empty_like(gradient)
        launches.launch("_scale_backward", [gradient, saved], [result], flops=FLOPS)
        return result


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(COLUMNS, COLUMNS)

    def forward(self, x):
        return Scale.apply(torch.relu(self.inner(Scale.apply(x))))


def headroom(*arguments):
    finished = subprocess.run([HEADROOM, *map(str, arguments)], capture_output=True, text=True)
    if finished.returncode:
        raise AssertionError(f"{arguments}: {finished.stderr or finished.stdout}")
    return finished.stdout


def record(path, policy=None):
    model = nn.Sequential(*(Block() for _ in range(6))).cuda()
    if policy:
        torch_headroom.apply(model, policy)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with torch_headroom.record(path) as recording:
        for _ in range(2):
            model(torch.randn(ROWS, COLUMNS, device="cuda", requires_grad=True)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            recording.step()
    return recording.summary


class InAStep(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.step = cls.folder / "step.hrs"
        cls.summary = record(cls.step)

    def test_it_is_an_op_of_its_module_with_its_bytes_and_flops(self):
        ops = json.loads(headroom("ops", self.step, "--json"))["ops"]
        (forward, *more), backward = ([op for op in ops if op["name"] == f"_scale_{way}"] for way in ("forward", "backward"))
        self.assertEqual((len(more) + 1, len(backward)), (12, 12))
        self.assertEqual((forward["read_bytes"], forward["written_bytes"]), (BYTES, 2 * BYTES))
        self.assertEqual((forward["module"], forward["class"], forward["phase"]), ("Sequential.0", "opaque", "forward"))
        self.assertEqual((backward[0]["flops"], backward[0]["phase"]), (FLOPS, "backward"))
        # As fast as its bytes, or its flops at half of the card's rate in TensorFloat-32.
        self.assertAlmostEqual(backward[0]["ms"], FLOPS / 156e9 / 0.5, delta=0.1)
        self.assertGreater(forward["ms"], 3 * BYTES / 2e9)

    def test_a_plan_is_executed_to_the_byte_and_prices_it(self):
        policy, executed = self.folder / "policy.json", self.folder / "executed.hrs"
        budget = self.summary["peak_bytes"] * 7 // 10
        plan = json.loads(headroom("plan", self.step, "--budget", budget, "-o", policy, "--json"))
        self.assertLessEqual(record(executed, policy)["peak_bytes"], budget)
        headroom("verify", self.step, "--executed", executed, "--policy", policy)
        again = [op for op in json.loads(headroom("ops", executed, "--json"))["ops"] if op["phase"] == "backward"]
        again = [op for op in again if op["name"] == "_scale_forward"]
        self.assertTrue(again)
        self.assertGreater(plan["recompute_ms"], sum(op["ms"] for op in again))

    def test_the_plan_by_op_leaves_it_where_it_is(self):
        plan = headroom("ops-plan", self.step, "--memory-budget", "0.8", "--json")
        self.assertNotIn("_scale", plan)


class TorchScript(unittest.TestCase):
    def test_its_fuser_makes_no_kernels(self):
        """It would from the second call on, with a compiler for the card."""
        torch._C._jit_set_texpr_fuser_enabled(True)

        @torch.jit.script
        def bias_gelu(bias, y):
            x = bias + y
            return x * 0.5 * (1.0 + torch.tanh(0.79788456 * x * (1 + 0.044715 * x * x)))

        bias, y = torch.zeros(COLUMNS, device="cuda", requires_grad=True), torch.ones(ROWS, COLUMNS, device="cuda")
        with torch_headroom.record(pathlib.Path(tempfile.mkdtemp()) / "step.hrs") as recording:
            for _ in range(4):
                bias_gelu(bias, y).sum().backward()
                recording.step()
        self.assertEqual(recording.summary["fallbacks"], [])
        self.assertEqual(bias.grad.shape, (COLUMNS,))


class Values(unittest.TestCase):
    def test_what_it_writes_is_forgotten(self):
        known = torch.tensor([3.0, 4.0], device="cuda")
        kept = torch.tensor([5.0], device="cuda")
        before = support.placeholder_values()
        self.assertEqual(known.sum().item(), 7)
        launches.launch("writes", [kept], [known])
        self.assertEqual(kept.item(), 5)
        self.assertEqual(support.placeholder_values(), before)
        known.sum().item()
        self.assertGreater(support.placeholder_values(), before)

    def test_it_allocates_nothing_and_leaves_versions(self):
        tensor = torch.ones(8, 8, device="cuda", requires_grad=True)
        view = tensor[2:4].view(-1)[3:]
        before = torch.cuda.memory_stats()["allocation.all.allocated"]
        version = tensor._version
        launches.launch("writes", [view], [tensor, view])
        self.assertEqual(torch.cuda.memory_stats()["allocation.all.allocated"], before)
        self.assertEqual(tensor._version, version)

    def test_launches_are_counted_by_how_their_time_was_guessed(self):
        tensor = torch.ones(8, device="cuda")
        launches.launch("counted", [], [tensor])
        launches.launch("counted", [tensor], [], flops=5)
        launches.launch("counted", [tensor], [], flops=5)
        self.assertEqual(launches.counts["counted", launches.BYTES], 1)
        self.assertEqual(launches.counts["counted", launches.FLOPS], 2)


class RegisteredInPython(unittest.TestCase):
    """A kernel that Python code registers for CUDA runs, with its scratch memory, whether it has a fake one or not."""

    def kernel(self, name):
        def run(x: torch.Tensor) -> torch.Tensor:
            out, scratch = torch.empty_like(x), torch.empty_like(x)
            launches.launch(name, [x], [out, scratch])
            return out

        return run

    def check(self, op, name):
        x = torch.ones(1 << 20, device="cuda")
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        op(x)
        self.assertEqual(torch.cuda.max_memory_allocated() - before, 2 * x.nbytes)
        self.assertEqual(launches.counts[name, launches.BYTES], 1)

    def test_custom_op(self):
        for name, types in (("one", "cuda"), ("several", ["cpu", "cuda"])):
            op = torch.library.custom_op(f"opaque_test::{name}", self.kernel(name), mutates_args=(), device_types=types)
            op.register_fake(torch.empty_like)
            self.check(op, name)

    def test_impl(self):
        torch.library.define("opaque_test::by_name", "(Tensor x) -> Tensor")
        torch.library.impl("opaque_test::by_name", "cuda")(self.kernel("by_name"))
        self.check(torch.ops.opaque_test.by_name, "by_name")
        library = torch.library.Library("opaque_test_library", "DEF")
        library.define("by_key(Tensor x) -> Tensor")
        library.impl("by_key", self.kernel("by_key"), "CUDA")
        self.check(torch.ops.opaque_test_library.by_key, "by_key")

    def test_a_package_with_compiled_libraries_keeps_the_sizes_alone(self):
        folder = pathlib.Path(tempfile.mkdtemp())
        (folder / "compiled_test").mkdir()
        (folder / "compiled_test" / "library.so").touch()
        (folder / "compiled_test" / "__init__.py").write_text(
            "import torch\n"
            "@torch.library.custom_op('compiled_test::op', mutates_args=(), device_types='cuda')\n"
            "def op(x: torch.Tensor) -> torch.Tensor:\n"
            "    raise AssertionError('there is no GPU')\n"
            "op.register_fake(torch.empty_like)\n")
        sys.path.insert(0, str(folder))
        self.addCleanup(sys.path.remove, str(folder))
        import compiled_test

        self.assertEqual(compiled_test.op(torch.ones(8, device="cuda")).shape, (8,))

    def test_what_the_user_says_comes_first(self):
        def declare(name):
            torch_headroom.opaque(f"opaque_test::{name}", results=lambda x: x.new_empty(3))

        for name, comes_first in (("before", True), ("after", False)):
            torch.library.define(f"opaque_test::{name}", "(Tensor x) -> Tensor")
            if comes_first:
                declare(name)
            torch.library.impl(f"opaque_test::{name}", "cuda")(self.kernel(name))
            if not comes_first:
                declare(name)
            op = getattr(torch.ops.opaque_test, name)
            self.assertEqual(op(torch.ones(8, device="cuda")).shape, (3,))


if __name__ == "__main__":
    unittest.main()
