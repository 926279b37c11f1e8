# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Triton on the simulated GPU: kernels are neither compiled nor run. A launch is an op of the step that reads and
writes the tensors found in the kernel's source. Autotuners take their first configuration."""

import types

import torch

from . import _opaque, _triton_accesses
from ._library import HeadroomError


def patch(triton):
    """Installs the replacements. Call it once, after `import triton`."""
    runtime = triton.runtime
    active = make_driver(triton)
    runtime.driver._default = runtime.driver._active = active
    runtime.jit.JITFunction.run = _run
    runtime.autotuner.Autotuner._bench = _bench
    runtime.autotuner.Autotuner.check_disk_cache = lambda self, key, configs, benchmark: benchmark() or False
    triton.testing.do_bench = triton.testing.do_bench_cudagraph = benchmark


def make_driver(triton):
    """Returns a CUDA driver for Triton: it has the card's properties, but loads no kernels."""
    from triton.backends.driver import GPUDriver
    from triton.backends.nvidia.driver import CudaDriver

    class Driver(CudaDriver):
        def __init__(self):
            GPUDriver.__init__(self)
            self.utils = types.SimpleNamespace(get_device_properties=_properties, load_binary=_refuse_binary,
                                               set_printf_fifo_size=lambda size: None)
            self.launcher_cls = _refuse_binary

        def get_benchmarker(self):
            return benchmark

    return Driver()


def _properties(device):
    card = torch.cuda.get_device_properties(device)
    return {"max_shared_mem": card.shared_memory_per_block_optin, "max_num_regs": card.regs_per_multiprocessor,
            "multiprocessor_count": card.multi_processor_count, "warpSize": card.warp_size,
            "sm_clock_rate": getattr(card, "clock_rate", 0), "mem_clock_rate": getattr(card, "memory_clock_rate", 0),
            "mem_bus_width": getattr(card, "memory_bus_width", 0)}


def _refuse_binary(*arguments):
    raise HeadroomError("machine code cannot be loaded on the GPU that Headroom simulates: launch the kernel by "
                        "kernel[grid](…), as an op of which only its bytes are known")


def benchmark(call, warmup=25, rep=100, grad_to_none=None, quantiles=None, return_mode="mean"):
    """Replaces triton.testing.do_bench: kernel times are not known. Runs the call once, for its memory."""
    call()
    _opaque.choices.add(getattr(call, "__qualname__", "do_bench"))
    return [1.0] * len(quantiles) if quantiles else [1.0] if return_mode == "all" else 1.0


def _bench(self, *arguments, config, **meta):
    _opaque.choices.add(self.base_fn.__name__)
    return [1.0, 1.0, 1.0]


class _Kernel:
    """The compiled kernel that a launch and warmup() return, without a compiler's facts."""

    n_regs, n_spills, n_max_threads, function, module = 32, 0, 1024, None, None

    def __init__(self, kernel, options):
        self._kernel = kernel
        self.name = kernel.__name__
        self.asm = {}
        self.metadata = types.SimpleNamespace(name=self.name, shared=0, num_warps=4, num_ctas=1, num_stages=3)
        vars(self.metadata).update(options)

    def _init_handles(self):
        pass

    def result(self):
        return self

    def __getitem__(self, grid):
        # All arguments are positional, constants included.
        return lambda *arguments, stream=None: _launch(self._kernel, dict(zip(self._kernel.arg_names, arguments)))


def _run(self, *arguments, grid, warmup, **named):
    """Replaces JITFunction.run."""
    for hook in self.pre_run_hooks:
        hook(*arguments, **named)
    options = {name: named.pop(name) for name in list(named) if name not in self.signature.parameters}
    bound = self.signature.bind(*arguments, **named)
    bound.apply_defaults()
    kernel = _Kernel(self, options)
    if warmup:
        return kernel
    grid = grid(bound.arguments) if callable(grid) else grid
    if all(grid):  # an empty grid launches nothing
        _launch(self, bound.arguments)
    return kernel


def _launch(kernel, arguments):
    if not hasattr(kernel, "headroom_launches"):
        kernel.headroom_launches = _triton_accesses.Launches(kernel)
    for position, value in enumerate(arguments.values()):
        if any(map(_opaque.is_out_of_reach, _triton_accesses.tensors_in(value))):
            raise ValueError(f"Pointer argument (at {position}) cannot be accessed from Triton (cpu tensor?)")
    accesses = kernel.headroom_launches.accesses(arguments)
    reads, writes = ([tensor for name, value in arguments.items() if name in names
                      for tensor in _triton_accesses.tensors_in(value)] for names in (accesses.reads, accesses.writes))
    _opaque.launch(kernel.__name__, reads, writes, how=_opaque.PRODUCTS if accesses.dots else None)
