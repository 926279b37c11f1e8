# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compiled autograd on the simulated GPU (torch_headroom/_compile.py).

    compiled_autograd_test.py HEADROOM
"""

import pathlib
import tempfile
import unittest
from unittest import mock

from compile_test import ROWS, Compiled, Net, Recorded, batch, headroom, recorded, torch, torch_headroom
from wrapper_memory import Plan, rounded


class CompiledAutograd(Compiled):
    def tearDown(self):
        torch._dynamo.compiled_autograd.reset()

    def step_of(self, model, backend="inductor", data=None):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        data = data or batch()

        def step():
            loss = model(*data)
            with torch._dynamo.compiled_autograd._enable(torch.compile(backend=backend)):
                loss.backward()
            optimizer.step()
            optimizer.zero_grad()

        return step

    def test_backward_is_one_graph_of_inductor(self):
        sources, data = [], batch()
        model = Net().cuda()
        start = sum(rounded(tensor.nbytes) for tensor in (*model.parameters(), *data))
        graph = torch._inductor.graph.GraphLowering
        with mock.patch.object(graph, "save_output_code", staticmethod(sources.append)), \
                torch.compiler.config.patch(force_disable_caches=True):
            step = Recorded(self.step_of(torch.compile(model), data=data), steps=3)
        # Backward once, although it was not known before the first step: a parameter that two nodes saved is one input.
        forward, backward = map(Plan, sources)
        empty = step.named("aten.empty_strided.default")
        self.assertEqual([op["bytes"] for op in empty], forward.allocations + backward.allocations)
        self.assertEqual({op["phase"] for op in step.kernels}, {"forward", "backward"})
        # The first buffer of backward is the gradient of the logits, who go after it; no later one is larger.
        tangent = rounded(4)
        of_logits = rounded(ROWS * 1000 * 4)
        self.assertEqual(rounded(backward.allocations[0]), of_logits)
        self.assertEqual(step.peak, start + forward.live + tangent + of_logits)
        self.assertNotIn("compiled autograd", " ".join(step.notes))
        eager = recorded(Net().cuda())

        def of_backward(recorded):
            products = [op for op in recorded.ops if op["phase"] == "backward" and op["name"].startswith("aten.mm")]
            return len(products), recorded.summary["phases"]["after_backward"]["gradient"]

        self.assertEqual(of_backward(step), of_backward(eager))

    def test_a_step_that_nobody_foresaw_is_marked(self):
        step = Recorded(self.step_of(Net().cuda(), backend="eager"), steps=1)
        self.assertIn("compiled autograd ran a backward pass, unforeseen", " ".join(step.notes))

    def test_no_plan_is_made_of_it(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "step.hrs"
            step = self.step_of(Net().cuda(), backend="eager")
            with torch_headroom.record(path) as recording:
                for _ in range(3):
                    step()
                    recording.step()
            with self.assertRaisesRegex(AssertionError, "compiled autograd runs the backward of this step"):
                headroom("plan", path, "--budget", "1GiB", "-o", path.with_suffix(".json"))


if __name__ == "__main__":
    unittest.main()
