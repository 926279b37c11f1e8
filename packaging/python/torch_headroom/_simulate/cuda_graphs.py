# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""CUDA graphs and private memory pools on the simulated GPU. Allocations during a capture go to a private pool, and the
pool's segments stay reserved (core/device/memory_pools.h)."""

import collections
import contextlib
import ctypes
import itertools
import weakref

import torch

from .._library import HeadroomError, check
from .._torch import change_after_import
from . import memory
from .refusals import refuse_allocators

_numbers = itertools.count(1)
_users = collections.Counter()  # number of a pool -> number of graphs and MemPools that keep the pool
listeners = []  # objects with the methods of _step_hooks._Replays


def note(moment):
    """Notes a moment of the step in the graph that is being captured, if there is such a graph. Each replay passes the
    moment again."""
    if CUDAGraph._capturing:
        CUDAGraph._capturing[-1]._note(moment)


class CUDAGraph:
    """Replaces torch.cuda.CUDAGraph."""

    _capturing = []  # graphs, the innermost last
    captures_each_run = False  # whether each run of the graphs that are made now is a capture, not a replay

    def __init__(self, keep_graph=False):
        self._pool = None
        self._parts = []  # pairs of ops and the moment after the ops
        self._release = []  # functions that release the pool and the ops
        self._has_run = self.captures_each_run

    def capture_begin(self, pool=None, **options):
        if self._capturing:
            raise RuntimeError("a CUDA graph is being captured already")
        if torch.cuda.current_stream() == torch.cuda.default_stream():
            raise RuntimeError("CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok "
                               "to replay them on the default stream.)")
        self._pool = tuple(pool) if pool else new_pool()
        self._stream = torch.cuda.current_stream()
        self._release.append(_keep(self, self._pool))
        self._capturing.append(self)
        _library.headroom_begin_pool(self._pool[1], 1)
        if not self._has_run:
            self._begin_part()

    def _begin_part(self):
        ops = _library.headroom_graph_new()
        self._release.append(weakref.finalize(self, _library.headroom_graph_delete, ops))
        self._parts.append([ops, None])
        _library.headroom_graph_begin(ops)

    def _note(self, moment):
        if self._parts:
            _library.headroom_graph_end(self._parts[-1][0])
            self._parts[-1][1] = moment
            self._begin_part()

    def _listeners(self):
        """Returns the listeners if moments were noted in this graph."""
        return listeners if len(self._parts) > 1 else []

    def capture_end(self):
        if self._parts:
            _library.headroom_graph_end(self._parts[-1][0])
        _library.headroom_end_pool(self._pool[1])
        self._capturing.remove(self)
        for listener in self._listeners():
            listener.captured()

    def pool(self):
        return self._pool

    def replay(self):
        if self._parts:
            for listener in self._listeners():
                listener.begins()
            current = torch.cuda.current_stream()
            self._stream.wait_stream(current)
            with torch.cuda.stream(self._stream), _allocating(self._pool):
                self._replay_parts()
            current.wait_stream(self._stream)
        elif not self._has_run:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")

    def _replay_parts(self):
        for ops, _ in self._parts:
            _library.headroom_graph_forget(ops)
        for ops, moment in self._parts:
            check(_library.headroom_graph_replay(ops))
            if moment is not None:
                for listener in listeners:
                    listener.passes(moment)

    def reset(self):
        for release in self._release:
            release()
        self._release, self._parts = [], []

    def _ignore(self, *_):
        pass

    register_generator_state = instantiate = enable_debug_mode = _ignore

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        raise HeadroomError(f"torch.cuda.CUDAGraph.{name} needs the CUDA driver, and Headroom's simulated GPU has "
                            "no CUDA driver")


@contextlib.contextmanager
def _allocating(pool):
    _library.headroom_begin_pool(pool[1], 1)
    try:
        yield
    finally:
        _library.headroom_end_pool(pool[1])


class MemPool:
    """Replaces torch.cuda.MemPool."""

    def __init__(self, allocator=None, *options, **named):
        if allocator is not None:
            refuse_allocators()
        self.allocator, self.id = None, new_pool()
        _keep(self, self.id)

    def use_count(self):
        return _users[self.id[1]]

    def snapshot(self, *options):
        return [segment for segment in torch.cuda.memory_snapshot() if segment["segment_pool_id"] == self.id]


def new_pool():
    return 0, next(_numbers)


def _keep(owner, pool):
    """Keeps a pool's segments reserved until `owner` dies, or until the returned function is called."""
    _users[pool[1]] += 1
    return weakref.finalize(owner, _release, pool[1])


def _release(number):
    _users[number] -= 1
    if not _users[number]:
        _library.headroom_give_up_pool(number)


def functions(library):
    """Returns replacements for functions of torch._C, by name."""
    global _library
    _library = library
    library.headroom_graph_new.restype = ctypes.c_void_p
    for name in ("delete", "begin", "end", "forget", "replay"):
        getattr(library, f"headroom_graph_{name}").argtypes = [ctypes.c_void_p]

    def begin(device, pool):
        library.headroom_begin_pool(pool[1], 0)

    def end(device, pool):
        library.headroom_end_pool(pool[1])

    return {
        "_graph_pool_handle": new_pool,
        "_cuda_isCurrentStreamCapturing": lambda: bool(CUDAGraph._capturing),
        "_cuda_beginAllocateCurrentThreadToPool": begin,
        "_cuda_beginAllocateCurrentStreamToPool": begin,
        "_cuda_endAllocateToPool": end,
        "_cuda_releasePool": lambda device, pool: None,
        "_cuda_checkPoolLiveAllocations": lambda device, pool, live: True,
        "_cuda_getCheckpointState": lambda device, pool: None,
        "_cuda_get_conv_benchmark_empty_cache": lambda: False,
        "_cudnn_set_conv_benchmark_empty_cache": lambda enabled: None,
        "_free_And_Remove_DeleterFn": lambda storage: library.headroom_resize_storage(storage, 0),
    }


def substitutes():
    return {id(torch.cuda.CUDAGraph): CUDAGraph, id(torch.cuda.MemPool): MemPool}


def settings():
    """Returns the segments of private pools as a setting of the step (core/allocator/private_pools.h)."""
    if not _users:
        return []
    segments = [s for s in memory.segments(_library) if _users[s["segment_pool_id"][1]]]
    texts = [f"{s['segment_pool_id'][1] << 16 | s['stream']}:{s['segment_type']}:{s['total_size']}" for s in segments]
    return [("private pools", " ".join(texts))] if texts else []


def patch():
    change_after_import("torch._inductor.cudagraph_trees", _capture_each_run)


def _capture_each_run(module):
    """Makes Inductor's trees of CUDA graphs capture each run: ops and memory are those of a replay."""
    manager, node = module.CUDAGraphTreeManager, module.CUDAGraphNode
    record = manager.record_function
    captured = weakref.WeakKeyDictionary()  # manager -> functions that were captured at least once

    def record_function(self, new_inputs, function_id):
        before = self.current_node
        known = captured.setdefault(self, set())
        with _as_replay(function_id in known):
            outputs = record(self, new_inputs, function_id)
        known.add(function_id)
        self.current_node.headroom_before = before  # keeps the parent alive: a node holds only a weak reference
        (self.roots if before is None else before.children).clear()
        return outputs

    manager.record_function = record_function
    # PyTorch would make copies of inputs and outputs, without memory, for a later replay.
    node._reconstruct_from_tensor_metadata = lambda self, metadata, storage=None: None


@contextlib.contextmanager
def _as_replay(is_replay):
    """Inside the context, the capture of a graph is a run of the graph. A capture empties the cache, but not with
    `again`, which stands for a replay."""
    empty_cache = torch.cuda.empty_cache
    CUDAGraph.captures_each_run = True
    if is_replay:
        torch.cuda.empty_cache = lambda: None
    try:
        yield
    finally:
        CUDAGraph.captures_each_run = False
        torch.cuda.empty_cache = empty_cache
