# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Memory of the simulated GPU as torch.cuda.memory reports the memory, and storages that Python creates without an op.
All numbers follow the rules of CUDA's caching allocator.

Snapshots and the history of the allocator (torch.cuda.memory._snapshot, _record_memory_history) are as PyTorch's
memory_viz and `torch-headroom` read snapshots. Addresses are the allocator's own; addresses of tensors differ. Stacks
have PyTorch's frames of C++ on machines where PyTorch unwinds C++, but no frames of Headroom."""

import ctypes
import enum
import functools
import json
import os
import sys

import torch

from .. import _remarks as remarks
from .._library import OWN_FOLDER, HeadroomError, check
from .._torch import compiling

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


_TORCHS = os.path.dirname(torch.__file__) + os.sep
_READERS = tuple(_TORCHS + name + os.sep for name in ("cuda", "accelerator"))
_MOST_NAMED = 2  # modules in the remark

_place = None  # function that returns the name of the running module; empty: none; None: nothing is recorded now
# Names of the readers, in order. Readers of earlier steps count, too: a model may keep a chunk size from the first step.
_reading_modules, _read_functions = {}, {}


def follow_memory_reads(place):
    """Sets the function that says where the program is: the name of the module that runs now, "backward", or an empty
    string outside of the step's forward and backward."""
    global _place
    _place = place


def modules_that_read_memory():
    """Returns the names of the modules that have read the card's memory in a training step."""
    return list(_reading_modules)


def notes_memory_reads(function):
    """Decorates a function of torch._C that reads the card's memory."""

    @functools.wraps(function)
    def read(*arguments, **named):
        where = _place() if _place and not compiling.now else ""
        if where:
            _note_memory_read(where)
        return function(*arguments, **named)

    return read


def _note_memory_read(where):
    frame, name = sys._getframe(2), ""
    while frame is not None and frame.f_code.co_filename.startswith(_READERS):
        name, frame = frame.f_code.co_name, frame.f_back
    # A policy that watches the plan, or PyTorch itself.
    if frame is not None and frame.f_code.co_filename.startswith((OWN_FOLDER, _TORCHS)):
        return
    _reading_modules[where] = _read_functions[name or "mem_get_info"] = True


def _memory_read_sentences():
    """Returns the remark, if there were reads."""
    if not _reading_modules:
        return []
    named = list(_reading_modules)[:_MOST_NAMED]
    more = len(_reading_modules) - len(named)
    places = " and ".join(named) if not more else f"{', '.join(named)} and {more} more"
    return [f"the model reads the card's memory while it computes ({', '.join(_read_functions)}, in {places}): on "
            "the card and under a plan the model reads other numbers, and may run other ops and take other memory "
            "than recorded and planned. Use a fixed number in place of the card's memory (a chunk size), then "
            "record the step again"]


remarks.add_source(remarks.MEMORY_READS, _memory_read_sentences)


def _determinism_sentences():
    return [] if not torch.are_deterministic_algorithms_enabled() else [
        "torch.use_deterministic_algorithms() is on: the memory that deterministic kernels of index_add, scatter_add and "
        "the backward of gather take on a card for a moment is not counted"]


remarks.add_source(remarks.DETERMINISM, _determinism_sentences)

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
    counts = result["segment"]["all"]
    result |= {"num_device_alloc": counts["allocated"], "num_device_free": counts["freed"]}
    result["max_split_size"] = max_split_size(library)
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
            check_value(library.headroom_apply_allocator_settings())  # settings of the environment come first
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
        "_accelerator_getMemoryInfo": notes_memory_reads(lambda device=None: _free_and_total(library)),
    }
    for cuda, accelerator, function in (
        ("memoryStats", "getDeviceStats", notes_memory_reads(lambda device=None: _statistics(library))),
        ("resetPeakMemoryStats", "resetPeakStats", lambda device=None: library.headroom_reset_peak()),
        ("resetAccumulatedMemoryStats", "resetAccumulatedStats",
         lambda device=None: library.headroom_reset_accumulated()),
        ("emptyCache", "emptyCache", lambda: library.headroom_empty_cache()),
    ):
        replacements |= {f"_cuda_{cuda}": function, f"_accelerator_{accelerator}": function}
    return replacements | _history_functions(library)


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
                            "driver, and Headroom does not simulate the driver's rules: leave the caching allocator on")


def _free_and_total(library):
    memory = read(library)
    return max(memory.usable - memory.reserved, 0), memory.capacity


_FIRST_STREAM_HANDLE = 0x5500_0000_0000  # like an address, and none of a torch.cuda.Stream's


class _CudaRuntime:
    """torch.cuda.cudart(): the few functions that training scripts call."""

    def __init__(self, library):
        self._library = library
        self._streams = 0

    @notes_memory_reads
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
    """Installs the replacements. Returns replacements for functions of torch.cuda, by name."""
    runtime = torch.cuda._cudart = _CudaRuntime(library)
    _patch_storages(library)
    return {"cudart": lambda: runtime}


def _patch_storages(library):
    """Patches torch.UntypedStorage, since storages that no tensor creates come from CUDA's allocator, the op by which
    compiled code resizes storages, and Tensor.record_stream."""
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

    def as_tensor(storage):
        return torch.empty(0, dtype=torch.uint8).set_(storage)

    def resize_on_device(self, size):
        if self.device.type == "cpu":
            as_tensor(self).untyped_storage()  # computes what was deferred
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
        return as_tensor(self).cuda().untyped_storage()

    storage_class.__new__ = staticmethod(new)
    storage_class.resize_, storage_class.to = resize_on_device, move
    storage_class.cuda = lambda self, device=None, non_blocking=False: move(self, device="cuda")
    torch.Tensor.record_stream = record_stream
    _inductor.impl("resize_storage_bytes_", resize_of_tensor, "PrivateUse1")


_CONTEXTS = (None, "state", "alloc", "all")


def _declare_history(library):
    for name in ("memory_snapshot", "memory_metadata", "allocator_actions", "allocator_settings"):
        getattr(library, f"headroom_{name}").restype = ctypes.c_char_p
    library.headroom_start_history.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_uint32,
                                               ctypes.c_int]
    library.headroom_set_memory_metadata.argtypes = [ctypes.c_char_p]
    for name in ("start_history", "stop_history", "set_memory_metadata", "on_out_of_memory"):
        getattr(library, f"headroom_{name}").restype = None


def _read_history(library, is_noted):
    """Returns the segments and the entries of the history. With `is_noted` the snapshot becomes an entry."""
    document = json.loads(library.headroom_memory_snapshot(int(is_noted)))
    frames = document["frames"]

    def with_frames(part):
        part["frames"] = [frames[number] for number in part.pop("stack")]
        return part

    for segment in document["segments"]:
        with_frames(segment)
        segment |= {"device": 0, "segment_pool_id": (0, segment.pop("pool"))}
        for block in segment["blocks"]:
            with_frames(block)
    return document["segments"], [_entry(with_frames(entry)) for entry in document["entries"]]


def _entry(entry):
    entry |= {"segment_pool_id": (0, entry.pop("pool")), "device": 0, "user_metadata": entry.pop("metadata")}
    if entry["action"] == "oom":
        entry["device_free"] = entry.pop("addr")
    return entry


def segments(library):
    """Returns the result of torch.cuda.memory_snapshot(), without a note in the history."""
    return _read_history(library, False)[0]


def _settings(library):
    """Returns the settings of the caching allocator as a snapshot has them."""
    from_text = dict(part.partition(":")[::2] for part in _split(settings_in_use(library)))
    divisions = from_text.get("roundup_power2_divisions", "0")
    by_size = {str(1 << i): int(divisions) for i in range(16)} if divisions.isdigit() else dict(
        pair.split(":") for pair in divisions.strip("[]").split(","))
    return {
        "PYTORCH_CUDA_ALLOC_CONF": settings_in_use(library),
        "max_split_size": max_split_size(library),
        "garbage_collection_threshold": float(from_text.get("garbage_collection_threshold", 0)),
        "expandable_segments": from_text.get("expandable_segments") == "True",
        "roundup_power2_divisions": {size: int(count) for size, count in by_size.items()},
    }


def _split(text):
    """Splits settings at the commas between options, not at commas in brackets."""
    depth, parts = 0, [""]
    for character in text:
        depth += {"[": 1, "]": -1}.get(character, 0)
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part for part in parts if part]


def settings_in_use(library):
    """Returns the settings that the simulated card's allocator follows now, where the settings differ from the
    defaults."""
    return library.headroom_allocator_settings().decode()


def max_split_size(library):
    """Returns max_split_size_mb in bytes; -1 if not set."""
    for part in _split(settings_in_use(library)):
        name, _, value = part.partition(":")
        if name == "max_split_size_mb":
            return int(value) << 20
    return -1


def _checked_choice(name, value, allowed):
    if value is not None and value not in allowed:
        expected = " or ".join(repr(choice) for choice in allowed)
        raise RuntimeError(f"expected {name} to be {expected}, but it is {value!r}")
    return value


def _history_functions(library):
    """Returns replacements for functions of torch._C, by name."""
    _declare_history(library)
    actions = library.headroom_allocator_actions().decode().split()
    observers = []

    def record(enabled, context="all", stacks="all", max_entries=sys.maxsize, clear_history=False,
               compile_context=False, global_record_annotations=False, skip_actions=(), pinned_memory=False,
               cuda=True):
        if pinned_memory:
            raise HeadroomError("torch.cuda.memory._record_memory_history(record_pinned_host_memory=True) follows "
                                "CUDA's allocator of pinned memory, which Headroom does not simulate: leave the "
                                "argument out")
        if not cuda:
            return
        _checked_choice("enabled", enabled, ("state", "all"))
        _checked_choice("context", context, _CONTEXTS[1:])
        _checked_choice("stacks", stacks, ("python", "all"))
        for action in skip_actions or ():
            _checked_choice("skip_actions", action, actions)
        if enabled is None:
            library.headroom_stop_history()
            return
        entries = min(max_entries, sys.maxsize) if enabled == "all" else 0
        skipped = sum(1 << actions.index(action) for action in set(skip_actions or ()))
        library.headroom_start_history(_CONTEXTS.index(context), stacks == "all", entries, skipped, clear_history)

    def record_legacy(enabled, has_context=True, max_entries=1, entries_have_context=False, of_cpp=False,
                      clear_history=False, *options):
        context = "all" if entries_have_context else "state" if has_context else None
        record("all" if enabled else None, context, "all" if of_cpp else "python", max_entries, clear_history)

    @notes_memory_reads
    def snapshot(pool=None):
        found, entries = _read_history(library, True)
        if pool is not None:
            number, wants_entries = tuple(pool[:2]), len(pool) < 3 or pool[2]
            found = [s for s in found if number == (0, 0) or s["segment_pool_id"] == number]
            entries = entries if wants_entries else []
        return {"segments": found, "device_traces": [entries], "allocator_settings": _settings(library),
                "external_annotations": []}

    @ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
    def tell(requested, allowed, free):
        for observer in observers:
            observer(0, requested, allowed, free)

    def observe(observer):
        observers.append(observer)
        library.headroom_on_out_of_memory(tell)

    return {
        "_cuda_memorySnapshot": snapshot,
        "_cuda_record_memory_history": record,
        "_cuda_record_memory_history_legacy": record_legacy,
        "_cuda_attach_out_of_memory_observer": observe,
        "_cuda_setMemoryMetadata": lambda text: library.headroom_set_memory_metadata(text.encode()),
        "_cuda_getMemoryMetadata": lambda: library.headroom_memory_metadata().decode(),
    }
