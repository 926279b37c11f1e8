# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes mlp_gpu.json.gz: python make_profiles.py, with torch 2.11 and no GPU.

torch.profiler's own trace of mlp.py on the CPU (shapes, stacks, memory), to which the events of a GPU are added as
Kineto writes them: each aten op that is no view and calls none but views launches one kernel. A launch is a
`cuda_runtime` event in the middle of its op, with the kernel's `correlation` and the op's `External id`; the kernel is
on stream 7 of device 0, after the one before it. The n-th kernel of a step lasts 10 + n % 7 microseconds. Blocks of the
CPU's allocator become those of the GPU's, rounded up to 512 bytes. The card is an A100 of 80 GB.
"""
import gzip
import json
import os
import tempfile

import mlp
import torch

# What these take for an argument is what they return.
VIEWS = {"view", "t", "transpose", "as_strided", "detach", "expand", "empty", "empty_like", "empty_strided", "resize_",
         "_unsafe_view", "item", "_local_scalar_dense", "lift_fresh", "detach_", "result_type", "set_", "is_nonzero",
         "unsqueeze", "squeeze", "select", "slice", "alias", "resolve_conj"}
DEVICE = {"id": 0, "name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": 85094236160, "computeMajor": 8, "computeMinor": 0,
          "numSms": 108}


def profiled():
    file = tempfile.mktemp(suffix=".json")
    with torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True, profile_memory=True, with_stack=True,
            schedule=torch.profiler.schedule(wait=0, warmup=1, active=2, repeat=1),
            on_trace_ready=lambda profiler: profiler.export_chrome_trace(file)) as profiler:
        mlp.main("cpu", 3, profiler.step)
    with open(file) as opened:
        trace = json.load(opened)
    os.unlink(file)
    return trace


def gpu_events(events):
    spans = sorted((e for e in events if e.get("cat") in ("cpu_op", "user_annotation")),
                   key=lambda e: (e["tid"], e["ts"], -e["dur"]))
    launching, stack, number, ready = [], [], 0, 0.0
    for span in spans:
        while stack and (stack[-1]["tid"] != span["tid"] or stack[-1]["ts"] + stack[-1]["dur"] <= span["ts"]):
            stack.pop()
        for outer in stack:
            if span["name"].startswith("aten::") and span["name"].removeprefix("aten::") not in VIEWS:
                outer["calls"] = True
        stack.append(span)
    for span in sorted(spans, key=lambda e: e["ts"]):
        if span["name"].startswith("ProfilerStep#"):
            number = 0
        calls = span.pop("calls", False)
        name = span["name"].removeprefix("aten::")
        if span["name"].startswith("aten::") and not calls and name not in VIEWS:
            launching.append((span, 10 + number % 7))
            number += 1
    made = []
    for correlation, (span, duration) in enumerate(launching, 1):
        at = span["ts"] + span["dur"] / 2
        external = span["args"]["External id"]
        made.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": span["pid"],
                     "tid": span["tid"], "ts": round(at, 3), "dur": round(span["dur"] / 8, 3),
                     "args": {"External id": external, "cbid": 211, "correlation": correlation}})
        ready = max(ready, at + 5)
        made.append({"ph": "X", "cat": "kernel", "name": "kernel of " + span["name"], "pid": 0, "tid": 7,
                     "ts": round(ready, 3), "dur": duration,
                     "args": {"External id": external, "device": 0, "stream": 7, "correlation": correlation}})
        ready += duration
    return made


def main():
    trace = profiled()
    events = [e for e in trace["traceEvents"]
              if e.get("cat") != "python_function" or e["name"].startswith("nn.Module: ")]
    total = 1 << 20  # what was there before the profiler
    for event in events:
        if event["name"] == "[memory]":
            args = event["args"]
            size = (abs(args["Bytes"]) + 511) // 512 * 512
            args["Bytes"] = size if args["Bytes"] > 0 else -size
            total += args["Bytes"]
            args.update({"Device Type": 1, "Device Id": 0, "Total Allocated": total, "Total Reserved": 20 << 20})
    trace["deviceProperties"] = [DEVICE]
    trace["traceEvents"] = events + gpu_events(events)
    trace["traceName"] = "mlp_gpu.json"
    with gzip.GzipFile("mlp_gpu.json.gz", "wb", 9, mtime=0) as packed:
        packed.write(json.dumps(trace, indent=0).encode())


if __name__ == "__main__":
    main()
