# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""PYTORCH_CUDA_ALLOC_CONF and torch.cuda.memory._set_allocator_settings() on the simulated GPU: bytes worked out by hand
from the rules of CUDA's caching allocator, PyTorch's errors, and what a recorded step says of them."""

import os
import pathlib
import subprocess
import sys
import unittest
import warnings

import support
from recorded_script import Recorded

torch = support.simulated("h100-80gb")

MIB = 1 << 20
_FAULTS = pathlib.Path(__file__).with_name("faults")


def new(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def set_settings(text):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the function is called so in newer versions
        torch.cuda.memory._set_allocator_settings(text)


class Rules(unittest.TestCase):
    def setUp(self):
        torch.cuda.empty_cache()
        torch.cuda.reset_accumulated_memory_stats()
        self.addCleanup(set_settings, "expandable_segments:False,large_segment_size_mb:20,max_non_split_rounding_mb:20")
        self.assertEqual(torch.cuda.memory_reserved(), 0)

    def number(self, name):
        return torch.cuda.memory_stats()[name]

    def test_expandable_segments(self):
        set_settings("expandable_segments:True")
        held = [new(30 * MIB), new(5 * MIB)]
        self.assertEqual(torch.cuda.memory_reserved(), 40 * MIB)  # pages of 20 MiB
        held.append(new(10 * MIB))
        self.assertEqual(torch.cuda.memory_reserved(), 60 * MIB)
        self.assertTrue(torch.cuda.memory_snapshot()[0]["is_expandable"])
        set_settings("")  # this option stays as it was, as PyTorch's parser leaves it
        held.append(new(10 * MIB))
        self.assertEqual(torch.cuda.memory_reserved(), 60 * MIB)
        set_settings("expandable_segments:False")
        held.append(new(10 * MIB))
        self.assertEqual(torch.cuda.memory_reserved(), 70 * MIB)

    def test_blocks_that_are_not_split(self):
        set_settings("max_split_size_mb:30")
        large = new(40 * MIB)
        self.assertEqual(self.number("oversize_allocations.current"), 1)
        self.assertEqual(self.number("oversize_segments.current"), 1)
        self.assertEqual(self.number("max_split_size"), 30 * MIB)
        del large
        small = new(12 * MIB)
        self.assertEqual(torch.cuda.memory_reserved(), 52 * MIB)
        self.assertEqual(self.number("oversize_allocations.current"), 0)
        del small
        set_settings("")  # this option returns to its default
        self.assertEqual(self.number("max_split_size"), -1)

    def test_rounding(self):
        set_settings("roundup_power2_divisions:4")
        held = new(5 * MIB + 1)  # the steps between 4 and 8 MiB are of 1 MiB
        self.assertEqual(torch.cuda.memory_allocated(), 6 * MIB)
        del held
        set_settings("roundup_power2_divisions:[4:8,>:1]")
        held = new(5 * MIB + 1)
        self.assertEqual(torch.cuda.memory_allocated(), 5 * MIB + 512 * 1024)
        del held

    def test_segments_of_another_size(self):
        set_settings("large_segment_size_mb:40")
        held = new(5 * MIB)
        self.assertEqual(torch.cuda.memory_reserved(), 40 * MIB)
        del held

    def test_garbage_is_collected_under_a_limit(self):
        set_settings("garbage_collection_threshold:0.5")
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction((1 << 30) / total)
        self.addCleanup(torch.cuda.set_per_process_memory_fraction, 1.0)
        freed = [new(300 * MIB), new(300 * MIB)]
        freed.clear()
        held = new(301 * MIB)  # 600 MiB are reserved, more than half of 1 GiB: what is unused goes, without a retry
        self.assertEqual(torch.cuda.memory_reserved(), 302 * MIB)
        self.assertEqual((self.number("num_device_free"), self.number("num_alloc_retries")), (2, 0))
        with self.assertRaisesRegex(torch.OutOfMemoryError, r"free\. 1024\.00 MiB allowed; |free\. 1\.00 GiB allowed; "):
            new(800 * MIB)
        del held

    def test_wrong_settings(self):
        for text, error in (
            ("max_split_size_mb:1", "max_split_size_mb too small"),
            ("expandable_segments:yes", "Expected 'True' or 'False'"),
            ("roundup_power2_divisions:3", "power of 2|power of two"),
            ("max_spilt_size_mb:100", "max_spilt_size_mb"),
            ("backend:cudaMallocAsync", "native|backend"),
        ):
            with self.subTest(settings=text), self.assertRaisesRegex((RuntimeError, ValueError), error):
                set_settings(text)
        set_settings("")


class Environment(unittest.TestCase):
    def ran(self, code, **variables):
        script = "import torch_headroom; torch_headroom.simulate('t4-16gb'); import torch, os\n" + code
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTORCH")} | variables
        return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)

    def test_variables_act_from_the_first_allocation_on(self):
        reserved = "x = torch.empty(5 << 20, dtype=torch.uint8, device='cuda'); print(torch.cuda.memory_reserved() >> 20)"
        both = {"PYTORCH_ALLOC_CONF": "large_segment_size_mb:40", "PYTORCH_CUDA_ALLOC_CONF": "large_segment_size_mb:60"}
        late = "os.environ['PYTORCH_CUDA_ALLOC_CONF'] = 'large_segment_size_mb:60'\n"
        for code, variables, expected in (
            (reserved, {}, 20),
            (reserved, {"PYTORCH_CUDA_ALLOC_CONF": "large_segment_size_mb:60"}, 60),
            (reserved, both, 40),
            (late + reserved, {}, 60),
            ("torch.ones(1, device='cuda')\n" + late + reserved, {}, 22),
        ):
            result = self.ran(code, **variables)
            self.assertEqual(result.stdout, f"{expected}\n", result.stderr)

    def test_a_share_of_the_card(self):
        code = "x = torch.empty(9 << 30, dtype=torch.uint8, device='cuda')"
        self.assertEqual(self.ran(code).returncode, 0)
        result = self.ran(code, PYTORCH_CUDA_ALLOC_CONF="per_process_memory_fraction:0.5")
        self.assertRegex(result.stderr, r"OutOfMemoryError: .* 7\.2\d GiB allowed; ")

    def test_a_wrong_variable_is_pytorchs_error_at_the_first_allocation(self):
        result = self.ran("torch.ones(1, device='cuda')", PYTORCH_CUDA_ALLOC_CONF="max_split_size_mb:1")
        self.assertRegex(result.stderr, r"(ValueError|RuntimeError): .*max_split_size_mb too small")

    def test_another_backend_is_refused(self):
        for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
            result = self.ran("", **{name: "max_split_size_mb:64, backend: cudaMallocAsync"})
            self.assertIn(f"{name} asks for backend:cudaMallocAsync, and Headroom's simulated GPU has only", result.stderr)
            late = f"os.environ['{name}'] = 'backend:cudaMallocAsync'\ntorch.ones(1, device='cuda')"
            self.assertIn(f"{name} asks for backend:cudaMallocAsync", self.ran(late).stderr)
        result = self.ran("", PYTORCH_NO_CUDA_MEMORY_CACHING="1")
        self.assertIn("PYTORCH_NO_CUDA_MEMORY_CACHING turns PyTorch's caching allocator off", result.stderr)


class Steps(Recorded):
    """A script that needs 18.2 of 24 GB, and runs with expandable segments only."""

    def record(self, *options, **variables):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTORCH")} | variables
        command = self.command(_FAULTS / "expandable_run.py", "--gpu", "rtx-4090-24gb", *options)
        return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=self.folder.name)

    def test_what_the_run_used_is_in_the_step(self):
        result = self.record(PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True , max_split_size_mb:100000")
        self.assertEqual(result.returncode, 0, result.stderr)
        settings = dict(self.noted("settings"))
        self.assertEqual(settings["PYTORCH_CUDA_ALLOC_CONF"], "max_split_size_mb:100000,expandable_segments:True")
        self.assertNotIn("PYTORCH_ALLOC_CONF", settings)

    def test_without_the_setting_the_card_is_full(self):
        result = self.record("--limited")
        self.assertEqual(result.returncode, 2)
        self.assertIn("CUDA out of memory. Tried to allocate 5.00 GiB", result.stderr)

    def test_what_the_program_sets_itself(self):
        result = self.run_script(self.written("""
            import torch
            torch._C._accelerator_setAllocatorSettings("expandable_segments:True")
            model = torch.nn.Linear(64, 64).cuda()
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            torch.cuda.set_per_process_memory_fraction(0.5)
            for _ in range(3):
                model(torch.ones(2, 64, device="cuda")).sum().backward()
                optimizer.step()
        """))
        self.assertEqual(result.returncode, 0, result.stderr)
        used = dict(self.noted("settings"))["PYTORCH_CUDA_ALLOC_CONF"]
        self.assertEqual(used, "expandable_segments:True,per_process_memory_fraction:0.5")


if __name__ == "__main__":
    unittest.main()
