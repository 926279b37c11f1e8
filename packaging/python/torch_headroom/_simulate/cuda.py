# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""torch.cuda on the simulated GPU: replacements of calls to the CUDA driver and libtorch_cuda by PyTorch's Python code.

The device itself is C++ (core/device/cuda_device.h). This module has the functions of torch._C that would reach the
driver, and the few classes made of CUDA objects.
"""

import ctypes
import functools
import hashlib
import os
import sys
import threading
import time

import torch
from torch.nn.attention import SDPBackend

from .._library import HeadroomError
from .._torch import in_backward, patch_around, substitute
from . import cuda_graphs, memory, placeholders


class DeviceProperties:
    """The result of torch.cuda.get_device_properties()."""

    def __init__(self, card):
        capability = card["compute_capability"]
        self.name = card["title"]
        self.major, self.minor = divmod(capability, 10)
        self.total_memory = card["memory_bytes"]
        self.multi_processor_count = card["multiprocessors"]
        self.warp_size = 32
        self.max_threads_per_block = 1024
        self.max_threads_per_multi_processor = 1024 if capability == 75 else 1536 if capability in (86, 89, 120) else 2048
        self.regs_per_multiprocessor = 65536
        self.shared_memory_per_block = 48 << 10
        self.shared_memory_per_block_optin = _SHARED_KIB[capability] << 10
        self.shared_memory_per_multiprocessor = (_SHARED_KIB[capability] + 1) << 10
        self.L2_cache_size = card["l2_bytes"]
        self.clock_rate = card["clock_khz"]
        self.memory_clock_rate = card["memory_clock_khz"]
        self.memory_bus_width = card["memory_bits"]
        self.is_integrated = 0
        self.is_multi_gpu_board = 0
        self.gcnArchName = self.name  # as PyTorch's for CUDA
        self.uuid = Uuid(card["name"])
        self.pci_bus_id = self.pci_device_id = self.pci_domain_id = 0

    def __repr__(self):
        return (f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
                f"total_memory={self.total_memory >> 20}MB, multi_processor_count={self.multi_processor_count}, "
                f"uuid={self.uuid}, pci_bus_id={self.pci_bus_id}, pci_device_id={self.pci_device_id}, "
                f"pci_domain_id={self.pci_domain_id}, L2_cache_size={self.L2_cache_size >> 20}MB)")


class Uuid:
    """torch._C._CUuuid: the same for each simulated card of a name."""

    def __init__(self, name):
        self.bytes = list(hashlib.sha256(name.encode()).digest()[:16])

    def __str__(self):
        digits = bytes(self.bytes).hex()
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

    __repr__ = __str__


# Most shared memory of a block in KiB, by compute capability (CUDA C++ Programming Guide, technical specifications).
_SHARED_KIB = {70: 96, 75: 64, 80: 163, 86: 99, 89: 99, 90: 227, 100: 227}


class Stream(torch.Stream):
    """torch.cuda.Stream. Work is done at once; waits between streams are recorded."""

    def __new__(cls, device=None, priority=0, **identity):
        if identity:
            return super().__new__(cls, **identity)
        _only_device(_index_of(device))
        return super().__new__(cls, device="cuda:0", priority=priority)

    def __init__(self, *arguments, **named):
        pass

    # torch.Stream's own methods accept only events that are exactly torch.Event.
    def record_event(self, event=None):
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event):
        event.wait(self)

    def wait_stream(self, stream):
        self.wait_event(stream.record_event())

    @property
    def cuda_stream(self):
        return _external.get(self.stream_id, self.stream_id)

    @property
    def _as_parameter_(self):
        return ctypes.c_void_p(self.cuda_stream)

    @property
    def priority(self):
        return -((self.stream_id - 1) // _STREAMS_OF_PRIORITY) if 0 < self.stream_id < _FIRST_EXTERNAL else 0

    @staticmethod
    def priority_range():
        return 0, -3  # the priorities of CUDA that PyTorch supports on every card

    def __repr__(self):
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


_STREAMS_OF_PRIORITY = 32  # core/device/simulated_guard.h
_FIRST_EXTERNAL = 1 + 4 * _STREAMS_OF_PRIORITY
_external = {}  # number of a stream -> the program's handle


class ExternalStream(Stream):
    """torch.cuda.ExternalStream: a stream for each handle that does not belong to a torch.cuda.Stream."""

    def __new__(cls, stream_ptr, device=None, **identity):
        _only_device(_index_of(device))
        number, index, kind = stream_of_handle(stream_ptr)
        return Stream.__new__(cls, stream_id=number, device_index=index, device_type=kind)


def stream_of_handle(handle, _=None):
    """Returns (stream_id, device_index, device_type) of the stream with a handle of the CUDA driver."""
    number = handle
    if not 0 <= handle < _FIRST_EXTERNAL:
        known = (known for known, its_handle in _external.items() if its_handle == handle)
        number = next(known, _FIRST_EXTERNAL + len(_external))
        _external[number] = handle
    return number, 0, _cuda_type()


class Event(torch.Event):
    """torch.cuda.Event. elapsed_time() is the time of the simulation on this machine, in milliseconds, not the card's.
    query() is always true. A remark says so where a card might still work."""

    def __new__(cls, enable_timing=False, blocking=False, interprocess=False, external=False):
        if interprocess:
            raise HeadroomError("an event cannot be shared with another process on the GPU that Headroom simulates")
        return super().__new__(cls, device="cuda:0", enable_timing=enable_timing, blocking=blocking)

    def __init__(self, enable_timing=False, **options):
        self._timed = enable_timing
        self._time = None

    def record(self, stream=None):
        super().record(torch.cuda.current_stream() if stream is None else stream)
        self._time = time.perf_counter()

    def elapsed_time(self, end_event):
        if not (self._timed and end_event._timed):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._time is None or end_event._time is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        placeholders.timings.add(sys._getframe(1))
        return (end_event._time - self._time) * 1e3

    @property
    def cuda_event(self):
        return self.event_id

    @property
    def _as_parameter_(self):
        return ctypes.c_void_p(self.cuda_event)

    def __repr__(self):
        return f"<torch.cuda.Event {self.cuda_event:#x}>" if self.cuda_event else "<torch.cuda.Event uninitialized>"

    def wait(self, stream=None):
        super().wait(torch.cuda.current_stream() if stream is None else stream)


def patch(library, card):
    """Installs the replacements. Call once, after headroom_simulate()."""
    properties = DeviceProperties(card)
    functions = _driver_functions(properties) | memory.functions(library) | cuda_graphs.functions(library)
    substitutes = _install(functions)
    substitutes |= {id(torch.cuda.Stream): Stream, id(torch.cuda.Event): Event,
                    id(torch.cuda.ExternalStream): ExternalStream} | cuda_graphs.substitutes()
    for name, function in (_of_module(properties) | memory.patch(library)).items():
        substitutes[id(getattr(torch.cuda, name, function))] = function  # other modules have copies
        setattr(torch.cuda, name, function)
    substitute(substitutes)
    torch._use_cudnn_rnn_flatten_weight = lambda: True  # libtorch's answer is of a build without cuDNN
    # Python's threads must turn interception on; autograd's threads inherit the interception.
    patch_around(threading.Thread, "_bootstrap_inner", before=lambda _: library.headroom_intercept_thread())
    torch.autograd._engine_run_backward = _returning_gradients(library, torch.autograd._engine_run_backward)


def _returning_gradients(library, run_backward):
    """Returns a replacement of `run_backward`. The replacement waits until autograd's thread has let go of the gradients
    that torch.autograd.grad() returns. Without the wait, the op at which a dropped gradient is freed differs from run
    to run."""

    @functools.wraps(run_backward)
    def run(outputs, *arguments, **named):
        if named.get("accumulate_grad", True) or in_backward():
            return run_backward(outputs, *arguments, **named)
        library.headroom_begin_returning_gradients()
        try:
            return run_backward(outputs, *arguments, **named)
        finally:
            library.headroom_end_returning_gradients()

    return run


def at_first_use(action):
    """Calls `action` once, before the program first uses the GPU."""
    initialize = torch.cuda._lazy_init

    def first_use():
        torch.cuda._lazy_init = initialize
        action()
        initialize()

    torch.cuda._lazy_init = first_use


def _index_of(device):
    if device is None or isinstance(device, int):
        return device
    if isinstance(device, torch.cuda.device):
        return device.idx
    return torch.device(device).index


_own_index = 0  # index of this process's GPU on the machine, in a job


def join_job(job):
    """Makes this process one of several on the machine. Each process sees all GPUs, and uses its GPU as cuda:0."""
    global _own_index
    _own_index = job.rank % job.per_node
    torch.cuda.device_count = lambda: job.per_node


def _only_device(index):
    if index not in (None, 0, -1, _own_index):
        raise HeadroomError(f"Headroom simulates one GPU, cuda:0; the program asks for cuda:{index}")
    return 0


def _driver_functions(properties):
    """Returns replacements for functions of torch._C, by name."""

    def always(value):
        return lambda *_: value

    def current_stream(_):
        stream = torch._C._accelerator_getStream(0)
        return stream.stream_id, stream.device_index, stream.device_type

    def set_stream(stream_id, device_index, device_type):
        stream = Stream(stream_id=stream_id, device_index=device_index, device_type=device_type)
        torch._C._accelerator_setStream(stream)

    idle = ("init", "sleep", "ipc_collect", "set_sync_debug_mode", "clearCublasWorkspaces", "tunableop_clear_all",
            "annotateMemory")
    values = {
        "getDeviceCount": 1, "getDevice": 0, "hasPrimaryContext": True, "canDeviceAccessPeer": False,
        "getCompiledVersion": 13000, "getArchFlags": f"sm_{properties.major}{properties.minor}", "isInBadFork": False,
        "get_sync_debug_mode": 0, "getCurrentBlasHandle": _BLAS_HANDLE,
        "getCurrentSolverHandle": _BLAS_HANDLE, "tunableop_get_results": (), "tunableop_get_validators": (),
    }
    return {f"_cuda_{name}": always(None) for name in idle} | {
        f"_cuda_{name}": always(value) for name, value in values.items()
    } | {
        # Three separate functions: Dynamo identifies each by identity.
        "_cuda_setDevice": lambda index: _only_device(index),
        "_cuda_exchangeDevice": lambda index: _only_device(index),
        "_cuda_maybeExchangeDevice": lambda index: _only_device(index),
        "_cuda_getCurrentStream": current_stream,
        "_cuda_getCurrentRawStream": lambda _: torch._C._accelerator_getStream(0).stream_id,
        "_cuda_getDefaultStream": lambda _: (0, 0, _cuda_type()),
        "_cuda_setStream": set_stream,
        "_cuda_getStreamFromExternal": stream_of_handle,
        "_cuda_synchronize": lambda: torch._C._accelerator_synchronizeDevice(0),
        "_can_use_flash_attention": _can_use(SDPBackend.FLASH_ATTENTION),
        "_can_use_mem_efficient_attention": _can_use(SDPBackend.EFFICIENT_ATTENTION),
        "_can_use_cudnn_attention": _can_use(SDPBackend.CUDNN_ATTENTION),
    }


def _can_use(backend):
    """Returns a function that says whether the card has a kernel of attention for sdp_params."""

    def can_use(params, debug=False):
        tensors = params.query, params.key, params.value
        if backend == SDPBackend.CUDNN_ATTENTION and any(tensor.is_nested for tensor in tensors):
            return False
        mask = None if params.attn_mask is None else _shape_like(params.attn_mask)
        return torch.ops.headroom.can_use_attention(*map(_shape_like, tensors), mask, params.dropout, params.is_causal,
                                                    params.enable_gqa, int(backend))

    return can_use


def _shape_like(tensor):
    """Returns a tensor without memory for the rules of attention: a jagged tensor as with sequences of one length."""
    if tensor.is_nested:
        sizes = [size if isinstance(size, int) else 8 for size in tensor.shape]
        return torch.empty(sizes, dtype=tensor.dtype, device="meta", requires_grad=tensor.requires_grad)
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta",
                               requires_grad=tensor.requires_grad)


_BLAS_HANDLE = 0x5600_0000_0000  # like an address; no library can use it


def _cuda_type():
    return torch.Stream(device="cuda:0").device_type


def _install(functions):
    """Installs functions in torch._C; returns the replacements by id of the replaced function."""
    replaced = {}
    for name, function in functions.items():
        if hasattr(torch._C, name):
            replaced[id(getattr(torch._C, name))] = function
        setattr(torch._C, name, function)
    return replaced


def _of_module(properties):
    """Returns replacements for functions of torch.cuda, by name; sets what else the module has."""
    cuda = torch.cuda

    def get_device_properties(device=None):
        index = _index_of(device)
        if index is None or not 0 <= index < cuda.device_count():  # the GPUs of a machine in a job are alike
            _only_device(index)
        return properties

    def is_bf16_supported(including_emulation=True):
        return properties.major >= 8 or including_emulation

    os.environ.setdefault("CUDA_MODULE_LOADING", "LAZY")  # as PyTorch does at the first use of CUDA
    cuda._initialized = True
    cuda._queued_calls.clear()  # the calls would compare the card with the wheel's architectures
    cuda.default_generators = (torch.Generator(device="cuda:0"),)
    sensors = {"utilization", "temperature", "power_draw", "clock_rate", "memory_usage", "device_memory_used"}
    return {name: _no_sensor(name) for name in sensors & cuda.__dict__.keys()} | {
        "_is_compiled": lambda: True,
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "get_device_properties": get_device_properties,
        "_get_device_properties": get_device_properties,
        "is_bf16_supported": is_bf16_supported,
    }


def _no_sensor(name):
    def sensor(device=None):
        raise HeadroomError(f"torch.cuda.{name}() reads a sensor, and a simulated GPU has no sensors")

    return sensor
