# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Times two training steps under PyTorch's MemTracker (fake cuda tensors) and recorded by Headroom (simulated cuda, the
step file and the summary of it included; MemTracker writes nothing), in turn in one process, and prints the ratio. Each is
the least of at least three runs, and of as many as three seconds hold, after a first one that imports and compiles: once
by the clock, and once by the processor's time, which other programs disturb less. Names of models as arguments; without,
all whose packages are there.

    HEADROOM_LIBRARY=build/lib/libheadroom_python.so PYTHONPATH=packaging/python python tests/bench/mem_tracker_ratio.py
"""

import contextlib
import importlib.util
import pathlib
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "python"))
import support  # noqa: E402

import numpy  # noqa: E402

torch = support.simulated("a100-80gb")

import torch_headroom  # noqa: E402
import recorded_models  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.distributed._tools.mem_tracker import MemTracker  # noqa: E402


def prepared(name):
    with torch.device("cuda"):
        model, batch, loss_of = recorded_models.MODELS[name][1]()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, foreach=True)

    def step():
        loss_of(model, batch).backward()
        optimizer.step()
        optimizer.zero_grad()

    return model, batch, optimizer, step


def with_mem_tracker(name):
    with FakeTensorMode():
        model, batch, optimizer, step = prepared(name)
        tracker = MemTracker()
        tracker.track_external(model, optimizer, *batch)
        begin = now()
        with tracker:
            step()
            tracker.reset_mod_stats()
            step()
        return now() - begin


def with_headroom(name):
    _, _, _, step = prepared(name)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        begin = now()
        recording = stack.enter_context(torch_headroom.record(pathlib.Path(folder) / "step.hrs"))
        for _ in range(2):
            step()
            recording.step()
        stack.close()
        return now() - begin


def now():
    return numpy.array([time.perf_counter(), time.process_time()])


def is_there(name):
    package = recorded_models.MODELS[name][0]
    return package is None or importlib.util.find_spec(package) is not None


def main():
    names = sys.argv[1:] or [name for name in recorded_models.MODELS if is_there(name)]
    print(f"{'two steps, in seconds':<26}{'MemTracker':>12}{'Headroom':>12}{'ratio':>9}{'CPU ratio':>11}")
    for name in names:
        with_mem_tracker(name)
        with_headroom(name)
        runs, begin = [], time.perf_counter()
        while len(runs) < 3 or time.perf_counter() < begin + 3:
            runs.append((with_mem_tracker(name), with_headroom(name)))
        times = numpy.array(runs).min(axis=0)
        (theirs, _), (ours, _) = times
        ratio, of_cpu = times[0] / times[1]
        print(f"{name:<26}{theirs:>12.3f}{ours:>12.3f}{ratio:>8.1f}x{of_cpu:>10.1f}x", flush=True)


if __name__ == "__main__":
    main()
