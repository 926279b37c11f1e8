# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs one model in a process of its own, for check.py, and prints results as JSON.

    run_model.py probe                               describes the GPU
    run_model.py measure MODEL step.hrs [POLICY]     on the real GPU
    run_model.py simulate MODEL step.hrs GPU [POLICY]

measure and simulate make the same steps (forward, loss, backward, Adam, zero_grad): three without a recorder, of which
the last one's memory counts; then, on the GPU, some that are timed; then two that are recorded, of which the second is
kept.
"""

import json
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "python"))

WARM_UPS = 2
TIMED = 7
AHEAD = 600_000_000  # cycles of the GPU, some 0.3 s


def emit(document):
    print("RESULT " + json.dumps(document), flush=True)


def build(torch, name):
    from recorded_models import MODELS

    torch.manual_seed(0)
    with torch.device("cuda"):
        model, batch, loss = MODELS[name][1]()
    model.train()
    return model, batch, loss, torch.optim.Adam(model.parameters(), foreach=True)


def step(model, batch, loss, optimizer, between=lambda instant: None):
    value = loss(model, batch)
    between("forward")
    value.backward()
    del value
    between("backward")
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    between("step")


def memory(torch):
    stats = torch.cuda.memory_stats()
    peaks = {kind: stats.get(f"{kind}_bytes.all.peak", 0) for kind in ("requested", "allocated", "active", "reserved")}
    return peaks | {"start": stats.get("active_bytes.all.current", 0)}


def workspaces(torch):
    """Returns the bytes of the allocator's memory that cuBLAS keeps between its calls, once for each thread."""
    clear = getattr(torch._C, "_cuda_clearCublasWorkspaces", None)
    if clear is None:
        return 0
    before = torch.cuda.memory_allocated()
    clear()
    return before - torch.cuda.memory_allocated()


def plain_steps(torch, parts):
    """Returns the memory of the third step, without a recorder."""
    for _ in range(WARM_UPS):
        step(*parts)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    step(*parts)
    torch.cuda.synchronize()
    return memory(torch)


def timed(torch, parts, ahead=False):
    """Returns the median milliseconds, by CUDA's events, of forward and backward, and of the step. With `ahead` the GPU
    is kept busy first, so that it never waits for the program and only its own work counts."""
    both, whole = [], []
    for _ in range(TIMED):
        marks = {}

        def mark(instant):
            marks[instant] = torch.cuda.Event(enable_timing=True)
            marks[instant].record()

        if ahead:
            torch.cuda._sleep(AHEAD)
        mark("begin")
        step(*parts, between=mark)
        torch.cuda.synchronize()
        both.append(marks["begin"].elapsed_time(marks["backward"]))
        whole.append(marks["begin"].elapsed_time(marks["step"]))
    return {"forward_backward_ms": statistics.median(both), "step_ms": statistics.median(whole),
            "steps_ms": sorted(whole)}


def recorded(torch, parts, file, events, ahead=False):
    """Returns the summary of the second of two recorded steps, and, if `events`, the time of that step by CUDA's
    events. `ahead` is as for timed(); `ahead_ms` is the time that the GPU was kept busy, which the summary's kernels
    include."""
    import torch_headroom

    times, waits = [], []
    with torch_headroom.record(file, name=pathlib.Path(file).stem) as recording:
        for _ in range(2):
            first, begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(3))
            if ahead:
                first.record()
                torch.cuda._sleep(AHEAD)
            begin.record()
            step(*parts)
            end.record()
            torch.cuda.synchronize()
            if events:
                times.append(begin.elapsed_time(end))
            if ahead:
                waits.append(first.elapsed_time(begin))
            recording.step()
    return {"summary": recording.summary, "event_ms": times[-1] if times else None,
            "ahead_ms": waits[-1] if waits else 0}


def applied(parts, policy):
    if policy:
        import torch_headroom

        torch_headroom.apply(parts[0], policy)


def probe():
    import torch_headroom
    from torch_headroom._library import HeadroomError

    try:
        torch_headroom.record.measure("cuda")
    except HeadroomError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
    import torch

    properties = torch.cuda.get_device_properties(0)
    # The name that --gpu takes is what a recorded step says.
    model = torch.nn.Linear(8, 8, device="cuda")
    with torch_headroom.record("probe.hrs") as recording:
        model(torch.ones(8, 8, device="cuda")).sum().backward()
    emit({
        "name": properties.name, "gpu": recording.summary["gpu"], "memory_bytes": properties.total_memory,
        "compute_capability": properties.major * 10 + properties.minor, "torch": torch.__version__,
        "cuda": torch.version.cuda, "measured": recording.summary["measured"],
    })


def measure(name, file, policy=None):
    import torch

    parts = build(torch, name)
    applied(parts, policy)
    result = {"memory": plain_steps(torch, parts)}
    emit(result)  # kept if a later part fails
    result["launched"] = timed(torch, parts)
    result["times"] = timed(torch, parts, ahead=True)
    result["memory"]["workspaces"] = workspaces(torch)
    emit(result)
    torch.cuda.reset_peak_memory_stats()
    result["recorded"] = recorded(torch, parts, file, events=True)
    emit(result)
    result["recorded_ahead"] = recorded(torch, parts, f"{file}.ahead.hrs", events=True, ahead=True)
    emit(result)


def simulate(name, file, gpu, policy=None):
    import torch_headroom

    torch_headroom.simulate(gpu)
    import torch

    parts = build(torch, name)
    applied(parts, policy)
    result = {"memory": plain_steps(torch, parts)}
    emit(result)
    result["recorded"] = recorded(torch, parts, file, events=False)
    emit(result)


if __name__ == "__main__":
    {"probe": probe, "measure": measure, "simulate": simulate}[sys.argv[1]](*sys.argv[2:])
