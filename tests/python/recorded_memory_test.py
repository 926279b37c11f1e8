# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A step that is recorded takes the simulated card's memory as one that is not: what autograd alone holds counts, so that
torch.cuda says the peak of the step file, and the card's memory runs out at the op at which it would."""

import gc
import json
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest

import support

torch = support.simulated("a100-80gb")

import torch_headroom  # noqa: E402
import recorded_models  # noqa: E402

_GIB = 2**30


def step(model, batch, loss_of, optimizer):
    loss = loss_of(model, batch)
    loss.backward()
    del loss
    optimizer.step()
    optimizer.zero_grad()


def prepared(name):
    with torch.device("cuda"):
        model, batch, loss_of = recorded_models.MODELS[name][1]()
    return model, batch, loss_of, torch.optim.Adam(model.parameters(), lr=1e-3, foreach=True)


def plain_peak(name):
    """What tensors take in the second step when nobody records."""
    arguments = prepared(name)
    before = support.tensor_bytes()[0]
    step(*arguments)
    torch.cuda.reset_peak_memory_stats()
    step(*arguments)
    return support.tensor_bytes()[1] - before, support.tensor_bytes()[0] - before


def recorded_peaks(name):
    """The same while it is recorded, and what the step file says."""
    arguments = prepared(name)
    before = support.tensor_bytes()[0]
    with tempfile.TemporaryDirectory() as folder:
        with torch_headroom.record(pathlib.Path(folder) / "step.hrs") as recording:
            step(*arguments)
            recording.step()
            torch.cuda.reset_peak_memory_stats()
            step(*arguments)
            peak = support.tensor_bytes()[1]
            recording.step()
    return (peak - before, support.tensor_bytes()[0] - before), peak, recording.summary["peak_bytes"]


class Peaks(unittest.TestCase):
    """The peak that a program reads is that of the step that it would have without a recording, and of the step file."""

    def setUp(self):
        self.assertEqual(torch.cuda.memory_allocated(), 0)


def _test_of(name):
    def test(self):
        recorded, peak, in_file = recorded_peaks(name)
        self.assertEqual(peak, in_file)
        self.assertEqual(recorded, plain_peak(name))

    return test


for _name, (_package, _) in recorded_models.MODELS.items():
    if _package is None:
        setattr(Peaks, f"test_{_name}", _test_of(_name))


class Holds(unittest.TestCase):
    """Who holds what only autograd holds, in all ways in which it ends."""

    def setUp(self):
        self.assertEqual(torch.cuda.memory_allocated(), 0)
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.recording = torch_headroom.record(pathlib.Path(self.folder.name) / "step.hrs")

    def tearDown(self):
        gc.collect()  # the first torch.autograd.grad() of a process imports modules, whose garbage holds its tensors
        self.assertEqual(torch.cuda.memory_allocated(), 0)

    def test_a_graph_that_is_dropped(self):
        x = torch.zeros(2**18, device="cuda", requires_grad=True)
        with self.recording:
            y = x.exp().exp()
            self.assertEqual(torch.cuda.memory_allocated(), 3 * 2**20)
            del y
            self.assertEqual(torch.cuda.memory_allocated(), 2**20)

    def test_a_graph_that_runs_twice(self):
        x = torch.zeros(2**18, device="cuda", requires_grad=True)
        with self.recording:
            loss = x.exp().exp().sum()
            loss.backward(retain_graph=True)
            self.assertEqual(torch.cuda.memory_allocated(), 4 * 2**20 + 512)
            loss.backward()
            self.assertEqual(torch.cuda.memory_allocated(), 2 * 2**20 + 512)
            del loss

    def test_a_graph_that_outlives_the_recording(self):
        x = torch.zeros(2**18, device="cuda", requires_grad=True)
        with self.recording:
            loss = x.exp().exp().sum()
        self.assertEqual(torch.cuda.memory_allocated(), 3 * 2**20 + 512)
        loss.backward()
        self.assertEqual(torch.cuda.memory_allocated(), 2 * 2**20 + 512)
        del loss

    def test_gradients_of_gradients(self):
        x = torch.zeros(2**18, device="cuda", requires_grad=True)
        with self.recording:
            (gradient,) = torch.autograd.grad(x.exp().exp().sum(), x, create_graph=True)
            recorded = torch.cuda.memory_allocated()
            del gradient
        (gradient,) = torch.autograd.grad(x.exp().exp().sum(), x, create_graph=True)
        self.assertEqual(recorded, torch.cuda.memory_allocated())

    def test_jagged_tensors(self):
        """What autograd saves has the ragged size of the program's tensor, though the tensor's offsets are gone."""
        rows = [torch.randn(count, 512, device="cuda", requires_grad=True) for count in (256, 64, 192)]

        def loss():
            x = torch.nested.as_nested_tensor(rows, layout=torch.jagged)
            x = torch.tanh(torch.tanh(x) * 2)
            return torch.stack([row.mean() for row in x.unbind()]).sum() + torch.nested.to_padded_tensor(x, 0).sum()

        def taken():
            torch.cuda.reset_peak_memory_stats()
            loss().backward()
            for row in rows:
                row.grad = None
            return support.tensor_bytes()

        taken()  # PyTorch keeps tensors of the first use
        with self.recording:
            recorded = taken()
        self.assertEqual(recorded, taken())
        torch.nested._internal.nested_tensor._tensor_symint_registry.clear()

    def test_a_saved_storage_that_is_resized(self):
        x = torch.zeros(2**18, device="cuda", requires_grad=True)
        with self.recording:
            y = x.exp()
            y.untyped_storage().resize_(0)
            self.assertEqual(torch.cuda.memory_allocated(), 2**20)
            y.untyped_storage().resize_(2**20)
            self.assertEqual(torch.cuda.memory_allocated(), 2 * 2**20)
            y.untyped_storage().resize_(2**21)
            self.assertEqual(torch.cuda.memory_allocated(), 3 * 2**20)
            del y


class KeptGraphs(unittest.TestCase):
    """A graph of an earlier step that lives when the recorded one begins, as in truncated backpropagation through time."""

    def setUp(self):
        self.assertEqual(torch.cuda.memory_allocated(), 0)
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def recorded(self, run, steps=3):
        """What the step file says of the last step, and the peak that a program sees in it."""
        with torch_headroom.record(pathlib.Path(self.folder.name) / "step.hrs") as recording:
            for number in range(steps):
                torch.cuda.reset_peak_memory_stats()
                run(number)
                peak, live = support.tensor_bytes()[1], support.tensor_bytes()[0]
                recording.step()
        return recording.summary, peak, live

    def seen(self, run, steps=3):
        for number in range(steps):
            torch.cuda.reset_peak_memory_stats()
            run(number)
        return support.tensor_bytes()[1], support.tensor_bytes()[0]

    def recurrent(self):
        """Each step's backward passes through that of the step before, whose graph it drops."""
        weight = torch.zeros(512, 512, device="cuda", requires_grad=True)
        states = [torch.zeros(512, 512, device="cuda")]

        def run(number):
            states.append(torch.tanh(torch.sin(states[-1] @ weight)))
            del states[:-1]
            states[-1].sum().backward(retain_graph=True)
            weight.grad = None
            if number % 2:
                states[-1] = states[-1].detach()

        return run

    def check(self, make, steps):
        summary, peak, live = self.recorded(make(), steps)
        self.assertEqual(summary["peak_bytes"], peak)
        gc.collect()
        self.assertEqual(support.tensor_bytes()[0], 0)
        self.assertEqual((peak, live), self.seen(make(), steps))
        return summary

    def test_of_the_step_before(self):
        start = self.check(self.recurrent, 2)["phases"]["start"]
        self.assertEqual(start["activation"], 2 * 2**20)  # the state, which tanh() saved, and what sin() saved

    def test_that_was_let_go(self):
        start = self.check(self.recurrent, 3)["phases"]["start"]
        self.assertEqual(start["activation"], 2**20)

    def test_that_nobody_runs(self):
        def make():
            weight = torch.zeros(512, 512, device="cuda", requires_grad=True)
            kept = []

            def run(_):
                kept.append(torch.sin(weight.exp()).sum())
                weight.exp().exp().sum().backward()
                weight.grad = None

            return run

        start = self.check(make, 4)["phases"]["start"]
        self.assertEqual(start["activation"], 3 * (2**20 + 512))  # what both sin() and exp() saved, and the sum

    def test_of_a_step_that_is_discarded(self):
        weight = torch.zeros(512, 512, device="cuda", requires_grad=True)
        kept = []
        with torch_headroom.record(pathlib.Path(self.folder.name) / "step.hrs") as recording:
            kept.append(weight.exp().exp().sum())
            recording.step()
            kept.append(weight.exp().exp().sum())
        self.assertEqual(torch.cuda.memory_allocated(), 2**20 + 2 * (2 * 2**20 + 512))
        sum(kept).backward()
        self.assertEqual(torch.cuda.memory_allocated(), 2 * 2**20 + 2 * 512)


# Each layer's result of 1 GiB is kept for backward, and by autograd alone.
_DEEP = """
    import json
    import sys

    {first}
    import torch

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(1))

        def forward(self, x):
            return torch.sigmoid(x * self.scale)

    class Deep(torch.nn.Module):
        def __init__(self, layers):
            super().__init__()
            self.layers = torch.nn.ModuleList(Layer() for _ in range(layers))

        def forward(self, x):
            for number, layer in enumerate(self.layers):
                numbers["layer"] = number
                x = layer(x)
            return x.sum()

    numbers = {{}}
    model = Deep({layers}).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    try:
        for step in range(2):
            optimizer.zero_grad()
            loss = model(torch.zeros(2**28, device="cuda"))
            loss.backward()
            del loss
            optimizer.step()
    except torch.OutOfMemoryError as error:
        numbers |= {{"step": step, "peak": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.memory_reserved()}}
        numbers["error"] = str(error)
        raise
    finally:
        with open("numbers.json", "w") as file:
            json.dump(numbers, file)
"""


class OutOfMemory(unittest.TestCase):
    def run_script(self, *command, first="", layers=90):
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder) / "deep.py"
            script.write_text(textwrap.dedent(_DEEP).format(first=first, layers=layers))
            command = [sys.executable, *command, script]
            result = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=300)
            numbers = json.loads((pathlib.Path(folder) / "numbers.json").read_text())
            return result, numbers

    def test_it_is_raised_at_the_same_op(self):
        simulated, plain = self.run_script(first="import torch_headroom; torch_headroom.simulate('a100-80gb')")
        self.assertEqual(simulated.returncode, 1)
        self.assertIn("OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB", simulated.stderr)
        recorded, seen = self.run_script("-m", "torch_headroom.record", "--gpu", "a100-80gb", "--limited")
        self.assertNotEqual(recorded.returncode, 0)
        self.assertIn("CUDA out of memory. Tried to allocate 1.00 GiB", recorded.stderr.splitlines()[-1])
        self.assertEqual(seen, plain)
        note = next(line for line in recorded.stdout.splitlines() if line.startswith("note: out of memory at "))
        self.assertIn(f" in Deep.layers.{seen['layer']}: The program asked for 1.00 GiB, and the device had ", note)
        # The batch and a result of each layer are saved, a product is not; a segment of 2 MiB holds small tensors.
        room = (torch.cuda.get_device_properties(0).total_memory - 468 * 2**20 - 2**21) // _GIB
        self.assertEqual(seen["step"], 0)
        self.assertEqual(seen["layer"], room - 2)
        self.assertEqual(seen["reserved"], room * _GIB + 2**21)
        self.assertEqual(seen["peak"] // _GIB, room)

    def test_a_step_that_just_fits_is_recorded(self):
        result, numbers = self.run_script("-m", "torch_headroom.record", "--gpu", "a100-80gb", "-o", "s.hrs", layers=60)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("error", numbers)

    def test_unlimited_records_all(self):
        result, numbers = self.run_script("-m", "torch_headroom.record", "--gpu", "a100-80gb", "--unlimited")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("note: this is more than the card's", result.stdout)
        again, _ = self.run_script("-m", "torch_headroom.record", "--gpu", "a100-80gb")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual(again.stdout.splitlines()[1], result.stdout.splitlines()[1])  # the peak
        self.assertRegex(again.stderr, r"CUDA out of memory\. .* \(module Deep\.layers\.\d+\), made the request")


if __name__ == "__main__":
    unittest.main()
