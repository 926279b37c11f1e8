# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The recorder is invisible: a program sees the same tensors, objects and memory with it and without it.

    invisible_recorder_test.py HEADROOM

HEADROOM is the program of that name."""

import json
import pathlib
import subprocess
import sys
import unittest

import support
from recorded_script import Recorded

support.need("torch")

_HERE = pathlib.Path(__file__).parent
_FAULTS = _HERE / "faults"
_OBSERVED = _HERE / "observed_script.py"


class Invisible(Recorded):
    def seen(self, script, *arguments):
        """What a script sees of itself, not recorded and recorded (observed_script.py)."""
        plain, recorded = (pathlib.Path(self.folder.name) / name for name in ("plain", "recorded"))
        for output, command in ((plain, [sys.executable, _OBSERVED]),
                                (recorded, self.command(_OBSERVED, "--gpu", "a100-80gb", "--steps", "2"))):
            result = subprocess.run([*command, output, script, *arguments], capture_output=True, text=True,
                                    cwd=self.folder.name, timeout=600)
            self.assertEqual(result.returncode, 0, f"{output.name}: {result.stdout}{result.stderr}")
        return plain.read_text().splitlines(), recorded.read_text().splitlines()

    def check(self, script, *arguments):
        plain, recorded = self.seen(script, *arguments)
        steps = sum(line.startswith("step") for line in recorded)
        self.assertGreaterEqual(steps, 2)
        self.assertGreater(len(recorded), 3 * steps)
        self.assertEqual(recorded, plain[:len(recorded)])  # the recorder ends the script early

    def test_leaves_with_attributes(self):
        self.check(_FAULTS / "k_main_grad.py")

    def test_leaves_whose_data_is_swapped(self):
        self.check(_FAULTS / "leaf_saved.py")

    def test_leaf_views_under_autocast(self):
        self.check(_FAULTS / "k_viewcast.py")

    def test_dropped_models_and_failed_tries(self):
        self.check(_FAULTS / "deleted_model.py")

    def printed(self, script, *arguments, gpu="a100-80gb"):
        """Lines that a script prints of what it sees, not recorded and recorded: the same."""
        simulated = ("import runpy, sys, torch_headroom; torch_headroom.simulate(sys.argv.pop(1)); "
                     "runpy.run_path(sys.argv.pop(1), run_name='__main__')")
        lines = []
        for command in ([sys.executable, "-c", simulated, gpu, script, *arguments],
                        self.command(script, "--gpu", gpu, "--steps", "3", arguments=arguments)):
            result = subprocess.run(command, capture_output=True, text=True, timeout=600)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            lines.append([line for line in result.stdout.splitlines() if line.startswith("seen")])
        plain, recorded = lines
        self.assertGreater(len(recorded), 1)
        self.assertEqual(recorded, plain[:len(recorded)])  # the recorder ends the script early
        return plain

    def test_batches_are_tried_until_one_fits(self):
        """Nothing of an earlier try is there at the start of the next one."""
        for finder in "own", "accelerate":
            with self.subTest(finder):
                if finder == "accelerate":
                    support.skip_without("accelerate")
                tries = self.printed(_FAULTS / "find_batch2.py", finder, gpu="rtx-4090-24gb")
                self.assertTrue(all(line.endswith(": 0 bytes at its start") for line in tries), tries)

    def test_hooks_that_copy_and_pickle(self):
        self.printed(_FAULTS / "copying_hooks.py")

    def test_language_model(self):
        self.check(_HERE / "scripts" / "language_model.py", "--layers", "2")

    def test_adversarial(self):
        self.check(_HERE / "scripts" / "adversarial.py")

    def test_fine_tuning(self):
        self.check(_HERE / "scripts" / "fine_tuning.py")


class Recording(Recorded):
    headroom = None

    def record(self, script, *options, **environment):
        command = self.command(_FAULTS / script, "--json", "--gpu", "a100-80gb", *options)
        return self.document(self.run_recorder(command, **environment))

    def answer(self, command):
        return self.document(subprocess.run([*map(str, command)], capture_output=True, text=True, cwd=self.folder.name,
                                            timeout=600))

    def document(self, result):
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return json.loads(result.stdout)

    def test_data_that_a_leaf_no_longer_has_is_not_held(self):
        recorded = self.record("leaf_saved.py")
        weight = 2048 * 2048 * 4
        # At the end of backward all four are there with their gradients; shadows of the old data were one more.
        self.assertLess(recorded["peak_bytes"], 8 * weight + (1 << 20))

    def check_plan(self, script, share):
        """Executes a plan for the script: it takes what is predicted, and nothing about it is remarked."""
        plain, policy = (pathlib.Path(self.folder.name) / name for name in ("plain.hrs", "policy.json"))
        peak = self.record(script)["peak_bytes"]
        self.step.rename(plain)
        self.answer([self.headroom, "plan", plain, "--budget", int(peak * share), "-o", policy, "--json"])
        self.record(script, "--strict", POLICY=str(policy))
        self.answer([self.headroom, "verify", plain, "--executed", self.step, "--policy", policy, "--json"])

    def test_an_applied_policy_is_not_remarked(self):
        for script in "k_policy_remark.py", "apply_plain.py":
            with self.subTest(script):
                self.check_plan(script, 0.85)

    def test_a_leaf_view_is_executed_as_planned(self):
        self.check_plan("k_viewcast.py", 0.95)


if __name__ == "__main__":
    Recording.headroom = sys.argv.pop(1)
    unittest.main()
