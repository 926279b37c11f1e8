# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""torch_headroom.apply warns once when a step takes more than the policy's budget, and once when it takes more than was
planned, on the simulated GPU.

    apply_watch_test.py PLAN_CHECKER
"""

import gc
import json
import os
import sys
import tempfile
import unittest
import warnings

import support

torch = support.simulated("a100-80gb")

import torch_headroom  # noqa: E402
from torch_headroom._apply.apply import MemoryWatch  # noqa: E402

SIZE = 1 << 20


def made():
    layers = [torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.GELU()) for _ in range(4)]
    return torch.nn.Sequential(*layers).cuda()


class Watch(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def warned(self, budget, beside=0, steps=3):
        """What training says under this budget, with tensors of other models on the device."""
        gc.collect()
        torch.cuda.reset_peak_memory_stats()
        net = made()
        path = os.path.join(self.folder.name, "policy.json")
        modules = [{"fqn": f"Sequential.{i}", "types": ["Sequential"] * 2, "ops": []} for i in (1, 2)]
        with open(path, "w") as file:
            json.dump({"headroom_policy": 1, "model": "net.py", "budget_bytes": budget, "modules": modules,
                       "predicted": {"peak_bytes": 7}}, file)
        torch_headroom.apply(net, path)
        optimizer = torch.optim.Adam(net.parameters())
        others = torch.empty(beside, dtype=torch.uint8, device="cuda")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(steps):
                net(torch.zeros(4096, 512, device="cuda")).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
        del others
        return [str(warning.message) for warning in caught]

    def test_the_first_module_where_it_is_over(self):
        self.assertEqual(self.warned(200 * SIZE), [])
        (message,) = self.warned(200 * SIZE, beside=200 * SIZE)
        self.assertIn("policy.json: the step has taken ", message)
        self.assertIn(f"(7 bytes were planned), more than the budget of {200 * SIZE:,}, as first seen", message)
        self.assertIn("at the begin of module Sequential.1", message)
        for budget, steps, where in ((40, 1, "at the end of module Sequential.1"),
                                     (56, 1, "in backward, at the recomputation of module Sequential.2"),
                                     (65, 2, "in backward, at the recomputation of module Sequential.2")):  # with Adam's state
            self.assertEqual(self.warned(budget * SIZE, steps=steps - 1), [])
            (message,) = self.warned(budget * SIZE)
            self.assertIn(f"as first seen {where}", message)

    def test_what_was_allocated_before_training_does_not_count(self):
        loaded = torch.empty(300 * SIZE, dtype=torch.uint8, device="cuda")
        del loaded
        self.assertEqual(self.warned(200 * SIZE), [])
        self.assertEqual(len(self.warned(20 * SIZE)), 1)

    def test_no_budget(self):
        self.assertEqual(self.warned(0), [])
        with self.assertRaisesRegex(torch_headroom.PolicyError, "budget_bytes: expected a number of bytes"):
            self.warned("1 GiB")


def train(net, steps, batches, optimizer, parts=1, clears="after", beside=None):
    """`batches` are the rows of each step's input; `beside` is called after each step."""
    kept = []
    for step in range(steps):
        for part in range(parts):
            loss = net(torch.zeros(batches[step % len(batches)], WIDTH, device="cuda")).sum()
            if clears == "between" and part == 0:
                optimizer.zero_grad()
            loss.backward()
        optimizer.step()
        if clears == "after":
            optimizer.zero_grad()
        if beside:
            kept.append(beside(net))


WIDTH = 1024
ROWS = 32768  # 128 MiB of float32


def wide():
    layers = [torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU(), torch.nn.Linear(WIDTH, WIDTH),
                                  torch.nn.GELU()) for _ in range(4)]
    return torch.nn.Sequential(*layers).cuda()


def evaluated(net):
    """Results of an evaluation, which the caller holds: 256 MiB."""
    with torch.no_grad():
        return net(torch.zeros(2 * ROWS, WIDTH, device="cuda"))


def adam(net):
    return torch.optim.Adam(net.parameters())


def sgd(net):
    return torch.optim.SGD(net.parameters())


class Plan(unittest.TestCase):
    """What is said of a step that takes more than was planned, but not more than the budget."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.addCleanup(setattr, MemoryWatch, "TOLERANCE", MemoryWatch.TOLERANCE)
        self.addCleanup(setattr, MemoryWatch, "SHARE", MemoryWatch.SHARE)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def planned(self, optimizer=adam, share=0.0, **how):
        """The policy of the step that train(**how) makes, with a budget that nothing here exceeds."""
        gc.collect()
        net = wide()
        optimizer = optimizer(net)
        with torch_headroom.record(self.path("step.hrs")) as recording:
            train(net, 2, [ROWS], optimizer, beside=lambda net: recording.step(), **how)
        del net, optimizer
        checker.ask("plan", self.path("step.hrs"), self.path("policy.json"), share)
        with open(self.path("policy.json")) as file:
            document = json.load(file)
        document["budget_bytes"] = 1 << 40
        return document

    def warned(self, document, optimizer=adam, before=None, **how):
        gc.collect()
        torch.cuda.reset_peak_memory_stats()
        with open(self.path("policy.json"), "w") as file:
            json.dump(document, file)
        net = wide()
        kept = before(net) if before else None
        torch_headroom.apply(net, self.path("policy.json"))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            train(net, **{"steps": 3, "batches": [ROWS], "optimizer": optimizer(net), **how})
        del kept
        return [str(warning.message) for warning in caught]

    def test_the_recorded_step_is_silent(self):
        MemoryWatch.TOLERANCE, MemoryWatch.SHARE = SIZE, sys.maxsize
        for how in ({}, {"optimizer": sgd}, {"parts": 3}, {"clears": "between"},
                    {"clears": "between", "optimizer": sgd}, {"clears": "between", "parts": 2}):
            document = self.planned(**how)
            with self.subTest(**how):
                self.assertEqual(self.warned(document, **how), [])
                self.assertEqual(self.warned(document, batches=[ROWS, ROWS // 3], **how), [])  # a smaller last batch
                # An evaluation that leaves its results, in the loop and before it.
                self.assertEqual(self.warned(document, beside=evaluated, **how), [])
                self.assertEqual(self.warned(document, before=evaluated, **how), [])
                self.assertEqual(self.warned(document, before=evaluated, beside=evaluated, **how), [])

    def test_the_plan_is_what_the_second_step_holds(self):
        document = self.planned(parts=2)
        held = document["predicted"]["held_bytes"]
        self.assertEqual(sorted(held), [entry["fqn"] for entry in document["modules"]])
        seen = {}

        def at(watch, where, planned=()):
            if watch._steps == 1 and planned:
                seen.setdefault((where.split()[-1], planned), []).append(torch.cuda.memory_allocated())

        self.addCleanup(setattr, MemoryWatch, "at", MemoryWatch.at)
        MemoryWatch.at = at
        self.assertEqual(self.warned(document, parts=2), [])
        self.assertEqual(len(seen), 3 * len(held))
        for (module, planned), found in seen.items():
            self.assertIn(list(planned), held[module].values())
            self.assertEqual(list(planned), found)

    def test_a_larger_batch(self):
        document = self.planned()
        (message,) = self.warned(document, batches=[3 * ROWS])
        self.assertRegex(message, r"policy\.json: at the end of module Sequential\.0 the step holds [\d,]+ bytes, [\d,]+ "
                                  "were planned: this step differs from the recorded step \\(another batch")
        (message,) = self.warned(document, batches=[ROWS, 3 * ROWS])
        self.assertIn("at the end of module Sequential.0 the step holds", message)
        self.assertEqual(self.warned(document, batches=[ROWS, ROWS, 3 * ROWS]), [])  # it was watched for two steps

    def test_what_stays_in_the_course_of_a_step(self):
        document = self.planned()
        kept = []

        def before(net):
            net[2][3].register_forward_hook(lambda module, args, result: kept.append(torch.cat([result.detach()] * 2)))

        (message,) = self.warned(document, before=before)
        self.assertIn("at the end of module Sequential.2 the step holds", message)

    def test_more_than_the_budget_is_said_besides(self):
        document = self.planned()
        document["budget_bytes"] = 2 * document["predicted"]["peak_bytes"]
        messages = self.warned(document, batches=[3 * ROWS])
        self.assertEqual(len(messages), 2)
        self.assertIn("the step holds", messages[0])
        self.assertIn("more than the budget", messages[1])

    def test_policies_without_it(self):
        document = self.planned()
        held = document["predicted"].pop("held_bytes")
        self.assertEqual(self.warned(document, batches=[3 * ROWS]), [])
        name = next(iter(held))
        for wrong in ([], {name: []}, {name: {"begin": [1], "end": [1]}}, {name: {**held[name], "end": [-1]}}):
            document["predicted"]["held_bytes"] = wrong
            with self.assertRaisesRegex(torch_headroom.PolicyError, r"predicted\.held_bytes"):
                self.warned(document)


if __name__ == "__main__":
    checker = support.Checker(sys.argv.pop(1))
    try:
        unittest.main()
    finally:
        checker.close()
