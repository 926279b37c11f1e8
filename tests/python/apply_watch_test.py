# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""torch_headroom.apply warns once when the step takes more than the policy's budget, on the simulated GPU."""

import gc
import json
import os
import tempfile
import unittest
import warnings

import support

torch = support.simulated("a100-80gb")

import torch_headroom  # noqa: E402

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
        self.assertIn(f"(7 bytes were planned), more than its budget of {200 * SIZE:,}, as first seen", message)
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


if __name__ == "__main__":
    unittest.main()
