# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Inductor's decisions that it would make by measuring on the card. They are made without measuring: by its own cost
model if it has one, otherwise by its default. Each is counted, also for graphs from the cache, and the recorder reports
them."""

import collections
import functools
import types

import torch

from ._library import HeadroomError
from ._simulate_refusals import change_after_import

AUTOTUNED, PADDED, FUSED = "autotuned", "padded", "fused"
IN_PYTHON = "cpp_wrapper"

decided = collections.Counter()  # by kind, for the graphs of this process
_pending = collections.Counter()  # by kind, since the last graph was generated


def sentences():
    """Yields remarks on a step that runs compiled code."""
    if decided[AUTOTUNED]:
        yield (f"torch.compile chose {_times(AUTOTUNED)} between kernels without measuring: PyTorch's own, or the "
               "first template where there is none; on the card another may be faster and need other memory")
    if decided[PADDED]:
        yield (f"torch.compile chose {_times(PADDED)} without measuring whether to pad a matrix multiplication: it "
               "does where its own model calls it bound by computation; on the card it may not, and need less memory")
    if decided[FUSED]:
        yield (f"torch.compile chose {_times(FUSED)} without measuring how to fuse or split kernels: as it is by "
               "default")
    if decided[IN_PYTHON]:
        yield ("torch.compile wrote its wrappers in Python, not in C++ (cpp_wrapper): they allocate the same buffers "
               "and launch each kernel later")


def _times(kind):
    count = decided[kind]
    return "once" if count == 1 else f"{count} times"


def note(counts):
    """Adds the decisions made for generated code, which calls this when it is loaded."""
    decided.update(counts)


def take_pending():
    taken = dict(_pending)
    _pending.clear()
    return taken


def patch(card):
    change_after_import("torch._inductor.utils", lambda module: _give_peaks(module, card))
    for user in ("torch._inductor.scheduler", "torch._inductor.fx_passes.pad_mm"):
        change_after_import(user, lambda module: _give_rates(module, card))
    change_after_import("triton.testing", lambda module: _give_clocks(module, card))
    change_after_import("torch._inductor.select_algorithm", _choose_first)
    change_after_import("torch._inductor.fx_passes.pad_mm", _pad_where_bound)
    change_after_import("torch._inductor.codegen.triton", _fuse_as_usual)
    change_after_import("torch._inductor.compile_fx", _write_in_python)


def clock_mhz(card):
    """Returns the highest clock of the card's multiprocessors. Each has 64 lanes for float32, or 128 after 8.0."""
    lanes = 64 if card["compute_capability"] <= 80 else 128
    return round(card["float32_flops"] / (card["multiprocessors"] * lanes * 2) / 1e6)


def _give_peaks(module, card):
    """Gives PyTorch's own answers for the card, also without Triton, whose formulas they are for a card that PyTorch's
    table does not name. These count in units of 1e15 operations a second, as PyTorch's estimators expect."""

    def get_device_tflops(dtype):
        tf32 = torch.backends.cuda.matmul.fp32_precision == "tf32"
        known = module.datasheet_tops(dtype, is_tf32=tf32) if hasattr(module, "datasheet_tops") else None
        if known is not None:
            return known
        assert dtype in (torch.float16, torch.bfloat16, torch.float32)
        tensor_cores = card["compute_capability"] >= 80
        half = dtype != torch.float32
        operations = 512 if tensor_cores and half else 256 if tensor_cores and tf32 else 32
        return card["multiprocessors"] * 4 * clock_mhz(card) * operations * 1e-9

    module.get_device_tflops = get_device_tflops
    module.get_gpu_dram_gbps = lambda: card["gigabytes_per_second"]


def _give_clocks(testing, card):
    def nvsmi(attributes):
        known = {"clocks.max.sm": clock_mhz(card), "clocks.current.sm": clock_mhz(card)}
        if unknown := [name for name in attributes if name not in known]:
            raise HeadroomError(f"nvidia-smi was asked for {', '.join(unknown)}, which the GPU that Headroom simulates "
                                f"does not have: it has {', '.join(known)}")
        return [known[name] for name in attributes]

    testing.nvsmi = nvsmi


def _give_rates(module, card):
    """Gives Inductor's own cost models the card's rates in the unit that they expect: 1e12 operations a second."""

    def get_device_tflops(dtype):
        tensor_cores = torch.backends.cuda.matmul.fp32_precision == "tf32"
        wide = card["tensor_float32_flops" if tensor_cores else "float32_flops"]
        return (card["half_flops"] if dtype.itemsize == 2 else wide) / 1e12

    if hasattr(module, "get_device_tflops"):
        module.get_device_tflops = get_device_tflops
    else:
        utils = module.utils
        module.utils = types.SimpleNamespace(**vars(utils) | {"get_device_tflops": get_device_tflops})


def _choose_first(module):
    cache = module.AlgorithmSelectorCache

    def do_autotuning(self, name, input_nodes, layout, input_gen_fns, inputs_key, choices, *more, **named):
        _pending[AUTOTUNED] += 1
        extern = [choice for choice in choices if isinstance(choice, module.ExternKernelCaller)]
        return {(extern or choices)[0]: 1.0}

    cache.do_autotuning = do_autotuning
    cache.make_precompile_fn = lambda self, *arguments, **named: lambda: {}


def _pad_where_bound(module):
    """Pads without measuring. Inductor measures only if is_mm_compute_bound()."""

    def bench(call):
        is_padded = call.__name__ != "orig_bench_fn"
        _pending[PADDED] += is_padded
        return 1.0 if is_padded else 2.0

    module.get_do_bench = lambda: bench
    # These caches are on disk, where one process would find the results of another.
    module.get_cached_should_pad = module.get_cached_base_mm_benchmark_time = lambda key: None


def _fuse_as_usual(module):
    def benchmark(self, loaded, *arguments, **named):
        _pending[FUSED] += 1
        return 1.0, loaded.__file__

    module.TritonScheduling.benchmark_codegened_module = benchmark


def _write_in_python(module):
    """Has wrappers written in Python: those in C++ load kernels that are not compiled here."""
    compile_fx = module.compile_fx

    @functools.wraps(compile_fx)
    def compile_in_python(*arguments, **named):
        if not module.config.cpp_wrapper:
            return compile_fx(*arguments, **named)
        decided[IN_PYTHON] += 1
        with module.config.patch(cpp_wrapper=False):
            return compile_fx(*arguments, **named)

    def refuse(*arguments, **named):
        raise HeadroomError("AOTInductor compiles and loads machine code for the card, which the GPU that Headroom "
                            "simulates cannot run: record the model with torch.compile instead")

    module.compile_fx = compile_in_python
    module.compile_fx_aot = torch._C._aoti.AOTIModelPackageLoader = refuse
