# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Records a step several times, each in its own process: with several memory budgets of torch.compile, and eagerly."""

import json
import os
import pathlib
import subprocess
import sys

from ._library import HeadroomError

_EAGER = "eager"


def record_each(options):
    """Runs `python -m torch_headroom.record --activation-memory-budget 0,0.5,1`. Returns the exit code."""
    points = [_record(options, budget) for budget in (*sorted(options.activation_memory_budget), None)]
    if options.json:
        print(json.dumps({"points": points}, indent=2))
    else:
        print("".join(_lines(points)), end="")
    return 0


def _name(budget):
    return _EAGER if budget is None else f"{budget:g}"


def _record(options, budget):
    name = _name(budget)
    output = pathlib.Path(options.output)
    step = output.with_name(f"{output.stem}-{name}{output.suffix}")
    command = [sys.executable, "-m", "torch_headroom.record", "--json", *_again(options, budget, step)]
    environment = os.environ | ({"TORCHDYNAMO_DISABLE": "1"} if budget is None else {})
    print(f"torch_headroom.record: {name}", file=sys.stderr)
    finished = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
    if finished.returncode:
        raise HeadroomError(f"the step could not be recorded with {name} (above is why)", finished.returncode)
    summary = json.loads(finished.stdout)
    # Of the time model `kernel`, as info and plan tell of the same file.
    return {"memory_budget": budget, "peak_bytes": summary["peak_bytes"], "step_ms": summary["kernel_compute_ms"],
            "time_model": "kernel", "step": str(step), "notes": summary["notes"]}


def _again(options, budget, step):
    from ._record_options import recorded_again

    one = type(options)(**vars(options) | {"activation_memory_budget": None if budget is None else [budget]})
    arguments, script = recorded_again(one)
    return ["-o", str(step), *(["--progress"] if options.progress else []), *arguments, *script]


def _lines(points):
    yield f"{'Memory budget':<15}{'Peak':>16}{'Forward and backward ms':>26}  Step file\n"
    for point in points:
        budget = _name(point["memory_budget"])
        yield f"{budget:<15}{point['peak_bytes']:>16,}{point['step_ms']:>26.2f}  {point['step']}\n"
    yield "Times are of the time model `kernel`.\n"
    files = " ".join(point["step"] for point in points[:-1])
    yield f"\nBeside Headroom's own: torch-headroom ops-frontier {points[-1]['step']} --compiled {files}\n"
    yield "To train with a point: torch._functorch.config.activation_memory_budget = its memory budget\n"
