# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""`torch-headroom fit` beside the batches, contexts and peaks that others published (tests/data/published/fit_rows.json).

    published_fit_test.py HEADROOM              the quick rows that this Python has the packages for
    published_fit_test.py HEADROOM --all        all rows that can be built, as a table: half an hour
    published_fit_test.py HEADROOM PREFIX...    rows whose ids begin so, as a table

A row's `differs` says why its figure is another one, `missing` why the row cannot be built. Texts of PEFT's rows have one
length, fitted to three of the rows: of the longest batch only the memory is published.
"""

import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import support

support.need("torch")

HEADROOM, *_ASKED = sys.argv[1:]
del sys.argv[1:]
_TESTS = pathlib.Path(__file__).parent
_SCRIPT = _TESTS / "scripts" / "published_fit.py"
_ROWS = {row["id"]: row for row in json.loads((_TESTS.parent / "data" / "published" / "fit_rows.json").read_text())}
_NEEDS = {"timm": ["timm"], "litgpt": ["litgpt", "lightning"], "peft": ["transformers", "peft"], "qwen": [],
          "liger": ["transformers"], "titan": ["transformers"], "torchao": []}
_WITHIN = {"litgpt": 0.01, "peft": 0.01, "qwen": 0.06, "torchao": 0.03}
_QUICK = ("timm-resnet50", "qwen1-1.8B-LoRA-1024", "liger-8b-hf", "peft-miss--llama-3.2-3B-default",
          "litgpt-hub-llama-3.2-1b-lora.yaml-1xA10G")
_CUBLAS = 8519680  # bytes of a workspace, which PyTorch counts as allocated
_CONTEXT = 1.4  # GB that nvidia-smi counts beside PyTorch's memory, with torch 2.0 and CUDA 11.8 on an A100


def missing(row):
    """The packages that a row needs and this Python lacks."""
    names = list(_NEEDS[row["script"]])
    if row["script"] == "timm" and row["model"] in ("resnet50", "vgg11") and importlib.util.find_spec("timm") is None:
        names = ["torchvision"]
    if row["script"] == "torchao":
        names += ["timm"] if row["model"].startswith("vit") else ["transformers"]
        names += [package for word, package in (("bnb", "bitsandbytes"), ("ao8", "torchao"), ("aofp8", "torchao"))
                  if word in row["method"]]
    if "quantize" in row:
        names.append("bitsandbytes")
    if row.get("liger"):
        names.append("liger_kernel")
    return [name for name in names if importlib.util.find_spec(name) is None]


def within(row):
    """The relative error that a row's figures may have."""
    # Of bitsandbytes 0.42, which litgpt's rows ran, only the input that its product keeps is imitated.
    return 0.08 if "quantize" in row else _WITHIN[row["script"]]


class Published(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.environment = os.environ | {"XDG_CACHE_HOME": folder.name}

    def fitted(self, row, sizes, argument):
        """What runs of a row without a plan, by size."""
        options = ["--beside", row["beside"]] if "beside" in row else []
        recorder = ["--nproc-per-node", row["gpus"]] if row.get("gpus", 1) > 1 else []
        vary = "--vary" if argument == "batch" else "--vary-seq"
        words = [HEADROOM, "fit", *recorder, _SCRIPT, "--json", "--gpu", row["gpu"], "--python", sys.executable, vary,
                 f"--{argument}=" + ",".join(map(str, sizes)), *options, "--", row["id"]]
        done = subprocess.run([*map(str, words)], capture_output=True, text=True, env=self.environment)
        if done.returncode not in (0, 3):
            raise support.Wrong(done.stderr.strip().splitlines()[-1])
        found = [at for series in json.loads(done.stdout)["series"] for at in series["rows"]]
        for at in found:
            if at.get("failure"):
                raise support.Wrong(at["failure"])
        return {at["batch" if argument == "batch" else "sequence"]: at["plain"] for at in found}

    def compared(self, row):
        """Published and found figures of a row by name."""
        argument, suffix = ("seq", "_seq") if "runs_seq" in row else ("batch", "")
        wanted = {size: True for size in row.get("runs" + suffix, [])}
        wanted |= {size: False for size in row.get("fails" + suffix, [])}
        found = self.fitted(row, sorted(wanted or {row["batch"]: True}), argument)
        figures = {f"{argument} {size} runs": (runs, found[size]["runs"]) for size, runs in wanted.items()}
        plain = found[row[argument]]
        if "reserved_bytes" in row:
            figures["reserved GB"] = row["reserved_bytes"] / 1e9, plain["reserved_peak_bytes"] / 1e9
        if "allocated_gb" in row:
            figures["allocated GB"] = row["allocated_gb"], (plain["peak_bytes"] + _CUBLAS) / 1e9
        if "peak_gb" in row:
            figures["nvidia-smi GB"] = row["peak_gb"], plain["reserved_peak_bytes"] / 1e9 + _CONTEXT
        if "step_ms" in row:
            figures["step ms"] = row["step_ms"], plain["step_ms"]
        return figures

    def check(self, row):
        if lacking := missing(row):
            self.skipTest(f"this Python has no {', '.join(lacking)}")
        for what, (published, found) in self.compared(row).items():
            if isinstance(published, bool):
                self.assertEqual(found, published, what)
            else:
                self.assertLess(abs(found / published - 1), within(row), (what, published, found))

    def table(self, names):
        """Prints the rows; returns how many do not hold and have no reason."""
        wrong = 0
        for name in names:
            row = _ROWS[name]
            lacking = row.get("missing") or ", ".join(missing(row))
            try:
                figures = {} if lacking else self.compared(row)
            except support.Wrong as error:
                figures, lacking = {}, str(error)
                wrong += 1
            if lacking:
                print(f"{name:<60} not built: {lacking}", flush=True)
            for what, (published, found) in figures.items():
                if isinstance(published, bool):
                    holds, shown = found == published, f"{published!s:>9} {found!s:>9}"
                else:
                    holds = abs(found / published - 1) < within(row) if "differs" not in row else False
                    shown = f"{published:9.3f} {found:9.3f} {found / published:6.3f}"
                wrong += not holds and "differs" not in row
                print(f"{name:<60} {what:<16} {shown} {'' if holds else row.get('differs', 'WRONG')}", flush=True)
        return wrong


for _name in _QUICK:
    setattr(Published, "test_" + re.sub(r"\W", "_", _name), lambda self, row=_ROWS[_name]: self.check(row))

if __name__ == "__main__":
    if _ASKED:
        Published.setUpClass()
        chosen = [name for name in _ROWS if "--all" in _ASKED or name.startswith(tuple(_ASKED))]
        sys.exit(1 if Published().table(chosen) else 0)
    unittest.main()
