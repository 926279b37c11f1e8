# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""packaging/gpu-check.sh and measuring from Python, as far as a machine without a GPU has them: one sentence each, an exit
code, and nothing written."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import support

support.need("torch")
if pathlib.Path("/dev/nvidiactl").exists():
    print("skipped: this machine has NVIDIA's driver", file=sys.stderr)
    sys.exit(support.SKIPPED)

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["HEADROOM_LIBRARY"]).resolve().parents[1]
sys.path.insert(0, str(ROOT / "packaging" / "gpu_check"))

import check  # noqa: E402

SCRIPT = """
import torch
model = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    model(torch.ones(2, 4, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


class WithoutAGpu(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_here(self, *command):
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True)

    def test_gpu_check_ends_with_one_sentence_and_writes_nothing(self):
        environment = dict(os.environ, HEADROOM_PYTHON=sys.executable)
        output = self.folder / "card.json"
        script = str(ROOT / "packaging" / "gpu-check.sh")
        done = subprocess.run([script, "--build", str(BUILD), "--output", str(output)], env=environment,
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 2, done.stderr)  # what was built, and why no GPU can be used
        self.assertTrue(done.stderr.splitlines()[1].startswith("gpu-check: no GPU can be used: "), done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertFalse(output.exists())

    def test_recording_a_script_on_the_gpu(self):
        (self.folder / "train.py").write_text(SCRIPT)
        done = self.run_here(sys.executable, "-m", "torch_headroom.record", "--device", "cuda", "-o", "step.hrs", "train.py")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertTrue(done.stderr.startswith("torch_headroom.record: no GPU can be used: "), done.stderr)
        self.assertIn("torch_headroom.simulate(), before `import torch`, needs no GPU", done.stderr)
        self.assertFalse((self.folder / "step.hrs").exists())

    def test_an_unknown_device(self):
        done = self.run_here(sys.executable, "-m", "torch_headroom.record", "--device", "tpu", "train.py")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("unknown device 'tpu'; known are sim, the simulated GPU, and cuda or cuda:N", done.stderr)

    def test_recording_in_a_program(self):
        program = """
import torch_headroom, torch
try:
    with torch_headroom.record("step.hrs"):
        pass
except Exception as error:
    print(type(error).__name__, error.exit_code, str(error).startswith("no GPU can be used: "))
"""
        done = self.run_here(sys.executable, "-c", program)
        self.assertEqual((done.returncode, done.stdout), (0, "HeadroomError 4 True\n"), done.stderr)


class Document(unittest.TestCase):
    """What check.py makes of results, of whole ones and of those that are missing."""

    def test_checks_stand_alone(self):
        checks = check.Checks()
        checks.within("a", "model", 0.01, lambda: 1000, lambda: 1009)
        checks.within("b", "model", 0.01, lambda: 1000, lambda: 1011)
        checks.within("c", "model", 0.01, lambda: {}["memory"], lambda: 1)
        checks.within("d", "model", 0.01, lambda: 0, lambda: 1)
        checks.at_most("e", "model", lambda: 10, lambda: 11)
        self.assertEqual([row["status"] for row in checks.rows], ["passed", "failed", "error", "error", "failed"])
        self.assertEqual(checks.rows[2]["reason"], "KeyError: 'memory'")

    def test_results_of_processes_that_failed_are_rows(self):
        checks = check.Checks()
        results = {"m": {"measured": {"problem": "exit 1"}, "simulated": {"problem": "exit 1"}}}
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            check.check_memory(checks, "m", results["m"])
            check.check_times(checks, "m", results["m"])
            check.check_roofline(checks, folder, ["m"], results)
            self.assertTrue(all(row["status"] == "error" for row in checks.rows))
            output = folder / "deeper" / "card.json"
            check.write(output, {"name": "card"}, results, checks, folder)
            document = json.loads(output.read_text())
        self.assertEqual(document["models"], results)
        self.assertEqual(len(document["checks"]), len(checks.rows))

    def test_plans_of_ops_are_rows(self):
        def rows_of(script):
            with tempfile.TemporaryDirectory() as folder:
                recorder = pathlib.Path(folder) / "torch-headroom-record"
                recorder.write_text(f"#!/bin/sh\n{script}\n")
                recorder.chmod(0o755)
                checks = check.Checks()
                check.check_ops(checks, check.Clock(60), str(recorder))
            return checks.rows

        document = '{"agrees": %s, "reason": "saves more", "executed_peak_bytes": 7, "gradients": {"unrepeatable": "%s"}}'
        kept = rows_of("echo '" + document % ("true", "") + "'")
        self.assertEqual(len(kept), len(check.OPS_STEPS) * len(check.OPS_FRACTIONS))
        self.assertEqual({row["status"] for row in kept}, {"passed"})
        self.assertNotIn("reason", kept[0])
        self.assertIn("not repeatable", rows_of("echo '" + document % ("true", "head.weight") + "'")[0]["reason"])
        broken = rows_of("echo '" + document % ("false", "") + "'; exit 1")
        self.assertEqual((broken[0]["status"], broken[0]["reason"]), ("failed", "saves more"))
        crashed = rows_of("echo 'torch-headroom-record: ended' >&2; exit 1")
        self.assertEqual((crashed[0]["status"], crashed[0]["reason"]), ("error", "Failed: exit 1: torch-headroom-record: ended"))
        checks = check.Checks()
        check.check_ops(checks, check.Clock(60), None)
        self.assertEqual([row["status"] for row in checks.rows], ["skipped"])

    @unittest.skipUnless((BUILD / "bin" / "torch-headroom-record").exists(), "torch-headroom-record was not built")
    def test_ops_are_asked_for_in_words_that_the_recorder_knows(self):
        for step in check.OPS_STEPS:
            with self.assertRaisesRegex(check.Failed, "exit 4: torch-headroom-record: no GPU can be used"):
                check.execute_ops(check.Clock(60), str(BUILD / "bin" / "torch-headroom-record"), step, 0.5)

    def test_a_process_that_fails_says_why(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(check.Failed, "exit 1: KeyError: 'dance'"):
                check.run(check.Clock(60), folder, "dance")
            program = pathlib.Path(folder) / "slow.py"
            program.write_text('print("RESULT {}", flush=True); import time; time.sleep(60)')
            with unittest.mock.patch.multiple(check, RUN=program, PROCESS_SECONDS=8):
                self.assertEqual(check.run(check.Clock(60), folder, "x"), ({}, "exit timeout after 8 s"))
            with self.assertRaisesRegex(check.Failed, "no time left"):
                check.run(check.Clock(5), folder, "probe")

    def test_names_of_files(self):
        self.assertEqual(check.file_name("h200-141gb"), "h200-141gb.json")
        self.assertEqual(check.file_name("NVIDIA X (2)"), "nvidia-x-2.json")


if __name__ == "__main__":
    unittest.main()
