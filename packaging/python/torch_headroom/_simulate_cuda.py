# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""torch.cuda on the simulated GPU: replacements of calls to the CUDA driver and libtorch_cuda by PyTorch's Python code.

The device itself is C++ (core/device/cuda_device.h). This module has the functions of torch._C that would reach the
driver, and the few classes made of CUDA objects.
"""

import sys
import threading
import time

import torch

from . import _cuda_graphs, _simulate_memory
from ._around import patch_around
from ._library import HeadroomError


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
        self.max_threads_per_multi_processor = 1024 if capability == 75 else 1536 if capability in (86, 89) else 2048
        self.regs_per_multiprocessor = 65536
        self.shared_memory_per_block = 48 << 10
        self.shared_memory_per_block_optin = _SHARED_KIB[capability] << 10
        self.shared_memory_per_multiprocessor = (_SHARED_KIB[capability] + 1) << 10
        self.L2_cache_size = card["l2_bytes"]
        self.is_integrated = 0
        self.is_multi_gpu_board = 0
        self.gcnArchName = ""
        self.pci_bus_id = self.pci_device_id = self.pci_domain_id = 0

    def __repr__(self):
        return (f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
                f"total_memory={self.total_memory // (1 << 20)}MB, multi_processor_count={self.multi_processor_count})")


# Most shared memory of a block in KiB, by compute capability (CUDA C++ Programming Guide, technical specifications).
_SHARED_KIB = {70: 96, 75: 64, 80: 163, 86: 99, 89: 99, 90: 227, 100: 227}


class Stream(torch.Stream):
    """torch.cuda.Stream. Its work is done at once; waits between streams are recorded."""

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
        return self.stream_id

    @property
    def priority(self):
        return 0

    def __repr__(self):
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


class Event(torch.Event):
    """torch.cuda.Event. elapsed_time() is the time of the simulation on this machine, not the card's."""

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
        return (end_event._time - self._time) * 1e3

    def wait(self, stream=None):
        super().wait(torch.cuda.current_stream() if stream is None else stream)

    def query(self):
        return True


def patch(library, card):
    """Installs the replacements. Call it once, after headroom_simulate()."""
    properties = DeviceProperties(card)
    functions = _driver_functions(properties) | _simulate_memory.functions(library) | _cuda_graphs.functions(library)
    substitutes = _install(functions)
    substitutes |= {id(torch.cuda.Stream): Stream, id(torch.cuda.Event): Event} | _cuda_graphs.substitutes()
    _substitute(substitutes)
    _patch_module(properties)
    _simulate_memory.patch(library)
    # Python's threads must turn interception on; autograd's threads inherit it.
    patch_around(threading.Thread, "_bootstrap_inner", before=lambda _: library.headroom_intercept_thread())


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


_own_index = 0  # index of this process's GPU on its machine, in a job


def join_job(job):
    """Makes this process one of several on its machine. Each sees all GPUs, and uses its own as cuda:0."""
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

    idle = ("init", "synchronize", "sleep", "ipc_collect", "set_sync_debug_mode", "clearCublasWorkspaces")
    values = {
        "getDeviceCount": 1, "getDevice": 0, "hasPrimaryContext": True, "canDeviceAccessPeer": False,
        "getCompiledVersion": 13000, "getArchFlags": f"sm_{properties.major}{properties.minor}", "isInBadFork": False,
        "get_sync_debug_mode": 0,
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
    }


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


def _substitute(substitutes):
    """Replaces copies in torch's modules, made by `from torch._C import …`."""
    for name, module in list(sys.modules.items()):
        if not name.startswith("torch") or module is torch._C:
            continue
        for key, value in list(getattr(module, "__dict__", {}).items()):
            if id(value) in substitutes:
                setattr(module, key, substitutes[id(value)])


def _patch_module(properties):
    cuda = torch.cuda

    def get_device_properties(device=None):
        index = _index_of(device)
        if index is None or not 0 <= index < cuda.device_count():  # the GPUs of a machine in a job are alike
            _only_device(index)
        return properties

    def is_bf16_supported(including_emulation=True):
        return properties.major >= 8 or including_emulation

    cuda._initialized = True
    cuda._queued_calls.clear()  # they would compare the card with the wheel's architectures
    cuda._is_compiled = cuda.is_available = lambda: True
    cuda.device_count = lambda: 1
    cuda.get_device_properties = cuda._get_device_properties = get_device_properties
    cuda.is_bf16_supported = is_bf16_supported
    cuda.default_generators = (torch.Generator(device="cuda:0"),)
    for name in ("utilization", "temperature", "power_draw", "clock_rate", "memory_usage"):
        setattr(cuda, name, _no_sensor(name))


def _no_sensor(name):
    def sensor(device=None):
        raise HeadroomError(f"torch.cuda.{name}() reads a sensor, which a simulated GPU does not have")

    return sensor
