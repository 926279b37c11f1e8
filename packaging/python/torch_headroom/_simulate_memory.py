# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Memory of the simulated GPU as torch.cuda.memory reports it, and storages that Python creates without an op. All of
it follows the rules of CUDA's caching allocator."""

import ctypes
import enum

import torch

from . import _simulate_history
from ._library import HeadroomError, check
from ._memory_reads import noted

_inductor = torch.library.Library("inductor", "IMPL")


class _Memory(ctypes.Structure):
    """HeadroomMemory of app/python/python_api.h."""

    _names = ("live", "peak", "blocks", "allocations", "allocated", "out_of_memories", "requested", "requested_peak",
              "reserved", "reserved_peak", "segments", "capacity", "usable")
    _fields_ = [(name, ctypes.c_int64) for name in _names]


def read(library):
    memory = _Memory()
    library.headroom_memory(ctypes.byref(memory))
    return memory


_COUNTERS = ("allocation", "segment", "active", "inactive_split", "allocated_bytes", "reserved_bytes", "active_bytes",
             "inactive_split_bytes", "requested_bytes")
_OVERSIZE = ("oversize_allocations", "oversize_segments")
_POOLS = ("all", "small_pool", "large_pool")
_NUMBERS = ("current", "peak", "allocated", "freed")


def _statistics(library):
    """Returns the result of torch._C._cuda_memoryStats."""
    numbers = (ctypes.c_int64 * ((len(_POOLS) * len(_COUNTERS) + len(_OVERSIZE)) * len(_NUMBERS) + 3))()
    library.headroom_memory_stats(numbers)
    next_number = iter(numbers)
    result = {counter: {} for counter in _COUNTERS}
    for pool in _POOLS:
        for counter in _COUNTERS:
            result[counter][pool] = {name: next(next_number) for name in _NUMBERS}
    for counter in _OVERSIZE:
        result[counter] = {name: next(next_number) for name in _NUMBERS}
    for name in ("num_alloc_retries", "num_sync_all_streams", "num_ooms"):
        result[name] = next(next_number)
    if torch.torch_version.TorchVersion(torch.__version__) >= "2.13":
        result["num_oom_rejections"] = 0  # needs throw_on_cudamalloc_oom, which is not simulated
    segments = result["segment"]["all"]
    result |= {"num_device_alloc": segments["allocated"], "num_device_free": segments["freed"]}
    result["max_split_size"] = _simulate_history.max_split_size(library)
    return result


def functions(library):
    """Returns replacements for functions of torch._C, by name."""
    library.headroom_set_memory_fraction.argtypes = [ctypes.c_double]
    for name in ("set_memory_fraction", "reset_peak", "reset_accumulated", "empty_cache"):
        getattr(library, f"headroom_{name}").restype = None
    fraction = [1.0]

    def set_fraction(value, device=None):
        fraction[0] = value
        library.headroom_set_memory_fraction(value)

    set_settings = torch._C._accelerator_setAllocatorSettings

    has_environment = [False]

    def set_allocator_settings(settings):
        if not has_environment[0]:
            check_value(library.headroom_apply_allocator_settings())  # those of the environment come first
            has_environment[0] = True
        set_settings(settings)
        check_value(library.headroom_apply_allocator_settings())

    replacements = {
        "_cuda_setMemoryFraction": set_fraction,
        "_cuda_getMemoryFraction": lambda device=None: fraction[0],
        "_cuda_getAllocatorBackend": lambda: "native",
        "_accelerator_setAllocatorSettings": set_allocator_settings,
        "_cuda_cudaCachingAllocator_raw_alloc": _raw_allocate,
        "_cuda_cudaCachingAllocator_raw_delete": lambda address: _raw.pop(address),
        "_cuda_cudaCachingAllocator_enable": _enable_cache,
        "_cuda_lock_mutex": lambda: None,
        "_cuda_unlock_mutex": lambda: None,
        "_accelerator_isAllocatorInitialized": lambda: True,
        "_accelerator_getMemoryInfo": noted(lambda device=None: _free_and_total(library)),
    }
    for cuda, accelerator, function in (
        ("memoryStats", "getDeviceStats", noted(lambda device=None: _statistics(library))),
        ("resetPeakMemoryStats", "resetPeakStats", lambda device=None: library.headroom_reset_peak()),
        ("resetAccumulatedMemoryStats", "resetAccumulatedStats",
         lambda device=None: library.headroom_reset_accumulated()),
        ("emptyCache", "emptyCache", lambda: library.headroom_empty_cache()),
    ):
        replacements |= {f"_cuda_{cuda}": function, f"_accelerator_{accelerator}": function}
    return replacements | _simulate_history.functions(library)


def check_value(code):
    """Raises ValueError, as PyTorch does for a wrong setting, if a call of the library returned another `code` than
    0."""
    try:
        check(code)
    except HeadroomError as error:
        raise ValueError(str(error)) from None


_raw = {}  # address -> tensor: memory of torch.cuda.caching_allocator_alloc()


def _raw_allocate(size, stream):
    with torch.cuda.stream(torch.cuda.ExternalStream(stream)):
        tensor = torch.empty(size, dtype=torch.uint8, device="cuda")
    _raw[tensor.data_ptr()] = tensor
    return tensor.data_ptr()


def _enable_cache(enabled=True):
    if not enabled:
        raise HeadroomError("torch.cuda.caching_allocator_enable(False) takes each tensor's memory from the CUDA "
                            "driver, whose rules Headroom does not simulate: leave the caching allocator on")


def _free_and_total(library):
    memory = read(library)
    return max(memory.usable - memory.reserved, 0), memory.capacity


_FIRST_STREAM_HANDLE = 0x5500_0000_0000  # like an address, and none of a torch.cuda.Stream's


class _CudaRuntime:
    """torch.cuda.cudart(): the few functions that training scripts call."""

    def __init__(self, library):
        self._library = library
        self._streams = 0

    @noted
    def cudaMemGetInfo(self, device=0):
        return _free_and_total(self._library)

    class cudaError(enum.IntEnum):
        success = 0

    def _succeed(self, *_):
        return self.cudaError.success

    cudaProfilerStart = cudaProfilerStop = cudaStreamDestroy = _succeed

    def cudaHostRegister(self, address, size, flags):
        self._library.headroom_register_pinned(address, size)
        return self.cudaError.success

    def cudaHostUnregister(self, address):
        self._library.headroom_unregister_pinned(address)
        return self.cudaError.success

    def cudaStreamCreate(self, address):
        """Writes the handle of a new stream to an address."""
        self._streams += 1
        ctypes.c_uint64.from_address(address).value = _FIRST_STREAM_HANDLE + self._streams
        return self.cudaError.success

    def __getattr__(self, name):
        raise HeadroomError(f"{name} of the CUDA runtime cannot be called on the GPU that Headroom simulates")


def patch(library):
    """Installs the replacements. Returns those of functions of torch.cuda, by name."""
    runtime = torch.cuda._cudart = _CudaRuntime(library)
    _patch_storages(library)
    return {"cudart": lambda: runtime}


def _patch_storages(library):
    """Patches torch.UntypedStorage, since storages that no tensor creates come from CUDA's allocator, the op by which
    compiled code resizes them, and Tensor.record_stream."""
    storage_class = torch.UntypedStorage
    make, resize, to = storage_class.__new__, storage_class.resize_, storage_class.to
    library.headroom_resize_storage.argtypes = [ctypes.c_void_p, ctypes.c_int64]
    library.headroom_register_pinned.argtypes = [ctypes.c_void_p, ctypes.c_int64]
    library.headroom_unregister_pinned.argtypes = [ctypes.c_void_p]
    library.headroom_record_stream.argtypes = [ctypes.c_void_p, ctypes.c_uint32]
    library.headroom_record_stream.restype = None

    def on_device(size):
        return torch.empty(size, dtype=torch.uint8, device="cuda").untyped_storage()

    def new(cls, *arguments, device=None, **named):
        if device is None or torch.device(device).type != "cuda":
            return make(cls, *arguments, **named) if device is None else make(cls, *arguments, device=device, **named)
        contents = arguments[0] if arguments else 0
        return on_device(contents if isinstance(contents, int) else len(contents))

    def resize_on_device(self, size):
        if self.device.type != "cuda":
            return resize(self, size)
        check(library.headroom_resize_storage(self._cdata, size))
        return self

    def resize_of_tensor(tensor, size):
        tensor.untyped_storage().resize_(size)

    def record_stream(self, stream):
        library.headroom_record_stream(self.untyped_storage()._cdata, stream.stream_id)

    def move(self, *, device, non_blocking=False):
        if torch.device(device).type != "cuda" or self.device.type == "cuda":
            return to(self, device=device, non_blocking=non_blocking)
        # Through tensors, so that small contents keep their values.
        return torch.empty(0, dtype=torch.uint8).set_(self).cuda().untyped_storage()

    storage_class.__new__ = staticmethod(new)
    storage_class.resize_, storage_class.to = resize_on_device, move
    storage_class.cuda = lambda self, device=None, non_blocking=False: move(self, device="cuda")
    torch.Tensor.record_stream = record_stream
    _inductor.impl("resize_storage_bytes_", resize_of_tensor, "PrivateUse1")
