# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CPU in place of a GPU, for offload with values: streams that copy as late as the events allow. A program that
simulates a card has to do so before the import."""

import collections

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode


class LateStream:
    """A stream on the CPU. Copies wait in a queue until an event behind the copy is waited for. A copy fails if the
    source or target is gone then."""

    def __init__(self, device=None):
        self.waiting = collections.deque()  # functions
        self.begun = self.done = 0
        self.awaited = set()  # events since the last copy

    def add(self, work):
        self.waiting.append(work)
        self.begun += 1

    def __enter__(self):
        self.copies = Copies(self)
        self.copies.__enter__()

    def __exit__(self, *error):
        self.copies.__exit__(*error)

    def record_event(self):
        return self, self.begun

    def wait_event(self, event):
        self.awaited.add(event)
        self.add(lambda: finish(event))


class Compute(LateStream):
    """The stream of all other ops, which run at once."""

    def record_event(self):
        self.begun += 1
        self.waiting.append(lambda: None)
        return self, self.begun

    def wait_event(self, event):
        finish(event)


def finish(event):
    stream, place = event
    while stream.done < place:
        stream.done += 1
        stream.waiting.popleft()()


class Copies(TorchDispatchMode):
    """Puts copies into the queue of a stream."""

    def __init__(self, stream):
        super().__init__()
        self.stream = stream

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        if op is not torch.ops.aten.copy_.default:
            return op(*args, **(kwargs or {}))
        target, source = (StorageWeakRef(tensor.untyped_storage()) for tensor in args[:2])

        def copy():
            if target.expired() or source.expired():
                raise AssertionError("memory was freed before the copy")
            now = [torch.empty(0, dtype=torch.uint8).set_(torch.UntypedStorage._new_with_weak_ptr(ref.cdata))
                   for ref in (target, source)]
            now[0].copy_(now[1])

        if (Late.compute, Late.compute.begun) not in self.stream.awaited:
            raise AssertionError("the copy does not wait for the ops before the copy")
        self.stream.awaited.clear()
        self.stream.add(copy)
        Late.copied.append(args[1].nbytes)
        return args[0]


class Late:
    """The CPU in place of a GPU, for pinned.Cuda."""

    type = "cpu"
    Stream = LateStream
    compute = Compute()
    copied = []  # bytes
    made = []  # bytes of host buffers

    @staticmethod
    def is_available():
        return True

    @staticmethod
    def current_stream(device):
        return Late.compute

    @staticmethod
    def current_id(index):
        return 0

    @staticmethod
    def pinned(nbytes):
        Late.made.append(nbytes)
        return torch.empty(nbytes, dtype=torch.uint8)
