# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""torch.compile on the simulated GPU: recorded as compiled (torch_headroom/_compile.py).

    compile_test.py HEADROOM
"""

import collections
import gc
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import support

support.need("torch", "triton")
torch = support.simulated("a100-80gb")

import torch_headroom  # noqa: E402
import triton  # noqa: E402
import triton.language as tl  # noqa: E402
from torch import nn  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.nn.attention.flex_attention import create_block_mask, flex_attention  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402
from torch_headroom import _compile  # noqa: E402
from wrapper_memory import Plan, rounded  # noqa: E402

HEADROOM = sys.argv.pop()
ROWS, WIDTH = 512, 256


class Block(nn.Module):
    def __init__(self, breaks=False):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.breaks = breaks

    def forward(self, x):
        y = self.norm(x)
        if self.breaks:
            torch._dynamo.graph_break()
        return x + self.down(F.gelu(self.up(y)))


class Attention(nn.Module):
    def __init__(self, attend):
        super().__init__()
        self.qkv, self.attend = nn.Linear(WIDTH, 3 * WIDTH), attend

    def forward(self, x, mask):
        q, k, v = (t.view(1, -1, 4, 64).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        return self.attend(q, k, v, block_mask=mask).transpose(1, 2).reshape(x.shape)


class Net(nn.Module):
    def __init__(self, layers=2, classes=1000, **options):
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.blocks = nn.ModuleList(Block(**options) for _ in range(layers))
        self.head = nn.Linear(WIDTH, classes)

    def forward(self, x, y):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(x), y)


def batch(rows=ROWS, classes=1000):
    return torch.randn(rows, WIDTH, device="cuda"), torch.randint(0, classes, (rows,), device="cuda")


class Recorded:
    """Steps of a program, the last of which was recorded."""

    def __init__(self, step, steps=2):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "step.hrs"
            with torch_headroom.record(path) as recording:
                for _ in range(steps):
                    step()
                    recording.step()
            self.summary = recording.summary
            self.notes = recording.summary["remarks"]
            found = subprocess.run([HEADROOM, "ops", path, "--json"], capture_output=True, text=True, check=True)
        self.ops = json.loads(found.stdout)["ops"]
        self.peak = self.summary["peak_bytes"]

    def named(self, part):
        return [op for op in self.ops if part in op["name"]]

    @property
    def kernels(self):
        return self.named("triton_")


def training(model, optimizer=None, data=batch):
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1)

    def step():
        model(*data()).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def recorded(model, **named):
    return Recorded(training(model, **named))


class Compiled(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        gc.collect()


class Kernels(Compiled):
    def test_they_are_ops_of_the_step_with_their_bytes_and_modules(self):
        step = recorded(torch.compile(Net().cuda()))
        (gelu, _) = step.named("triton_poi_fused_gelu_1")
        self.assertEqual(gelu["module"], "Net.blocks.0")
        self.assertEqual((gelu["read_bytes"], gelu["written_bytes"]), (ROWS * 4 * WIDTH * 4,) * 2)
        self.assertEqual({op["phase"] for op in step.kernels}, {"forward", "backward"})
        modules = {op["module"] for op in step.ops if op["phase"] == "backward"}
        self.assertLessEqual({"Net.blocks.1.norm", "Net.blocks.1.up", "Net.head"}, modules)
        matmuls = step.named("aten.mm.out") + step.named("aten.addmm.out")
        self.assertEqual({op["module"] for op in matmuls if op["phase"] == "forward"},
                         {"Net.first", "Net.head", *(f"Net.blocks.{i}.{part}" for i in (0, 1) for part in ("up", "down"))})

    def test_what_follows_a_graph_is_not_of_its_last_module(self):
        model = torch.compile(Net().cuda())

        def step():
            model(*batch()).square().backward()

        (square,) = Recorded(step).named("aten.pow.Tensor_Scalar")[:1]
        self.assertEqual(square["module"], "Net")

    def test_compilation_is_none_of_it(self):
        model = Net().cuda()
        compiled = torch.compile(model)
        first, later = Recorded(training(compiled), steps=1), Recorded(training(compiled))

        def work(step):  # AOTAutograd detaches its inputs once
            return [op["name"] for op in step.ops if op["name"] != "aten.detach.default"]

        self.assertEqual(work(first), work(later))
        self.assertEqual(first.peak, later.peak)

    def test_regions_are_calls_of_their_modules(self):
        def by_torch_compile(model):
            for i, block in enumerate(model.blocks):
                model.blocks[i] = torch.compile(block)

        def in_place(model):
            for block in model.blocks:
                block.compile()

        for compile in (by_torch_compile, in_place):
            with self.subTest(compile.__name__):
                model = Net().cuda()
                compile(model)
                step = recorded(model)
                self.assertLessEqual({"Net.blocks.0.up", "Net.blocks.1.up", "Net.blocks.1.norm"},
                                     {op["module"] for op in step.ops if op["phase"] == "backward"})
                self.assertEqual(len(step.named("triton_poi_fused_gelu_1")), 2)

    def test_graph_breaks(self):
        step = recorded(torch.compile(Net(breaks=True).cuda()))
        self.assertEqual({op["module"] for op in step.named("layer_norm_") if op["phase"] == "forward"},
                         {"Net.blocks.0.norm", "Net.blocks.1.norm"})

    def test_functions(self):
        model = Net().cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        compiled = torch.compile(lambda x, y: model(x, y))

        def train():
            compiled(*batch()).backward()
            optimizer.step()
            optimizer.zero_grad()

        step = Recorded(train)
        self.assertEqual({op["module"] for op in step.named("triton_poi_fused_gelu")}, {"Net.blocks.0", "Net.blocks.1"})

    def test_dynamic_shapes(self):
        sizes = iter([512, 640, 768, 896])
        step = Recorded(training(torch.compile(Net().cuda(), dynamic=True), data=lambda: batch(next(sizes))), steps=3)
        (gelu, _) = step.named("triton_poi_fused_gelu_1")
        self.assertEqual(gelu["read_bytes"], 768 * 4 * WIDTH * 4)

    def test_optimizers(self):
        model = Net().cuda()
        optimizer = torch.optim.AdamW(model.parameters())
        update = torch.compile(lambda: optimizer.step())

        def step():
            model(*batch()).backward()
            update()
            optimizer.zero_grad()

        compiled = Recorded(step, steps=3)
        self.assertTrue(compiled.kernels)
        self.assertEqual({op["phase"] for op in compiled.kernels}, {"optimizer"})
        self.assertFalse(compiled.named("_foreach_addcdiv"))


class Memory(Compiled):
    """Inductor's plan, line by line of its code, is what the step took, to the byte."""

    def test_of_a_whole_step(self):
        sources = []
        graph = torch._inductor.graph.GraphLowering
        with mock.patch.object(graph, "save_output_code", staticmethod(sources.append)), \
                torch.compiler.config.patch(force_disable_caches=True):
            model = Net(layers=3).cuda()
            data = batch()
            step = recorded(torch.compile(model), data=lambda: data)
        forward = Plan(sources[0])
        backward = Plan(sources[1], before=forward)
        start = sum(rounded(tensor.nbytes) for tensor in (*model.parameters(), *data))
        empty = step.named("aten.empty_strided.default")
        self.assertEqual([op["bytes"] for op in empty], forward.allocations + backward.allocations)
        tangent = rounded(4)
        self.assertEqual(step.peak, start + max(forward.peak, backward.peak + tangent))


class Speaker(nn.Module):
    """A small Llama: tied head, attention, SwiGLU, and labels that are padded in the graph."""

    def __init__(self, layers=2, words=512, width=256):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.layers = nn.ModuleList(nn.ModuleDict({
            "before": nn.RMSNorm(width), "qkv": nn.Linear(width, 3 * width, bias=False),
            "out": nn.Linear(width, width, bias=False), "after": nn.RMSNorm(width),
            "gate": nn.Linear(width, 4 * width, bias=False), "up": nn.Linear(width, 4 * width, bias=False),
            "down": nn.Linear(4 * width, width, bias=False)}) for _ in range(layers))

    def forward(self, words, labels):
        x = self.embed(words)
        for layer in self.layers:
            q, k, v = (t.unflatten(-1, (4, -1)).transpose(1, 2) for t in layer["qkv"](layer["before"](x)).chunk(3, -1))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
            x = x + layer["out"](y)
            y = layer["after"](x)
            x = x + layer["down"](F.silu(layer["gate"](y)) * layer["up"](y))
        following = F.pad(labels, (0, 1), value=-100)[..., 1:]
        return F.cross_entropy((x @ self.embed.weight.T).flatten(0, 1), following.flatten())


class Traces(unittest.TestCase):
    def test_tensors_with_symbolic_sizes_have_no_values_to_read(self):
        """FakeTensor's cache of ops asks for storages, also while values of the program wait for a read."""
        waiting = torch.randn(64, device="cuda").cpu()
        context = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC] * 2)
        fake = FakeTensorMode(shape_env=ShapeEnv()).from_tensor(torch.ones(5, 3), symbolic_context=context)
        self.assertEqual(int(fake.untyped_storage().nbytes()), 60)
        self.assertEqual(waiting.shape, (64,))


class MemoryOfALanguageModel(Compiled):
    def test_buffer_by_buffer(self):
        sources, taken = [], []

        def take(size, stride, dtype):
            made = torch.empty_strided(size, stride, dtype=dtype, device="cuda")
            taken.append(made.untyped_storage().nbytes())
            return made

        attention = "torch.ops.aten._scaled_dot_product_efficient_attention"
        types = {f"{attention}.default": (torch.float32, torch.float32, torch.int64, torch.int64),
                 f"{attention}_backward.default": (torch.float32,) * 4}
        graph, wrapper = torch._inductor.graph.GraphLowering, torch._C._dynamo.guards
        with mock.patch.object(graph, "save_output_code", staticmethod(sources.append)), \
                mock.patch.object(wrapper, "_empty_strided_cuda", take), \
                torch.compiler.config.patch(force_disable_caches=True):
            model = Speaker().cuda()
            data = torch.randint(0, 512, (2, 4, 2048), device="cuda").unbind()
            step = recorded(torch.compile(model), data=lambda: data)
        forward = Plan(sources[0], of_operators=lambda name: types.get(name, ()))
        backward = Plan(sources[1], before=forward, of_operators=lambda name: types.get(name, ()))
        planned = forward.buffers + backward.buffers
        self.assertEqual(taken[-len(planned):], planned)
        # Labels are padded to rows of 2,049, which Inductor lays 2,064 apart.
        self.assertIn(8 * (3 * 2064 + 2049), planned)
        start = sum(rounded(tensor.nbytes) for tensor in model.parameters()) + rounded(2 * 4 * 2048 * 8)
        self.assertEqual(step.peak, start + max(forward.peak, backward.peak + rounded(4)))


class AttentionBlock(Block):
    def forward(self, x):
        heads = self.norm(x).view(8, -1, 4, WIDTH // 4).transpose(1, 2)
        return super().forward(x + F.scaled_dot_product_attention(heads, heads, heads).transpose(1, 2).reshape_as(x))


class AttentionNet(Net):
    def __init__(self, layers):
        super().__init__(layers)
        self.blocks = nn.ModuleList(AttentionBlock() for _ in range(layers))


def headroom(*arguments):
    finished = subprocess.run([HEADROOM, *map(str, arguments)], capture_output=True, text=True)
    if finished.returncode:
        raise AssertionError(f"{arguments}: {finished.stderr or finished.stdout}")
    return finished.stdout


class Plans(Compiled):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        files = (pathlib.Path(folder.name) / name for name in ("a.hrs", "b.hrs", "policy.json"))
        self.step, self.executed, self.policy = files

    def record(self, path, policy=None, make=lambda: Net(layers=4), data=lambda: batch(8 * ROWS), first=False,
               wrapped=False, backend="inductor"):
        model = make().cuda()
        if policy and first:
            torch_headroom.apply(model, policy)
        for i, block in enumerate(model.blocks):
            if wrapped:
                model.blocks[i] = torch.compile(block, backend=backend)
            else:
                block.compile(backend=backend)
        if policy and not first:
            torch_headroom.apply(model, policy)
        step = training(model, data=data)
        with torch_headroom.record(path) as recording:
            for _ in range(2):
                step()
                recording.step()
        del model, step
        return recording.summary["peak_bytes"]

    def test_of_compiled_regions_are_executed_to_the_byte(self):
        offload = [f"--pin=Net.blocks.{i}=offload" for i in (1, 2)]
        for backend, (share, pins) in itertools.product(("inductor", "eager", "aot_eager"), ((6, []), (8, offload))):
            gc.collect()
            budget = self.record(self.step, backend=backend) * share // 10
            headroom("plan", self.step, "--budget", budget, "-o", self.policy, *pins)
            modules = json.loads(self.policy.read_text())["modules"]
            self.assertEqual(sum(bool(module.get("offload", {}).get("tensors")) for module in modules), len(pins))
            for first, wrapped in itertools.product((False, True), repeat=2):
                with self.subTest(backend=backend, pins=pins, first=first, wrapped=wrapped):
                    gc.collect()
                    peak = self.record(self.executed, self.policy, first=first, wrapped=wrapped, backend=backend)
                    self.assertLessEqual(peak, budget)
                    headroom("verify", self.step, "--executed", self.executed, "--policy", self.policy)

    def test_what_is_offered_runs(self):
        """However a program compiles: `apply` takes what `plan` offers, and the step is as predicted; or `plan` refuses."""
        shapes = {"model": False, "model with breaks": False, "method with breaks": False, "function with breaks": False,
                  "blocks with breaks": True, "parts of blocks": True, "blocks of a model that is not": True}
        for (shape, offered), backend in itertools.product(shapes.items(), ("inductor", "eager", "aot_eager")):
            with self.subTest(shape=shape, backend=backend):
                torch._dynamo.reset()
                gc.collect()
                peak = self.record_shape(shape, self.step, backend=backend)
                planned = subprocess.run([HEADROOM, "plan", self.step, "--budget", str(peak * 8 // 10), "-o", self.policy],
                                         capture_output=True, text=True)
                self.assertEqual(planned.returncode, 0 if offered else 3, planned.stderr)
                if not offered:
                    self.assertIn("torch_headroom.record --activation-memory-budget" if backend == "inductor" else
                                  "torch.compile compiled the module as a part of a larger graph", planned.stderr)
                    continue
                self.assertTrue(json.loads(self.policy.read_text())["modules"])
                gc.collect()
                self.assertLessEqual(self.record_shape(shape, self.executed, self.policy, backend), peak * 8 // 10)
                headroom("verify", self.step, "--executed", self.executed, "--policy", self.policy)

    def test_generated_code_reads_the_tensors_of_an_argument(self):
        """flex_attention() saves a part of the mask, an object, for backward alone: no op of the region reads that part."""
        peak = self.record_flexible(self.step)
        for how in (), ("--offload", "--pin=Masked.blocks.1=offload"):
            headroom("plan", self.step, "--budget", peak * 8 // 10, "-o", self.policy, *how)
            modules = json.loads(self.policy.read_text())["modules"]
            self.assertEqual(any("offload" in module for module in modules), bool(how))
            torch._dynamo.reset()
            gc.collect()
            self.record_flexible(self.executed, self.policy)
            headroom("verify", self.step, "--executed", self.executed, "--policy", self.policy)

    def record_flexible(self, path, policy=None):
        mask = create_block_mask(lambda b, h, q, k: q >= k, 1, None, 8 * ROWS, 8 * ROWS, device="cuda")

        class Masked(Net):
            def forward(self, x, y):
                for block in self.blocks:
                    x = block(x, mask)
                return F.cross_entropy(self.head(x), y)

        model = Masked(layers=0)
        model.blocks.extend(Attention(torch.compile(flex_attention)) for _ in range(4))
        model.cuda()
        if policy:
            torch_headroom.apply(model, policy)
        step = training(model, data=lambda: batch(8 * ROWS))
        with torch_headroom.record(path) as recording:
            for _ in range(2):
                step()
                recording.step()
        return recording.summary["peak_bytes"]

    def record_shape(self, shape, path, policy=None, backend="inductor"):
        model = Net(layers=4, breaks="breaks" in shape).cuda()
        if policy:
            torch_headroom.apply(model, policy)
        run = model
        if shape.startswith("model"):
            run = torch.compile(model, backend=backend)
        elif shape.startswith("method"):
            model.compile(backend=backend)
        elif shape.startswith("function"):
            run = torch.compile(lambda *data: model(*data), backend=backend)
        else:
            for i, block in enumerate(model.blocks):
                if shape == "parts of blocks":
                    block.up = torch.compile(block.up, backend=backend)
                elif i % 2 == 0 or shape == "blocks with breaks":
                    block.compile(backend=backend)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with torch_headroom.record(path) as recording:
            for _ in range(2):
                run(*batch(8 * ROWS)).backward()
                optimizer.step()
                optimizer.zero_grad()
                recording.step()
        return recording.summary["peak_bytes"]

    def test_of_compiled_regions_does_not_fit_one_graph(self):
        budget = self.record(self.step) * 6 // 10
        headroom("plan", self.step, "--budget", budget, "-o", self.policy)
        model = Net(layers=4).cuda()
        torch_headroom.apply(model, self.policy)
        with self.assertRaisesRegex(torch_headroom.PolicyError, "the module was recorded inside of a graph of torch.compile"):
            training(torch.compile(model))()

    def test_no_result_inside_of_a_graph_is_kept_alone(self):
        """Attention, of which an eager plan keeps the result."""
        arguments = {"make": lambda: AttentionNet(layers=4), "data": lambda: batch(8 * ROWS)}
        budget = self.record(self.step, **arguments) * 8 // 10
        headroom("plan", self.step, "--budget", budget, "-o", self.policy)
        modules = json.loads(self.policy.read_text())["modules"]
        self.assertFalse(any(op["save"] for module in modules for op in module["ops"]))
        gc.collect()
        self.record(self.executed, self.policy, **arguments)
        headroom("verify", self.step, "--executed", self.executed, "--policy", self.policy)

    def test_of_one_graph_point_to_the_partitioner(self):
        model = torch.compile(Net(layers=4).cuda())
        step = training(model)
        with torch_headroom.record(self.step) as recording:
            for _ in range(2):
                step()
                recording.step()
        budget = recording.summary["peak_bytes"] * 7 // 10
        planned = subprocess.run([HEADROOM, "plan", self.step, "--budget", str(budget)], capture_output=True, text=True)
        self.assertEqual(planned.returncode, 3)
        self.assertIn("torch_headroom.record --activation-memory-budget 0.25,0.5,0.75", planned.stderr)

    def test_the_command_that_lists_budgets(self):
        script = self.step.with_name("script.py")
        script.write_text("import torch\nnet = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(3))).cuda()\n"
                          "run = torch.compile(torch.nn.Sequential(net, torch.nn.GELU()))\n"
                          "optimizer = torch.optim.SGD(net.parameters())\n"
                          "for _ in range(2):\n    run(torch.ones(512, 256, device='cuda')).sum().backward()\n"
                          "    optimizer.step()\n    optimizer.zero_grad()\n")
        ran = subprocess.run([sys.executable, "-m", "torch_headroom.record", "--gpu", "a100-80gb", "--json",
                              "--activation-memory-budget", "0.3,0.6", "-o", self.step, script],
                             capture_output=True, text=True)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        points = json.loads(ran.stdout)["points"]
        self.assertEqual([point["memory_budget"] for point in points], [0.3, 0.6, None])
        eager = points[-1]  # its time is that which plan tells of the same file
        plan = subprocess.run([HEADROOM, "plan", eager["step"], "--budget", "1024GiB", "--calibration", "none", "--json"],
                              capture_output=True, text=True)
        self.assertAlmostEqual(json.loads(plan.stdout)["step_ms"], eager["step_ms"])

    def test_of_what_is_not_compiled_now_are_refused(self):
        self.record(self.step)
        headroom("plan", self.step, "--budget", "1024GiB", "--pin", "Net.blocks.0=recompute", "-o", self.policy)
        model = Net(layers=4).cuda()
        torch_headroom.apply(model, self.policy)
        step = training(model, data=lambda: batch(8 * ROWS))
        with self.assertRaisesRegex(torch_headroom.PolicyError, "blocks.0: the module was recorded inside of a "
                                                                "graph of torch"):
            for _ in range(2):
                step()

    def test_single_ops_of_a_graph_are_refused(self):
        self.record(self.step)
        headroom("plan", self.step, "--budget", "1024GiB", "--pin", "Net.blocks.0=recompute", "-o", self.policy)
        document = json.loads(self.policy.read_text())
        document["modules"][0]["ops"] = [{"op": "aten.mm.default", "index": 0, "save": True}]
        self.policy.write_text(json.dumps(document))
        with self.assertRaisesRegex(torch_headroom.PolicyError, r"blocks.0 is compiled.*--pin Net.blocks.0=recompute"):
            self.record(self.executed, self.policy)

    def test_a_memory_budget_is_the_partitioners(self):
        with torch._functorch.config.patch(activation_memory_budget=0.4):
            less = recorded(torch.compile(Net(layers=4).cuda()))
            torch._dynamo.reset()
            again = recorded(torch.compile(Net(layers=4).cuda()))
        torch._dynamo.reset()
        usual = recorded(torch.compile(Net(layers=4).cuda()))
        self.assertEqual(less.peak, again.peak)
        self.assertLess(less.peak, usual.peak)


class Choices(Compiled):
    def notes_of(self, mode=None, **model):
        with torch.compiler.config.patch(force_disable_caches=True):
            return " ".join(recorded(torch.compile(Net(**model).cuda(), mode=mode)).notes)

    def test_what_would_be_measured_is_said(self):
        with mock.patch.object(_compile, "decided", collections.Counter()):
            self.assertNotIn("torch.compile", self.notes_of())
            self.assertRegex(self.notes_of(classes=999), "chose [0-9]+ times without measuring whether to pad")
            self.assertRegex(self.notes_of(mode="max-autotune-no-cudagraphs"), "chose [0-9]+ times between kernels")


    def test_wrappers_in_cpp(self):
        with mock.patch.object(_compile, "decided", collections.Counter()):
            usual = recorded(torch.compile(Net().cuda()))
            torch._dynamo.reset()
            step = recorded(torch.compile(Net().cuda(), options={"cpp_wrapper": True}))
        self.assertEqual([op["name"] for op in step.ops], [op["name"] for op in usual.ops])
        self.assertEqual(step.peak, usual.peak)
        self.assertIn("cpp_wrapper", " ".join(step.notes))
        self.assertNotIn("cpp_wrapper", " ".join(usual.notes))

    def test_machine_code_is_refused(self):
        model, data = Net().cuda(), batch()
        with self.assertRaisesRegex(torch_headroom.HeadroomError, "AOTInductor.*torch.compile"):
            torch._inductor.aoti_compile_and_package(torch.export.export(model, data))
        with self.assertRaisesRegex(torch_headroom.HeadroomError, "AOTInductor.*torch.compile"):
            torch._C._aoti.AOTIModelPackageLoader("model.pt2", "model", False, 1, -1)

    def test_backends_without_kernels_of_their_own(self):
        def peak(backend):
            torch._dynamo.reset()
            return recorded(torch.compile(Net().cuda(), backend=backend)).peak

        eager = recorded(Net().cuda()).peak
        self.assertEqual(peak("eager"), eager)
        self.assertEqual(peak(lambda graph, inputs: graph.forward), eager)
        torch._dynamo.reset()
        with torch.compiler.set_stance("force_eager"):
            self.assertEqual(recorded(torch.compile(Net().cuda())).peak, eager)


@triton.jit
def _double(x, out, count, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + place, tl.load(x + place, mask=place < count) * 2, mask=place < count)


class Programs(Compiled):
    def test_kernels_of_the_program_in_a_graph(self):
        class Own(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = nn.Linear(WIDTH, WIDTH)

            def forward(self, x, y):
                x = self.inner(x)
                out = torch.empty_like(x)
                _double[(x.numel() // 1024,)](x.detach(), out, x.numel(), 1024)
                return (x + out).sum()

        step = recorded(torch.compile(Own().cuda()))
        (kernel,) = step.named("_double")
        self.assertEqual((kernel["read_bytes"], kernel["written_bytes"]), (ROWS * WIDTH * 4,) * 2)

    def test_checkpoints_in_a_graph(self):
        class Checkpointed(Net):
            def forward(self, x, y):
                x = self.first(x)
                for block in self.blocks:
                    x = checkpoint(block, x, use_reentrant=False)
                return F.cross_entropy(self.head(x), y)

        plain, saving = (recorded(torch.compile(model(layers=4).cuda())) for model in (Net, Checkpointed))
        self.assertGreater(len(saving.named("mm.out")), len(plain.named("mm.out")))
        self.assertLess(saving.summary["phases"]["after_forward"]["activation"],
                        plain.summary["phases"]["after_forward"]["activation"])

    def test_flex_attention(self):
        class Attending(nn.Module):
            def __init__(self, attend):
                super().__init__()
                self.inner = Attention(attend)

            def forward(self, x, y):
                mask = create_block_mask(lambda b, h, q, k: q >= k, 1, None, ROWS, ROWS, device="cuda")
                return self.inner(x, mask).sum()

        eager = recorded(Attending(flex_attention).cuda())
        self.assertTrue(eager.named("softmax") or eager.named("aten.exp"))
        compiled = recorded(Attending(torch.compile(flex_attention)).cuda())
        self.assertEqual([op["name"] for op in compiled.named("triton_tem_fused_flex_attention")],
                         ["triton_tem_fused_flex_attention_0", "triton_tem_fused_flex_attention_backward_1"])
        self.assertLess(compiled.peak, eager.peak)


if __name__ == "__main__":
    unittest.main()
