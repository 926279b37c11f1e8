# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is printed of a recorded step."""


def _bytes(value):
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if value >= size:
            return f"{value / size:.2f} {unit} ({value:,} bytes)"
    return f"{value} bytes"


def _print_measured(measured):
    if measured["kernels"]:
        print(f"measured             {measured['busy_ms']:.2f} ms of work in {measured['kernels']} kernels and copies, "
              f"in a step of {measured['step_ms']:.2f} ms while it was recorded")
    if measured["overhead_ms"]:
        print(f"cost of tracing      {measured['overhead_ms']:.2f} ms of the CPU's time")
    peaks = ", ".join(f"{kind} {_bytes(measured[f'{kind}_peak_bytes'])}" for kind in ("allocated", "active", "reserved"))
    print(f"allocator's peaks    {peaks}")
    print(f"not PyTorch's        {_bytes(measured['non_pytorch_bytes'])}: CUDA's context, workspaces, other programs")
    for note in measured["notes"]:
        print(f"note: {note}")


def print_summary(summary, step):
    _print_figures(summary, step)
    for note in summary["notes"]:
        print(f"note: {note}")


def _print_figures(summary, step):
    how = "measured" if "measured" in summary else "simulated"
    print(f"{summary['model']} on {summary['gpu_title']} ({how}), step {step}")
    print(f"peak on the device   {_bytes(summary['peak_bytes'])}")
    if "baseline_peak_bytes" in summary:
        estimate = _bytes(summary["baseline_peak_bytes"])
        print(f"PyTorch's estimate   {estimate}: parameters, gradients and activations, without optimizer state")
        print(f"forward and backward {summary['compute_ms']:.2f} ms, {summary['ops']} ops in the step")
    for failure in summary.get("out_of_memory", ()):
        where = f" in {failure['module']}" if failure["module"] else ""
        print(f"note: out of memory at {failure['instant']:.2f} ms{where}: {failure['reason']}")
    if "measured" in summary:
        _print_measured(summary["measured"])
        return
    if summary["peak_bytes"] > summary["gpu_memory_bytes"]:
        memory = f"{summary['gpu_memory_bytes'] / 2**30:.2f} GiB"
        print(f"note: this is more than the card's {memory}; torch-headroom plan says what to recompute")
    for fallback in summary["fallbacks"]:
        print(
            f"note: {fallback['op']} in {fallback['module'] or 'no module'} has no kernel on the simulated GPU and ran "
            f"{fallback['count']} times on zeros to learn its shapes"
        )
    if summary["invented_values"]:
        print(f"note: {summary['invented_values']} values read back from the GPU were invented, as there is no data")
