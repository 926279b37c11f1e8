# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measuring on a GPU, on one that is not there (tests/cuda): PyTorch's CUDA build with its own caching allocator and
dispatch, on a runtime that computes nothing, and a CUPTI that fails as it is told.

    stand_in_test.py FOLDER_OF_THE_STAND_IN HEADROOM_RECORD
"""

import importlib.metadata
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest

import support

support.need("torch")
if pathlib.Path("/dev/nvidiactl").exists():
    print("skipped: this machine has NVIDIA's driver", file=sys.stderr)
    sys.exit(support.SKIPPED)

RECORD = sys.argv.pop()
STAND_IN = sys.argv.pop()
ENVIRONMENT = dict(os.environ, LD_LIBRARY_PATH=STAND_IN, LD_PRELOAD=f"{STAND_IN}/libstand_in_cuda.so")
MIB = 1 << 20

TRAIN = """
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.GELU())
            self.outer = torch.nn.Linear(2048, 512)

        def forward(self, x):
            return self.outer(self.inner(x))

    model = Net().cuda()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(3):
        x = torch.ones(16384, 512).cuda()
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
"""

# Sizes at the borders of the allocator's rules, and what its statistics say after each; {first} chooses the device.
STATISTICS = """
    import json
    {first}
    import torch

    MIB = 1 << 20
    seen = []

    def note():
        seen.append(torch.cuda.memory_stats())

    def new(size):
        return torch.empty(size, dtype=torch.uint8, device="cuda")

    sizes = (1, 512, 513, MIB, MIB + 1, 10 * MIB - 1, 10 * MIB, 10 * MIB + 1, 19 * MIB + 600 * 1024, 3 * MIB, 700)
    held = []
    for size in sizes:
        held.append(new(size))
        note()
    for index in (1, 3, 0, 4, 3, 2):
        del held[index]
        note()
        held.append(new(sizes[index] // 2 + 1))
        note()
    torch.cuda.reset_peak_memory_stats()
    note()
    del held[2:]
    torch.cuda.empty_cache()
    note()
    torch.cuda.reset_accumulated_memory_stats()
    note()
    try:
        new(500 << 30)
    except torch.OutOfMemoryError:
        note()
    parts = [
        [segment[name] for name in ("total_size", "allocated_size", "active_size", "segment_type", "is_expandable")]
        + [[block["size"], block["state"]] for block in segment["blocks"]]
        for segment in torch.cuda.memory_snapshot()
    ]
    print(json.dumps([seen, sorted(parts, key=str), torch.cuda.memory_reserved()]))
"""

# Bytes at the borders of offloaded modules. Each module saves one storage, twice.
OFFLOAD = """
    import json
    {first}
    import torch
    import torch_headroom

    class Wave(torch.nn.Module):
        def forward(self, x):
            return x.exp().sin()

    offload = {"tensors": [0, 1], "saved": 2, "wait": 1, "ahead": 2}
    modules = [{"fqn": f"Sequential.{layer}", "ops": [], "offload": offload} for layer in range(6)]
    with open("policy.json", "w") as file:
        json.dump({"headroom_policy": 1, "model": "train.py", "modules": modules}, file)
    net = torch_headroom.apply(torch.nn.Sequential(*[Wave() for _ in range(6)]), "policy.json")
    seen = []
    for _ in range(3):
        x = torch.ones(1 << 18, device="cuda").requires_grad_()
        for layer in net:
            x = layer(x)
            seen.append(torch.cuda.memory_allocated())
            x.register_hook(lambda gradient: seen.append(torch.cuda.memory_allocated()))
        x.sum().backward()
        del x
    torch.cuda.synchronize()
    print(json.dumps(seen))
"""

# Memory of the third step of a model, as packaging/gpu_check measures it. What the stand-in lacks is left out on both:
# values, which transformers reads to look for packed sequences, and cuDNN.
THIRD_STEP = """
    import json, sys
    sys.path.insert(0, sys.argv[2])
    import run_model
    {first}
    import torch
    import transformers.masking_utils
    transformers.masking_utils.find_packed_sequence_indices = lambda *arguments, **named: None
    torch.backends.cudnn.enabled = False
    torch.backends.cuda.enable_cudnn_sdp(False)
    print(json.dumps(run_model.plain_steps(torch, run_model.build(torch, sys.argv[1]))))
"""
# Scratch memory of each op of tests/data/pytorch/kernel_scratch.json.
SCRATCH = """
    import json, sys
    import torch
    torch.backends.cudnn.enabled = False
    torch.ones(4, 4, device="cuda") @ torch.ones(4, 4, device="cuda")  # cuBLAS's workspaces stay

    def made(value):
        if not isinstance(value, dict):
            return value
        if "type" in value:
            return getattr(torch, value["type"])
        return torch.empty_strided(value["sizes"], value["strides"], dtype=getattr(torch, value["dtype"]), device="cuda")

    found = []
    for row in json.load(open(sys.argv[1]))["rows"]:
        _, name, overload = row["op"].split(".")
        arguments = [made(value) for value in row["arguments"]]
        if name == "_scaled_dot_product_efficient_attention_backward":
            arguments[-1] = [bool(value) for value in arguments[-1]]
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        results = getattr(getattr(torch.ops.aten, name), overload)(*arguments)
        found.append(torch.cuda.max_memory_allocated() - max(before, torch.cuda.memory_allocated()))
        del arguments, results
        torch.cuda.empty_cache()
    print(json.dumps(found))
"""
REFERENCE = pathlib.Path(__file__).resolve().parents[1] / "data" / "pytorch" / "kernel_scratch.json"
GPU_CHECK = pathlib.Path(__file__).resolve().parents[2] / "packaging" / "gpu_check"


class StandIn(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "train.py").write_text(textwrap.dedent(TRAIN))

    def run_here(self, *command, there=True, **more):
        environment = (ENVIRONMENT if there else os.environ) | more
        return subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=300)

    def record(self, **more):
        command = ("-m", "torch_headroom.record", "--device", "cuda", "-o", "step.hrs", "--json", "train.py")
        done = self.run_here(sys.executable, *command, **more)
        return done, json.loads(done.stdout) if done.stdout else None

    def test_a_script_is_measured(self):
        done, summary = self.record()
        self.assertEqual(done.returncode, 0, done.stderr)
        measured = summary["measured"]
        self.assertEqual(measured["notes"], [])
        self.assertEqual(measured["dropped_records"], 0)
        self.assertGreater(measured["kernels"], 20)
        # Each kernel takes 10 µs there, a copy 2 µs.
        self.assertAlmostEqual(measured["without_op_ms"], 0)
        self.assertAlmostEqual(measured["busy_ms"], measured["kernel_ms"])
        self.assertGreater(measured["kernel_ms"], 0.005 * measured["kernels"])
        self.assertLessEqual(measured["kernel_ms"], 0.0101 * measured["kernels"])
        # CUDA's context has 500 MiB; blocks are as recorded but for what is too small to be split off.
        self.assertEqual(measured["non_pytorch_bytes"], 500 * MIB)
        peak = summary["peak_bytes"] - 500 * MIB
        self.assertLessEqual(peak, measured["allocated_peak_bytes"])
        self.assertAlmostEqual(peak, measured["allocated_peak_bytes"], delta=8 * MIB)
        self.assertGreater(measured["reserved_peak_bytes"], measured["allocated_peak_bytes"])

    def test_cupti_that_may_not_trace_is_a_note(self):
        _, whole = self.record()
        for function, code, words in (
            ("cuptiGetVersion", 15, "driver is missing or older than CUPTI"),
            ("cuptiActivityRegisterCallbacks", 39, "another profiler is attached"),
            ("cuptiActivityEnable", 35, "NVreg_RestrictProfilingToAdminUsers=0"),
            ("cuptiActivityEnable", 33, "virtual GPU"),
            ("cuptiActivityEnable", 41, "confidential-computing"),
        ):
            with self.subTest(function=function, code=code):
                done, summary = self.record(HEADROOM_STAND_IN_CUPTI_ERROR=f"{function}:{code}")
                self.assertEqual(done.returncode, 0, done.stderr)
                notes = summary["measured"]["notes"]
                self.assertEqual(len(notes), 1, notes)
                self.assertTrue(notes[0].startswith("kernel times cannot be measured: "), notes[0])
                self.assertIn(words, notes[0])
                self.assertEqual(summary["measured"]["kernels"], 0)
                self.assertEqual(summary["peak_bytes"], whole["peak_bytes"], "memory is measured all the same")

    def test_records_that_cupti_loses(self):
        done, summary = self.record(HEADROOM_STAND_IN_CUPTI_DROPS="7")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(summary["measured"]["dropped_records"], 0)
        self.assertIn("records of CUPTI are missing", summary["measured"]["notes"][0])

    def test_records_that_another_profiler_takes(self):
        done, summary = self.record(HEADROOM_STAND_IN_CUPTI_DROPS="1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(summary["measured"]["kernels"], 0)
        self.assertIn("no kernel was traced", summary["measured"]["notes"][0])

    def test_the_card_is_full(self):
        done, summary = self.record(HEADROOM_STAND_IN_MEMORY=str(900 * MIB))
        self.assertEqual(done.returncode, 2, done.stderr)
        line = done.stderr.splitlines()[-1]
        self.assertIn("torch_headroom.record: train.py: CUDA out of memory. Tried to allocate ", line)
        self.assertIn("; step.hrs holds step 1 up to there", line)
        self.assertNotIn("larger card", done.stderr)  # a real one does not grow
        self.assertTrue((self.folder / "step.hrs").exists())
        (failure,) = summary["out_of_memory"]
        self.assertTrue(failure["module"].startswith("Net"), failure)
        self.assertLess(failure["free_bytes"], failure["requested_bytes"])
        self.assertEqual(failure["free_bytes"] + failure["reserved_bytes"] + 500 * MIB, 900 * MIB)
        self.assertLessEqual(failure["active_bytes"], failure["reserved_bytes"])

    def test_other_allocators(self):
        if importlib.metadata.version("torch") < "2.13":  # then it maps memory by the driver, which the stand-in cannot
            done, summary = self.record(PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertGreater(summary["measured"]["reserved_peak_bytes"], summary["measured"]["allocated_peak_bytes"])
        done, summary = self.record(PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("no GPU can be used: cudaMallocAsync", done.stderr)

    def test_statistics_of_the_simulated_card_are_pytorchs(self):
        """torch.cuda.memory_stats(), all of its numbers, by PyTorch's own allocator and by the simulated card."""
        simulate = "import torch_headroom; torch_headroom.simulate('h200-141gb')"
        real = self.run_here(sys.executable, "-c", textwrap.dedent(STATISTICS).replace("{first}", ""))
        simulated = self.run_here(
            sys.executable, "-c", textwrap.dedent(STATISTICS).replace("{first}", simulate), there=False
        )
        self.assertEqual(real.returncode, 0, real.stderr)
        self.assertEqual(simulated.returncode, 0, simulated.stderr)
        (seen, parts, reserved), (own, own_parts, own_reserved) = json.loads(real.stdout), json.loads(simulated.stdout)
        for number, (theirs, ours) in enumerate(zip(seen, own, strict=True)):
            self.assertEqual(ours, theirs, f"after change {number}")
        self.assertEqual((own_parts, own_reserved), (parts, reserved))

    def test_offloaded_modules_take_the_same_memory(self):
        """At the borders, with PyTorch's own streams, pinned memory and allocator, and simulated."""
        simulate = "import torch_headroom; torch_headroom.simulate('h200-141gb')"
        seen = []
        for first, there in (("", True), (simulate, False)):
            script = textwrap.dedent(OFFLOAD).replace("{first}", first)
            done = self.run_here(sys.executable, "-c", script, there=there)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            seen.append(json.loads(done.stdout))
        self.assertEqual([held // MIB for held in seen[0][-12:]], [3, 3, 3, 3, 3, 3, 3, 5, 5, 5, 5, 4])
        self.assertEqual(*seen)

    @unittest.skipUnless(importlib.util.find_spec("transformers"), "needs transformers")
    def test_steps_take_the_simulated_memory_of_pytorchs_own_allocator(self):
        def third_step(model, first, there, **more):
            script = textwrap.dedent(THIRD_STEP).replace("{first}", first)
            done = self.run_here(sys.executable, "-c", script, model, str(GPU_CHECK), there=there, **more)
            self.assertEqual(done.returncode, 0, done.stderr)
            return json.loads(done.stdout.splitlines()[-1])

        # GPT-2 takes 192 bytes less in tensors of a few bytes: 64 blocks, and what is not split off beside them.
        for model, tensors, blocks in (("gpt2_small_lm_bs8_s1024", 192, 64 << 10), ("llama_1b_bf16_bs1_s2048", 0, 0)):
            with self.subTest(model=model):
                no_workspaces = {"CUBLAS_WORKSPACE_CONFIG": ":0:0", "CUBLASLT_WORKSPACE_SIZE": "0"}
                real = third_step(model, "", True, **no_workspaces)
                own = third_step(model, "import torch_headroom; torch_headroom.simulate('h200-141gb')", False)
                self.assertAlmostEqual(own["requested"], real["requested"], delta=tensors)
                self.assertAlmostEqual(own["active"], real["active"], delta=blocks)
                self.assertAlmostEqual(own["start"], real["start"], delta=blocks)
                self.assertAlmostEqual(own["reserved"] / real["reserved"], 1, delta=0.005)

    @unittest.skipUnless(importlib.metadata.version("torch").startswith("2.11"), "the reference is of torch 2.11")
    def test_kernels_take_the_scratch_memory_of_the_reference(self):
        done = self.run_here(sys.executable, "-c", textwrap.dedent(SCRATCH), str(REFERENCE), there=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = json.loads(REFERENCE.read_text(encoding="utf-8"))["rows"]
        self.assertEqual(json.loads(done.stdout.splitlines()[-1]), [row["scratch"] for row in rows])

    def test_headroom_record(self):
        done = self.run_here(RECORD, "record", "demo:mlp", "--device", "cuda", "-o", "step.hrs", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(json.loads(done.stdout)["measured"]["kernels"], 50)
        done = self.run_here(RECORD, "record", "demo:mlp", "--device", "cuda", "-o", "part.hrs",
                             HEADROOM_STAND_IN_MEMORY=str(900 * MIB))
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertRegex(done.stderr, r"the step does not fit on the device: .*; part\.hrs holds the step up to there")
        self.assertTrue((self.folder / "part.hrs").exists())

    def test_plans_of_ops_are_followed_though_libraries_take_workspaces(self):
        done = self.run_here(RECORD, "verify", "demo:mlp", "--device", "cuda", "--memory-budget", "0.5", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(json.loads(done.stdout)["agrees"])


if __name__ == "__main__":
    unittest.main()
