# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Snapshots and the history of the caching allocator (torch.cuda.memory._snapshot, _record_memory_history), as
PyTorch's memory_viz and `torch-headroom` read them. Addresses are the allocator's own; those of tensors differ. Stacks
have PyTorch's frames of C++ on machines where PyTorch unwinds them, but none of Headroom."""

import ctypes
import json
import sys

import torch

_CONTEXTS = (None, "state", "alloc", "all")


def _declare(library):
    for name in ("memory_snapshot", "memory_metadata", "allocator_actions", "allocator_settings"):
        getattr(library, f"headroom_{name}").restype = ctypes.c_char_p
    library.headroom_start_history.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_uint32,
                                                ctypes.c_int]
    library.headroom_set_memory_metadata.argtypes = [ctypes.c_char_p]
    for name in ("start_history", "stop_history", "set_memory_metadata", "on_out_of_memory"):
        getattr(library, f"headroom_{name}").restype = None


def _read(library, is_noted):
    """Returns the segments and the entries of the history. With `is_noted` the snapshot becomes one of the entries."""
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
    return _read(library, False)[0]


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
    """Splits settings at the commas between options, not at those in brackets."""
    depth, parts = 0, [""]
    for character in text:
        depth += {"[": 1, "]": -1}.get(character, 0)
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part for part in parts if part]


def settings_in_use(library):
    """Returns the settings that the simulated card's allocator follows now, where they differ from the defaults."""
    return library.headroom_allocator_settings().decode()


def max_split_size(library):
    """Returns max_split_size_mb in bytes; -1 if it is not set."""
    for part in _split(settings_in_use(library)):
        name, _, value = part.partition(":")
        if name == "max_split_size_mb":
            return int(value) << 20
    return -1


def _checked(name, value, allowed):
    if value is not None and value not in allowed:
        expected = " or ".join(repr(choice) for choice in allowed)
        raise RuntimeError(f"expected {name} to be {expected}, but it is {value!r}")
    return value


def functions(library):
    """Returns replacements for functions of torch._C, by name."""
    _declare(library)
    actions = library.headroom_allocator_actions().decode().split()
    observers = []

    def record(enabled, context="all", stacks="all", max_entries=sys.maxsize, clear_history=False,
               compile_context=False, global_record_annotations=False, skip_actions=()):
        _checked("enabled", enabled, ("state", "all"))
        _checked("context", context, _CONTEXTS[1:])
        _checked("stacks", stacks, ("python", "all"))
        for action in skip_actions or ():
            _checked("skip_actions", action, actions)
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

    def snapshot(pool=None):
        found, entries = _read(library, True)
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
