# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Steps recorded on the simulated card, against what PyTorch's MemTracker counts for the same models on the CPU.

Each difference between the two has a cause, which tests/data/pytorch/memtracker_cpu.json names: the causes of a model are
all that is allowed for here, and what is left is equal to the byte, in total and by category.
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
from torch.nn import functional as F  # noqa: E402

_DATA = json.loads((pathlib.Path(__file__).parents[1] / "data" / "pytorch" / "memtracker_cpu.json").read_text())


def _dropout_of_the_cpu(x, p=0.5, training=True, inplace=False):
    """aten/src/ATen/native/Dropout.cpp where no fused kernel is."""
    if not training or p == 0:
        return x
    noise = torch.empty_like(x).bernoulli_(1 - p)
    noise.div_(1 - p)
    return x * noise


def _math_attention(query, key, value, mask, p):
    """_scaled_dot_product_attention_math of aten/src/ATen/native/transformers/attention.cpp."""
    scale = query.shape[-1] ** -0.25
    query = query * scale
    scores = torch.matmul(query, key.transpose(-2, -1) * scale)
    scores = torch.ops.aten._safe_softmax.default(scores, -1)
    if p > 0:
        scores = F.dropout(scores, p)
    return torch.matmul(scores, value)


def as_on_the_cpu(causes):
    """The model's functions as they are on the CPU, where that is a cause."""
    patches = contextlib.ExitStack()
    if "dropout" in causes:
        patches.enter_context(mock.patch.object(F, "dropout", _dropout_of_the_cpu))
    if "attention" in causes:
        patches.enter_context(mock.patch.object(F, "scaled_dot_product_attention", _math_attention))
    return patches


def size(tensors):
    """Bytes of their storages as asked for."""
    storages = {t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in tensors if t is not None}
    return sum(storages.values())


def blocks(tensors):
    """Bytes of their storages on the device, in blocks of 512."""
    on_device = {t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in tensors if t is not None and t.is_cuda}
    return sum(-(-count // 512) * 512 for count in on_device.values())


class Step:
    """A model's training step, and what the device holds at the five instants of it."""

    def __init__(self, name):
        with torch.device("cuda"):
            self.model, self.batch, self.loss_of = recorded_models.MODELS[name][1]()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3, foreach=True)
        self.asked, self.rounded = {}, {}

    def held(self):
        parameters = list(self.model.parameters())
        state = [t for values in self.optimizer.state.values() for t in values.values()]
        return {
            "parameter": parameters,
            "buffer": list(self.model.buffers()),
            "gradient": [p.grad for p in parameters],
            "optimizer": state,
        }

    def note(self, instant):
        held = self.held()
        asked = {category: size(tensors) for category, tensors in held.items()}
        counters = size(t for t in held["optimizer"] if not t.is_cuda)
        total = torch.cuda.memory_stats()["requested_bytes.all.current"] - size(self.batch) + counters
        asked["activation"] = total - sum(asked.values())
        self.asked[instant] = asked
        self.rounded[instant] = {category: blocks(tensors) for category, tensors in held.items()}
        self.rounded[instant]["input"] = blocks(self.batch)
        return counters

    def run(self):
        self.note("start")
        torch.cuda.reset_peak_memory_stats()
        loss = self.loss_of(self.model, self.batch)
        self.note("after_forward")
        loss.backward()
        self.note("after_backward")
        del loss
        self.optimizer.step()
        self.note("after_step")
        self.optimizer.zero_grad()
        counters = self.note("after_zero_grad")
        self.peak = torch.cuda.memory_stats()["requested_bytes.all.peak"] + counters


def recorded(name, causes):
    with as_on_the_cpu(causes), tempfile.TemporaryDirectory() as folder:
        step = Step(name)
        with torch_headroom.record(pathlib.Path(folder) / "step.hrs") as recording:
            recording.inputs(*step.batch)
            for _ in range(2):
                step.run()
                recording.step()
    return step, recording.summary


class Cpu(unittest.TestCase):
    maxDiff = None

    def tearDown(self):
        gc.collect()


def _test_of(name, expected):
    def test(self):
        step, summary = recorded(name, expected["causes"])
        batch = size(step.batch)
        for instant, phase in expected["phases"].items():
            asked = step.asked[instant] | {"temporary": 0, "other": 0}
            if expected["batch"] == "ext":
                asked["other"] += batch
            elif expected["batch"] == "in":
                asked["activation"] += batch
            self.assertEqual(asked, phase, instant)
            # The step file has the same tensors in the same categories, in the allocator's blocks.
            in_file = summary["phases"][instant]
            self.assertEqual({key: in_file[key] for key in step.rounded[instant]}, step.rounded[instant], instant)
        self.assertEqual(step.peak - (batch if expected["batch"] == "none" else 0), expected["peak_bytes"])
        self.assertEqual(summary["fallbacks"], [])

    return test


for _name, _expected in _DATA["models"].items():
    assert set(_expected["causes"]) <= set(_DATA["causes"])
    setattr(Cpu, f"test_{_name}", _test_of(_name, _expected))


if __name__ == "__main__":
    unittest.main()
