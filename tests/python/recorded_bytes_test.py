# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Steps recorded from Python hold the bytes of PyTorch's MemTracker: the peak, and each category at its five instants.

MemTracker's numbers are in tests/data/pytorch/memtracker_python.json, of fake cuda tensors of an A100. Fake tensors have no
values to look at: transformers then makes the mask of packed sequences without asking whether any are packed, so that it
is told to do the same here. On a GPU, real or simulated, it asks.
"""

import contextlib
import gc
import json
import pathlib
import tempfile
import unittest
from unittest import mock

import support

torch = support.simulated("a100-80gb")

import torch_headroom  # noqa: E402
import recorded_models  # noqa: E402

_DATA = pathlib.Path(__file__).parents[1] / "data" / "pytorch" / "memtracker_python.json"
_REFERENCE = json.loads(_DATA.read_text())


def as_on_fake_tensors(package):
    if package != "transformers":
        return contextlib.nullcontext()
    from transformers import masking_utils

    return mock.patch.object(masking_utils, "is_tracing", lambda tensor=None: True)


def recorded(name, as_on=as_on_fake_tensors):
    """What `record` says of the second step of a loop as MemTracker's was."""
    package, make = recorded_models.MODELS[name]
    if package:
        support.skip_without(package)
    with as_on(package):
        return recorded_step(make)


def recorded_step(make):
    with torch.device("cuda"):
        model, batch, loss_of = make()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, foreach=True)
    with tempfile.TemporaryDirectory() as folder:
        with torch_headroom.record(pathlib.Path(folder) / "step.hrs") as recording:
            recording.inputs(*batch)
            for _ in range(2):
                loss = loss_of(model, batch)
                loss.backward()
                del loss
                optimizer.step()
                optimizer.zero_grad()
                recording.step()
    return recording.summary


def as_memtracker(summary, batch):
    """Peak and phases in MemTracker's terms, which knows the batch as `other`, as an activation, or not at all."""
    peak = summary["peak_bytes"]
    phases = {}
    for name, categories in summary["phases"].items():
        categories = dict(categories)
        inputs = categories.pop("input")
        if batch == "ext":
            categories["other"] += inputs
        elif batch == "in":
            categories["activation"] += inputs
        elif name == "start":
            peak -= inputs
        phases[name] = categories
    return peak, phases


class MemTracker(unittest.TestCase):
    maxDiff = None

    def tearDown(self):
        gc.collect()

    def test_attention_masks_nothing_where_nothing_is_packed(self):
        name, layers, batch, length, float32 = "gpt2_bs8_s1024", 12, 8, 1024, 4
        peak, _ = as_memtracker(recorded(name, lambda package: contextlib.nullcontext()), _REFERENCE[name]["batch"])
        masks = layers * batch * length * length * float32
        self.assertEqual(peak, _REFERENCE[name]["peak_bytes"] - masks)


def _test_of(name):
    def test(self):
        summary = recorded(name)
        expected = _REFERENCE[name]
        peak, phases = as_memtracker(summary, expected["batch"])
        self.assertEqual(phases, expected["phases"])
        self.assertEqual(peak, expected["peak_bytes"])
        self.assertEqual(summary["fallbacks"], [])

    return test


for _name in recorded_models.MODELS:
    setattr(MemTracker, f"test_{_name}", _test_of(_name))


if __name__ == "__main__":
    unittest.main()
