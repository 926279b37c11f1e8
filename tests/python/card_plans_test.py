# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans for cards, executed: training on the simulated card runs from the first step on, and reserves the predicted
bytes.

    card_plans_test.py HEADROOM
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import warnings

import support

support.need("torch")

HEADROOM = sys.argv.pop()
_SCRIPT = pathlib.Path(__file__).with_name("scripts") / "card_gpt.py"
_RUN = "import runpy, sys, torch_headroom; torch_headroom.simulate('a100-80gb'); runpy.run_path(sys.argv[1])"
_TOTAL = 85094039552  # bytes of an A100's memory
EXPANDABLE = "expandable_segments:True"


class CardPlans(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.step, cls.policy = (pathlib.Path(folder.name) / name for name in ("step.hrs", "policy.json"))
        cls.record(cls.step)
        _, none = cls.plan("--budget", "1")
        cls.least, cls.peak = none["least_budget_bytes"], none["baseline_peak_bytes"]

    @classmethod
    def record(cls, step, **environment):
        return subprocess.run([sys.executable, "-m", "torch_headroom.record", "--gpu", "a100-80gb", "-o", step, _SCRIPT],
                              check=True, capture_output=True, text=True, env=os.environ | environment)

    @classmethod
    def plan(cls, *options, step=None):
        done = subprocess.run([HEADROOM, "plan", step or cls.step, "--json", *options], capture_output=True, text=True)
        return done.returncode, json.loads(done.stdout)

    def replayed(self, step, settings=""):
        done = subprocess.run([HEADROOM, "allocator", step, "--settings", settings, "--json"], check=True,
                              capture_output=True)
        return json.loads(done.stdout)["reserved_peak_bytes"]

    def trained(self, settings="", **environment):
        """What five steps have reserved at most, and whether all of them ran."""
        done = subprocess.run([sys.executable, "-c", _RUN, _SCRIPT], capture_output=True, text=True,
                              env=os.environ | environment | {"PYTORCH_CUDA_ALLOC_CONF": settings})
        rows = [int(bytes_) for bytes_ in re.findall(r"reserved (\d+)", done.stdout)]
        steps = len(environment.get("LENGTHS", "").split()) or 5
        self.assertTrue(len(rows) == steps or "OutOfMemoryError" in done.stderr, done.stderr)
        return max(rows, default=0), len(rows) == steps

    def test_the_replayed_run_reserves_what_the_card_does(self):
        for settings in "", EXPANDABLE:
            self.assertEqual(self.trained(settings), (self.replayed(self.step, settings), True), settings)

    def test_an_evaluation_counts(self):
        for when in "before between", "tries":
            with self.subTest(when=when):
                step = self.step.with_name("evaluated.hrs")
                self.record(step, EVALUATES=when)
                for settings in "", EXPANDABLE:
                    self.assertEqual(self.trained(settings, EVALUATES=when), (self.replayed(step, settings), True))
                capacity = self.least + (self.peak - self.least) * 8 // 10
                code, planned = self.plan("--card", str(capacity), "-o", str(self.policy), step=step)
                if "tries" in when:  # the plan changes them, too
                    self.assertIn("forward passes that are no training step", str(planned["card"]["assumptions"]))
                    continue
                self.assertEqual(code, 0, planned["reason"])
                self.assertEqual(self.trained(LIMIT=str(capacity), POLICY=str(self.policy), EVALUATES=when),
                                 (planned["card"]["reserved_peak_bytes"], True))

    def test_a_forward_that_is_no_step_and_takes_more_is_named(self):
        step = self.step.with_name("tries.hrs")
        done = self.record(step, EVALUATES="tries", TRIES="32")
        self.assertRegex(done.stdout, "forward passes that are no training step, with up to [0-9.]+ GiB, more")
        capacity = self.least + (self.peak - self.least) * 8 // 10
        self.assertEqual(self.plan("--card", str(capacity), step=step)[0], 0, "a plan makes the forward smaller, too")
        done = self.record(step, EVALUATES="tries", TRIES="8")
        self.assertNotIn("no training step", done.stdout)

    def test_plans_run_on_their_card_and_plans_of_its_bytes_do_not(self):
        for share in (4, 8):
            capacity = self.least + (self.peak - self.least) * share // 10
            with self.subTest(share=share):
                code, planned = self.plan("--card", str(capacity), "-o", str(self.policy))
                self.assertEqual(code, 0, planned["reason"])
                reserved, runs = self.trained(LIMIT=str(capacity), POLICY=str(self.policy))
                self.assertTrue(runs)
                self.assertEqual(reserved, planned["card"]["reserved_peak_bytes"])
                self.plan("--budget", str(capacity), "-o", str(self.policy))
                self.assertFalse(self.trained(LIMIT=str(capacity), POLICY=str(self.policy))[1],
                                 "a budget of allocated bytes would do as well")

    def test_plans_of_steps_that_differ_in_size_run_with_all(self):
        step, lengths = self.step.with_name("differs.hrs"), "480 512 496 520 488 540 500"
        self.record(step, LENGTHS=lengths)
        for share in 5, 9:
            with self.subTest(share=share):
                capacity = self.least + (self.peak - self.least) * share // 10
                code, planned = self.plan("--card", str(capacity), "-o", str(self.policy), step=step)
                self.assertEqual(code, 0, planned["reason"])
                self.assertIn("the program's steps differ in size", planned["card"]["assumptions"][0])
                self.assertTrue(self.trained(LIMIT=str(capacity), POLICY=str(self.policy), LENGTHS=lengths)[1], planned["card"])

    def test_a_margin_is_left_free(self):
        capacity = self.least + (self.peak - self.least) * 7 // 10
        code, planned = self.plan("--card", str(capacity), "--margin", "100MiB")
        self.assertEqual(code, 0, planned["reason"])
        self.assertGreaterEqual(planned["card"]["left_bytes"], 100 << 20)
        self.assertEqual(planned["card"]["margin_bytes"], 100 << 20)

    def test_settings_are_those_of_the_plan(self):
        share = (self.least + (self.peak - self.least) * 0.6) / _TOTAL
        settings = f"{EXPANDABLE},per_process_memory_fraction:{share}"
        code, planned = self.plan("--card", "a100-80gb", "--settings", settings, "-o", str(self.policy))
        self.assertEqual(code, 0, planned["reason"])
        self.assertGreater(planned["recompute_ms"], 0, "the case is none")
        self.assertEqual(json.loads(self.policy.read_text())["allocator_settings"], settings)
        self.assertTrue(self.trained(settings, POLICY=str(self.policy))[1])
        self.assertFalse(self.trained(f"per_process_memory_fraction:{share}", POLICY=str(self.policy))[1])

    def test_settings_that_are_named_keep_their_promise(self):
        capacity = str(self.least + (self.peak - self.least) * 6 // 10)
        code, planned = self.plan("--card", capacity)
        self.assertEqual(code, 0, planned["reason"])
        better = planned["card"]["better_settings"]
        self.assertLess(better["recompute_ms"], planned["recompute_ms"])
        _, other = self.plan("--card", capacity, "--settings", better["settings"])
        self.assertTrue(other["card"]["runs"])
        self.assertEqual(other["recompute_ms"], better["recompute_ms"])

    def test_sizes_that_fit_run_and_the_next_do_not(self):
        """Each step that `fit` names, executed with and without the plan."""
        gigabytes = 2.4
        settings = f"per_process_memory_fraction:{gigabytes * 1e9 / _TOTAL}"
        folder = self.step.with_name(f"policies-{gigabytes}")
        done = subprocess.run([HEADROOM, "fit", _SCRIPT, "--json", "--gpu", "a100-80gb", "--python", sys.executable,
                               "--vary", "env:ROWS=1..", "--settings", settings, "--policies", folder],
                              capture_output=True, text=True,
                              env=os.environ | {"XDG_CACHE_HOME": str(self.step.parent)})
        self.assertEqual(done.returncode, 0, done.stderr)
        series, = json.loads(done.stdout)["series"]
        rows = {row["batch"]: row for row in series["rows"]}
        plain, largest, fastest = (series["rows"][series[name]]["batch"]
                                   for name in ("largest_without_plan", "largest", "fastest"))
        self.assertLess(plain, largest, "no plan is needed")

        def trained(batch, policy=None):
            return self.trained(settings, ROWS=str(batch), **({"POLICY": str(policy)} if policy else {}))

        def check(batch, run, policy=None):
            reserved, runs = trained(batch, policy)
            self.assertTrue(runs)
            # cuBLAS's workspaces are outside of the simulated card's allocator.
            self.assertEqual(reserved, run["reserved_peak_without_workspaces_bytes"], batch)

        check(plain, rows[plain]["plain"])
        self.assertFalse(trained(plain + 1)[1])
        policies = {int(path.stem.rpartition("-")[2]): path for path in folder.iterdir()}
        self.assertEqual(set(policies), {largest, fastest} - {plain})
        for batch, policy in policies.items():
            check(batch, rows[batch]["planned"], policy)
        self.assertFalse(trained(largest + 1, policies[largest])[1])

    def test_apply_warns_of_other_settings(self):
        import torch
        import torch_headroom

        model = torch.nn.Sequential(torch.nn.Linear(4, 4))
        document = {"headroom_policy": 1, "model": "Sequential", "modules": [], "budget_bytes": 1,
                    "allocator_settings": "expandable_segments:True,roundup_power2_divisions:[256:1,>:4]"}
        self.policy.write_text(json.dumps(document))
        cases = {"expandable_segments:True": "lacks roundup_power2_divisions:[256:1,>:4]:",
                 "roundup_power2_divisions:[256:1,>:4], expandable_segments:True": None}
        for settings, sentence in cases.items():
            with self.subTest(settings=settings), warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                with unittest.mock.patch.dict(os.environ, PYTORCH_CUDA_ALLOC_CONF=settings):
                    torch_headroom.apply(model, self.policy)
                self.assertEqual([sentence in str(warning.message) for warning in caught], [True] if sentence else [])


if __name__ == "__main__":
    unittest.main()
