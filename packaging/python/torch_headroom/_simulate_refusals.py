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
_TRANSFORMER_ENGINE = "transformer_engine.common"
_XFORMERS = "xformers._cpp_lib"


def refuse_allocators(*arguments, **named):
    raise HeadroomError(
        "CUDAPluggableAllocator hands out memory of the CUDA driver, which the GPU that Headroom simulates does not "
        "have: record without it, by the rules of PyTorch's own allocator"
    )


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
        with _AROUND.get(module.__name__, contextlib.nullcontext)():
            self.loader.exec_module(module)
        for change in _CHANGED[module.__name__]:
            change(module)


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


def _say_that_xformers_is_built(module):
    """xformers' attention calls PyTorch's own kernels, but only where its extension module was loaded."""
    if not module._built_with_cuda:
        _remarks.add("xformers' extension module does not load on this machine, and was taken to load on the card: "
                     "where it does not, either, xformers refuses to run there (python -m xformers.info)")
        module._built_with_cuda = True


def _without_transformer_engines_libraries():
    from . import _transformer_engine_import

    return _transformer_engine_import.without_libraries()


def _stand_in_for_transformer_engine(module):
    from . import _transformer_engine_import

    _transformer_engine_import.load_stand_in(module)


_CHANGED = {}  # name of a module -> functions that change it after its import
_AROUND = {_TRANSFORMER_ENGINE: _without_transformer_engines_libraries}  # contexts of imports


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
        _CHANGED.setdefault(name, []).append(change)


def patch():
    from ._simulate_cuda import _substitute

    torch._C._cuda_jiterator_compile_and_launch_kernel = _refuse_jiterator
    memory = torch.cuda.memory
    _substitute({
        id(memory.CUDAPluggableAllocator): refuse_allocators,
        id(memory.change_current_allocator): refuse_allocators,
    })
    sys.meta_path.insert(0, _Imports())
    _extensions.run_own_code_of_ops(torch)
    change_after_import(_TRITON, _simulate_triton)
    change_after_import(_BITSANDBYTES, _manage_memory)
    change_after_import(_DEEPSPEED, _stand_in_for_deepspeed)
    change_after_import(_TRANSFORMER_ENGINE, _stand_in_for_transformer_engine)
    change_after_import(_XFORMERS, _say_that_xformers_is_built)
