# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""`torch-headroom verify step.hrs --policy` runs an unmodified script once more, with the policy applied by
torch_headroom.apply, and compares the bytes with the prediction.

    verify_script_test.py HEADROOM
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

import support

support.need("torch")

from recorded_script import Recorded  # noqa: E402

HEADROOM = sys.argv.pop()

_SCRIPT = """
    import pathlib
    import sys
    import torch
    from torch import nn
    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        def forward(self, x):
            return x + self.down(torch.nn.functional.gelu(self.up(x)))
    class Net(nn.Sequential):
        pass
    batch = int(sys.argv[1]) if len(sys.argv) > 1 else 64
    net = Net(*[Block(256) for _ in range(pathlib.Path("blocks").read_text().count("b"))]).cuda()
    optimizer = torch.optim.AdamW(net.parameters())
    for step in range(3):
        net(torch.randn(batch, 128, 256, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        print("made step", step)
"""

# The weight of a VQGAN's adversarial loss: norms of gradients of the decoder's last layer, again and again.
_LAST_LAYER = """
    import torch
    from torch import nn
    decoder = nn.Sequential(nn.Conv2d(64, 128, 3, padding=1), nn.SiLU(), nn.Conv2d(128, 64, 3, padding=1), nn.SiLU(),
                            nn.Conv2d(64, 3, 3, padding=1)).cuda()
    critic = nn.Sequential(nn.Conv2d(3, 64, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(64, 1, 4)).cuda()
    optimizer = torch.optim.Adam([*decoder.parameters(), *critic.parameters()])
    last = decoder[-1].weight
    for step in range(3):
        image = decoder(torch.randn(8, 64, 32, 32, device="cuda"))
        loss, score = image.square().mean(), -critic(image).mean()
        weight = 0
        for _ in range(10):
            weight = weight + (torch.autograd.grad(loss, last, retain_graph=True)[0].norm() /
                               (torch.autograd.grad(score, last, retain_graph=True)[0].norm() + 1e-4)).detach()
        optimizer.zero_grad()
        (loss + weight * score).backward()
        optimizer.step()
"""


class VerifiedScripts(Recorded):
    def setUp(self):
        super().setUp()
        self.path = pathlib.Path(self.folder.name)
        (self.path / "blocks").write_text("bbbb")
        self.recorded(_SCRIPT)
        self.policy = self.path / "policy.json"

    def headroom(self, *words, **options):
        # The step names this Python, which is that of the active environment.
        environment = os.environ | {"VIRTUAL_ENV": sys.prefix} | options.pop("env", {})
        return subprocess.run([HEADROOM, *map(str, words)], capture_output=True, text=True, timeout=300,
                              env=environment, cwd="/", **options)

    def plan(self, share=0.4):
        def plan(budget):
            done = self.headroom("plan", self.step, "--budget", budget, "--json", "-o", self.policy)
            return json.loads(done.stdout)

        least = plan(1)["least_budget_bytes"]
        most = json.loads(self.headroom("info", self.step, "--json").stdout)["peak_bytes"]
        return plan(int(least + share * (most - least)))

    def verify(self, *words, **options):
        return self.headroom("verify", self.step, *(words or ("--policy", self.policy)), **options)

    def refused(self, sentence, *words, **options):
        done = self.verify(*words, **options)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertTrue(done.stderr.splitlines()[-1].startswith("torch-headroom: "), done.stderr)
        self.assertIn(sentence, done.stderr.splitlines()[-1])

    def test_the_executed_bytes_are_those_of_the_plan(self):
        plan = self.plan()
        done = self.verify("--policy", self.policy, "--json", "-o", self.path / "executed.hrs")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("made step 0", done.stderr)
        report = json.loads(done.stdout)
        self.assertTrue(report["agrees"])
        self.assertTrue(report["simulated"])
        self.assertEqual(report["reason"], "")
        self.assertEqual(report["executed_peak_bytes"], plan["peak_bytes"])
        self.assertEqual(report["predicted_peak_bytes"], plan["peak_bytes"])
        self.assertLess(report["executed_peak_bytes"], report["baseline_peak_bytes"])
        self.assertGreater(report["executed_recompute_ms"], 0)
        self.assertEqual(report["unequal_allocations"], 0)
        self.assertFalse(report["gradients"]["compared"])
        # The kept step gives the same report.
        again = self.verify("--policy", self.policy, "--json", "--executed", self.path / "executed.hrs")
        self.assertEqual(json.loads(again.stdout), report)
        self.assertIn("recorded under the policy",
                      self.headroom("plan", self.path / "executed.hrs", "--budget", "1GiB").stderr)

    def test_a_plan_by_op_runs_as_selective_checkpoints(self):
        plan = self.path / "plan.json"
        plan.write_text(self.headroom("ops-plan", self.step, "--memory-budget", "0.4", "--json").stdout)
        done = self.verify("--ops-plan", plan)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Timeline      equal to the byte after each of", done.stdout)
        self.assertIn("(simulated), 4 modules checkpointed", done.stdout)

    def test_returned_gradients_are_freed_by_the_program_alone(self):
        """autograd's thread lets go of the gradients that torch.autograd.grad() returns before the next op."""
        self.recorded(_LAST_LAYER)
        self.headroom("plan", self.step, "--budget", "1GiB", "--pin", "models.Sequential=recompute", "-o", self.policy)
        done = self.verify()
        self.assertIn("Timeline      equal to the byte after each of", done.stdout)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_script_that_has_changed_is_told(self):
        self.plan()
        (self.path / "blocks").write_text("bbbbb")
        done = self.verify("--policy", self.policy, "--json")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertFalse(json.loads(done.stdout)["agrees"])
        self.assertIn("executed memory differs from the predicted memory", done.stderr.splitlines()[-1])
        self.written(_SCRIPT.replace("class Net", "class Other").replace("net = Net", "net = Other"))
        self.refused("train.py does not train as recorded: the program called no Net")
        self.written("raise RuntimeError('no data')")
        self.refused("train.py raised RuntimeError: no data, before a training step began")
        (self.path / "train.py").unlink()
        self.refused("there is no such script")

    def test_another_batch_is_told(self):
        """As of a program that looks for the largest batch that fits."""
        self.plan()
        step, self.step = self.step, self.path / "other.hrs"
        result = self.run_script(self.path / "train.py", "--gpu", "a100-80gb", "--policy", self.policy,
                                 arguments=("96",))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.step = step
        self.refused("the step with the policy ran with batch 96, the recorded step with batch 64, so that "
                     "their bytes cannot be compared: fix these sizes in the script",
                     "--policy", self.policy, "--executed", self.path / "other.hrs")

    def test_a_python_that_is_not_at_hand_is_not_started(self):
        self.plan()
        own = self.path / "env" / "bin"
        own.mkdir(parents=True)
        started = self.path / "started"
        (own / "python3").write_text(f'#!/bin/sh\ntouch {started}\nexec {sys.executable} "$@"\n')
        (own / "python3").chmod(0o755)
        away = {"VIRTUAL_ENV": "", "CONDA_PREFIX": "", "PATH": "/usr/bin:/bin"}
        if pathlib.Path(sys.executable).parent in map(pathlib.Path, ("/usr/bin", "/bin")):
            self.skipTest("this Python is that of every PATH")
        self.refused("is no Python of an environment at hand", env=away)
        done = self.verify("--policy", self.policy, "--python", own / "python3", env=away)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(started.exists())
        self.refused("cannot be started", "--policy", self.policy, "--python", "/nowhere/python3")

    def test_what_cannot_run_again_is_said_in_one_sentence(self):
        self.plan()
        self.verify("--policy", self.policy, "-o", self.path / "executed.hrs")
        executed = self.headroom("verify", self.path / "executed.hrs", "--policy", self.policy)
        self.assertEqual(executed.returncode, 2)
        self.assertIn("already ran under the policy", executed.stderr)
        self.refused("--policy is missing", "--json")
        self.refused("exclude each other", "--policy", self.policy, "--ops-plan", self.policy)
        self.refused("`--batch` is no option for a recorded step", "--policy", self.policy, "--batch", "3")
        self.refused("exclude each other", "--policy", self.policy, "--executed", self.step, "-o", "x.hrs")

    def test_an_interrupted_run_leaves_nothing(self):
        self.plan()
        self.written("print('begun', flush=True)\nimport time\ntime.sleep(60)")
        for number in signal.SIGINT, signal.SIGTERM:
            with self.subTest(number=number), tempfile.TemporaryDirectory() as temporary:
                run = subprocess.Popen([HEADROOM, "verify", self.step, "--policy", self.policy], text=True,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
                                       env=os.environ | {"VIRTUAL_ENV": sys.prefix, "TMPDIR": temporary})
                self.assertEqual(run.stderr.readline(), "begun\n")
                os.killpg(run.pid, number)
                out, errors = run.communicate(timeout=60)
                self.assertEqual(run.returncode, 128 + number, errors)
                self.assertEqual(out, "")
                self.assertEqual(os.listdir(temporary), [])

    def test_record_applies_a_policy(self):
        self.plan()
        step = self.step
        self.step = self.path / "other.hrs"
        result = self.run_script(self.path / "train.py", "--gpu", "a100-80gb", "--policy", self.path / "nowhere.json")
        self.assertEqual(result.returncode, 2)
        self.assertIn("nowhere.json: cannot be read", result.stderr)
        self.assertFalse(self.step.exists())
        result = self.run_script(self.path / "train.py", "--gpu", "a100-80gb", "--policy", self.policy)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.noted("policy"), str(self.policy.resolve()))
        self.assertIn("--policy", self.noted("arguments"))
        self.step = step


if __name__ == "__main__":
    unittest.main()
