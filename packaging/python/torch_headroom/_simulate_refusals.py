# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refuses what a GPU without memory cannot do, with an error that names the function. Machine code would access real
addresses, which do not exist here."""

import contextlib
import importlib.abc
import importlib.util
import sys

import torch

from . import _extensions, _remarks
from ._library import HeadroomError

_TRITON = "triton"
_BITSANDBYTES = "bitsandbytes.functional"
_DEEPSPEED = "deepspeed.ops.op_builder.builder"


class NoCudaGraph:
    """Replaces torch.cuda.CUDAGraph."""

    def __new__(cls, *arguments, **named):
        raise HeadroomError(
            "CUDA graphs replay kernels on the memory that they were captured with, which the GPU that Headroom "
            "simulates does not have: run the step without torch.cuda.graph and make_graphed_callables"
        )


def _refuse_allocators(*arguments, **named):
    raise HeadroomError(
        "CUDAPluggableAllocator hands out memory of the CUDA driver, which the GPU that Headroom simulates does not "
        "have: record without it, by the rules of PyTorch's own allocator"
    )


class _MemPool:
    """Replaces torch.cuda.MemPool: allocations into it count, but share segments with all others."""

    def __init__(self, allocator=None, *options, **named):
        if allocator is not None:
            _refuse_allocators()
        _remarks.add("torch.cuda.MemPool was left out: its memory is part of the peak, and its own segments may "
                     "reserve more")
        self.allocator, self.id = None, (0, 1)

    def use_count(self):
        return 1

    def snapshot(self):
        return []


class _Imports(importlib.abc.MetaPathFinder):
    """Handles modules that the program imports later. Searches report truly whether a module is installed, except for
    kernels of installed libraries (_extensions.py)."""

    def __init__(self):
        self.looking = False

    def find_spec(self, name, path=None, target=None):
        if self.looking:
            return None
        self.looking = True
        try:
            stand_in = _extensions.spec_of(name)
            spec = None if stand_in or name not in _CHANGED else importlib.util.find_spec(name)
        finally:
            self.looking = False
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return stand_in or spec


class _Loader(importlib.abc.Loader):
    def __init__(self, loader):
        self.loader = loader

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        self.loader.exec_module(module)
        _CHANGED[module.__name__](module)


def _manage_memory(module):
    from ._managed_memory import patch_bitsandbytes

    patch_bitsandbytes(module)


def _simulate_triton(module):
    from . import _simulate_triton

    _simulate_triton.patch(module)


def _stand_in_for_deepspeed(module):
    from . import _deepspeed

    _deepspeed.patch(module)
    change_after_import("deepspeed.runtime.utils", _deepspeed.answer_overflow)


_CHANGED = {}  # name of a module -> function that changes it after its import


def _refuse_jiterator(code, name, *arguments):
    raise HeadroomError(
        f"the kernel {name} of torch.cuda.jiterator cannot run on the GPU that Headroom simulates: choose PyTorch's "
        "own operators, or record this step on a GPU"
    )


def change_after_import(name, change):
    """Calls `change` with the module of this name once the program has imported it."""
    if name in sys.modules:
        change(sys.modules[name])
    else:
        _CHANGED[name] = change


@contextlib.contextmanager
def _use_mem_pool(pool, device=None):
    yield


def patch():
    from ._simulate_cuda import _substitute

    torch._C._cuda_jiterator_compile_and_launch_kernel = _refuse_jiterator
    memory = torch.cuda.memory
    _substitute({
        id(torch.cuda.CUDAGraph): NoCudaGraph,
        id(memory.CUDAPluggableAllocator): _refuse_allocators,
        id(memory.change_current_allocator): _refuse_allocators,
        id(memory.MemPool): _MemPool,
        id(memory.use_mem_pool): _use_mem_pool,
    })
    sys.meta_path.insert(0, _Imports())
    _extensions.run_own_code_of_ops(torch)
    change_after_import(_TRITON, _simulate_triton)
    change_after_import(_BITSANDBYTES, _manage_memory)
    change_after_import(_DEEPSPEED, _stand_in_for_deepspeed)
