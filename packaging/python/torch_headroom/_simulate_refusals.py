# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a GPU without memory cannot do is refused by name where the program asks for it: machine code is launched on real
addresses, which here are none."""

import importlib.abc
import importlib.util
import sys

import torch

from ._library import HeadroomError

# Extension modules that launch their kernels without PyTorch's dispatcher, and whose they are.
_EXTENSIONS = {
    "flash_attn_2_cuda": "flash-attn",
    "flash_attn_3_cuda": "flash-attn",
    "flash_attn_3._C": "flash-attn",
    "causal_conv1d_cuda": "causal-conv1d",
    "selective_scan_cuda": "mamba-ssm",
}
_TRITON = "triton"
_BITSANDBYTES = "bitsandbytes.functional"


class NoCudaGraph:
    """In the place of torch.cuda.CUDAGraph."""

    def __new__(cls, *arguments, **named):
        raise HeadroomError(
            "CUDA graphs replay kernels on the memory that they were captured with, which the GPU that Headroom "
            "simulates does not have: run the step without torch.cuda.graph and make_graphed_callables"
        )


class _Imports(importlib.abc.MetaPathFinder):
    """Sees modules that the program imports later. Whether they are installed is answered truly."""

    def __init__(self):
        self.looking = False

    def find_spec(self, name, path=None, target=None):
        if self.looking or (name not in _CHANGED and name not in _EXTENSIONS):
            return None
        self.looking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.looking = False
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, loader):
        self.loader = loader

    def create_module(self, spec):
        if spec.name in _EXTENSIONS:
            raise ImportError(
                f"{_EXTENSIONS[spec.name]} launches CUDA kernels of its own, which cannot run on the GPU that Headroom "
                "simulates: choose PyTorch's implementation (for attention: sdpa)",
                name=spec.name,
            )
        return self.loader.create_module(spec)

    def exec_module(self, module):
        self.loader.exec_module(module)
        _CHANGED[module.__name__](module)


def _refuse_paged_memory(module):
    def get_paged(*shape, **options):
        raise HeadroomError(
            "bitsandbytes' paged optimizers keep their state in the CUDA driver's managed memory, which the GPU that Headroom "
            "simulates does not have: record with the same optimizer that is not paged (AdamW8bit for PagedAdamW8bit)"
        )

    module.get_paged = get_paged


def _simulate_triton(module):
    from . import _simulate_triton

    _simulate_triton.patch(module)


_CHANGED = {_TRITON: _simulate_triton, _BITSANDBYTES: _refuse_paged_memory}  # modules, after they are imported


def _refuse_jiterator(code, name, *arguments):
    raise HeadroomError(
        f"the kernel {name} of torch.cuda.jiterator cannot run on the GPU that Headroom simulates: choose PyTorch's own "
        "operators, or record this step on a GPU"
    )


def change_after_import(name, change):
    """Calls `change` with the module of this name when the program has imported it."""
    if name in sys.modules:
        change(sys.modules[name])
    else:
        _CHANGED[name] = change


def patch():
    from ._simulate_cuda import _substitute

    torch._C._cuda_jiterator_compile_and_launch_kernel = _refuse_jiterator
    _substitute({id(torch.cuda.CUDAGraph): NoCudaGraph})
    sys.meta_path.insert(0, _Imports())
    if _TRITON in sys.modules:
        _simulate_triton(sys.modules[_TRITON])
