# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""`torch-headroom fit` beside the batches, contexts and peaks that others published (tests/data/published/fit_rows.json).

    published_fit_test.py HEADROOM              the quick rows that this Python has the packages for
    published_fit_test.py HEADROOM --all        each row that can be built, as a table
    published_fit_test.py HEADROOM PREFIX...    rows whose ids begin so, as a table

A row's `differs` says why its figure is another one, and `missing` why the row cannot be built.
"""

import importlib.util
import json
import os
import pathlib
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
          "context": ["transformers", "peft", "bitsandbytes"], "liger": ["transformers"], "titan": ["transformers"], "torchao": []}
_CUBLAS = 8519680  # bytes of a workspace, which PyTorch counts as allocated


def missing(row):
    """The packages that a row needs and this Python lacks."""
    names = list(_NEEDS[row["script"]])
    if row["script"] == "timm" and row["model"] in ("resnet50", "vgg11"):
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


class Published(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.environment = os.environ | {"XDG_CACHE_HOME": folder.name}

    def answer(self, *words):
        done = subprocess.run([HEADROOM, *map(str, words)], capture_output=True, text=True, env=self.environment)
        if done.returncode not in (0, 3):
            raise support.Wrong(done.stderr.strip().splitlines()[-1])
        return json.loads(done.stdout)

    def fitted(self, row, batches, *options):
        """What runs at each batch of a row, without a plan."""
        if "beside" in row:
            options += ("--beside", row["beside"])
        found = self.answer("fit", _SCRIPT, "--json", "--gpu", row["gpu"], "--python", sys.executable, "--vary",
                            "--batch=" + ",".join(map(str, batches)), *options, "--", row["id"])
        rows = {at["batch"]: at for at in found["series"][0]["rows"]}
        for at in rows.values():
            if at.get("failure"):
                raise support.Wrong(at["failure"])
        return {batch: at["plain"] for batch, at in rows.items()}

    def compared(self, row):
        """Published and found figures of a row by name."""
        wanted = {batch: True for batch in row.get("runs", [])} | {batch: False for batch in row.get("fails", [])}
        found = self.fitted(row, sorted(wanted or {row["batch"]: True}))
        figures = {f"batch {batch} runs": (runs, found[batch]["runs"]) for batch, runs in wanted.items()}
        plain = found[row["batch"]]
        if "reserved_bytes" in row:
            figures["reserved GB"] = row["reserved_bytes"] / 1e9, plain["reserved_peak_bytes"] / 1e9
        if "allocated_gb" in row:
            figures["allocated GB"] = row["allocated_gb"], (plain["peak_bytes"] + _CUBLAS) / 1e9
        if "peak_gb" in row:
            figures["reserved GB"] = row["peak_gb"], plain["reserved_peak_bytes"] / 1e9
        if "step_ms" in row:
            figures["step ms"] = row["step_ms"], plain["step_ms"]
        return figures

    def table(self, names):
        for name in names:
            row = _ROWS[name]
            lacking = row.get("missing") or ", ".join(missing(row))
            try:
                figures = {} if lacking else self.compared(row)
            except support.Wrong as wrong:
                figures, lacking = {}, str(wrong)
            if lacking:
                print(f"{name:<60} not built: {lacking}", flush=True)
            for what, (published, found) in figures.items():
                ratio = "" if isinstance(found, bool) else f"{found / published:8.3f}"
                shown = (str(figure if ratio == "" else round(figure, 3)) for figure in (published, found))
                print(f"{name:<60} {what:<16}", *(f"{figure:>10}" for figure in shown), ratio, flush=True)


if __name__ == "__main__":
    if _ASKED:
        Published.setUpClass()
        Published().table([name for name in _ROWS if "--all" in _ASKED or name.startswith(tuple(_ASKED))])
    else:
        unittest.main()
