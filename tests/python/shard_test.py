# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""torch-headroom shard records a script with each option and lays the answers side by side."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import support

support.need("torch")

_PROGRAM = sys.argv.pop()
_SCRIPT = pathlib.Path(__file__).with_name("scripts") / "distributed_shard.py"


class Shard(unittest.TestCase):
    def setUp(self):
        """A Python environment in which python3 is the one that runs this."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        (pathlib.Path(folder.name) / "bin").mkdir()
        python = pathlib.Path(folder.name) / "bin" / "python3"
        python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        python.chmod(0o755)
        self.environment = {**os.environ, "VIRTUAL_ENV": folder.name}

    def shard(self, *options):
        command = [_PROGRAM, "shard", "--gpus", "16", "--batch", "4", "--vary", "--reshard {reshard}", *options, str(_SCRIPT)]
        return subprocess.run(command, env=self.environment, capture_output=True, text=True)

    def test_meshes_and_resharding(self):
        done = self.shard("--replicate", "1,2", "--reshard", "always,never", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = json.loads(done.stdout)["rows"]
        self.assertEqual([row.get("failure") for row in rows], [None] * 4)
        by_option = {(row["replicate"], row["reshard_after_forward"]): row for row in rows}
        # Over 8 ranks a shard is twice that of 16; what is not resharded stays.
        self.assertGreater(by_option[2, True]["peak_bytes"], by_option[1, True]["peak_bytes"])
        self.assertGreater(by_option[1, False]["peak_bytes"], by_option[1, True]["peak_bytes"])
        self.assertLessEqual(by_option[1, False]["step_ms"], by_option[1, True]["step_ms"])
        speeds = [row["samples_per_second"] for row in rows]
        self.assertEqual(speeds, sorted(speeds, reverse=True))

    def test_the_network_decides(self):
        fast, slow = (json.loads(self.shard("--topology", name, "--json").stdout)["rows"][0]
                      for name in ("h100-8x400", "pcie4-25"))
        self.assertEqual(fast["peak_bytes"], slow["peak_bytes"])
        self.assertGreater(slow["exposed_ms"], 10 * fast["exposed_ms"])

    def test_what_fits_runs_on_the_card(self):
        """By the sum of its blocks each step fits; only the allocator tells which one runs."""
        script = str(_SCRIPT.parents[1] / "faults" / "split_segment.py")
        gpu = ("--gpu", "rtx-4060-8gb")
        for gigabytes, fits in ("3", True), ("4", False):
            with self.subTest(gigabytes), tempfile.TemporaryDirectory() as folder:
                command = [_PROGRAM, "shard", "--gpus", "2", "--batch", "8", *gpu, "--json", script, gigabytes]
                done = subprocess.run(command, env=self.environment, capture_output=True, text=True)
                (row,) = json.loads(done.stdout)["rows"]
                self.assertLess(row["peak_bytes"], row["usable_bytes"])
                self.assertEqual(row["fits"], fits, row)
                command = [sys.executable, "-m", "torch_headroom.record", *gpu, "--limited", "--nproc-per-node", "2",
                           "-o", f"{folder}/step.hrs", script, gigabytes]
                done = subprocess.run(command, capture_output=True, text=True)
                self.assertEqual("out of memory" in done.stderr, not fits, done.stderr)
                self.assertEqual(done.returncode == 0, fits)

    def test_units_of_fsdp_hold_all_that_is_unsharded(self):
        flat = "FullyShardedDataParallel._fsdp_wrapped_module"  # the script's own module, inside of the wrapper
        for how, names in (("fsdp2", {"Llama"} | {f"Llama.layers.{i}" for i in range(4)}),
                           ("fsdp1", {flat} | {f"{flat}.layers.{i}._fsdp_wrapped_module" for i in range(4)})):
            with self.subTest(how), tempfile.TemporaryDirectory() as folder:
                step = f"{folder}/step.hrs"
                subprocess.run([sys.executable, "-m", "torch_headroom.record", "--nproc-per-node", "8", "-o", step,
                                str(_SCRIPT.with_name("distributed_llama.py")), how], capture_output=True, check=True)
                said = subprocess.run([_PROGRAM, "info", step, "--json"], capture_output=True, check=True).stdout
                info = json.loads(said)
                units = info["unsharded_at_peak"]
                self.assertTrue(units)
                self.assertLessEqual({unit["unit"] for unit in units}, names | {""})
                for category in ("unsharded_parameter", "unsharded_gradient", "communication"):
                    self.assertEqual(sum(unit[category] for unit in units), info["at_peak"][category])
                # Whatever FSDP gathered is of a unit; buckets that it does not name may be of none.
                self.assertEqual([unit for unit in units if not unit["unit"] and unit["unsharded_parameter"]], [])

    def test_torchtitan(self):
        done = self.shard("--torchtitan")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("data_parallel_shard_degree = 16\n", done.stdout)
        self.assertIn("local_batch_size = 4\n", done.stdout)


if __name__ == "__main__":
    unittest.main()
