# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""CUDA graphs on the simulated GPU: those of torch.compile and those of the program (torch_headroom/_simulate/cuda_graphs.py).

    cuda_graphs_test.py HEADROOM
"""

import contextlib
import gc
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import support

support.need("torch", "triton")
torch = support.simulated("a100-80gb")

import torch_headroom  # noqa: E402
from torch import nn  # noqa: E402

HEADROOM = sys.argv.pop()
MIB = 1 << 20
ROWS, WIDTH, WIDE = 4096, 1024, 4096  # 16 MiB and 64 MiB of float32


def perceptron():
    return nn.Sequential(nn.Linear(WIDTH, WIDE), nn.GELU(), nn.Linear(WIDE, WIDTH)).cuda()


def pools():
    """Bytes of segments by pool; pool 0 is the usual one."""
    result = {}
    for segment in torch.cuda.memory_snapshot():
        pool = segment["segment_pool_id"][1]
        result[pool] = result.get(pool, 0) + segment["total_size"]
    return result


@contextlib.contextmanager
def step_file(step, steps=4):
    """The step file of the last of these steps."""
    gc.collect()  # the model of a run before, which its compiled code refers to in a cycle
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "step.hrs"
        with torch_headroom.record(path) as recording:
            for _ in range(steps):
                step()
                recording.step()
        yield path


def recorded(step, steps=4):
    """What `torch-headroom info` says of the last of these steps."""
    found = {}
    with step_file(step, steps) as path:
        for command in ("info", "ops"):
            ran = subprocess.run([HEADROOM, command, path, "--json"], capture_output=True, text=True, check=True)
            found |= json.loads(ran.stdout)
    return found


class Graphs(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        gc.collect()
        torch.cuda.empty_cache()
        self.start, _ = support.tensor_bytes()


def trained(**options):
    """What a training step of the perceptron takes, compiled."""
    model, x = perceptron(), torch.randn(ROWS, WIDTH, device="cuda")
    run = torch.compile(model, **options)

    def step():
        run(x).square().mean().backward()
        model.zero_grad()

    return recorded(step)


class Blocks(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(perceptron() for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return x


class Plans(Graphs):
    """CUDA graphs keep what is saved until a later graph begins, so that the memory under a checkpoint is not known."""

    def planned(self, mode, *options):
        model, x = Blocks(), torch.randn(ROWS, WIDTH, device="cuda")
        for place, layer in enumerate(model.layers):
            model.layers[place] = torch.compile(layer, mode=mode)

        def step():
            torch.compiler.cudagraph_mark_step_begin()
            model(x).square().mean().backward()
            model.zero_grad()

        with step_file(step) as path:
            return subprocess.run([HEADROOM, "plan", path, *options, "--json"], capture_output=True, text=True)

    def test_graphed_blocks_are_not_checkpointed(self):
        plain, graphs = self.planned("default", "--budget", "1"), self.planned("reduce-overhead", "--budget", "1")
        self.assertEqual((plain.returncode, graphs.returncode), (3, 3))
        self.assertLess(json.loads(plain.stdout)["least_budget_bytes"], json.loads(graphs.stdout)["least_budget_bytes"])
        self.assertNotIn("CUDA graphs", plain.stdout + plain.stderr)
        reasons = {entry["module"]: entry["reason"] for entry in json.loads(graphs.stdout)["not_checkpointable"]}
        self.assertLessEqual({f"Blocks.layers.{layer}" for layer in range(3)}, reasons.keys())
        self.assertIn("CUDA graphs run ops of the module", reasons["Blocks.layers.1"])
        self.assertIn("CUDA graphs run ops of the module", graphs.stderr)
        pinned = self.planned("reduce-overhead", "--budget", "1GiB", "--pin", "Blocks.layers.1=recompute")
        self.assertEqual(pinned.returncode, 2)
        self.assertIn("CUDA graphs run ops of the module", pinned.stderr)


class OfCompile(Graphs):
    """By hand, after torch/_inductor/cudagraph_trees.py: the first run is eager in the pool, the second is captured
    with copies of the inputs that are not parameters, later ones are replayed on the same memory."""

    def test_pool_and_peak_by_hand(self):
        usual, graphs = trained(), trained(mode="reduce-overhead")
        # The warm-up takes segments of 64 + 64 + 16 MiB forward, 64 MiB more backward and 2 MiB for small ones. The
        # capture's copy of x takes the one of 16 MiB, the result takes a part of the last one, as do later the copy of
        # the tangent and the second weight's gradient: GELU's gradient takes another one of 64 MiB.
        self.assertEqual(graphs["private_pool_bytes"], (4 * 64 + 16 + 2) * MIB)
        # Backward: x and its copy, before and after GELU, the tangent and its copy, GELU's gradient and the second
        # weight's; the loss and its gradient take a block each. From torch 2.15 on, autograd hands tangents over
        # (boxed_grads_call), so that this one is gone once it is copied.
        handed_over = hasattr(torch.autograd.Function, "boxed_grads_call")
        parameters = 4 * (2 * WIDTH * WIDE + WIDTH + WIDE)
        tensors = (5 - handed_over) * 16 + 3 * 64
        self.assertEqual(graphs["peak_bytes"], self.start + parameters + tensors * MIB + 2 * 512)
        self.assertEqual(graphs["peak_bytes"] - usual["peak_bytes"], (2 - handed_over) * 16 * MIB)
        self.assertNotIn("private_pool_bytes", usual)
        # Beside the pool: two weights and x, 2 MiB for small ones, and four tensors of the loss's eager backward.
        # cuBLAS's workspace lies in what the capture left of a segment.
        self.assertEqual(graphs["reserved_peak_bytes"], graphs["private_pool_bytes"] + (3 * 16 + 2 + 4 * 16) * MIB)
        self.assertEqual(graphs["card"]["reserved_peak_bytes"], graphs["reserved_peak_bytes"])
        self.assertEqual(graphs["remarks"], usual["remarks"])

    def test_every_op_of_a_replay_is_one_of_the_step(self):
        usual, graphs = trained(), trained(mode="reduce-overhead")

        copies = "aten.empty_strided.default", "aten._foreach_copy_.default"

        def kernels(step):
            return sorted(op["name"] for op in step["ops"] if op["name"] not in copies)

        self.assertEqual(kernels(graphs), kernels(usual))
        self.assertEqual(len([op for op in graphs["ops"] if op["name"] == "aten._foreach_copy_.default"]), 2)

    def test_a_result_that_the_program_keeps_is_overwritten(self):
        kept = []

        def train(keep):
            model, x = perceptron(), torch.randn(ROWS, WIDTH, device="cuda")
            run = torch.compile(model, mode="reduce-overhead")

            def step():
                out = run(x)
                out.square().mean().backward()
                model.zero_grad()
                if keep:
                    kept[:] = [out]

            return recorded(step)["peak_bytes"]

        without = train(False)
        torch._dynamo.reset()
        self.assertEqual(train(True), without)

    def test_reading_an_overwritten_result_is_the_error_of_the_card(self):
        run = torch.compile(perceptron(), mode="reduce-overhead")
        x = torch.randn(ROWS, WIDTH, device="cuda")
        with torch.no_grad():
            first = run(x)
            run(x)
        with self.assertRaisesRegex(RuntimeError, "overwritten by a subsequent run"):
            first + 1

    def test_the_pool_outlives_the_cache_and_goes_with_its_graphs(self):
        run = torch.compile(perceptron(), mode="reduce-overhead")
        x = torch.randn(ROWS, WIDTH, device="cuda")
        with torch.no_grad():
            for _ in range(3):
                run(x)
        (number,) = set(pools()) - {0}
        torch.cuda.empty_cache()
        # GELU's input and, in place, its result; the copy of x, then the result.
        self.assertEqual(pools()[number], (64 + 16) * MIB)
        del run
        torch._dynamo.reset()
        gc.collect()
        torch.cuda.empty_cache()
        self.assertEqual(set(pools()) - {0}, set())


class OfTheProgram(Graphs):
    def test_a_replay_runs_the_ops_on_the_same_memory(self):
        model, x = perceptron(), torch.randn(ROWS, WIDTH, device="cuda")
        graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(graph):
            y = model(x)
        (number,) = set(pools()) - {0}
        # Before GELU, after it, the result in a part of the first.
        self.assertEqual(pools()[number], 2 * 64 * MIB)
        before = pools()
        step = recorded(graph.replay)
        self.assertEqual(pools(), before)
        self.assertEqual([op["name"] for op in step["ops"] if "addmm" in op["name"] or "gelu" in op["name"]],
                         ["aten.addmm.default", "aten.gelu.default", "aten.addmm.default"])
        self.assertEqual(step["private_pool_bytes"], 2 * 64 * MIB)
        state = self.start + 4 * (2 * WIDTH * WIDE + WIDTH + WIDE) + 16 * MIB
        self.assertEqual(step["peak_bytes"], state + 2 * 64 * MIB)
        self.assertEqual(y.shape, (ROWS, WIDTH))
        self.assertEqual(y.untyped_storage().nbytes(), 16 * MIB)

    def test_known_values_follow(self):
        x = torch.tensor([1, 2, 3], device="cuda")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = x * 2
        x.copy_(torch.tensor([4, 5, 6]))
        graph.replay()
        self.assertEqual(y.tolist(), [8, 10, 12])

    def test_streams_that_join_a_capture(self):
        x = torch.tensor([1, 2, 3], device="cuda")
        large = torch.zeros(16 * MIB, dtype=torch.uint8, device="cuda")
        graph, main, side, other = torch.cuda.CUDAGraph(), *(torch.cuda.Stream() for _ in range(3))
        main.wait_stream(torch.cuda.current_stream())
        with torch.cuda.graph(graph, stream=main):
            y = x * 2
            side.wait_stream(main)
            with torch.cuda.stream(side):
                z = x + 1
                dropped = large + 1
                del dropped
            with torch.cuda.stream(other):  # it has not joined
                apart = x + 5
            main.wait_stream(side)
            total = y + z
        (number,) = set(pools()) - {0}
        streams = {s["stream"] for s in torch.cuda.memory_snapshot() if s["segment_pool_id"][1] == number}
        self.assertEqual(streams, {main.stream_id, side.stream_id})
        before = pools()
        x.copy_(torch.tensor([4, 5, 6]))
        current = torch.cuda.current_stream()
        step = recorded(graph.replay, 1)
        self.assertEqual(torch.cuda.current_stream(), current)
        self.assertEqual(total.tolist(), [13, 16, 19])
        self.assertEqual(apart.tolist(), [6, 7, 8])
        self.assertEqual(pools(), before)
        self.assertEqual(len([op for op in step["ops"] if op["name"] in ("aten.add.Tensor", "aten.mul.Tensor")]), 4)

    def test_the_default_stream_is_not_captured(self):
        with self.assertRaisesRegex(RuntimeError, "must be captured on a non-default stream"):
            torch.cuda.CUDAGraph().capture_begin()

    def test_memory_that_is_gone(self):
        x = torch.randn(ROWS, WIDTH, device="cuda")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = x * 2
        del x
        with self.assertRaisesRegex(torch_headroom.HeadroomError, "aten::mul on memory that the program has freed"):
            graph.replay()
        del y

    def test_graphed_callables(self):
        """Forward and backward are graphs of one pool: what is saved between them lies there."""
        model, x = perceptron(), torch.randn(ROWS, WIDTH, device="cuda", requires_grad=True)
        graphed = torch.cuda.make_graphed_callables(model, (x,))
        data = torch.randn(ROWS, WIDTH, device="cuda")

        def step():
            graphed(data).square().mean().backward()
            model.zero_grad()

        step = recorded(step)
        backward = [op["name"] for op in step["ops"] if op["phase"] == "backward"]
        self.assertEqual(backward.count("aten.mm.default"), 4)
        self.assertIn("aten.gelu_backward.default", backward)
        self.assertGreater(step["private_pool_bytes"], 3 * 64 * MIB)

    def check_nothing_is_left_out(self, step):
        remarks = recorded(step)["remarks"]
        self.assertFalse([remark for remark in remarks if "ran without" in remark], remarks)

    def test_no_module_of_a_replayed_graph_is_left_out(self):
        model, x, steps = nn.Sequential(perceptron()), torch.randn(ROWS, WIDTH, device="cuda"), []

        def step():
            if len(steps) == 1:
                model[0] = torch.cuda.make_graphed_callables(model[0], (torch.randn_like(x),))
            steps.append(model(x).sum().backward())
            model.zero_grad()

        self.check_nothing_is_left_out(step)

    def test_no_module_of_an_earlier_recording_is_left_out(self):
        for model in perceptron(), nn.Linear(WIDTH, 8, device="cuda"):
            self.check_nothing_is_left_out(lambda: model(torch.randn(8, WIDTH, device="cuda")).sum().backward())


class Pools(Graphs):
    def test_a_mem_pool_has_segments_of_its_own(self):
        torch.empty(4 * MIB, dtype=torch.uint8, device="cuda")
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            x = torch.empty(4 * MIB, dtype=torch.uint8, device="cuda")
        self.assertEqual(sum(segment["total_size"] for segment in pool.snapshot()), 20 * MIB)
        del x
        torch.cuda.empty_cache()
        self.assertEqual(len(pool.snapshot()), 1)
        number = pool.id[1]
        del pool
        torch.cuda.empty_cache()
        self.assertNotIn(number, pools())


class WithoutTrees(Graphs):
    """Comes last: PyTorch's caches of generated code keep these graphs."""

    def test_without_trees(self):
        with torch._inductor.config.patch({"triton.cudagraphs": True, "triton.cudagraph_trees": False}):
            self.assertGreater(trained()["private_pool_bytes"], 3 * 64 * MIB)

    def test_by_another_backend(self):
        self.assertGreater(trained(backend="cudagraphs")["private_pool_bytes"], 3 * 64 * MIB)


if __name__ == "__main__":
    unittest.main()
