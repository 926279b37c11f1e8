#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs PyTorch's own op samples (OpInfo) on the CPU and on the simulated device, and compares the sizes, strides, dtypes
and aliasing of results and gradients. Ops that differ are listed with the reason in tests/data/opinfo_exceptions.json:
a difference that is not listed fails, and so does a listed one that has gone.

The share of equal results has to be at least 99.5 % where the CPU's own layout is the reference and no size depends on
values. Exit code 77 says that this Python cannot run it.
"""

import argparse
import json
import logging
import os
import sys
import time

SKIPPED = 77
LEAST_EQUAL = 99.5  # percent
GPU = "a100-80gb"
# All samples of an op would give those with hundreds of them (unique, lu_solve) more weight than all others together.
SAMPLES = {"float32": 16, "bfloat16": 3, "complex64": 3, "int64": 3, "bool": 3}
SAMPLES_OF_PYTHON = {"float32": 3, "bfloat16": 1}  # with Meta kernels in Python, which take long


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", help="libheadroom_python.so")
    parser.add_argument("exceptions", help="opinfo_exceptions.json")
    parser.add_argument("--python-meta", action="store_true",
                        help="keep the Meta kernels that `import torch` registers: the simulated device of a script")
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

    def totals(self, direction, without=()):
        """Results compared and different in one direction, without the listed ops."""
        outcomes = [o for (op, d), rows in self._outcomes.items() if d == direction and (op, d) not in without
                    for _, o in rows]
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
        for name, limit in (SAMPLES_OF_PYTHON if options.python_meta else SAMPLES).items():
            dtype = getattr(torch, name)
            if dtype not in op.supported_dtypes("cpu"):
                continue
            forward, backward = Outcome(), Outcome()
            sweep(op, dtype, None if options.all else limit, forward, backward)
            report.add(op.formatted_name, "forward", name, forward)
            report.add(op.formatted_name, "backward", name, backward)
    return report


def judge(report, listed, complete):
    """The failures, one text each. `listed` has the reason of each exception."""
    failures = []
    aside = {key for key, reason in listed.items() if reason != "cuda"}
    for direction, noun in (("forward", "forward results"), ("backward", "gradients")):
        compared, different = report.totals(direction)
        print(f"{compared - different} of {compared} {noun} are equal, {share(compared, different):.2f} %")
        compared, different = report.totals(direction, without=aside)
        equal = share(compared, different)
        print(f"    without those that values or Python decide: {compared - different} of {compared}, {equal:.2f} %")
        if complete and equal < LEAST_EQUAL:
            failures.append(f"{equal:.2f} % of {noun} are equal; expected at least {LEAST_EQUAL} %")
    differing = report.differing()
    for key, text in differing.items():
        if key not in listed:
            failures.append(f"{' '.join(key)} differs from the CPU and is not listed:\n    {text}")
    if complete:
        for key in sorted(listed.keys() - differing.keys()):
            failures.append(f"{' '.join(key)} is listed as an exception and does not differ: take it out")
    return failures


def share(compared, different):
    """Equal ones in percent."""
    return 100 * (1 - different / max(compared, 1))


def read_exceptions(path, modes):
    """{(op, direction): reason}; those of one mode only in it."""
    with open(path, encoding="utf-8") as file:
        document = json.load(file)
    for entry in document["exceptions"]:
        if entry["reason"] not in document["reasons"]:
            sys.exit(f"{path}: {entry['op']} has the unknown reason '{entry['reason']}'")
    return {(entry["op"], entry["direction"]): entry["reason"] for entry in document["exceptions"]
            if entry.get("only", "") in ("", *modes)}


def main():
    options = arguments()
    try:
        import torch  # noqa: F401
    except Exception as error:
        skip(f"{sys.executable} cannot import torch: {error}")
    ops = load_ops()
    import device

    if not options.python_meta:
        device.remove_python_meta_kernels()
    simulated = device.SimulatedDevice(options.library, GPU)
    begin = time.monotonic()
    report = run(ops, options)
    print(f"{time.monotonic() - begin:.1f} s; ran on zeros for want of a kernel: {len(simulated.fallbacks())} ops")
    modes = [mode for mode, on in (("all", options.all), ("python-meta", options.python_meta)) if on]
    listed = read_exceptions(options.exceptions, modes)
    if options.op:
        for (op, direction), text in report.differing().items():
            print(f"{op} {direction}\n    {text}")
        return 0
    failures = judge(report, listed, complete=not modes)
    for failure in failures:
        print(f"FAILED: {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
