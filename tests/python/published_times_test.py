# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Training steps in float32, without TF32, beside what NeuSight published of them (tests/data/published).

    published_times_test.py HEADROOM_PROGRAM

One recording of a model serves each card. tests/bench has all figures.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import support

support.need("torch", "transformers")

_PROGRAM = sys.argv.pop()
_TESTS = pathlib.Path(__file__).parent.parent
_CARDS = {"H100": "h100-80gb", "A100": "a100-80gb", "V100": "v100-32gb", "L4": "l4-24gb"}
_ROWS = {row["id"]: row for row in json.loads((_TESTS / "data" / "published" / "training_steps.json").read_text())
         if row["id"].startswith("neusight-")}
_RECORDED = ("neusight-bert_large-train-s512-b8-NVIDIA_H100_80GB_HBM3",
             "neusight-gpt2_large-train-s1024-b4-NVIDIA_H100_80GB_HBM3")


class PublishedTimes(unittest.TestCase):
    def test_products_in_float32(self):
        errors = {}
        with tempfile.TemporaryDirectory() as folder:
            recorder = [sys.executable, _TESTS / "bench" / "record_published.py",
                        _TESTS / "data" / "published" / "training_steps.json", folder]
            subprocess.run([*recorder, *_RECORDED], check=True, capture_output=True)
            for recorded in _RECORDED:
                same = recorded[:recorded.rindex("-") + 1]
                for name, row in _ROWS.items():
                    if not name.startswith(same):
                        continue
                    card = _CARDS[row["gpu"].split("-")[0].split()[0]]
                    command = [_PROGRAM, "info", "--json", "--gpu", card, f"{folder}/{recorded}.hrs"]
                    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                    ms = json.loads(said)["clock"]["step_ms"]
                    errors[name] = ms / row["step_time_s"] / 1e3 - 1
        self.assertEqual(len(errors), 5, errors)
        self.assertLess(sum(map(abs, errors.values())) / len(errors), 0.074, errors)
        self.assertLess(max(map(abs, errors.values())), 0.15, errors)


if __name__ == "__main__":
    unittest.main()
