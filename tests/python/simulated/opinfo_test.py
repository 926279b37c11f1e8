#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs PyTorch's own op samples (OpInfo) on the CPU and on the simulated device, to which their tensors are copied, and
compares the sizes, strides, dtypes and aliasing of results and gradients: at least 99 % of all are equal. Ops that
differ are listed with the reason in tests/data/opinfo_exceptions.json: a difference that is not listed fails, and so does
a listed one that has gone.

The device is `cuda` as a Python program has it, or with `--device sim` the one with the kernels that a C++ program has:
shapes that Python code says are left out. Exit code 77 says that this Python cannot run it.
"""

import argparse
import functools
import json
import logging
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import support  # noqa: E402

SKIPPED = 77
LEAST_EQUAL = 99  # percent
GPU = "a100-80gb"
# All samples of an op would give those with hundreds of them (unique, lu_solve) more weight than all others together.
SAMPLES = {"float32": 16, "float64": 3, "float16": 3, "bfloat16": 3, "complex64": 3, "int64": 3, "int32": 3, "bool": 3}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", help="libheadroom_python.so")
    parser.add_argument("exceptions", help="opinfo_exceptions.json")
    parser.add_argument("--device", choices=("cuda", "sim"), default="cuda")
    parser.add_argument("--all", action="store_true", help="every sample of every dtype")
    parser.add_argument("--op", action="append", help="this op alone, and every difference is shown")
    return parser.parse_args()


def skip(sentence):
    print(f"skipped: {sentence}")
    sys.exit(SKIPPED)


def load_ops():
    """PyTorch's samples; they need packages that a torch for linking alone does not bring."""
    os.environ["PYTORCH_TESTING_DEVICE_ONLY_FOR"] = "cpu"
    logging.disable(logging.WARNING)  # that no CUDA toolkit is here
    try:
        from torch.testing._internal.common_methods_invocations import op_db
    except Exception as error:
        skip(f"PyTorch's op samples cannot be imported by {sys.executable}: {error}")
    return op_db


class Report:
    """All outcomes by op and direction."""

    def __init__(self):
        self._outcomes = {}

    def add(self, op, direction, dtype, outcome):
        self._outcomes.setdefault((op, direction), []).append((dtype, outcome))

    def totals(self, direction):
        """Results compared and different in one direction."""
        outcomes = [o for (_, d), rows in self._outcomes.items() if d == direction for _, o in rows]
        return sum(o.compared for o in outcomes), sum(o.different for o in outcomes)

    def differing(self):
        """{(op, direction): "float32 2 of 5: …"} of all that differ."""
        found = {}
        for key, rows in self._outcomes.items():
            texts = [f"{dtype} {o.different} of {o.compared}: {o.example}" for dtype, o in rows if o.different]
            if texts:
                found[key] = "\n    ".join(texts)
        return found


def run(ops, options):
    import torch

    from sweep import Outcome, sweep

    report = Report()
    for op in ops:
        if options.op and op.name not in options.op:
            continue
        for name, limit in SAMPLES.items():
            dtype = getattr(torch, name)
            # What CUDA has no kernel for is refused, as the test of argument checks says.
            if dtype not in op.supported_dtypes("cpu") or dtype not in op.supported_dtypes("cuda"):
                continue
            forward, backward = Outcome(), Outcome()
            sweep(op, dtype, options.device, None if options.all else limit, forward, backward)
            report.add(op.formatted_name, "forward", name, forward)
            report.add(op.formatted_name, "backward", name, backward)
    return report


def judge(report, listed, complete):
    """The failures, one text each. `listed` has the exceptions."""
    failures = []
    for direction, noun in (("forward", "forward results"), ("backward", "gradients")):
        compared, different = report.totals(direction)
        equal = share(compared, different)
        print(f"{compared - different} of {compared} {noun} are equal, {equal:.2f} %")
        if complete and equal < LEAST_EQUAL:
            failures.append(f"{equal:.2f} % of {noun} are equal; expected at least {LEAST_EQUAL} %")
    differing = report.differing()
    for key, text in differing.items():
        if key not in listed:
            failures.append(f"{' '.join(key)} differs from the CPU and is not listed:\n    {text}")
    if complete:
        for key in sorted(listed - differing.keys()):
            failures.append(f"{' '.join(key)} is listed as an exception and does not differ: take it out")
    return failures


def share(compared, different):
    """Equal ones in percent."""
    return 100 * (1 - different / max(compared, 1))


def is_of_version(entry):
    import torch

    def numbers(version):
        return [int(part) for part in version.split(".")[:2]]

    is_begun = "from" not in entry or numbers(torch.__version__) >= numbers(entry["from"])
    return is_begun and ("before" not in entry or numbers(torch.__version__) < numbers(entry["before"]))


def read_exceptions(path, modes):
    """{(op, direction)} of this torch; those of one mode only in it."""
    with open(path, encoding="utf-8") as file:
        document = json.load(file)
    for entry in document["exceptions"]:
        if entry["reason"] not in document["reasons"]:
            sys.exit(f"{path}: {entry['op']} has the unknown reason '{entry['reason']}'")
    return {
        (entry["op"], entry["direction"])
        for entry in document["exceptions"]
        if entry.get("only", "") in modes and is_of_version(entry)
    }


def simulate(options):
    """The device in this process; a function that says which ops ran on zeros for want of a kernel."""
    if options.device == "sim":
        import device

        device.remove_python_meta_kernels()
        return device.SimulatedDevice(options.library, GPU).fallbacks
    import torch_headroom

    torch_headroom.simulate(GPU)
    import device
    from torch_headroom._library import load

    return functools.partial(device.fallbacks, load())


def main():
    options = arguments()
    support.need("torch")
    os.environ["HEADROOM_LIBRARY"] = options.library
    fallbacks = simulate(options)
    ops = load_ops()
    begin = time.monotonic()
    report = run(ops, options)
    print(f"{time.monotonic() - begin:.1f} s; ran on zeros for want of a kernel: {len(fallbacks())} ops")
    modes = {"", options.device} | ({"all"} if options.all else set())
    listed = read_exceptions(options.exceptions, modes)
    if options.op:
        for (op, direction), text in report.differing().items():
            print(f"{op} {direction}\n    {text}")
        return 0
    failures = judge(report, listed, complete=not options.all)
    for failure in failures:
        print(f"FAILED: {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
