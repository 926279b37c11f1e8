# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refuses what a GPU without memory cannot do, with an error that names the function, and changes libraries for the
simulated GPU. Machine code would access real addresses, which do not exist here."""

import contextlib
import importlib
import os
import weakref

import torch

from .. import _remarks as remarks
from .._kernels import libraries, opaque, triton
from .._library import HeadroomError
from .._torch import change_after_import, follow_imports, substitute

_TRANSFORMER_ENGINE = "transformer_engine.common"


def refuse_allocators(*arguments, **named):
    raise HeadroomError("CUDAPluggableAllocator hands out memory of the CUDA driver, and Headroom's simulated GPU "
                        "has no CUDA driver: record with PyTorch's own allocator")


def _refusing(name, what):
    """Returns a function that refuses what the CUDA driver does."""

    def refuse(*arguments, **named):
        raise HeadroomError(f"{name} {what}, and Headroom's simulated GPU cannot do that")

    return refuse


# Functions and classes of torch._C that end in a driver's error -> the name in torch.cuda and what the function does.
_OF_THE_DRIVER = {
    "_cuda_setCheckpointPoolState": ("torch._C._cuda_setCheckpointPoolState",
                                     "restores a private pool from a state of CUDA's own allocator"),
    "_activate_gpu_trace": ("torch.cuda._sanitizer", "follows the CUDA driver's streams and kernels"),
    "_cuda_hostMemoryStats": ("torch.cuda.host_memory_stats",
                              "reads the counters of CUDA's allocator of pinned memory"),
    "_gds_register_buffer": ("torch.cuda.gds", "needs the cuFile library"),
    "_gds_deregister_buffer": ("torch.cuda.gds", "needs the cuFile library"),
    "_gds_register_handle": ("torch.cuda.gds", "needs the cuFile library"),
    "_nccl_all_reduce": ("torch.cuda.nccl.all_reduce", "runs several GPUs from a single process"),
    "_nccl_reduce": ("torch.cuda.nccl.reduce", "runs several GPUs from a single process"),
    "_nccl_broadcast": ("torch.cuda.nccl.broadcast", "runs several GPUs from a single process"),
    "_nccl_all_gather": ("torch.cuda.nccl.all_gather", "runs several GPUs from a single process"),
    "_nccl_reduce_scatter": ("torch.cuda.nccl.reduce_scatter", "runs several GPUs from a single process"),
    "_nccl_init_rank": ("torch.cuda.nccl.init_rank", "joins GPUs of several processes"),
    "_cuda_tunableop_get_rotating_buffer_size": ("torch.cuda.tunable.get_rotating_buffer_size",
                                                 "depends on the cache that a driver reports"),
    "_cuda_allocationTraceback": ("torch.cuda.memory._allocation_traceback",
                                  "reads the stacks of CUDA's own allocator"),
}
for _name, _variable in ("Cublas", "CUBLAS_WORKSPACE_CONFIG"), ("CublasLt", "CUBLASLT_WORKSPACE_SIZE"):
    for _do in "get", "set":
        _OF_THE_DRIVER[f"_cuda_{_do}{_name}WorkspaceSize"] = (
            f"torch.backends.cuda.{_name.lower()}_workspace_size",
            f"reads or sets a workspace of CUDA's own library (before the program, {_variable} sets the workspace)")


class _AssumedBuilt:
    """The truth value of whether xformers' extension module was loaded. xformers' attention reads the value at each
    call. Libraries that import xformers only because xformers is installed never read the value."""

    def __bool__(self):
        remarks.add("xformers' extension module does not load on this machine, and was taken to load on the card: "
                    "if the module does not load there, either, xformers refuses to run (python -m xformers.info)")
        return True


def _assume_xformers_is_built(module):
    """xformers' attention calls PyTorch's own kernels, but only where xformers' extension module was loaded."""
    if not module._built_with_cuda:
        module._built_with_cuda = _AssumedBuilt()


@contextlib.contextmanager
def _without_libraries():
    """Lets transformer_engine.common be imported without compiled libraries, which need a CUDA driver. The settings are
    the settings of TransformerEngine's build."""
    names = {"NVTE_PROJECT_BUILDING": "1", "NVTE_RELEASE_BUILD": "0"}
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(names)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def _load_transformer_engine_stub(common):
    """Makes transformer_engine.common import transformer_engine_torch, the stub, instead of loading a file."""
    load = common.load_framework_extension

    def load_framework_extension(framework):
        importlib.import_module("transformer_engine_torch") if framework == "torch" else load(framework)

    common.load_framework_extension = load_framework_extension


def _refuse_jiterator(code, name, *arguments):
    raise HeadroomError(f"the kernel {name} of torch.cuda.jiterator cannot run on the GPU that Headroom simulates: "
                        "choose PyTorch's own operators, or record this step on a GPU")


def _refuse_green_contexts(module):
    module.GreenContext.create = staticmethod(_refusing("torch.cuda.green_contexts.GreenContext",
                                                        "divides the multiprocessors of a card by the CUDA driver"))


def _leave_torchscript_unfused():
    """Keeps TorchScript's fuser off, whatever the program says: the fuser would generate and compile CUDA code."""
    torch._C._jit_set_texpr_fuser_enabled(False)
    torch._C._jit_set_texpr_fuser_enabled = lambda enabled: None


_managed_bytes = 0


def _patch_bitsandbytes(functional):
    """Keeps the state of paged optimizers in host memory, as CUDA's managed memory: pages move to the card when kernels
    read the pages, as far as there is room. Managed memory does not count as the step's memory on the card."""
    prefetch, elementwise = functional.prefetch_tensor, functional.elementwise_func

    def get_paged(*shape, dtype=torch.float32, device=None):
        paged = torch.zeros(shape, dtype=dtype)  # the pages are not touched yet
        paged.is_paged, paged.page_deviceid = True, 0
        _count_managed(paged)
        return paged

    def prefetch_tensor(tensor, to_cpu=False):
        if not getattr(tensor, "is_paged", False):
            prefetch(tensor, to_cpu)

    def elementwise_func(name, tensor, *arguments, **named):
        if not getattr(tensor, "is_paged", False):
            elementwise(name, tensor, *arguments, **named)

    functional.get_paged, functional.prefetch_tensor = get_paged, prefetch_tensor
    functional.elementwise_func = elementwise_func


def _count_managed(tensor):
    global _managed_bytes
    _managed_bytes += tensor.nbytes
    weakref.finalize(tensor.untyped_storage(), _managed_freed, tensor.nbytes).atexit = False


def _managed_freed(size):
    global _managed_bytes
    _managed_bytes -= size


def _managed_memory_sentences():
    if _managed_bytes:
        yield (f"{_managed_bytes:,} bytes are managed memory of paged optimizers, in the host's memory and not part "
               "of the peak: on the card managed memory takes only free room")


def patch():
    remarks.add_source(remarks.MANAGED_MEMORY, _managed_memory_sentences)
    torch._C._cuda_jiterator_compile_and_launch_kernel = _refuse_jiterator
    for name, (public, what) in _OF_THE_DRIVER.items():
        if hasattr(torch._C, name):
            setattr(torch._C, name, _refusing(public, what))
    _leave_torchscript_unfused()
    memory = torch.cuda.memory
    substitute(dict.fromkeys(map(id, (memory.CUDAPluggableAllocator, memory.change_current_allocator)),
                             refuse_allocators))
    follow_imports(opaque.spec_of, {_TRANSFORMER_ENGINE: _without_libraries})
    opaque.run_own_code_of_ops(torch)
    torch.cuda._compile_kernel = _refusing("torch.cuda._compile_kernel", "runs machine code")
    change_after_import("torch.cuda.green_contexts", _refuse_green_contexts)
    change_after_import("triton", triton.patch_triton)
    change_after_import("bitsandbytes.functional", _patch_bitsandbytes)
    change_after_import("deepspeed.ops.op_builder.builder", libraries.patch_deepspeed)
    change_after_import("deepspeed.runtime.utils", libraries.accept_norms)
    change_after_import(_TRANSFORMER_ENGINE, _load_transformer_engine_stub)
    change_after_import("xformers._cpp_lib", _assume_xformers_is_built)
